"""ProRec: the denoiser of the paper (Algorithm 1) around any recommender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_int, safe_repr
from prorec._core.device import resolve_device
from prorec._core.digest import digest
from prorec._core.errors import DamagedFileError, InputError
from prorec._core.estimator import Estimator
from prorec._core.files import as_path
from prorec._core.progress import Progress, check_progress
from prorec._core.sharing import share
from prorec.denoise.algorithm import DenoisingRun, pack_state, restore_state, select_arrays
from prorec.denoise.checkpoint import Checkpoint
from prorec.denoise.cross_fitted_labels import cross_fit_labels
from prorec.denoise.history import Round, read_history
from prorec.denoise.noise_table import annotate_table, explain_user, make_noise_table
from prorec.denoise.settings import DenoiserSettings
from prorec.denoise.weighting import plan_noise_probability, with_weights
from prorec.interactions import Interactions
from prorec.interactions.columns import ColumnRef
from prorec.interactions.tables import FrameType
from prorec.models.model import Model, as_interactions, register_saved_class, restore_model
from prorec.models.recommendations import Recommendations, SimilarItems
from prorec.models.storage import Arrays, write_model
from prorec.models.wrap import resolve_model
from prorec.noise.finder import NoiseFinder
from prorec.noise.finder_state import finder_state, restore_finder
from prorec.noise.flagging import FlagRule, flag_interactions
from prorec.noise.marks import Marks, read_marks
from prorec.transport.blocks import DEFAULT_MEMORY, check_memory
from prorec.transport.emd import check_emd_size
from prorec.transport.factors import Factors
from prorec.transport.thresholds import Matching


class Thresholds(NamedTuple):
    """Threshold of each user, in the order of `interactions_.users`."""

    kappa: NDArray[np.int64]
    """κ: number of items in the user's upper group."""
    value: NDArray[np.float32]
    """ρ_κ: smallest row share in the upper group."""


