"""NoiseFinder: a noise probability for every interaction of a log, by cross-fitting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec._core.checks import check_choice, check_float, check_int, safe_repr
from prorec._core.errors import InputError
from prorec._core.estimator import Estimator
from prorec._core.progress import Progress, check_progress
from prorec._core.random import make_generator
from prorec.interactions import Interactions
from prorec.interactions.tables import FrameType, to_frame
from prorec.models import Model, wrap
from prorec.models.model import as_interactions
from prorec.models.wrap import resolve_model
from prorec.noise.account_issues import find_issues
from prorec.noise.cross_fitting import (
    FoldStore,
    SampledPairs,
    assign_folds,
    copy_unfitted,
    cross_fit,
    sample_pairs,
)
from prorec.noise.density_ratio import fit_out_of_user_ratio
from prorec.noise.effort import DEFAULT_BASE_MODEL, choose_base_model, choose_folds
from prorec.noise.flagging import flag_interactions
from prorec.noise.identifiability import find_typical_history
from prorec.noise.injection_checks import inject_into_pairs
from prorec.noise.keeping import compute_p_values, keep_interactions
from prorec.noise.later_interactions import score_later
from prorec.noise.leave_one_out import compute_leave_one_out_features
from prorec.noise.left_out import add_left_out, leave_out
from prorec.noise.marks import check_enough_unmarked, read_marks
from prorec.noise.pair_features import PairFeatures, PairScores, ReferenceClicks
from prorec.noise.plan_ranks import Transport
from prorec.noise.posterior import ACCOUNT, MARKED, basis_names, fit_posterior, label_pairs
from prorec.noise.training_weights import compute_training_weights
from prorec.transport.blocks import DEFAULT_MEMORY, check_memory


@dataclass
class NoiseFinder(Estimator):
    """Estimator of the noise probability of every interaction, and of the noise rate of a log.

    Interactions are divided into folds. Base models that were trained on the other folds score each interaction, and
    also negatives: pairs sampled from the items that each user has no interaction with. A density-ratio classifier
    separates interactions from negatives. The noise rate is estimated where interactions look most like negatives, and
    Bayes' rule gives the noise probability. docs/noise.md explains each step.

    Extreme accounts, such as bots, are kept out of the fit and scored afterwards. docs/issue-types.md describes them.
    People may mark interactions that they know to be genuine or noise; see `fit`.

    Attributes
    ----------
    noise_probability_ : array
        Noise probability of each interaction, in the order of `interactions_.matrix.data`.
    noise_rate_ : NoiseRateEstimate
        Noise rate among the interactions that nobody marked, without extreme accounts, with an interval; an upper bound
        if the log cannot tell.
    noise_p_value_ : array
        p-value of each interaction for the hypothesis that it is noise; `keep` uses it.
    labeled_pairs_ : LabeledPairs
        Clicks and negatives that the noise rate was estimated from, with their density ratios. It is not saved.
    injection_checks_ : list of InjectionCheck
        How well noise that is injected into this log is found.
    percentile_rank_ : array
        Share of the user's unobserved items that rank above each interaction, averaged over the base models.
    basis_ : array of int
        Code of each probability's basis: 0 for base models, 1 for popularity, if the user has no other interaction, 4
        for the account, if it is extreme, and 5 for interactions that are marked as trusted or suspect.
    issues_ : Issues
        Issues of accounts and items.
    interactions_ : Interactions
        Interactions that `fit` was called with.
    n_folds_ : int
        Number of folds.
    base_models_ : list of Model
        Base models, fitted to all interactions; `score` uses them.

    Examples
    --------
    >>> import prorec
    >>> finder = NoiseFinder(folds=5).fit(prorec.load_dataset("cinema"))
    >>> print(f"{finder.noise_rate_.estimate:.0%}")
    6%
    >>> int(finder.flag(n=100).sum())
    100
    """

    base_models: Any = None
    """One base model or a list of them, of `prorec.models`, by name or any that `prorec.models.wrap` takes; by default
    one coarse WRMF."""
    _: KW_ONLY
    folds: int | None = None
    """Number of folds; by default 10, or 5 for more than 300,000 interactions. Fewer are faster and find slightly less
    noise."""
    cooccurrence: bool = True
    """Whether the classifier also learns from co-occurrence: how often an item occurs together with the user's other
    items, and how well these predict it by ridge regression, if there are at most 6,000 users or items. Without, it
    takes the base models' word alone, as cross-fitting on Spark does."""
    transport: Transport = "relaxed-users"
    """The transport plan: `relaxed-users` fixes the users' marginal only (Eq. 6) and keeps the order of the scores;
    `relaxed` (Eq. 7) and `sinkhorn` (Eq. 4) use the items' marginal too."""
    seed: int = 0
    """Seed of the folds, the negatives and the intervals."""
    memory: float = DEFAULT_MEMORY
    """Maximum number of bytes of blocks of users × items in memory."""

    def fit(
        self,
        interactions: Any,
        *,
        trusted: Any = None,
        suspect: Any = None,
        progress: Progress | None = None,
        checkpoint: FoldStore | None = None,
    ) -> Self:
        """Estimate the noise rate and the noise probability of every interaction.

        Marks are taken at their word. Trusted interactions have the noise probability 0: the base models and the
        classifier learn from them, and the noise rate is estimated from the others. Suspect interactions have the noise
        probability 1 and are kept out of the fit.

        Parameters
        ----------
        interactions : Interactions, DataFrame or sparse matrix
            Interactions; a data frame of pandas, polars or pyarrow with one row for each, whose columns have usual
            names; or weights in [0, 1] as users × items.
        trusted, suspect : str, array or Interactions, optional
            Interactions that people know to be genuine, such as purchases, and to be noise, such as returns. Either
            the name of a column of `interactions.columns` with yes or no (true or false, 1 or 0), or an array of these
            in the order of `interactions.matrix.data`, or pairs of the log.
        progress : Progress, optional
            Called with the task, the number of steps done and the number of steps in all.
        checkpoint : FoldStore, optional
            Scores of the folds that an interrupted fit has finished. The folder that `ProRec.fit` takes holds them.

        Returns
        -------
        NoiseFinder
            The finder itself.

        Raises
        ------
        InputError
            If a parameter is out of range, marks are not of this log or contradict each other, or the interactions are
            too few to cross-fit.
        """
        interactions = as_interactions(interactions)
        check_progress(progress)
        report: Progress = progress or (lambda *_: None)
        models = self._check_models(interactions)
        marks = read_marks(interactions, trusted, suspect)
        log, self.issues_ = interactions, find_issues(interactions, seed=self.seed)
        is_left_out = marks.suspect | self.issues_.is_extreme[log.user_codes]
        interactions = leave_out(log, is_left_out, self.issues_.is_extreme, marks, self.folds or 2)
        n_folds = self.n_folds_ = self._count_folds(len(interactions))
        rng = make_generator(self.seed)
        folds = assign_folds(interactions.matrix, n_folds, rng)
        sample = sample_pairs(interactions, rng)
        is_counted = ~marks.trusted[~is_left_out][sample.clicks]
        if marks.trusted.any():
            doubtful = sample.training[is_counted[sample.training]]
            doubtful = doubtful[doubtful < len(interactions)]
            check_enough_unmarked(interactions.activity[interactions.user_codes[doubtful]], n_folds)
        matrix = interactions.matrix
        scores = cross_fit(models, matrix, folds, sample, self.transport, self.memory, report, checkpoint)
        n = len(interactions)
        clicks = ReferenceClicks(interactions.matrix, scores.mean_percentile_rank[:n], scores.popularity[:n])
        features = self._compute_features(interactions, clicks, scores, sample)
        report("Separating clicks from negatives", 0, 1)
        users, training = sample.pairs.users, sample.training
        train_features, train_users, is_click = features.at(training), users[training], training < n
        n_users = interactions.n_users
        out_of_user = fit_out_of_user_ratio(train_features.matrix, train_users, is_click, n_users, rng)
        history = find_typical_history(interactions)
        counted = training[is_counted[training]]
        log_ratio = out_of_user.log_ratio(features.matrix, users)
        labeled = label_pairs(features.at(counted), counted < n, log_ratio[counted])
        self.labeled_pairs_ = labeled
        posterior = fit_posterior(
            train_features, is_click, labeled, history, is_counted[training], start=out_of_user.mean
        )
        is_identified = posterior.noise_rate.is_identified
        if not is_identified:  # then probabilities are from popularity alone
            log_popularity = np.log1p(labeled.popularity)[:, None]
            labeled = labeled._replace(log_ratio=posterior.cold_density_ratio.log_ratio(log_popularity))
        self.injection_checks_ = inject_into_pairs(labeled, rng, is_identified=is_identified)
        self.noise_p_value_ = compute_p_values(features, log_ratio, is_counted, n, posterior.noise_rate_line)
        report("Separating clicks from negatives", 1, 1)
        self.interactions_, self.reference_clicks_, self.posterior_ = log, clicks, posterior
        self.percentile_rank_, self.noise_rate_ = clicks.percentile_rank, posterior.noise_rate
        self.noise_probability_ = posterior.predict(features.at(slice(n)))
        self.basis_ = posterior.basis_codes(features.at(slice(n)))
        self.base_models_ = []
        for index, model in enumerate(models):
            report("Fitting the final base models", index, len(models))
            self.base_models_.append(copy_unfitted(model).fit(interactions))
        report("Fitting the final base models", len(models), len(models))
        if is_left_out.any():
            add_left_out(self, is_left_out)
        for is_marked, value in ((marks.trusted, 0), (marks.suspect, 1)):
            self.noise_probability_[is_marked] = self.noise_p_value_[is_marked] = value
            self.basis_[is_marked] = MARKED
        return self

    def _compute_features(
        self, interactions: Interactions, clicks: ReferenceClicks, scores: PairScores, sample: SampledPairs
    ) -> PairFeatures:
        """Return the features of all clicks and negatives."""
        pairs, activity = sample.pairs, interactions.activity.astype(np.float32)[sample.pairs.users]
        user_ranks = clicks.rank_among_user_clicks(scores, pairs, sample.clicks)
        is_click = np.arange(len(activity)) < len(interactions)
        activity_rank = clicks.rank_among_item_users(pairs, activity, is_click)
        leave_one_out = None
        if self.cooccurrence:
            matrix, rows = interactions.matrix, np.arange(interactions.n_users)
            left_out = interactions.item_codes[sample.clicks]
            leave_one_out = compute_leave_one_out_features(matrix, matrix, pairs, left_out, rows, self.seed)
        return scores.to_features(user_ranks, activity_rank, leave_one_out)

    @property
    def weights_(self) -> NDArray[np.float32]:
        """Weight of each interaction to train with: (1 − p)², with the noise probability p.

        Where the log cannot tell its noise, only interactions that are marked as suspect and those of extreme accounts
        have weights below 1.
        """
        self._check_fitted()
        is_known = self.noise_rate_.is_identified | (self.basis_ == ACCOUNT) | (self.basis_ == MARKED)
        return np.where(is_known, compute_training_weights(self.noise_probability_), np.float32(1))

    def flag(
        self,
        *,
        fdr: float | None = None,
        n: int | None = None,
        fraction: float | None = None,
        threshold: float | None = None,
    ) -> NDArray[np.bool_]:
        """Flag the most suspicious interactions, by exactly one rule.

        Interactions that are marked as suspect are always flagged, and trusted ones never. The rule decides about the
        others.

        Parameters
        ----------
        fdr : float, optional
            False discovery rate: the expected share of wrong flags, among the interactions of extreme accounts
            and among the others. It is kept for every noise rate in the interval of `noise_rate_`: noise
            probabilities are lowered to the interval's lower end first. Where the log cannot tell its noise, nothing is
            flagged but suspect interactions and extreme accounts.
        n : int, optional
            Maximum number of flags among the interactions that nobody marked.
        fraction : float, optional
            Maximum share of the interactions that nobody marked.
        threshold : float, optional
            Interactions with a higher noise probability are flagged.

        Returns
        -------
        array of bool
            Whether each interaction is flagged. Interactions tied at the cut-off are not flagged.
        """
        self._check_fitted()
        probability, is_marked = self.noise_probability_, self.basis_ == MARKED
        flags: NDArray[np.bool_] = is_marked & (probability == 1)
        if fdr is None:
            unmarked = probability[~is_marked]
            flags[~is_marked] = flag_interactions(unmarked, n=n, fraction=fraction, threshold=threshold)
            return flags
        # Otherwise the sure flags of a large bot would make room for many wrong flags of other users.
        is_extreme = self.basis_ == ACCOUNT
        lowered = probability * np.float32(self.noise_rate_.low_ratio)
        for part, values in ((is_extreme, probability), (~is_extreme & ~is_marked, lowered)):
            flags[part] = flag_interactions(values[part], fdr=fdr, n=n, fraction=fraction, threshold=threshold)
        return flags

    def keep(self, max_noise: float) -> NDArray[np.bool_]:
        """Select as many interactions as possible of which at most a given share is noise.

        Flags say which interactions are noise, as far as the noise rate is known. This says which are genuine, and
        needs no estimate but an upper bound of the noise rate.

        Parameters
        ----------
        max_noise : float
            Expected share of noise among the kept interactions; above 0 and below 1.

        Returns
        -------
        array of bool
            Whether each interaction is kept. Extreme accounts and users' only interactions are not, because nothing
            shows that they are genuine, and where the log cannot tell its noise only trusted interactions are kept.
            Trusted interactions always are, and suspect ones never; the share of noise is that of the others.

        Raises
        ------
        InputError
            If `max_noise` is out of range.
        """
        self._check_fitted()
        is_marked, p_values = self.basis_ == MARKED, self.noise_p_value_
        kept = p_values < 1
        others = keep_interactions(p_values[~is_marked], max_noise, self.noise_rate_.high)
        kept[~is_marked] &= others & self.noise_rate_.is_identified
        return kept

    def table(self, frame: FrameType | None = None) -> Any:
        """Return a table of all interactions, the most suspicious first.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Type of the table; by default that of the table that was fitted, or else pyarrow.

        Returns
        -------
        table
            With the columns user, item, noise_probability, percentile_rank and basis.
        """
        self._check_fitted()
        columns = {
            "noise_probability": pa.array(self.noise_probability_),
            "percentile_rank": pa.array(self.percentile_rank_),
            "basis": basis_names(self.basis_),
        }
        order = np.argsort(-self.noise_probability_, kind="stable")
        table = _make_table(self.interactions_, columns).take(order)
        return to_frame(table, frame, self.interactions_.frame_type)

    def users(self, frame: FrameType | None = None) -> Any:
        """Return a table of all users with their issues, the most suspicious account first; see `Issues.users`.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Type of the table; by default that of the table that was fitted, or else pyarrow.

        Returns
        -------
        table
            With the columns user, activity, one score for each issue, and extreme.
        """
        self._check_fitted()
        return self.issues_.users(frame)

    def items(self, frame: FrameType | None = None) -> Any:
        """Return a table of all items with their issues, the most suspicious first; see `Issues.items`.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Type of the table; by default that of the table that was fitted, or else pyarrow.

        Returns
        -------
        table
            With the columns item, popularity and one score for each issue.
        """
        self._check_fitted()
        return self.issues_.items(frame)

    def score(self, interactions: Any, frame: FrameType | None = None) -> Any:
        """Return the noise probability of interactions that arrive after the fit.

        Interactions of known users are scored by base models of the fitted log, those of new users by folding in the
        user's other interactions.

        Parameters
        ----------
        interactions : Interactions, DataFrame or sparse matrix
            Interactions to score.
        frame : {"pyarrow", "pandas", "polars"}, optional
            Type of the table; by default that of these interactions, or else pyarrow.

        Returns
        -------
        table
            One row per interaction, by user and item, with the columns user, item, noise_probability and basis. The
            basis is `models`; `popularity`, if no other interaction of the user is known; `unknown item`, which has no
            probability; `seen`, for a pair of the fitted log, which keeps its probability, also if it is marked; or
            `account`, for an extreme account of the fitted log.

        Raises
        ------
        InputError
            If the interactions cannot be used.
        """
        self._check_fitted()
        interactions = as_interactions(interactions)
        probability, basis = score_later(self, interactions)
        known_probability = pa.array(probability, mask=np.isnan(probability))
        columns = {"noise_probability": known_probability, "basis": basis_names(basis)}
        return to_frame(_make_table(interactions, columns), frame, interactions.frame_type)

    def check_settings(self) -> None:
        """Raise InputError unless the parameters are valid, whatever the interactions are."""
        if self.folds is not None:
            check_int("folds", self.folds, 2, 1000)
        check_int("seed", self.seed, 0)
        if not isinstance(self.cooccurrence, bool):
            raise InputError(f"cooccurrence must be True or False; got {safe_repr(self.cooccurrence)}")
        check_float("memory", self.memory, 0)
        check_choice("transport", self.transport, ("relaxed-users", "relaxed", "sinkhorn"))
        models = self._list_base_models()
        if not models:
            raise InputError("base_models must contain at least one model; got an empty list")
        for model in models:
            if hasattr(type(model), "noise_table"):
                raise InputError("base_models must be recommenders; got a denoiser. Pass the model inside it.")
            wrap(model)

    def _count_folds(self, n_interactions: int) -> int:
        return choose_folds(n_interactions) if self.folds is None else self.folds

    def _list_base_models(self) -> list[Any]:
        """Return the base models as a list, as they were passed; the default model if none were."""
        if self.base_models is None:
            return [DEFAULT_BASE_MODEL]
        is_list = isinstance(self.base_models, Sequence) and not isinstance(self.base_models, str)
        return list(self.base_models) if is_list else [self.base_models]

    def _check_models(self, interactions: Interactions) -> list[Model]:
        """Return the base models, after all checks that need no fit."""
        self.check_settings()
        check_memory(self.memory, interactions.n_items)
        n = len(interactions)
        if not n:
            raise InputError("there is no interaction; cross-fitting needs at least two")
        if n < self._count_folds(n):
            raise InputError(f"folds must be at most {n}, the number of interactions; got {self.folds}")
        if interactions.activity.max(initial=0) < 2:
            raise InputError("every user has one interaction only; cross-fitting needs users with two or more")
        shape = interactions.matrix.shape
        models = [resolve_model(model, shape) for model in self._list_base_models()]
        if self.base_models is None:
            models = [choose_base_model(n, shape)]
        for model in models:
            model.check_parameters(interactions.matrix.shape)
        return models

    def _summary(self) -> dict[str, str]:
        fitted = self.interactions_
        size = f"{fitted.n_users:,} users × {fitted.n_items:,} items, {len(fitted):,} interactions"
        lines = {"learned from": size, "noise rate": str(self.noise_rate_)}
        if n_extreme := int(self.issues_.is_extreme.sum()):
            lines["kept out of the fit"] = f"{n_extreme:,} extreme accounts"
        marked = self.noise_probability_[self.basis_ == MARKED]
        if len(marked):
            n_suspect = int(marked.sum(dtype=np.float64))
            lines["marked"] = f"{len(marked) - n_suspect:,} trusted, {n_suspect:,} suspect interactions"
        return lines


def _make_table(interactions: Interactions, columns: dict[str, pa.Array]) -> pa.Table:
    """Return a table of user and item ids and more columns."""
    ids = interactions.to_table("pyarrow").select(["user", "item"])
    return pa.table({"user": ids["user"], "item": ids["item"], **columns})
