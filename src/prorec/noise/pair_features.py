"""Features that separate clicks from sampled negatives: base-model scores, popularity, and ranks among other clicks."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.compilation import njit
from prorec._core.parallel import N_CORES, map_in_order
from prorec.noise.density_ratio import FeatureMatrix
from prorec.noise.plan_ranks import Pairs

Values = NDArray[np.float32]
Column = NDArray[np.float64]


N_OTHER_FEATURES = 4
"""Features besides the two of each base model: two ranks among the user's clicks, the activity rank, popularity."""
ACTIVITY_RANK = -2
"""Column of the features that holds the rank of the user's activity among the item's users."""
_GROUPS_PER_PIECE, _QUERIES_PER_PIECE = 512, 65_536


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
        n_leave_one_out = 0 if leave_one_out is None else leave_one_out.shape[1]
        n_columns = n_leave_one_out + 2 * len(self.percentile_ranks) + N_OTHER_FEATURES
        matrix = np.empty((len(activity_rank), n_columns), dtype=np.float32)
        if leave_one_out is not None:
            matrix[:, :n_leave_one_out] = leave_one_out
        columns = (_log_odds(rank.astype(np.float64)) for rank in self.percentile_ranks)
        others = chain(columns, self.plan_values, user_ranks, (activity_rank, np.log1p(self.popularity)))
        for column, values in enumerate(others, n_leave_one_out):
            matrix[:, column] = values
        return PairFeatures(matrix, self.popularity.astype(np.float64), self.is_cold)


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
    excluded = np.full(len(queries), np.nan, dtype=values.dtype) if excluded is None else excluded
    ranked = values.copy()
    group_pieces = range(0, len(indptr) - 1, _GROUPS_PER_PIECE)
    pieces = range(0, len(queries), _QUERIES_PER_PIECE)
    log_odds = np.empty(len(queries))

    def sort(index: int) -> None:
        begin = group_pieces[index]
        _sort_groups(ranked, indptr[begin : begin + _GROUPS_PER_PIECE + 1])

    def rank(index: int) -> None:
        part = slice(pieces[index], pieces[index] + _QUERIES_PER_PIECE)
        _rank_queries(ranked, indptr, groups[part], queries[part], excluded[part], log_odds[part])

    for work, n_pieces in ((sort, len(group_pieces)), (rank, len(pieces))):
        for _ in map_in_order(work, n_pieces, N_CORES):
            pass
    return log_odds


@njit(cache=True, nogil=True)
def _sort_groups(values, indptr):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    for group in range(len(indptr) - 1):
        values[indptr[group] : indptr[group + 1]].sort()


@njit(cache=True, nogil=True)
def _rank_queries(ranked, indptr, groups, queries, excluded, log_odds):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    for index in range(len(queries)):
        own, query = ranked[indptr[groups[index]] : indptr[groups[index] + 1]], queries[index]
        n_less, n_at_most = np.searchsorted(own, query), np.searchsorted(own, query, side="right")
        n_above = len(own) - n_at_most - (excluded[index] > query)
        n_equal = n_at_most - n_less - (excluded[index] == query)
        n_others = len(own) - (not np.isnan(excluded[index]))
        rank = n_above + 0.5 * n_equal + 0.5
        log_odds[index] = np.log(rank / (n_others + 1 - rank))


def smoothed_log_odds(
    n_above: NDArray[np.integer], n_equal: NDArray[np.integer], n_others: NDArray[np.integer]
) -> Column:
    """Return the log-odds of (a + e/2 + ½)/(n + 1), where a and e of n others are larger and equal.

    The added halves keep the log-odds finite, and put a value with few others near the middle.
    """
    return _log_odds((n_above + 0.5 * n_equal + 0.5) / (n_others + 1))


def _log_odds(rank: Column) -> Column:
    return np.asarray(np.log(rank) - np.log1p(-rank))
