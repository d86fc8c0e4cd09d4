"""The yardstick that anything personal must beat: everybody gets what most people like."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from prorec.errors import InputError, whole
from prorec.interactions import Interactions
from prorec.models.base import Recommendations


@dataclass
class Popularity:
    """Rank items by the sum of their weights, the same for all, less what each user has seen.

    >>> from scipy.sparse import csr_array
    >>> clicks = Interactions.from_matrix(csr_array([[1.0, 1, 0], [0, 1, 0], [0, 1, 1]]), users=["a", "b", "c"])
    >>> Popularity().fit(clicks).recommend(["b"], k=2).ranked
    array([[0, 2]], dtype=int32)
    """

    seed: int = 0
    """Every model takes one; nothing here is left to chance, so it changes nothing."""
    interactions_: Interactions = field(init=False, repr=False, compare=False)
    scores_: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    def fit(self, interactions: Interactions) -> Self:
        """Sum the weights of each item."""
        self.interactions_ = interactions
        weights = interactions.matrix.data.astype(np.float64)
        total = np.bincount(interactions.item_codes, weights=weights, minlength=interactions.n_items)
        self.scores_ = total.astype(np.float32)
        return self

    def recommend(self, users: Any, k: int = 10, *, exclude_seen: bool = True) -> Recommendations:
        """The k most popular items for each user id, best first; among equals, in item order."""
        if not hasattr(self, "interactions_"):
            raise InputError("Popularity has not learned anything yet: call fit first")
        known = self.interactions_
        k = whole("k", k, 1, known.n_items, "the number of items")
        rows = known.user_positions(users)
        if (rows < 0).any():
            stranger = np.asarray(users, dtype=object)[int(np.argmax(rows < 0))]
            raise InputError(
                f"user {stranger!r} is not among the {known.n_users:,} users that were learned from"
                " (test.align(train) leaves out the users that train does not have)"
            )
        best_first = np.argsort(-self.scores_, kind="stable").astype(np.int32)
        if exclude_seen:
            ranked = _best_unseen(best_first, known.matrix.indptr, known.matrix.indices, rows, k)
        else:
            ranked = np.tile(best_first[:k], (len(rows), 1))
        scores = np.where(ranked >= 0, self.scores_[ranked], np.float32(0))
        return Recommendations(known.users[rows], ranked, scores, known.items)


@njit(cache=True, nogil=True)
def _best_unseen(
    best_first: NDArray[np.int32],
    indptr: NDArray[np.int32],
    indices: NDArray[np.int32],
    rows: NDArray[np.int64],
    k: int,
) -> NDArray[np.int32]:
    """For each row, the first k of the ranking that are not among its indices; −1 where there are fewer."""
    ranked = np.full((len(rows), k), -1, dtype=np.int32)
    seen_by = np.full(len(best_first), -1, dtype=np.int64)
    for at in range(len(rows)):
        for place in range(indptr[rows[at]], indptr[rows[at] + 1]):
            seen_by[indices[place]] = at
        found = 0
        for item in best_first:
            if found == k:
                break
            if seen_by[item] != at:
                ranked[at, found] = item
                found += 1
    return ranked
