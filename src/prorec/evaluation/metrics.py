"""Ranking metrics: one function each, over the hits of many users at once.

In the formulas h_r is 1 if the r-th item of a user's list is relevant and 0 otherwise, K is the length of the list, n
the number of the user's relevant items, and P(r) = (h_1 + … + h_r) / r the precision of the first r items. The worked
examples have one user with three relevant items, whose list of five has relevant items at ranks 2 and 5.

Each function takes the hits among the first K items (`Hits.up_to(k)`, which `ranking_metrics` calls) and K itself, for
the formulas that contain it. It returns one value per user.

There are two families. `standard` has the definitions that most libraries use today. `paper` has the definitions behind
the tables of the ProRec paper. They differ in NDCG and MAP only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
"""One value per user."""


@dataclass(frozen=True)
class Hits:
    """Relevant items in the users' lists: one entry per hit, user by user, best rank first."""

    user: NDArray[np.int64]
    """Position of the user whose list has the hit."""
    rank: NDArray[np.int64]
    """Rank of the hit in the list, from 1."""
    nth: NDArray[np.int64]
    """Number of hits in the list up to and including this one."""
    n_relevant: NDArray[np.int64]
    """Number of relevant items of each user; at least 1."""

    @classmethod
    def from_matrix(cls, is_hit: NDArray[np.bool_], n_relevant: NDArray[np.int64]) -> Hits:
        """Make hits from a matrix of users × ranks that marks them.

        Parameters
        ----------
        is_hit : array of bool, users × ranks
            Whether the item at a rank is relevant.
        n_relevant : array of int
            Number of relevant items of each user.

        Returns
        -------
        Hits
        """
        user, position = np.nonzero(is_hit)
        first_hit = np.searchsorted(user, np.arange(len(n_relevant)))
        return cls(user, position + 1, np.arange(len(user)) - first_hit[user] + 1, n_relevant)

    def up_to(self, k: int) -> Hits:
        """Return the hits among the first k items of each list."""
        is_within = self.rank <= k
        return Hits(self.user[is_within], self.rank[is_within], self.nth[is_within], self.n_relevant)

    def sum(self, values: Values | None = None) -> Values:
        """Return the sum of a value over each user's hits, or their number if there are no values."""
        return np.bincount(self.user, weights=values, minlength=len(self.n_relevant)).astype(np.float64)


EXAMPLE = Hits.from_matrix(np.array([[False, True, False, False, True]]), np.array([3]))
"""The worked example: one user, three relevant items, hits at ranks 2 and 5."""


def recall(hits: Hits, k: int) -> Values:
    """Return the share of the relevant items that is in the list, Σ h_r / n.

    >>> recall(EXAMPLE, 5)  # 2 of 3
    array([0.66666667])
    """
    return hits.sum() / hits.n_relevant


def precision(hits: Hits, k: int) -> Values:
    """Return the share of the list that is relevant, Σ h_r / K.

    >>> precision(EXAMPLE, 5)  # 2 of 5
    array([0.4])
    """
    return hits.sum() / k


def ndcg(hits: Hits, k: int) -> Values:
    """Return the discounted gain, relative to the best list of length K.

    The gain is Σ h_r / log2(r + 1); that of the best list is Σ_{r ≤ min(n, K)} 1 / log2(r + 1).

    >>> ndcg(EXAMPLE, 5)  # (1/log2(3) + 1/log2(6)) / (1/log2(2) + 1/log2(3) + 1/log2(4))
    array([0.4776237])
    """
    return hits.sum(_discount(hits.rank)) / _ideal_gain(np.minimum(hits.n_relevant, k))


def ndcg_paper(hits: Hits, k: int) -> Values:
    """Return the discounted gain, relative to a list of all relevant items: the ideal sum is over r ≤ n.

    It is lower than `ndcg` for users with more than K relevant items.

    >>> many = Hits.from_matrix(np.array([[False, True, False, False, True]]), np.array([8]))
    >>> ndcg(many, 5), ndcg_paper(many, 5)
    (array([0.34519134]), array([0.25744067]))
    """
    return hits.sum(_discount(hits.rank)) / _ideal_gain(hits.n_relevant)


def average_precision(hits: Hits, k: int) -> Values:
    """Return the precision at each hit, summed, over the number of relevant items: Σ h_r·P(r) / n.

    Its mean over users is MAP.

    >>> average_precision(EXAMPLE, 5)  # (1/2 + 2/5) / 3
    array([0.3])
    """
    return hits.sum(hits.nth / hits.rank) / hits.n_relevant


def average_precision_paper(hits: Hits, k: int) -> Values:
    """Return the mean precision over all ranks, Σ_{r ≤ K} P(r) / K.

    >>> average_precision_paper(EXAMPLE, 5)  # (0 + 1/2 + 1/3 + 1/4 + 2/5) / 5
    array([0.29666667])
    """
    # A hit at rank r adds 1/s to the precision at every s from r to K.
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, k + 1))])
    return hits.sum(harmonic[k] - harmonic[hits.rank - 1]) / k


def reciprocal_rank(hits: Hits, k: int) -> Values:
    """Return 1 over the rank of the first hit, or 0 if there is no hit. Its mean over users is MRR.

    >>> reciprocal_rank(EXAMPLE, 5)
    array([0.5])
    """
    return hits.sum(np.where(hits.nth == 1, 1 / hits.rank, 0.0))


def hit_rate(hits: Hits, k: int) -> Values:
    """Return 1 if there is a hit in the list, and 0 otherwise.

    >>> hit_rate(EXAMPLE, 5)
    array([1.])
    """
    return hits.sum((hits.nth == 1).astype(np.float64))


def coverage(ranked: NDArray[np.int32], n_items: int) -> float:
    """Return the share of all items that is in at least one list.

    Parameters
    ----------
    ranked : array of int, users × ranks
        Item positions; −1 for no item.
    n_items : int
        Number of all items.

    Returns
    -------
    float
        One value for all lists together, so there is none per user.

    Examples
    --------
    >>> coverage(np.array([[0, 1], [1, 2]]), n_items=4)
    0.75
    """
    return len(np.unique(ranked[ranked >= 0])) / n_items


def _discount(rank: NDArray[np.int64]) -> Values:
    return 1 / np.log2(rank + 1)


def _ideal_gain(n: NDArray[np.int64]) -> Values:
    """Return the discounted gain of n relevant items at the first n ranks, for each user's n."""
    return np.cumsum(_discount(np.arange(1, n.max(initial=1) + 1)))[n - 1]


Family = Literal["standard", "paper"]
Metric = Callable[[Hits, int], Values]

_COMMON: dict[str, Metric] = {
    "recall": recall,
    "precision": precision,
    "mrr": reciprocal_rank,
    "hit_rate": hit_rate,
}
FAMILIES: dict[str, dict[str, Metric]] = {
    "standard": {**_COMMON, "ndcg": ndcg, "map": average_precision},
    "paper": {**_COMMON, "ndcg": ndcg_paper, "map": average_precision_paper},
}
"""The metrics of each family, by the name that stands before `@k`."""
