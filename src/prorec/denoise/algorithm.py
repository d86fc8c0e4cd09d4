"""The rounds of Algorithm 1: where a run stands, how it goes on, and how it is taken up again."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec import transport
from prorec._core.digest import digest
from prorec._core.errors import InputError
from prorec._core.progress import Progress
from prorec.denoise.checkpoint import Checkpoint, State
from prorec.denoise.history import Round
from prorec.denoise.labels import new_weights
from prorec.denoise.loss import LossOf
from prorec.interactions import Interactions
from prorec.models.model import Model
from prorec.models.storage import Arrays, json_default
from prorec.models.wrap import wrap
from prorec.transport.gamma import estimate_gamma, parse_gamma
from prorec.transport.marginals import Marginals
from prorec.transport.thresholds import Matching, digest_pairs

if TYPE_CHECKING:
    from prorec.denoise.estimator import ProRec


class Run:
    """Algorithm 1, once: where it stands, and how it goes on."""

    def __init__(
        self,
        given: ProRec,
        model: Model,
        known: Interactions,
        folder: str | Path | None,
        progress: Progress,
    ) -> None:
        self.given, self.known, self.progress = given, known, progress
        self.trusted: NDArray[np.float32] | None = None
        """1 − the noise probability of each interaction, if weights are to go by that."""
        self.fresh = model
        self.model: Model | None = None
        self.weights: NDArray[np.float32] = known.matrix.data
        self.history: list[Round] = []
        self.now: Round
        """The round whose weights are there; its fit may not be."""
        self.matching: Matching
        self.loss: LossOf
        # Worked out once: as weights shrink from round to round, so do scores, and a γ that follows them never rests.
        self.gamma = float(given.gamma) if parse_gamma(given.gamma) is None else None
        self.checkpoint = Checkpoint(folder, "" if folder is None else _identity(given, model, known))
        if given.marginals == "uniform":
            self.marginals = Marginals.uniform(*known.matrix.shape)
        else:
            self.marginals = Marginals.popularity(known.matrix)

    def go(self, *, refit: bool) -> None:
        """All rounds, or those that are left; without the last fit, if nobody wants it."""
        state = self.checkpoint.latest()
        if state is None:
            self._first()
            self._relabel()
        else:
            self._resume(state)
        while self.now.number < self.given.rounds and not self.converged:
            self._refit()
            self._relabel()
        if refit:
            self._refit()
        else:
            self.model = None
            self.history.append(self.now)

    def _first(self) -> None:
        seconds = self._fit(None)
        self.history.append(
            Round(0, None, None, self.loss(self.weights), 0.0, 1.0, 0.0, (0.0, 0.0, 0.0), 0.0, 0.0, seconds)
        )

    def _relabel(self) -> None:
        """Step 2 of Algorithm 1: the plan, the thresholds, the new weights."""
        given, matrix, before = self.given, self.known.matrix, self.weights
        begin = time.perf_counter()
        assert self.model is not None, "fitted before"
        scores = self.model.scores_
        if self.gamma is None:
            times = parse_gamma(given.gamma) or 0.0
            self.gamma = 0.0 if given.transport == "emd" else times * estimate_gamma(scores, matrix)
        gamma = self.gamma
        plan: transport.Plan
        if given.transport == "relaxed":
            plan = transport.relaxed(
                scores, self.marginals, gamma, device=given.device, memory=given.memory, progress=self.progress
            )
        elif given.transport == "sinkhorn":
            plan = transport.sinkhorn(
                scores, self.marginals, gamma, device=given.device, memory=given.memory, progress=self.progress
            )
        else:
            plan = transport.emd(scores, self.marginals)
        self.matching = plan.match(matrix, given.threshold, self.progress)
        del plan
        original = matrix if given.relabel_from == "original" else None
        self.weights = new_weights(
            like(matrix, before), self.matching, given.beta, given.lam, original, self.trusted, given.weighting
        )
        seconds = time.perf_counter() - begin
        active = self.known.activity > 0
        self.now = Round(
            number=len(self.history),
            loss_before=self.loss(before),
            loss_relabelled=self.loss(self.weights),
            loss_refitted=None,
            gamma=gamma,
            mass_kept=_total(self.weights) / _total(matrix.data),
            below_threshold=float(np.mean(self.matching.margins < 0)),
            kappa_quartiles=tuple(np.quantile(self.matching.kappa[active], [0.25, 0.5, 0.75]).tolist()),
            change=_total(np.abs(self.weights - before)) / max(_total(before), np.finfo(np.float64).tiny),
            transport_seconds=seconds,
            fit_seconds=0.0,
        )
        self._keep()

    def _refit(self) -> None:
        """Step 1 of Algorithm 1, on the new weights."""
        seconds = self._fit(self.model if self.given.warm_start and self.fresh.supports_warm_start else None)
        self.history.append(replace(self.now, loss_refitted=self.loss(self.weights), fit_seconds=seconds))

    def _fit(self, start: Model | None) -> float:
        """Let the model learn from the present weights; how long it took."""
        number_of_fit = len(self.history)
        what = f"fitting {type(self.fresh).__name__.lstrip('_')}, round {number_of_fit}"
        self.progress(what, 0, 1)
        model: Any = replace(self.fresh)  # type: ignore[type-var]
        how: dict[str, Any] = {} if start is None else {"init_from": start}
        if self.fresh.supports_checkpoint and self.checkpoint.folder is not None:
            how["checkpoint"] = self.checkpoint.folder / f"fit-{number_of_fit}"
        begin = time.perf_counter()
        self.model = model.fit(self.known.with_weights(self.weights), **how)
        seconds = time.perf_counter() - begin
        self.loss = LossOf(self.model, self.known.matrix, self.given.device)
        self.progress(what, 1, 1)
        return seconds

    # ── taking up again ─────────────────────────────────────────────────────────────────────────────

    @property
    def converged(self) -> bool:
        """Whether the weights have come to rest."""
        return self.now.change <= self.given.tolerance

    def _keep(self) -> None:
        warm = self.given.warm_start and self.fresh.supports_warm_start
        about = {"now": self.now.to_dict(), "history": [each.to_dict() for each in self.history]}
        start = self.model.arrays_ if warm and self.model is not None else {}
        self.checkpoint.keep(State(about, kept(self.weights, self.matching), start))

    def _resume(self, state: State) -> None:
        try:
            self.history = [Round.from_dict(each) for each in state.about["history"]]
            self.now = Round.from_dict(state.about["now"])
            self.weights, self.matching = restored(state.arrays, self.known)
        except (KeyError, TypeError) as error:
            raise InputError(f"this checkpoint is damaged; remove it to start anew ({error!r})") from None
        self.gamma = self.now.gamma
        if state.start:
            self.model = replace(self.fresh)  # type: ignore[type-var]
            self.model.arrays_, self.model.interactions_ = state.start, self.known


def _identity(given: ProRec, model: Model, known: Interactions) -> str:
    """What tells one run from another: version, parameters, model and interactions."""
    from prorec import __version__

    # What is only looked at after the fit, or changes nothing but the pace, may be another.
    apart = ("model", "noise_method", "flag_fraction", "fdr", "memory", "device")
    settings = {each.name: repr(getattr(given, each.name)) for each in fields(given) if each.name not in apart}
    noise = given.noise_method
    if not isinstance(noise, str):
        voters = [_told_apart(wrap(each)) for each in noise.list_base_models()]
        noise = [noise.base_models is None, noise.folds, noise.transport, noise.seed, voters]
    content = digest_pairs(known.matrix), digest(known.matrix.data)
    return json.dumps([__version__, settings, noise, *_told_apart(model), content], default=json_default)


def _told_apart(model: Model) -> list[Any]:
    """What tells one model from another."""
    inner = getattr(model, "model", None)
    if inner is not None:
        return [type(model).__name__, _described(inner)]
    # Where it runs is no part of what it is: a run may go on elsewhere.
    return [
        type(model).__name__,
        {name: value for name, value in model.describe()["parameters"].items() if name != "device"},
    ]


def _described(value: Any, above: tuple[int, ...] = ()) -> Any:
    """All that a third-party model is made of, in a form that is the same in another process.

    Objects are taken apart the way that copying does it.
    """
    if value is None or isinstance(value, str | bytes | int | float | complex):
        return repr(value)
    if hasattr(value, "detach"):  # a tensor, which shows where it lies in memory when it is taken apart
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        return digest(np.asarray(value))
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        if "<lambda>" in value.__qualname__ or ("<locals>" in value.__qualname__ and not isinstance(value, type)):
            raise InputError(
                f"a checkpoint must know whose it is, and the model has a function in it, {value.__qualname__}, that "
                "cannot be told from others; leave the checkpoint out"
            )
        return f"{value.__module__}.{value.__qualname__}"
    if id(value) in above or len(above) > 50:
        return "…"
    above = (*above, id(value))
    if isinstance(value, dict):
        return [[_described(name, above), _described(each, above)] for name, each in value.items()]
    if isinstance(value, list | tuple | Iterator):
        return [_described(each, above) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(repr(_described(each, above)) for each in value)
    try:
        reduced = value.__reduce_ex__(4)
    except Exception as error:  # whatever the object's own code raises
        raise InputError(
            f"a checkpoint must know whose it is, and the model has a {type(value).__name__} in it that cannot be told "
            f"from others ({error}); leave the checkpoint out"
        ) from None
    return [type(value).__qualname__, reduced if isinstance(reduced, str) else _described(tuple(reduced), above)]


def like(matrix: csr_array, weights: NDArray[np.float32]) -> csr_array:
    """A matrix with other weights."""
    return csr_array((weights, matrix.indices, matrix.indptr), shape=matrix.shape)


def _total(weights: NDArray[np.float32]) -> float:
    return float(weights.sum(dtype=np.float64))


def kept(weights: NDArray[np.float32], matching: Matching) -> Arrays:
    """The arrays that a round leaves behind, by name."""
    return {"weights": weights, "kappa": matching.kappa, "threshold": matching.threshold, "shares": matching.row_shares}


def restored(arrays: Arrays, known: Interactions) -> tuple[NDArray[np.float32], Matching]:
    """Weights and matching from those arrays, if they belong to these interactions."""
    lengths = {"weights": len(known), "shares": len(known), "kappa": known.n_users, "threshold": known.n_users}
    for name, length in lengths.items():
        array = arrays[name]
        if array.shape != (length,) or array.dtype.kind not in "fi" or not np.isfinite(array).all():
            raise InputError(f"{name} is damaged: {array.dtype} of shape {array.shape}, or not finite")
    matrix = known.matrix
    matching = Matching(
        arrays["kappa"], arrays["threshold"], arrays["shares"], matrix.indptr.astype(np.int64), digest_pairs(matrix)
    )
    return arrays["weights"], matching
