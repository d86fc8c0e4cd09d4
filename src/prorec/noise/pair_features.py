"""Features that separate clicks from sampled negatives: base-model scores, popularity, and ranks among other clicks."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.noise.density_ratio import FeatureMatrix
from prorec.noise.plan_ranks import Pairs

Values = NDArray[np.float32]
Column = NDArray[np.float64]


N_OTHER_FEATURES = 4
"""Features besides the two of each base model: two ranks among the user's clicks, the activity rank, popularity."""
ACTIVITY_RANK = -2
"""Column of the features that holds the rank of the user's activity among the item's users."""


class PairFeatures(NamedTuple):
    """Features of pairs, as the density-ratio classifier takes them."""

    matrix: FeatureMatrix
    """Pairs × features; the last column is log(1 + popularity)."""
    popularity: Column
    """Popularity of each pair's item in the training part."""
    is_cold: NDArray[np.bool_]
    """Whether no other interaction of the user was in the training part, so that only popularity is known."""

    def at(self, positions: slice | NDArray[np.int64]) -> PairFeatures:
        """Return the features of the pairs at some positions."""
        return PairFeatures(self.matrix[positions], self.popularity[positions], self.is_cold[positions])


class PairScores(NamedTuple):
    """Results of base models that were not trained on the pairs."""

    plan_values: Values
    """Models × pairs: log π."""
    percentile_ranks: Values
    """Models × pairs: share of the user's unobserved items with a larger plan value."""
    popularity: Values
    """Popularity of each pair's item in the training part."""
    is_cold: NDArray[np.bool_]
    """Whether no other interaction of the user was in the training part."""

    @classmethod
    def allocate(cls, n_models: int, n_pairs: int) -> Self:
        """Return scores to be filled in: plan values of 0, percentile ranks of ½, and no cold users."""
        zeros = np.zeros((n_models, n_pairs), dtype=np.float32)
        return cls(zeros, zeros + np.float32(0.5), np.empty(n_pairs, np.float32), np.zeros(n_pairs, dtype=bool))

    def put(self, positions: NDArray[np.int64], part: PairScores) -> None:
        """Set the results of the pairs at some positions."""
        self.plan_values[:, positions], self.percentile_ranks[:, positions] = part.plan_values, part.percentile_ranks
        self.popularity[positions], self.is_cold[positions] = part.popularity, part.is_cold

    @property
    def mean_percentile_rank(self) -> Values:
        """Percentile rank of each pair, averaged over the base models."""
        return np.asarray(self.percentile_ranks.mean(axis=0))

    def to_features(
        self, user_ranks: list[Column], activity_rank: Column, leave_one_out: FeatureMatrix | None = None
    ) -> PairFeatures:
        """Combine scores and ranks into features.

        Parameters
        ----------
        user_ranks : list of arrays
            Result of `ReferenceClicks.rank_among_user_clicks`.
        activity_rank : array
            Result of `ReferenceClicks.rank_among_item_users`.
        leave_one_out : array, pairs × features, optional
            Result of `compute_leave_one_out_features`.

        Returns
        -------
        PairFeatures
            With columns for the leave-one-out features, the log-odds of the percentile ranks, the plan values, the
            given ranks and log(1 + popularity).
        """
        ranks = self.percentile_ranks.astype(np.float64)
        rank_log_odds = np.log(ranks) - np.log1p(-ranks)
        columns = [
            *(() if leave_one_out is None else leave_one_out.T),
            *rank_log_odds,
            *self.plan_values,
            *user_ranks,
            activity_rank,
            np.log1p(self.popularity),
        ]
        return PairFeatures(np.column_stack(columns), self.popularity.astype(np.float64), self.is_cold)