@register_saved_class
@dataclass
class ProRec(DenoiserSettings, Estimator):
    """A denoiser: it weights each interaction by how likely it is to be genuine, and fits a model to the weights.

    By default the weight is (1 − p)², with the noise probability p of a `NoiseFinder`, whose models have not seen the
    click. Weights are 1 where the log cannot tell its noise. The model's penalty is adapted to the size of the weights,
    so that a model that was tuned without them stays tuned.

    With `noise_method="plan"` this is Algorithm 1 of the paper. In each round the model's scores S become a plan π
    between users and items. Each user gets a threshold ρ_κ on the row shares ρ of the plan (Eq. 20). Each interaction
    is relabelled, r = 1/(1 + e^(−β(ρ − ρ_κ))) (Eq. 22), its weight becomes λX + (1 − λ)·r∘X (Eq. 23), and the model is
    fitted again. By default there is a plan too, of the model without weights, which only describes the interactions.

    Attributes
    ----------
    model_ : Model
        The model of the last round.
    weights_ : csr_array
        Final weights, users × items.
    noise_probability_, flagged_ : NDArray
        Noise probability and flag of each interaction, in the order of `interactions_.matrix.data`.
    thresholds_ : Thresholds
        κ and ρ_κ of each user.
    gamma_ : float
        γ of the plan.
    history_ : list of Round
        Record of each round; the first entry is the first fit.
    converged_ : bool
        Whether the last round changed the weights by at most `tolerance`.
    matching_ : Matching
        Row shares and thresholds of the last plan.
    interactions_ : Interactions
        The interactions with their original weights.

    Examples
    --------
    >>> import prorec
    >>> clicks = prorec.load_dataset("cinema")
    >>> denoiser = ProRec(prorec.models.NCE(rank=20)).fit(clicks)
    >>> print(f"{denoiser.history_[-1].mass_kept:.2f}")
    0.89
    >>> paper = ProRec(prorec.models.NCE(rank=20), noise_method="plan", gamma=0.1).fit(clicks)
    >>> print(f"{paper.history_[-1].mass_kept:.2f}")
    0.62
    """

    _: KW_ONLY
    transport: Literal["relaxed", "sinkhorn", "emd"] = "relaxed"
    """Transport solver that matches users and items (Eq. 7, 4 and 1)."""
    warm_start: bool = False
    """Start each fit from the last one, for models that support it (WRMF, BPR, CDAE, VAE)."""
    noise_method: Literal["cross-fit", "plan"] | NoiseFinder = "cross-fit"
    """How noise is found: `cross-fit`, by models that have not seen the click, which gives calibrated probabilities; or
    `plan`, by Algorithm 1 of the paper, which orders interactions. In Python, also a `prorec.NoiseFinder`."""
    memory: float = DEFAULT_MEMORY
    """Bytes of blocks of users × items that may be in memory at once, on the CPU."""
    device: str = field(default="auto", compare=False, repr=False)
    """Device that matches users and items: `auto` for a GPU if there is one and the data are large, `cpu` or `cuda`."""

    # ── fitting ─────────────────────────────────────────────────────────────────────────────────────

    def fit(
        self,
        interactions: Any,
        *,
        refit: bool = True,
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
        track_loss: bool = False,
        trusted: Any = None,
        suspect: Any = None,
    ) -> Self:
        """Find the weights, and fit the model to them.

        Parameters
        ----------
        interactions : Interactions, DataFrame or sparse matrix
            Interactions; a data frame of pandas, polars or pyarrow with one row for each, whose columns have usual
            names; or weights from 0 to 1, users × items.
        refit : bool, default True
            Fit the model to the final weights. Without it there are weights, but no model to recommend with.
        checkpoint : str or Path, optional
            Folder for the latest round and for the finished folds of cross-fitting. If it holds those of the same
            denoiser on the same interactions, the run continues from there and gives the same result.
        progress : Progress, optional
            Function that is called with the task, the steps done and the steps in all.
        track_loss : bool, default False
            Record the loss L in `history_`, which takes a pass over all users and items per round.
        trusted, suspect : str, array or Interactions, optional
            Interactions that people know to be genuine, and to be noise, for cross-fitted noise probabilities; see
            `prorec.NoiseFinder.fit`.

        Returns
        -------
        Self

        Raises
        ------
        InputError
            If a parameter or the data are not valid, or the checkpoint belongs to another run. Everything that can be
            checked is checked before the first fit.
        """
        interactions = as_interactions(interactions)
        self.check_parameters(interactions.matrix.shape)
        self._check_interactions(interactions)
        check_progress(progress)
        if self.noise_method == "plan" and not (trusted is None and suspect is None):
            raise InputError(
                "trusted and suspect must be None with noise_method='plan', which has no use for them; "
                "leave out noise_method"
            )
        marks = read_marks(interactions, trusted, suspect)
        run = DenoisingRun(self, interactions, checkpoint, progress or (lambda *_: None), track_loss, marks)
        finder = self._fit_finder(interactions, marks, progress, run.checkpoint)
        if finder is not None:
            run.cross_fitted_weights = self._cross_fit_weights(finder, interactions, progress, run.checkpoint)
        run.run(refit=refit)
        self._set_results(interactions, run.model, run.weights, run.matching, run.history, run.converged, finder)
        return self

    def _cross_fit_weights(
        self, finder: NoiseFinder, interactions: Interactions, progress: Progress | None, checkpoint: Checkpoint
    ) -> NDArray[np.float32]:
        """Return weights by models that have not seen the clicks: X₀·(1 − p)², X₀·(λ + (1 − λ)·r), or both factors.

        A log that cannot tell its noise has weights below 1 only where the finder knows better, and no labels.
        """
        weights = interactions.matrix.data.astype(np.float64)
        if self.weighting != "plan":
            weights *= finder.weights_
        if self.weighting in ("plan", "both") and finder.noise_rate_.is_identified:
            labels = cross_fit_labels(self, interactions, finder.n_folds_, finder.seed, progress, checkpoint)
            weights *= self.lam + (1 - self.lam) * labels
        rounded: NDArray[np.float32] = weights.astype(np.float32)
        return rounded

    def _fit_finder(
        self, interactions: Interactions, marks: Marks, progress: Progress | None, checkpoint: Checkpoint
    ) -> NoiseFinder | None:
        """Return the fitted noise finder; None for the plan."""
        if self.noise_method == "plan":
            return None
        if isinstance(self.noise_method, NoiseFinder):
            finder = replace(self.noise_method)
        else:
            finder = NoiseFinder(memory=self.memory)
        matrix, times = interactions.matrix, interactions.columns.get("timestamp", np.empty(0))
        used = (matrix.indptr, matrix.indices, matrix.data, times.view(np.uint8), *marks)
        key = "NoiseFinder", repr(finder), matrix.shape, digest(*used)
        options: dict[str, Any] = {"trusted": marks.trusted, "suspect": marks.suspect, "progress": progress}
        return share(key, lambda: finder.fit(interactions, checkpoint=checkpoint, **options))

    def _set_results(
        self,
        interactions: Interactions,
        model: Model | None,
        weights: NDArray[np.float32],
        matching: Matching,
        history: list[Round],
        converged: bool,
        finder: NoiseFinder | None,
    ) -> None:
        self.interactions_, self.matching_, self.history_, self.converged_ = interactions, matching, history, converged
        self.weights_ = with_weights(interactions.matrix, weights)
        self._model, self._finder = model, finder
        if finder is None:
            self._noise_probability = plan_noise_probability(matching.row_shares, interactions.n_items)
        else:
            self._noise_probability = finder.noise_probability_
        self._flags: tuple[FlagRule, NDArray[np.bool_]] | None = None

    def check_settings(self) -> None:
        """Check the parameters that do not depend on the data.

        Raises
        ------
        InputError
            If a parameter is not valid.
        """
        resolve_device(self.device, 0)
        if not isinstance(self.warm_start, bool):
            raise InputError(f"warm_start must be True or False; got {safe_repr(self.warm_start)}")
        if isinstance(self.noise_method, NoiseFinder):
            self.noise_method.check_settings()
        elif not isinstance(self.noise_method, str) or self.noise_method not in ("plan", "cross-fit"):
            got = safe_repr(self.noise_method)
            raise InputError(f"noise_method must be 'cross-fit', 'plan' or a NoiseFinder; got {got}")
        self.check_shared_settings(is_cross_fitted=self.noise_method != "plan")

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Check all parameters for data of a shape, including those of the model.

        Parameters
        ----------
        shape : tuple of int
            Numbers of users and items.

        Raises
        ------
        InputError
            If a parameter is not valid, or the model is not a recommender.
        """
        self.check_settings()
        resolve_model(self.model, shape).check_parameters(shape)

    def _check_interactions(self, interactions: Interactions) -> None:
        """Raise InputError for data that cannot be denoised, before the first fit, which may take an hour."""
        check_memory(self.memory, interactions.n_items)
        if self.transport == "emd":
            check_emd_size(interactions.matrix.shape)
        if not interactions.matrix.data.any():
            raise InputError("there is no interaction to learn from; at least one weight must be above 0")
        if interactions.activity.max() < 2:
            raise InputError("every user has one interaction only; at least one user must have two to compare")

    # ── results ─────────────────────────────────────────────────────────────────────────────────────

    @property
    def model_(self) -> Model:
        """The model of the last round."""
        self._check_fitted()
        if self._model is None:
            raise InputError("there is no model for the final weights; call fit with refit=True")
        return self._model

    @property
    def is_refitted_(self) -> bool:
        """Whether there is a model for the final weights: whether `fit` was called with `refit=True`."""
        self._check_fitted()
        return self._model is not None

    @property
    def thresholds_(self) -> Thresholds:
        """κ and ρ_κ of each user in the last round."""
        self._check_fitted()
        return Thresholds(self.matching_.kappa, self.matching_.threshold)

    @property
    def gamma_(self) -> float:
        """γ of the plan; 0 for EMD."""
        self._check_fitted()
        return float(self.history_[-1].gamma)

    @property
    def finder_(self) -> NoiseFinder:
        """The fitted noise finder, if the noise probabilities are cross-fitted."""
        self._check_fitted()
        if self._finder is None:
            raise InputError("there is no noise finder; use a denoiser with noise_method='cross-fit', the default")
        return self._finder

    @property
    def noise_probability_(self) -> NDArray[np.float32]:
        """Noise probability of each interaction, in the order of `interactions_.matrix.data`.

        If cross-fitted, it is that of `finder_`. Otherwise it is ε/N / (ε/N + (1 − ε)·ρ), with ε = .1 and N items: the
        probability that an interaction of row share ρ is random if one in ten is drawn at random from all items, and
        the others from their user's row of the plan. That orders interactions, and is not calibrated: ε is unknown,
        and the plan comes from a model that has been fitted to the interactions.
        """
        self._check_fitted()
        return self._noise_probability

    @property
    def flagged_(self) -> NDArray[np.bool_]:
        """Whether each interaction is among the most suspicious, in the order of `interactions_.matrix.data`.

        `flag_fraction` decides how many are flagged or, by default, `fdr`. Interactions tied at the cut-off are not
        flagged. The order is not that of your log; see `annotate`.
        """
        self._check_fitted()
        rule = self.flag_rule(is_cross_fitted=self._finder is not None)
        if self._flags is None or self._flags[0] != rule:
            if self._finder is None:
                flags = flag_interactions(self._noise_probability, **rule)
            else:
                flags = self._finder.flag(**rule)
            self._flags = rule, flags
        return self._flags[1]

    def score(self, interactions: Any, frame: FrameType | None = None) -> Any:
        """Return the noise probabilities of interactions that arrived later; see `prorec.NoiseFinder.score`.

        Parameters
        ----------
        interactions : Interactions, DataFrame or sparse matrix
            The new interactions.
        frame : {"pyarrow", "pandas", "polars"}, optional
            Type of the table; by default that of these interactions, or else pyarrow.

        Returns
        -------
        table
            Columns user, item, noise_probability and basis.

        Raises
        ------
        InputError
            If the noise probabilities are not cross-fitted.
        """
        return self.finder_.score(interactions, frame)

    def noise_table(self, frame: FrameType | None = None, *, limit: int | None = None) -> Any:
        """Return a table with one row per interaction, the most suspicious first.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Type of the table; by default that of the table that was fitted, or else pyarrow.
        limit : int, optional
            Maximum number of rows.

        Returns
        -------
        table
            Columns user, item, name (if items have names), weight, noise_probability, flagged, share (ρ) and threshold
            (ρ_κ); if cross-fitted, also percentile_rank and basis.
        """
        self._check_fitted()
        return make_noise_table(self, frame, None if limit is None else check_int("limit", limit, 1))

    def annotate(self, table: Any, *, user_col: ColumnRef = None, item_col: ColumnRef = None) -> Any:
        """Return your table with three more columns: weight, noise_probability and flagged.

        Parameters
        ----------
        table : pandas, polars or pyarrow table
            Rows with a user and an item, as for `Interactions.from_table`.
        user_col, item_col : str or int, optional
            Names or positions of the columns. By default they are called as in the table that was fitted, or else by
            their usual names.

        Returns
        -------
        table
            Of the same type, with its rows in their order. A pair that the denoiser has not seen has nothing in the
            new columns.

        Raises
        ------
        InputError
            If a column cannot be found.
        """
        self._check_fitted()
        return annotate_table(self, table, {"user": user_col, "item": item_col})

    def explain(self, user: Any, frame: FrameType | None = None) -> Any:
        """Return one user's interactions, the most suspicious first, with the user's items to compare each with.

        Parameters
        ----------
        user : Any
            Id of the user.
        frame : {"pyarrow", "pandas", "polars"}, optional
            Type of the table; by default that of the table that was fitted, or else pyarrow.

        Returns
        -------
        table
            The columns of `noise_table` without user, and four more: the user's other item that is most similar to the
            item (`for`), the one that is least similar (`against`), and their similarities by the model's factors.
            They are neighbours to compare with, not the reason for the row share.

        Raises
        ------
        InputError
            If the user is unknown, or there is no model.
        """
        self._check_fitted()
        return explain_user(self, user, frame)

    def _summary(self) -> dict[str, str]:
        interactions, flagged, last = self.interactions_, self.flagged_, self.history_[-1]
        size = f"{interactions.n_users:,} users × {interactions.n_items:,} items, {len(interactions):,} interactions"
        lines = {"learned from": size}
        if self.transport != "emd":
            lines["γ"] = f"{last.gamma:.3g}"
        lines["weight kept"] = f"{last.mass_kept:.1%}, after round {last.number}"
        lines["flagged"] = f"{np.count_nonzero(flagged):,} interactions, {np.mean(flagged):.1%}"
        if self._finder is not None:
            lines["noise rate"] = str(self._finder.noise_rate_)
        return lines

    # ── recommending ────────────────────────────────────────────────────────────────────────────────

    @property
    def scores_(self) -> Factors | Callable[[NDArray[np.intp]], NDArray[np.float32]]:
        """Scores of `model_`."""
        return self.model_.scores_

    def recommend(self, users: Any, k: int = 10, *, exclude_seen: bool = True) -> Recommendations:
        """Return the k best items of `model_` for each user.

        Parameters
        ----------
        users : sequence of ids
            Users that the denoiser was fitted on.
        k : int, default 10
            Number of items for each user.
        exclude_seen : bool, default True
            Leave out the user's own interactions, whatever their weight: a click of weight 0 is not recommended back.

        Returns
        -------
        Recommendations
        """
        return self.model_.recommend(users, k, exclude_seen=exclude_seen)

    def recommend_new(self, baskets: Any, k: int = 10) -> Recommendations:
        """Return the k best items of `model_` for new users, without learning again (fold-in).

        Parameters
        ----------
        baskets : sequence of sequences of ids
            Items of each new user.
        k : int, default 10
            Number of items for each user.

        Returns
        -------
        Recommendations
        """
        return self.model_.recommend_new(baskets, k)

    def similar_items(self, items: Any, k: int = 10) -> SimilarItems:
        """Return the k items that are most similar to each item by `model_`.

        Parameters
        ----------
        items : sequence of ids
            Items to compare with.
        k : int, default 10
            Number of similar items for each.

        Returns
        -------
        SimilarItems
        """
        return self.model_.similar_items(items, k)

    # ── saving ──────────────────────────────────────────────────────────────────────────────────────

    def save(self, folder: str | Path, *, overwrite: bool = True) -> None:
        """Write the denoiser with its model, weights and thresholds to a folder; `prorec.load` reads it.

        Parameters
        ----------
        folder : str or Path
            The folder, which is made if necessary.
        overwrite : bool, default True
            Replace a model that is in the folder when this one is written.

        Raises
        ------
        InputError
            If there is no model, or a third-party model, which only its own library can save.
        """
        model = self.model_
        parameters = self.get_params(deep=False) | {
            "model": resolve_model(self.model, self.interactions_.matrix.shape).describe(),
            "history": [each.to_dict() for each in self.history_],
            "converged": self.converged_,
        }
        arrays = pack_state(self.weights_.data, self.matching_)
        arrays |= {f"model.{name}": array for name, array in model.arrays_.items()}
        if isinstance(self.noise_method, NoiseFinder):
            parameters["noise_method"] = "finder"
        if self._finder is not None:
            parameters["finder"], finder_arrays = finder_state(self._finder)
            arrays |= {f"noise.{name}": array for name, array in finder_arrays.items()}
        write_model(as_path(folder), type(self).__name__, parameters, arrays, self.interactions_, overwrite=overwrite)

    @classmethod
    def restore(cls, parameters: dict[str, Any], arrays: Arrays, interactions: Interactions) -> Self:
        """Return the fitted denoiser that `save` wrote; use `prorec.load`.

        Parameters
        ----------
        parameters : dict
            The stored parameters and history.
        arrays : dict of arrays
            The stored arrays.
        interactions : Interactions
            The stored interactions.

        Returns
        -------
        Self

        Raises
        ------
        InputError
            If something is missing or damaged.
        """
        try:
            settings = dict(parameters)
            if settings.get("device", "cpu") != "cpu":  # this machine may not have the device
                settings["device"] = "auto"
            history = read_history(settings.pop("history"))
            converged = bool(settings.pop("converged"))
            parts = ("model", "noise") if "finder" in settings else ("model",)
            weights, matching = restore_state(arrays, interactions, parts)
            weighted = interactions.with_weights(weights)
            model = restore_model(settings.pop("model"), select_arrays("model", arrays), weighted)
            finder = None
            if "finder" in settings:
                finder = restore_finder(settings.pop("finder"), select_arrays("noise", arrays), interactions)
            if settings.get("noise_method") == "finder":
                settings["noise_method"] = replace(finder)  # type: ignore[type-var]
            denoiser = cls(replace(model), **settings)  # type: ignore[type-var]
            denoiser.check_settings()
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise DamagedFileError(
                f"the denoiser is incomplete or damaged ({error!r}); fit and save it again"
            ) from None
        denoiser._set_results(interactions, model, weights, matching, history, converged, finder)
        return denoiser
