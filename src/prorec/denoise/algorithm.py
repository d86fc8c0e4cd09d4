"""The rounds of Algorithm 1, with checkpoints from which an interrupted run continues."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prorec import transport
from prorec._core.array_rules import ArrayRule, check_arrays
from prorec._core.errors import DamagedFileError
from prorec._core.progress import Progress
from prorec.denoise.checkpoint import DAMAGED, Checkpoint, State, run_identity
from prorec.denoise.history import Round, read_history
from prorec.denoise.loss import Loss, ModelLoss
from prorec.denoise.weighting import make_neutral, with_weights
from prorec.interactions import Interactions
from prorec.models.model import Model
from prorec.models.storage import Arrays
from prorec.models.wrap import resolve_model
from prorec.noise.marks import Marks
from prorec.transport.backend import Precision
from prorec.transport.gamma import estimate_gamma, parse_gamma
from prorec.transport.marginals import Marginals
from prorec.transport.relabeling import relabel
from prorec.transport.thresholds import Matching, digest_pairs

if TYPE_CHECKING:
    from prorec.denoise.denoiser import ProRec

_log = logging.getLogger(__name__)

_MAX_SINGLE_BETA = 1000.0
"""Largest β with a plan in single precision. Its rounding, which depends on the size of the blocks, is a few 1e-6 of a
row share; a weight changes by up to β/4 times that."""
_MAX_SHARE = 1.001
"""Largest row share that rounding may give."""


class DenoisingRun:
    """One run of Algorithm 1 and its current state.

    Parameters
    ----------
    settings : ProRec
        Parameters of the run.
    interactions : Interactions
        The interactions to denoise.
    checkpoint : str, Path or None
        Folder for the latest state; a state of the same run that is already there is continued.
    progress : Progress
        Function that is called as work is done.
    track_loss : bool
        Whether to compute L before, between and after the two steps of each round.
    marks : Marks
        Interactions that are marked as trusted or suspect; a run with other marks does not continue the checkpoint.

    Raises
    ------
    InputError
        If the checkpoint belongs to another run, or is damaged.
    """

    def __init__(
        self,
        settings: ProRec,
        interactions: Interactions,
        checkpoint: str | Path | None,
        progress: Progress,
        track_loss: bool,
        marks: Marks,
    ) -> None:
        self.settings, self.interactions, self.progress = settings, interactions, progress
        self.unfitted = resolve_model(settings.model, interactions.matrix.shape)
        """The model to fit; each fit takes a copy."""
        self.model: Model | None = None
        """Model of the latest fit."""
        self.weights: NDArray[np.float32] = interactions.matrix.data
        """Current weight of each interaction."""
        self.cross_fitted_weights: NDArray[np.float32] | None = None
        """Final weights, if they are cross-fitted; then there is one round, and its plan is for information."""
        self.history: list[Round] = []
        """Finished rounds."""
        self.round: Round
        """The round that has new weights; its fit may be missing."""
        self.matching: Matching
        """Thresholds and row shares of the latest plan."""
        # Fixed after the first fit: scores shrink with the weights, and a γ that follows them would never settle.
        self.gamma = float(settings.gamma) if parse_gamma(settings.gamma) is None else None
        if settings.marginals == "uniform":
            self.marginals = Marginals.uniform(*interactions.matrix.shape)
        else:
            self.marginals = Marginals.popularity(interactions.matrix)
        self._track_loss = track_loss
        self._loss: ModelLoss | None = None
        identity = "" if checkpoint is None else run_identity(settings, interactions, marks)
        self.checkpoint = Checkpoint(checkpoint, identity)
        """Latest state of the run."""
        self._saved_state = self.checkpoint.load()

    @property
    def converged(self) -> bool:
        """Whether another round would change the weights by no more than the tolerance."""
        return self.cross_fitted_weights is not None or self.round.change <= self.settings.tolerance

    def run(self, *, refit: bool) -> None:
        """Run all rounds, or those that the checkpoint lacks.

        Parameters
        ----------
        refit : bool
            Whether to fit the model to the final weights.

        Raises
        ------
        InputError
            If the checkpoint is damaged, or the model cannot be fitted.
        """
        if self._saved_state is None:
            seconds = self._fit(init_from=None)
            loss = self._compute_loss(self.weights)
            self.history.append(Round(0, None, None, loss, 0.0, 1.0, 0.0, (0.0, 0.0, 0.0), 0.0, 0.0, seconds))
            self._relabel()
        else:
            self._resume(self._saved_state)
            self._saved_state = None
        while self.round.number < self.settings.rounds and not self.converged:
            self._refit()
            self._relabel()
        if refit:
            self._refit()
        else:
            self.model = None
            self.history.append(self.round)

    def _relabel(self) -> None:
        """Take step 2 of Algorithm 1: the plan, the thresholds, the new weights."""
        settings, matrix, before = self.settings, self.interactions.matrix, self.weights
        start = time.perf_counter()
        assert self.model is not None, "a fit precedes each relabelling"
        scores = self.model.scores_
        if self.gamma is None:
            factor = parse_gamma(settings.gamma) or 0.0
            self.gamma = 0.0 if settings.transport == "emd" else factor * estimate_gamma(scores, matrix)
        self.matching = self._solve(scores, self.gamma).match(matrix, settings.threshold, self.progress)
        if self.cross_fitted_weights is None:
            original = matrix if settings.relabel_from == "original" else None
            current = with_weights(matrix, before)
            self.weights = relabel(current, self.matching, settings.beta, settings.lam, original).data
        else:
            self.weights = self.cross_fitted_weights
        seconds = time.perf_counter() - start
        is_active = self.interactions.activity > 0
        self.round = Round(
            number=len(self.history),
            loss_before=self._compute_loss(before),
            loss_relabeled=self._compute_loss(self.weights),
            loss_refitted=None,
            gamma=self.gamma,
            mass_kept=_sum(self.weights) / _sum(matrix.data),
            below_threshold=float(np.mean(self.matching.margins < 0)),
            kappa_quartiles=tuple(np.quantile(self.matching.kappa[is_active], [0.25, 0.5, 0.75]).tolist()),
            change=_sum(np.abs(self.weights - before)) / max(_sum(before), np.finfo(np.float64).tiny),
            transport_seconds=seconds,
            fit_seconds=0.0,
        )
        self._save_state()

    def _solve(self, scores: Any, gamma: float) -> transport.Plan:
        """Return the transport plan for the scores."""
        if self.settings.transport == "emd":
            return transport.emd(scores, self.marginals)
        solvers: dict[str, Callable[..., transport.Plan]] = {
            "relaxed": transport.relaxed,
            "sinkhorn": transport.sinkhorn,
        }
        device, memory = self.settings.device, self.settings.memory
        solve = solvers[self.settings.transport]
        precision: Precision = "double" if self.settings.beta > _MAX_SINGLE_BETA else "high"
        return solve(
            scores, self.marginals, gamma, device=device, precision=precision, memory=memory, progress=self.progress
        )

    def _refit(self) -> None:
        """Take step 1 of Algorithm 1 on the new weights, which finishes the round."""
        seconds = self._fit(init_from=self.model if self._is_warm else None)
        self.history.append(replace(self.round, loss_refitted=self._compute_loss(self.weights), fit_seconds=seconds))

    def _fit(self, init_from: Model | None) -> float:
        """Fit a copy of the model to the current weights, and return the seconds."""
        number = len(self.history)
        task = f"Fitting {type(self.unfitted).__name__.lstrip('_')}, round {number}"
        self.progress(task, 0, 1)
        model: Any = replace(self.unfitted)  # type: ignore[type-var]
        if self.cross_fitted_weights is not None:
            model = make_neutral(model, self.weights, self.interactions.matrix.data)
        options: dict[str, Any] = {} if init_from is None else {"init_from": init_from}
        if self.unfitted.supports_checkpoint and self.checkpoint.folder is not None:
            options["checkpoint"] = self.checkpoint.folder / f"fit-{number}"
        start = time.perf_counter()
        self.model = model.fit(self.interactions.with_weights(self.weights), **options)
        seconds = time.perf_counter() - start
        self._loss = None
        self.progress(task, 1, 1)
        return seconds

    def _compute_loss(self, weights: NDArray[np.float32]) -> Loss | None:
        """Return L of the current model with some weights, if losses are tracked."""
        if not self._track_loss or self.model is None:
            return None
        if self._loss is None:
            self._loss = ModelLoss(self.model, self.interactions.matrix, self.settings.device)
        return self._loss(weights)

    @property
    def _is_warm(self) -> bool:
        """Whether each fit starts from the one before."""
        return self.settings.warm_start and self.unfitted.supports_warm_start

    def _save_state(self) -> None:
        record = {"round": self.round.to_dict(), "history": [each.to_dict() for each in self.history]}
        arrays = pack_state(self.weights, self.matching)
        if self._is_warm and self.model is not None:
            arrays |= {f"model.{name}": array for name, array in self.model.arrays_.items()}
        self.checkpoint.save(State(record, arrays))

    def _resume(self, state: State) -> None:
        parts = ("model",) if self._is_warm else ()
        init_arrays = select_arrays("model", state.arrays) if self._is_warm else {}
        try:
            *self.history, self.round = read_history([*state.record["history"], state.record["round"]])
            self.weights, self.matching = restore_state(state.arrays, self.interactions, parts)
            if init_arrays:
                check_arrays(init_arrays, self.unfitted.array_rules(self.interactions.matrix.shape), "the model")
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFileError(f"{DAMAGED} ({error})") from None
        _log.info("continuing from the checkpoint of round %d", self.round.number)
        self.gamma = self.round.gamma
        if init_arrays:
            self.model = replace(self.unfitted)  # type: ignore[type-var]
            self.model.arrays_, self.model.interactions_ = init_arrays, self.interactions


def pack_state(weights: NDArray[np.float32], matching: Matching) -> Arrays:
    """Return the arrays to store of a round, by name; `restore_state` reads them.

    Parameters
    ----------
    weights : NDArray of float32
        Weight of each interaction.
    matching : Matching
        Thresholds and row shares.

    Returns
    -------
    dict of arrays
    """
    return {"weights": weights, "kappa": matching.kappa, "threshold": matching.threshold, "shares": matching.row_shares}


def restore_state(
    arrays: Arrays, interactions: Interactions, other_parts: tuple[str, ...]
) -> tuple[NDArray[np.float32], Matching]:
    """Return the weights and the matching that `pack_state` stored.

    Parameters
    ----------
    arrays : dict of arrays
        The stored arrays.
    interactions : Interactions
        The interactions that they belong to.
    other_parts : tuple of str
        Parts that have arrays of their own; see `select_arrays`.

    Returns
    -------
    tuple of NDArray and Matching

    Raises
    ------
    DamagedFileError
        If an array is missing or unknown, or has a wrong shape or type, or a value that it cannot have.
    """
    n, n_users = len(interactions), interactions.n_users
    rules = {
        "weights": ArrayRule((n,), minimum=0, maximum=1),
        "shares": ArrayRule((n,), minimum=0, maximum=_MAX_SHARE),
        "kappa": ArrayRule((n_users,), "int64", 0, interactions.n_items),
        "threshold": ArrayRule((n_users,), minimum=0, maximum=_MAX_SHARE),
    }
    prefixes = tuple(f"{part}." for part in other_parts)
    check_arrays({name: array for name, array in arrays.items() if not name.startswith(prefixes)}, rules, "the state")
    matrix = interactions.matrix
    matching = Matching(
        arrays["kappa"], arrays["threshold"], arrays["shares"], matrix.indptr.astype(np.int64), digest_pairs(matrix)
    )
    return arrays["weights"], matching


def select_arrays(part: str, arrays: Arrays) -> Arrays:
    """Return the arrays whose names start with the name of a part and a dot, without that prefix.

    Parameters
    ----------
    part : str
        Name of the part, such as "model".
    arrays : dict of arrays
        Stored arrays of all parts.

    Returns
    -------
    dict of arrays
    """
    prefix = f"{part}."
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _sum(weights: NDArray[np.float32]) -> float:
    return float(weights.sum(dtype=np.float64))