class ReferenceClicks(NamedTuple):
    """Clicks that pairs are ranked among."""

    matrix: csr_array
    """Users × items; each entry is a click."""
    percentile_rank: Values
    """Mean percentile rank of each click, in the order of `matrix.data`."""
    popularity: Values
    """Popularity of each click's item in the training part."""

    def rank_among_user_clicks(
        self, scores: PairScores, pairs: Pairs, excluded: NDArray[np.int64] | None = None
    ) -> list[Column]:
        """Rank each pair's popularity and mean percentile rank among those of the user's other clicks.

        Parameters
        ----------
        scores : PairScores
            Popularity and percentile ranks of the pairs.
        pairs : Pairs
            Users and items.
        excluded : array of int, optional
            Position of one click per pair that the pair is not compared with: the click itself, or the click that a
            negative was sampled for. By default, no click is excluded.

        Returns
        -------
        list of two arrays
            Log-odds of the ranks by popularity and by percentile rank.
        """
        columns = (self.popularity, scores.popularity), (self.percentile_rank, scores.mean_percentile_rank)
        return [
            rank_within_groups(
                values, self.matrix.indptr, pairs.users, queries, None if excluded is None else values[excluded]
            )
            for values, queries in columns
        ]

    def rank_among_item_users(
        self, pairs: Pairs, activity: Values, is_click: NDArray[np.bool_] | bool = False
    ) -> Column:
        """Rank each pair's user by activity among the item's other users.

        Parameters
        ----------
        pairs : Pairs
            Users and items.
        activity : array
            Activity of each pair's user.
        is_click : array of bool, default False
            Whether each pair is one of these clicks, so that its user is not compared with itself.

        Returns
        -------
        array
            Log-odds of the ranks.
        """
        by_item = self.matrix.tocsc()
        activities = np.diff(self.matrix.indptr).astype(np.float32)[by_item.indices]
        excluded = np.where(is_click, activity, np.float32(np.nan))
        return rank_within_groups(activities, by_item.indptr, pairs.items, activity, excluded)


def rank_within_groups(
    values: Values,
    indptr: NDArray[np.integer],
    groups: NDArray[np.integer],
    queries: Values,
    excluded: Values | None = None,
) -> Column:
    """Rank each query value among the values of its group, and return the log-odds of the rank.

    Parameters
    ----------
    values : array
        Values of all groups, one group after the other.
    indptr : array of int
        Position of each group's first value, and the number of values.
    groups : array of int
        Group of each query.
    queries : array
        Values to rank.
    excluded : array, optional
        One value of the group that the query is not compared with, usually its own, or NaN. By default, there is none.

    Returns
    -------
    array
        Log-odds of `smoothed_log_odds`.

    Examples
    --------
    >>> values = np.array([1, 2, 3], dtype=np.float32)
    >>> rank_within_groups(values, np.array([0, 3]), np.zeros(3, dtype=np.int32), values, values).round(2)
    array([ 1.61,  0.  , -1.61])
    """
    excluded = np.full(len(queries), np.nan) if excluded is None else excluded
    # One integer key per value orders by group first, so that a single search serves all groups.
    distinct, codes = np.unique(np.concatenate([values, queries]), return_inverse=True)
    sizes = np.diff(indptr)
    value_keys = np.sort(np.repeat(np.arange(len(sizes)), sizes) * len(distinct) + codes[: len(values)])
    query_keys = groups.astype(np.int64) * len(distinct) + codes[len(values) :]
    n_at_most = np.searchsorted(value_keys, query_keys, side="right")
    n_above = indptr[1:][groups] - n_at_most - (excluded > queries)
    n_equal = n_at_most - np.searchsorted(value_keys, query_keys, side="left") - (excluded == queries)
    return smoothed_log_odds(n_above, n_equal, sizes[groups] - ~np.isnan(excluded))


def smoothed_log_odds(
    n_above: NDArray[np.integer], n_equal: NDArray[np.integer], n_others: NDArray[np.integer]
) -> Column:
    """Return the log-odds of (a + e/2 + ½)/(n + 1), where a and e of n others are larger and equal.

    The added halves keep the log-odds finite, and put a value with few others near the middle.
    """
    rank = (n_above + 0.5 * n_equal + 0.5) / (n_others + 1)
    return np.asarray(np.log(rank) - np.log1p(-rank))
