"""ProRec: fit, plan, thresholds, relabel, and fit again (Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_choice, check_float, check_int, safe_repr
from prorec._core.device import resolve_device
from prorec._core.errors import InputError
from prorec._core.files import as_path
from prorec._core.progress import Progress, check_progress
from prorec.denoise.algorithm import Run, kept, like, restored
from prorec.denoise.history import Round
from prorec.denoise.noise_table import annotated, explanation_table, noise_table
from prorec.denoise.probability import plan_probability
from prorec.interactions import Interactions
from prorec.interactions.columns import ColumnRef
from prorec.interactions.tables import FrameType
from prorec.models.model import Model, as_interactions, restore_model
from prorec.models.recommendations import Recommendations, SimilarItems
from prorec.models.storage import Arrays, write_model
from prorec.models.wrap import wrap
from prorec.noise.finder import NoiseFinder
from prorec.noise.flagging import check_fdr, flag_interactions
from prorec.transport.blocks import DEFAULT_MEMORY, check_memory
from prorec.transport.emd import check_emd_size
from prorec.transport.factors import Factors
from prorec.transport.gamma import parse_gamma
from prorec.transport.thresholds import Matching, Threshold, check_threshold

if TYPE_CHECKING:
    from prorec.report.plots import Plots


class Thresholds(NamedTuple):
    """Each user's threshold, in the order of `interactions_.users`."""

    kappa: NDArray[np.int64]
    """κ: how many items are in the upper group."""
    value: NDArray[np.float32]
    """ρ_κ: the least share in it."""


