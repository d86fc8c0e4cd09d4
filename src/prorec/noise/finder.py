"""NoiseFinder: a noise probability for every interaction of a log, by cross-fitting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_choice, check_float, check_int
from prorec._core.errors import DamagedFileError, InputError
from prorec._core.estimator import Estimator
from prorec._core.progress import Progress, check_progress
from prorec._core.random import make_generator
from prorec.interactions import Interactions
from prorec.interactions.ids import take_ids
from prorec.interactions.tables import FrameType, to_frame
from prorec.models.factory import cap_rank
from prorec.models.model import Model, as_interactions, restore_model
from prorec.models.nce import NCE
from prorec.models.storage import Arrays
from prorec.models.svd import SVD
from prorec.models.wrap import wrap
from prorec.models.wrmf import WRMF
from prorec.noise.cross_fitting import (
    MAX_TRAINING_CLICKS,
    NEGATIVES_PER_CLICK,
    NO_NEGATIVES,
    assign_folds,
    copy_unfitted,
    cross_fit,
    sample_negatives,
)
from prorec.noise.flagging import flag_interactions
from prorec.noise.later_interactions import score_later
from prorec.noise.pair_features import PairFeatures, PairScores, ReferenceClicks
from prorec.noise.plan_ranks import Pairs, Transport
from prorec.noise.posterior import NoisePosterior, basis_codes, basis_names, fit_posterior
from prorec.transport.blocks import DEFAULT_MEMORY, check_memory

DEFAULT_BASE_MODELS: tuple[Model, ...] = (
    WRMF(rank=10, alpha=10.0, regularization=30.0),
    NCE(rank=20, regularization=10000.0),
    SVD(rank=5),
    WRMF(rank=40, alpha=1.0, regularization=10.0),
)
"""Base models of `NoiseFinder`. They are coarse, so that a single user has little influence on them."""


@dataclass
class NoiseFinder(Estimator):
    """Estimator of the noise probability of every interaction, and of the noise rate of a log.

    Interactions are divided into folds. Base models that were trained on the other folds score each interaction, and
    also negatives: pairs sampled from the items that each user has no interaction with. A density-ratio classifier
    separates interactions from negatives. The noise rate is estimated where interactions look most like negatives, and
    Bayes' rule gives the noise probability. docs/noise.md explains each step.

    Attributes
    ----------
    noise_probability_ : array
        Noise probability of each interaction, in the order of `interactions_.matrix.data`.
    noise_rate_ : NoiseRateEstimate
        Noise rate of the log, with an interval.
    percentile_rank_ : array
        Share of the user's unobserved items that rank above each interaction, averaged over the base models.
    basis_ : array of int
        Code of each probability's basis: 0 for base models, 1 for popularity, if the user has no other interaction.
    interactions_ : Interactions
        Interactions that `fit` was called with.
    base_models_ : list of Model
        Base models, fitted to all interactions; `score` uses them.

    Examples
    --------
    >>> import prorec
    >>> finder = NoiseFinder(folds=5).fit(prorec.load_dataset("cinema"))
    >>> print(f"{finder.noise_rate_.estimate:.0%}")
    7%
    >>> int(finder.flag(n=100).sum())
    100
    """

    base_models: Any = None
    """One base model or a list of them, of `prorec.models` or any that `prorec.models.wrap` takes; by default four
    coarse models."""
    _: KW_ONLY
    folds: int = 20
    """Number of folds. Fewer are faster and find slightly less noise."""
    transport: Transport = "relaxed-users"
    """The transport plan: `relaxed-users` fixes the users' marginal only (Eq. 6) and keeps the order of the scores;
    `relaxed` (Eq. 7) and `sinkhorn` (Eq. 4) use the items' marginal too."""
    seed: int = 0
    """Seed of the folds, the negatives and the intervals."""
    memory: float = DEFAULT_MEMORY
    """Maximum number of bytes of blocks of users × items in memory."""

    def fit(self, interactions: Interactions | csr_array, *, progress: Progress | None = None) -> Self:
        """Estimate the noise rate and the noise probability of every interaction.

        Parameters
        ----------
        interactions : Interactions or sparse matrix
            Interactions, or weights in [0, 1] as users × items.
        progress : Progress, optional
            Called with the task, the number of steps done and the number of steps in all.

        Returns
        -------
        NoiseFinder
            The finder itself.

        Raises
        ------
        InputError
            If a parameter is out of range, or the interactions are too few to cross-fit.
        """
        interactions = as_interactions(interactions)
        check_progress(progress)
        report: Progress = progress or (lambda *_: None)
        models = self._check_models(interactions)
        rng = make_generator(self.seed)
        matrix, n = interactions.matrix, len(interactions)
        click_folds = assign_folds(matrix, self.folds, rng)
        training_clicks = np.arange(n)
        if n > MAX_TRAINING_CLICKS:
            training_clicks = np.sort(rng.choice(n, MAX_TRAINING_CLICKS, replace=False))
        # Each negative belongs to a click: it has the same user and the same fold.
        sampled_for = np.repeat(training_clicks, NEGATIVES_PER_CLICK)
        negatives, exists = sample_negatives(matrix, interactions.user_codes[sampled_for], rng.random(len(sampled_for)))
        if not exists.any():
            raise InputError(NO_NEGATIVES)
        click_of_pair = np.append(np.arange(n), sampled_for[exists])
        pairs = Pairs(
            interactions.user_codes[click_of_pair].astype(np.int32),
            np.append(interactions.item_codes, negatives[exists]).astype(np.int32),
        )
        scores = cross_fit(
            models, matrix, click_folds, pairs, click_folds[click_of_pair], self.transport, self.memory, report
        )
        self.reference_clicks_ = ReferenceClicks(matrix, scores.mean_percentile_rank[:n], scores.popularity[:n])
        features = _make_features(scores, self.reference_clicks_, pairs, click_of_pair, interactions.activity)
        training = np.append(training_clicks, np.arange(n, len(click_of_pair)))
        activity = interactions.activity.astype(np.float64)
        posterior = fit_posterior(features.at(training), pairs.users[training], training < n, activity, rng)
        probability = posterior.predict(features.at(slice(n)))
        self._store(interactions, posterior, probability, basis_codes(scores.is_cold[:n]))
        self.base_models_ = []
        for index, model in enumerate(models):
            report("fitting the final base models", index, len(models))
            self.base_models_.append(copy_unfitted(model).fit(interactions))
        report("fitting the final base models", len(models), len(models))
        return self

    def flag(
        self,
        *,
        fdr: float | None = None,
        n: int | None = None,
        fraction: float | None = None,
        threshold: float | None = None,
    ) -> NDArray[np.bool_]:
        """Flag the most suspicious interactions, by exactly one rule.

        Parameters
        ----------
        fdr : float, optional
            False discovery rate: the expected share of wrong flags.
        n : int, optional
            Maximum number of flags.
        fraction : float, optional
            Maximum number of flags, as a share of all interactions.
        threshold : float, optional
            Interactions with a higher noise probability are flagged.

        Returns
        -------
        array of bool
            Whether each interaction is flagged. Interactions tied at the cut-off are not flagged.
        """
        self._check_fitted()
        return flag_interactions(self.noise_probability_, fdr=fdr, n=n, fraction=fraction, threshold=threshold)

    def table(self, frame: FrameType = "pyarrow") -> Any:
        """Return a table of all interactions, the most suspicious first.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, default "pyarrow"
            Type of the table.

        Returns
        -------
        table
            With the columns user, item, noise_probability, percentile_rank and basis.
        """
        self._check_fitted()
        order = np.argsort(-self.noise_probability_, kind="stable")
        return _to_table(
            self.interactions_,
            order,
            frame,
            noise_probability=self.noise_probability_[order],
            percentile_rank=self.percentile_rank_[order],
            basis=basis_names(self.basis_[order]),
        )

    def score(self, interactions: Interactions, frame: FrameType = "pyarrow") -> Any:
        """Return the noise probability of interactions that arrive after the fit.

        Interactions of known users are scored by base models of the fitted log, those of new users by folding in the
        user's other interactions.

        Parameters
        ----------
        interactions : Interactions
            Interactions to score.
        frame : {"pyarrow", "pandas", "polars"}, default "pyarrow"
            Type of the table.

        Returns
        -------
        table
            One row per interaction, by user and item, with the columns user, item, noise_probability and basis. The
            basis is `models`; `popularity`, if no other interaction of the user is known; `unknown item`, which has no
            probability; or `seen`, for a pair of the fitted log, which keeps its probability.

        Raises
        ------
        InputError
            If the argument is not `Interactions`.
        """
        self._check_fitted()
        probability, basis = score_later(self, interactions)
        return _to_table(
            interactions,
            slice(None),
            frame,
            noise_probability=pa.array(probability, mask=np.isnan(probability)),
            basis=basis_names(basis),
        )

    def check_settings(self) -> None:
        """Raise InputError unless the parameters are valid, whatever the interactions are."""
        check_int("folds", self.folds, 2, 1000)
        check_int("seed", self.seed, 0)
        check_float("memory", self.memory, 0)
        check_choice("transport", self.transport, ("relaxed-users", "relaxed", "sinkhorn"))
        models = self.list_base_models()
        if not models:
            raise InputError("base_models must contain at least one model; got an empty list")
        for model in models:
            if hasattr(type(model), "noise_table"):
                raise InputError("base_models must be recommenders; got a denoiser. Pass the model inside it.")
            wrap(model)

    def list_base_models(self) -> list[Any]:
        """Return the base models as a list, as they were passed; the default models if none were."""
        if self.base_models is None:
            return list(DEFAULT_BASE_MODELS)
        return list(self.base_models) if isinstance(self.base_models, Sequence) else [self.base_models]

    def _check_models(self, interactions: Interactions) -> list[Model]:
        """Return the base models, after all checks that need no fit."""
        self.check_settings()
        check_memory(self.memory, interactions.n_items)
        n = len(interactions)
        if not n:
            raise InputError("there is no interaction; cross-fitting needs at least two")
        if n < self.folds:
            raise InputError(f"folds must be at most {n}, the number of interactions; got {self.folds}")
        if interactions.activity.max(initial=0) < 2:
            raise InputError("every user has one interaction only; cross-fitting needs users with two or more")
        models = [wrap(model) for model in self.list_base_models()]
        if self.base_models is None:
            models = [cap_rank(model, interactions.matrix.shape) for model in models]
        for model in models:
            model.check_parameters(interactions.matrix.shape)
        return models

    def _store(
        self,
        interactions: Interactions,
        posterior: NoisePosterior,
        noise_probability: NDArray[np.float32],
        basis: NDArray[np.int8],
    ) -> None:
        """Store the results of a fit; `reference_clicks_` must be set."""
        self.interactions_, self.posterior_ = interactions, posterior
        self.noise_probability_, self.basis_ = noise_probability, basis
        self.percentile_rank_ = self.reference_clicks_.percentile_rank
        self.noise_rate_ = posterior.noise_rate

    def _summary(self) -> dict[str, str]:
        fitted = self.interactions_
        size = f"{fitted.n_users:,} users × {fitted.n_items:,} items, {len(fitted):,} interactions"
        return {"learned from": size, "noise rate": str(self.noise_rate_)}

    # ── saving ──────────────────────────────────────────────────────────────────────────────────────

    def describe(self) -> dict[str, Any]:
        """Return the parameters in a form that JSON can hold; `restore` reads it."""
        self._check_fitted()
        described = [model.describe() for model in self.base_models_]
        is_default = self.base_models is None
        return self.get_params(deep=False) | {"base_models": described, "default": is_default}

    @property
    def arrays_(self) -> Arrays:
        """All arrays of a fitted finder, by name; `restore` reads them."""
        self._check_fitted()
        arrays: Arrays = {
            "noise_probability": self.noise_probability_,
            "percentile_rank": self.percentile_rank_,
            "popularity": self.reference_clicks_.popularity,
            "basis": self.basis_,
        }
        arrays |= self.posterior_.to_arrays()
        for index, model in enumerate(self.base_models_):
            arrays |= {f"{index}.{name}": array for name, array in model.arrays_.items()}
        return arrays

    @classmethod
    def restore(cls, parameters: dict[str, Any], arrays: Arrays, interactions: Interactions) -> Self:
        """Return a fitted finder from saved parameters and arrays.

        Parameters
        ----------
        parameters : dict
            Result of `describe`.
        arrays : dict of arrays
            The finder's `arrays_`.
        interactions : Interactions
            Interactions that the finder was fitted to.

        Returns
        -------
        NoiseFinder

        Raises
        ------
        InputError
            If an array has a wrong shape, or a number is not finite.
        """
        settings = dict(parameters)
        is_default, described = settings.pop("default"), settings.pop("base_models")
        models = []
        for index, description in enumerate(described):
            prefix = f"{index}."
            own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
            models.append(restore_model(description, own, interactions))
        finder = cls(None if is_default else [copy_unfitted(model) for model in models], **settings)
        finder.check_settings()
        per_click = [arrays[name] for name in ("noise_probability", "percentile_rank", "popularity", "basis")]
        if any(each.shape != (len(interactions),) for each in per_click):
            raise DamagedFileError(
                "the saved noise finder is damaged: an array has a wrong length; fit and save it again"
            )
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise DamagedFileError("the saved noise finder is damaged: a number is not finite; fit and save it again")
        probability, percentile_rank, popularity, basis = per_click
        finder.base_models_ = models
        finder.reference_clicks_ = ReferenceClicks(interactions.matrix, percentile_rank, popularity)
        finder._store(interactions, NoisePosterior.from_arrays(arrays), probability, basis)
        return finder


def _make_features(
    scores: PairScores,
    reference: ReferenceClicks,
    pairs: Pairs,
    click_of_pair: NDArray[np.int64],
    activity: NDArray[np.integer],
) -> PairFeatures:
    """Return the features of all clicks, followed by those of the negatives."""
    user_activity = activity.astype(np.float32)[pairs.users]
    # A click's own user is one of the item's users, and is not compared with itself.
    is_click = np.arange(len(user_activity)) < reference.matrix.nnz
    own_activity = np.where(is_click, user_activity, np.float32(np.nan))
    activity_rank = reference.rank_among_item_users(pairs, user_activity, own_activity)
    return scores.to_features(reference.rank_among_user_clicks(scores, pairs, click_of_pair), activity_rank)


def _to_table(interactions: Interactions, order: NDArray[np.intp] | slice, frame: FrameType, **columns: Any) -> Any:
    """Return a table with user and item ids and more columns."""
    ids = {
        "user": take_ids(interactions.users, interactions.user_codes[order]),
        "item": take_ids(interactions.items, interactions.item_codes[order]),
    }
    return to_frame(pa.table(ids | columns), frame)
