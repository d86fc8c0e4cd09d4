"""The ranking metrics, one function each, over the hits of many users at once.

Each has its formula and a worked example: one user with three relevant items, and a top 5 whose second and fifth
items are relevant. Below, h_r is 1 if the r-th item of a user's list is relevant and 0 if not, K is the length of
the list, n the number of relevant items, and P(r) = (h_1 + … + h_r) / r the precision of the first r.

Each function is given the hits among the first K only (`Hits.up_to(k)`, which `ranking_metrics` calls); `k` is there
for the formulas that have K in them.

There are two families. `standard` is what most libraries compute today; `paper` is what the tables of the ProRec
paper were computed with. They differ in NDCG and MAP only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Hits:
    """Where the relevant items stand in the lists: one entry a hit, user by user, best rank first."""

    user: NDArray[np.int64]
    """Which user's list the hit is in."""
    rank: NDArray[np.int64]
    """Its rank in the list, from 1."""
    nth: NDArray[np.int64]
    """How many hits the list has up to it, from 1."""
    n_relevant: NDArray[np.int64]
    """For each user, the number of relevant items; at least 1."""

    @classmethod
    def from_matrix(cls, is_hit: NDArray[np.bool_], n_relevant: NDArray[np.int64]) -> Hits:
        """From a users × ranks matrix that marks the hits."""
        user, place = np.nonzero(is_hit)
        begins = np.searchsorted(user, np.arange(len(n_relevant)))
        return cls(user, place + 1, np.arange(len(user)) - begins[user] + 1, n_relevant)

    def up_to(self, k: int) -> Hits:
        """Only the hits among the first k."""
        first = self.rank <= k
        return Hits(self.user[first], self.rank[first], self.nth[first], self.n_relevant)

    def sum(self, values: Values | None = None) -> Values:
        """For each user, the sum of a value over the user's hits; by default, their number."""
        return np.bincount(self.user, weights=values, minlength=len(self.n_relevant)).astype(np.float64)


EXAMPLE = Hits.from_matrix(np.array([[False, True, False, False, True]]), np.array([3]))
"""The worked example: one user, three relevant items, hits at ranks 2 and 5."""


def recall(hits: Hits, k: int) -> Values:
    """Share of the relevant items that is in the list: Σ h_r / n.

    >>> recall(EXAMPLE, 5)  # 2 of 3
    array([0.66666667])
    """
    return hits.sum() / hits.n_relevant


def precision(hits: Hits, k: int) -> Values:
    """Share of the list that is relevant: Σ h_r / K.

    >>> precision(EXAMPLE, 5)  # 2 of 5
    array([0.4])
    """
    return hits.sum() / k


def ndcg(hits: Hits, k: int) -> Values:
    """Discounted gain against the best list of length K: Σ h_r / log2(r + 1), over Σ_{r ≤ min(n, K)} 1 / log2(r + 1).

    >>> ndcg(EXAMPLE, 5)  # (1/log2(3) + 1/log2(6)) / (1/log2(2) + 1/log2(3) + 1/log2(4))
    array([0.4776237])
    """
    return hits.sum(_discount(hits.rank)) / _ideal(np.minimum(hits.n_relevant, k))


def ndcg_paper(hits: Hits, k: int) -> Values:
    """Discounted gain against a list of all relevant items, not cut at K: the ideal sums over r ≤ n.

    It differs from `ndcg` where a user has more than K relevant items, and is lower there.

    >>> many = Hits.from_matrix(np.array([[False, True, False, False, True]]), np.array([8]))
    >>> ndcg(many, 5), ndcg_paper(many, 5)
    (array([0.34519134]), array([0.25744067]))
    """
    return hits.sum(_discount(hits.rank)) / _ideal(hits.n_relevant)


def average_precision(hits: Hits, k: int) -> Values:
    """Precision at each hit, summed, over the number of relevant items: Σ h_r P(r) / n. Its mean over users is MAP.

    >>> average_precision(EXAMPLE, 5)  # (1/2 + 2/5) / 3
    array([0.3])
    """
    return hits.sum(hits.nth / hits.rank) / hits.n_relevant


def average_precision_paper(hits: Hits, k: int) -> Values:
    """Mean precision over all ranks: Σ_{r ≤ K} P(r) / K.

    >>> average_precision_paper(EXAMPLE, 5)  # (0 + 1/2 + 1/3 + 1/4 + 2/5) / 5
    array([0.29666667])
    """
    # A hit at rank r adds 1/s to the precision at every s from r to K.
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, k + 1))])
    return hits.sum(harmonic[k] - harmonic[hits.rank - 1]) / k


def reciprocal_rank(hits: Hits, k: int) -> Values:
    """One over the rank of the first hit, 0 without one. Its mean over users is MRR.

    >>> reciprocal_rank(EXAMPLE, 5)
    array([0.5])
    """
    return hits.sum(np.where(hits.nth == 1, 1 / hits.rank, 0.0))


def hit_rate(hits: Hits, k: int) -> Values:
    """1 if there is any hit in the list, 0 if not.

    >>> hit_rate(EXAMPLE, 5)
    array([1.])
    """
    return hits.sum((hits.nth == 1).astype(np.float64))


def coverage(ranked: NDArray[np.int32], n_items: int) -> float:
    """Share of all items that is in anybody's list. Of the lists together, so there is no value for each user.

    >>> coverage(np.array([[0, 1], [1, 2]]), n_items=4)
    0.75
    """
    return len(np.unique(ranked[ranked >= 0])) / n_items


def _discount(rank: NDArray[np.int64]) -> Values:
    return 1 / np.log2(rank + 1)


def _ideal(n: NDArray[np.int64]) -> Values:
    return np.cumsum(_discount(np.arange(1, n.max(initial=1) + 1)))[n - 1]


Family = Literal["standard", "paper"]
Metric = Callable[[Hits, int], Values]

_BOTH: dict[str, Metric] = {
    "recall": recall,
    "precision": precision,
    "mrr": reciprocal_rank,
    "hit_rate": hit_rate,
}
FAMILIES: dict[str, dict[str, Metric]] = {
    "standard": {**_BOTH, "ndcg": ndcg, "map": average_precision},
    "paper": {**_BOTH, "ndcg": ndcg_paper, "map": average_precision_paper},
}