@dataclass
class ProRec(Model):
    """A recommender that trusts each click as much as a transport plan between all users and all items does.

    In each round (Algorithm 1) the model's scores S become a plan π between users and items; each user gets a threshold
    ρ_κ on the shares ρ of their row; observed pairs are relabelled, r = 1/(1 + e^(−β(ρ − ρ_κ))), and mixed into the
    weights, X ← λX + (1 − λ)·r∘X; and the model learns again.

    Parameters are the paper's. What comes out: `model_` (the model of the last round), `weights_`, `thresholds_`,
    `gamma_`, `history_` (one `Round` for each, the first fit included), `converged_`; `noise_table()`, `explain(user)`;
    and `recommend`, `recommend_new` and `similar_items` as of any model.

    >>> import prorec
    >>> clicks = prorec.load_dataset("cinema")
    >>> denoiser = ProRec(prorec.models.NCE(rank=20), gamma=0.1).fit(clicks)
    >>> print(f"{denoiser.history_[-1].mass_kept:.2f}")
    0.62
    """

    model: Any
    """The recommender: one of `prorec.models`, or any that `prorec.models.wrap` takes. It is copied, not changed."""
    _: KW_ONLY
    transport: Literal["relaxed", "sinkhorn", "emd"] = "relaxed"
    """How users and items are matched."""
    threshold: Threshold = "personal"
    """`personal` (Eq. 20), a number κ of items above it, the same for all users, or `none`, which is ρ_κ = 0."""
    gamma: float | str = "auto"
    """γ: how much the plan is spread. The paper's values fit scores of about 1; `auto` goes with the spread of the
    first model's scores, and `0.5 auto` is half of that. EMD has none."""
    beta: float = 20.0
    """β: how steep the step from 0 to 1 around the threshold is."""
    lam: float = 0.5
    """λ: how much of the present weights is kept."""
    rounds: int = 1
    """How often, at most."""
    relabel_from: Literal["current", "original"] = "current"
    """Weights that r multiplies: `current`, as in the paper, or `original`, X ← λX + (1 − λ)·r∘X₀. With many rounds the
    paper's rule takes all weights to 0; `original` converges."""
    tolerance: float = 0.01
    """When weights change by less than this share of their sum, that was the last round."""
    marginals: Literal["popularity", "uniform"] = "popularity"
    """How much mass each user sends and each item receives."""
    warm_start: bool = False
    """Whether the model starts from the last round's, where it learns in steps (WRMF, CDAE, VAE)."""
    noise_method: Any = "plan"
    """Where `noise_probability_` comes from: `plan`, from the model and the plan that weights come from, which orders
    clicks and costs nothing; `cross-fit`, or a `prorec.NoiseFinder`, from models that have not seen the click, which is
    calibrated and costs a fit of each for every fold."""
    weighting: Literal["plan", "probability", "both"] = "plan"
    """What clicks are relabelled by: the plan's r; 1 − the noise probability, if that is cross-fitted; or both, r times
    that."""
    flag_fraction: float = 0.05
    """The share of interactions to flag, the most suspicious, where the probability is the plan's."""
    fdr: float = 0.1
    """The share of flags that may be wrong, where the probability is cross-fitted."""
    memory: float = DEFAULT_MEMORY
    """How many bytes of blocks of users × items may be in memory at once, on the CPU."""
    device: str = field(default="auto", compare=False, repr=False)
    """Where users and items are matched: `auto`, on a GPU if there is one and the data are large; `cpu`; or `cuda`. The
    model has one of its own."""

    # ── learning ────────────────────────────────────────────────────────────────────────────────────

    def fit(  # type: ignore[override]  # a denoiser has nothing to start from
        self,
        interactions: Interactions | csr_array,
        *,
        refit: bool = True,
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Run Algorithm 1.

        Parameters
        ----------
        interactions : interactions, or a sparse matrix of weights in [0, 1], users × items
        refit : whether the model learns from the last weights too; without, there are weights but nothing to recommend
            with, and the last round has no loss after refitting
        checkpoint : a folder to keep the latest round in. If it has one of the same denoiser on the same interactions,
            the run goes on from there and comes to the same result.
        progress : called with what is being done, how much of it is done, and how much there is
        """
        known = as_interactions(interactions)
        model = wrap(self.model)
        self.check_parameters(known.matrix.shape)
        self._check(known, model)
        check_progress(progress)
        finder = self._finder(known)
        run = Run(self, model, known, checkpoint, progress or (lambda *_: None))
        run.checkpoint.latest()  # which refuses that of another run, before anything is fitted
        if finder is not None:
            finder.fit(known, progress=progress)
            run.trusted = 1 - finder.noise_probability_ if self.weighting != "plan" else None
        run.go(refit=refit)
        self._take(known, run.model, run.weights, run.matching, run.history, run.converged, finder)
        return self

    def _finder(self, known: Interactions) -> NoiseFinder | None:
        """What is to find the noise, if that is not the plan."""
        if isinstance(self.noise_method, NoiseFinder):
            return replace(self.noise_method)
        finder = NoiseFinder(memory=self.memory)
        return (
            replace(finder, folds=max(2, min(finder.folds, len(known)))) if self.noise_method == "cross-fit" else None
        )

    def _take(
        self,
        known: Interactions,
        model: Model | None,
        weights: NDArray[np.float32],
        matching: Matching,
        history: list[Round],
        converged: bool,
        finder: NoiseFinder | None,
    ) -> None:
        self.interactions_, self._model = known, model
        self.matching_, self.history_, self.converged_ = matching, history, converged
        self.weights_ = like(known.matrix, weights)
        self.arrays_ = kept(weights, matching)
        self._found = finder

    def check_settings(self) -> None:
        """Refuse parameters that make no sense, whatever the data."""
        check_choice("transport", self.transport, ("relaxed", "sinkhorn", "emd"))
        check_choice("marginals", self.marginals, ("popularity", "uniform"))
        check_threshold(self.threshold)
        parse_gamma(self.gamma)
        check_float("beta", self.beta, 0)
        check_float("lam", self.lam, 0, 1)
        check_int("rounds", self.rounds, 1)
        resolve_device(self.device, 0)
        check_float("tolerance", self.tolerance, 0)
        check_float("flag_fraction", self.flag_fraction, 0, 1)
        check_fdr(self.fdr)
        if isinstance(self.noise_method, NoiseFinder):
            self.noise_method.check_settings()
        elif not isinstance(self.noise_method, str) or self.noise_method not in ("plan", "cross-fit"):
            raise InputError(
                f"noise_method must be 'plan', 'cross-fit' or a NoiseFinder; got {safe_repr(self.noise_method)}"
            )
        check_choice("weighting", self.weighting, ("plan", "probability", "both"))
        if self.weighting != "plan" and isinstance(self.noise_method, str) and self.noise_method == "plan":
            raise InputError(
                f"weighting={self.weighting!r} requires calibrated noise probabilities; pass noise_method='cross-fit'"
            )
        check_choice("relabel_from", self.relabel_from, ("current", "original"))
        if not isinstance(self.warm_start, bool):
            raise InputError(f"warm_start must be True or False; got {safe_repr(self.warm_start)}")

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Raise InputError unless all parameters are valid for a matrix of this shape."""
        self.check_settings()
        wrap(self.model).check_parameters(shape)

    def _check(self, known: Interactions, model: Model) -> None:
        """Refuse everything that can be refused before the first fit, which may take an hour."""
        if isinstance(model, ProRec):
            raise InputError("model must be a recommender; a denoiser is given already")
        check_memory(self.memory, known.n_items)
        if self.transport == "emd":
            check_emd_size(known.matrix.shape)
        if not known.matrix.data.any():
            raise InputError("there is no interaction to learn from, or none that has any weight")
        if known.activity.max() < 2:
            raise InputError(
                "every user has one interaction only: there is nothing to compare it with, and a threshold of the "
                "user's own means nothing"
            )

    # ── what came out ───────────────────────────────────────────────────────────────────────────────

    @property
    def model_(self) -> Model:
        """The model of the last round."""
        self._fitted()
        if self._model is None:
            raise InputError("there is no model for the last weights: fit was told not to make one (refit=False)")
        return self._model

    @property
    def thresholds_(self) -> Thresholds:
        """Each user's κ and threshold, in the last round."""
        self._fitted()
        return Thresholds(self.matching_.kappa, self.matching_.threshold)

    @property
    def gamma_(self) -> float:
        """γ of the plan; EMD makes no use of one."""
        self._fitted()
        return float(self.history_[-1].gamma)

    @property
    def finder_(self) -> NoiseFinder:
        """The fitted `NoiseFinder`, if noise was found by cross-fitting."""
        self._fitted()
        if self._found is None:
            raise InputError("noise was not looked for by cross-fitting: that needs noise_method='cross-fit'")
        return self._found

    @property
    def noise_probability_(self) -> NDArray[np.float32]:
        """For each interaction, in the order of `interactions_.matrix.data`, the probability that it is noise.

        If cross-fitted, that is `prorec.NoiseFinder`'s. Otherwise it is ε/N / (ε/N + (1 − ε)·ρ), with N items: if one
        click in ten (ε = .1) were drawn at random from all items and the others from their user's row of the plan, the
        probability that a click with share ρ was one of the former. That orders clicks; it is not calibrated: nobody
        knows ε, and the plan comes from a model that has seen the clicks and knows some by heart.
        """
        self._fitted()
        if self._found is not None:
            return self._found.noise_probability_
        return plan_probability(self.matching_.row_shares, self.interactions_.n_items)

    @property
    def flagged_(self) -> NDArray[np.bool_]:
        """For each interaction, whether it is among those with the largest noise probability.

        By `fdr` where the probability is cross-fitted, and the share `flag_fraction` where it is the plan's. In the
        order of `interactions_.matrix.data`, which is not that of your log: see `annotate`. Ties at the cut-off
        are not flagged.
        """
        self._fitted()
        if self._found is not None:
            return self._found.flag(fdr=self.fdr)
        return flag_interactions(self.noise_probability_, fraction=self.flag_fraction)

    def score(self, interactions: Interactions, kind: FrameType = "pyarrow") -> Any:
        """The noise probability of interactions that came later: see `prorec.NoiseFinder.score`."""
        return self.finder_.score(interactions, kind)

    def noise_table(self, kind: FrameType = "pyarrow", *, most: int | None = None) -> Any:
        """One row per interaction, most suspicious first; only so many of them, if `most` says so.

        Columns: user, item, name (if items have names), weight, noise_probability, flagged, share (ρ), threshold (ρ_κ);
        and, where it is cross-fitted, percentile_rank and basis.
        """
        self._fitted()
        return noise_table(self, kind, None if most is None else check_int("most", most, 1))

    def annotate(self, table: Any, *, user_col: ColumnRef = None, item_col: ColumnRef = None) -> Any:
        """A table of the interactions, as it is, with three more columns: weight, noise_probability and flagged.

        Parameters
        ----------
        table : pandas, polars or pyarrow, as given to `Interactions.from_table`; it comes back as what it was, with its
            rows in their order. Pairs that the denoiser has not seen get nothing in the new columns
        user_col, item_col : names or positions of its columns, where they are not the usual ones
        """
        self._fitted()
        return annotated(self, table, {"user": user_col, "item": item_col})

    def explain(self, user: Any, kind: FrameType = "pyarrow") -> Any:
        """One user's interactions, most suspicious first, and what speaks for and against each.

        Columns as in `noise_table`; and of the user's other items, the one most like this item (`for`) and the one
        least like it (`against`), each with how like it is in the model's eyes (see `similar_items`). That is company
        to judge a click by, not how its share came about.
        """
        self._fitted()
        return explanation_table(self, int(self._positions("user", [user])[0]), kind)

    def report(
        self,
        path: str | Path,
        *,
        title: str = "Which clicks are noise?",
        is_noise: Any = None,
        held_out: bool = True,
        progress: Progress | None = None,
    ) -> None:
        """Write a page about what was found: one HTML file that needs no network and no server.

        Parameters
        ----------
        path : the file to write, such as report.html; what is there is replaced
        title : what stands at the top
        is_noise : the truth about each interaction, in the order of `interactions_.matrix.data`, where it is known
        held_out : whether to measure what recommendation gained, which takes three more fits on 70% of the
            interactions; one more on all of them, without denoising, there is anyway
        progress : called with what is being done, how much of it is done, and how much there is
        """
        from prorec.report.page import write_report  # which knows denoisers, as they don't know it

        write_report(self, path, title=title, is_noise=is_noise, held_out=held_out, progress=progress)

    @property
    def plot(self) -> Plots:
        """Figures, for notebooks: `plot.weights()`, `plot.thresholds()`, `plot.matrix(user)`, `plot.history()`."""
        # Denoising does not know how its results are shown; only this door does.
        from prorec.report.plots import Plots

        return Plots(self)

    def _summary(self) -> dict[str, str]:
        flagged, last = self.flagged_, self.history_[-1]
        facts = super()._summary()
        if self.transport != "emd":
            facts["γ"] = f"{last.gamma:.3g}"
        facts["weight kept"] = f"{last.mass_kept:.1%}, after round {last.number}"
        facts["flagged"] = f"{np.count_nonzero(flagged):,} interactions, {np.mean(flagged):.1%}"
        if self._found is not None:
            facts["noise rate"] = str(self._found.noise_rate_)
        return facts

    # ── recommending ────────────────────────────────────────────────────────────────────────────────

    @property
    def scores_(self) -> Factors | Callable[[NDArray[np.intp]], NDArray[np.float32]]:
        """The scores of the last model."""
        return self.model_.scores_

    def recommend(self, users: Any, k: int = 10, *, exclude_seen: bool = True) -> Recommendations:
        """As the last model does. What a user has interacted with is left out, whatever became of its weight."""
        return self.model_.recommend(users, k, exclude_seen=exclude_seen)

    def recommend_new(self, baskets: Any, k: int = 10) -> Recommendations:
        """As the last model does."""
        return self.model_.recommend_new(baskets, k)

    def similar_items(self, items: Any, k: int = 10) -> SimilarItems:
        """As the last model does."""
        return self.model_.similar_items(items, k)

    # ── keeping ─────────────────────────────────────────────────────────────────────────────────────

    def parameters(self) -> dict[str, Any]:
        """What the denoiser was made with, its model included."""
        model = wrap(self.model)
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        if isinstance(self.noise_method, NoiseFinder):
            given["noise_method"] = "finder"
        return given | {"model": model.describe()}

    def save(self, folder: str | Path) -> None:
        """Write the denoiser, its model, weights and thresholds included; `prorec.load` reads it."""
        model = self.model_
        about = self.parameters() | {
            "history": [each.to_dict() for each in self.history_],
            "converged": self.converged_,
        }
        arrays = self.arrays_ | {f"model.{name}": array for name, array in model.arrays_.items()}
        if self._found is not None:
            about["finder"] = self._found.describe()
            arrays |= {f"noise.{name}": array for name, array in self._found.arrays_.items()}
        write_model(as_path(folder), type(self).__name__, about, arrays, self.interactions_)

    @classmethod
    def restore(cls, parameters: dict[str, Any], learned: Arrays, interactions: Interactions) -> Self:
        """A fitted denoiser from what was written down of it."""
        try:
            given = dict(parameters)
            if given.get("device", "cpu") != "cpu":  # another machine may have no such device
                given["device"] = "auto"
            history = [Round.from_dict(each) for each in given.pop("history")]
            converged = bool(given.pop("converged"))
            inner = given.pop("model")
            weights, matching = restored(learned, interactions)
            model = restore_model(inner, _within(learned, "model"), interactions.with_weights(weights))
            finder = None
            if "finder" in given:
                finder = NoiseFinder.restore(given.pop("finder"), _within(learned, "noise"), interactions)
            if given.get("noise_method") == "finder":
                given["noise_method"] = replace(cast(NoiseFinder, finder))
            denoiser = cls(replace(model), **given)  # type: ignore[type-var]
            denoiser.check_settings()
            if not history:
                raise KeyError("history")
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"the denoiser is incomplete or damaged: {error!r}") from None
        denoiser._take(interactions, model, weights, matching, history, converged, finder)
        return denoiser


def _within(learned: Arrays, what: str) -> Arrays:
    """The arrays of a part."""
    return {name.partition(".")[2]: array for name, array in learned.items() if name.startswith(f"{what}.")}
