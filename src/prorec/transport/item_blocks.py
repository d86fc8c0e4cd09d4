"""Scores over γ with item factors in several blocks, because one array of them would not fit in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec.transport.factors import Factors
from prorec.transport.scores import Rows, ScaledFactors

_MAX_EXPONENT = 40  # powers of two far from the limits of single precision


class BlockedFactors:
    """Scores over γ of some users, with item factors in blocks, such as mapped files. See `ScaledScores`.

    A block of users × all items is put together from blocks side by side, so thresholds see whole rows. Item factors
    are multiplied without a copy, unless they are so large or so small that products might overflow. Each block of
    items is then scaled when it is used, and freed afterwards.

    Parameters
    ----------
    users : array of float32, users × width
        Factors of the users.
    blocks : sequence of array, each items × width
        Factors of the items.
    gamma : float
        γ, above 0.
    """

    def __init__(self, users: NDArray[np.float32], blocks: Sequence[NDArray[Any]], gamma: float) -> None:
        self._users, self._blocks, self._gamma = users, blocks, gamma
        self.shape = len(users), sum(map(len, blocks))
        largest = np.max([np.abs(block).max(axis=0) for block in blocks], axis=0)
        # Users who don't need double precision have no factor over γ above 96 / (the largest of any item's).
        self._is_safe = bool((np.abs(np.frexp(largest)[1]) <= _MAX_EXPONENT).all())
        self._is_used = largest > 0  # a factor that is 0 for all items may be anything for a user
        needs_double, bound = np.zeros(len(users), dtype=bool), np.zeros(len(users))
        for _, scores in self._scores_by_block(np.arange(len(users))):
            needs_double[scores.order[: scores.n_double]] = True
            np.maximum(bound, scores.score_bound, out=bound)
        self._needs_double = needs_double
        self.n_double = int(needs_double.sum())
        self.order = np.lexsort((-bound, ~needs_double))

    def _scores_by_block(self, rows: Rows) -> Iterator[tuple[slice, ScaledFactors]]:
        """Yield the columns of each block of items, and the scores of some users with these items."""
        start = 0
        for items in self._blocks:
            yield slice(start, start + len(items)), ScaledFactors(Factors(self._users[rows], items), self._gamma)
            start += len(items)

    def compute_single(self, rows: Rows, out: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Compute a block in single precision, see `ScaledScores`."""
        if self._needs_double[rows].any():
            return None
        if self._is_safe:
            scaled = np.where(self._is_used, self._users[rows].astype(np.float64) / self._gamma, 0)
            users, start = scaled.astype(np.float32), 0
            for items in self._blocks:
                np.matmul(users, items.T, out=out[: len(rows), start : start + len(items)])
                start += len(items)
            return out[: len(rows)]
        for columns, scores in self._scores_by_block(rows):
            buffer = np.empty((len(rows), scores.shape[1]), dtype=np.float32)
            block = scores.compute_single(np.arange(len(rows)), buffer)
            assert block is not None, "none of these users needs double precision with any block"
            out[: len(rows), columns] = block
        return out[: len(rows)]

    def compute_double(self, rows: Rows) -> NDArray[np.float64]:
        """Compute a block in double precision, see `ScaledScores`."""
        block = np.empty((len(rows), self.shape[1]))
        for columns, scores in self._scores_by_block(rows):
            block[:, columns] = scores.compute_double(np.arange(len(rows)))
        return block

    def compute_pairs(self, rows: Rows, items: Rows) -> NDArray[np.float64]:
        """Compute scores of single pairs, see `ScaledScores`."""
        values = np.empty(len(rows))
        for columns, scores in self._scores_by_block(np.arange(len(self._users))):
            inside = np.flatnonzero((items >= columns.start) & (items < columns.stop))
            values[inside] = scores.compute_pairs(rows[inside], items[inside] - columns.start)
        return values
