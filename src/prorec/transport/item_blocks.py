"""Scores over γ where even the items' factors are too many to be multiplied at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec.transport.factors import Factors
from prorec.transport.scores import Rows, ScaledFactors

_EXPONENT = 40  # of two: far from what single precision cannot hold


class BlockedFactors:
    """Scores over γ of some users, with items that come in blocks: mapped from files, say.

    A block of users × all items is made of blocks side by side, so thresholds see the whole row. Items are multiplied
    as they are, and no copy is made, unless their factors are so large or small that products might overflow: then each
    block of items is scaled when it is its turn, and let go of after it.

    Parameters
    ----------
    users : factors, users × width
    blocks : factors of items, each items × width
    gamma : γ
    """

    def __init__(self, users: NDArray[np.float32], blocks: Sequence[NDArray[Any]], gamma: float) -> None:
        self._users, self._blocks, self._gamma = users, blocks, gamma
        self.shape = len(users), sum(map(len, blocks))
        largest = np.max([np.abs(block).max(axis=0) for block in blocks], axis=0)
        # Users who don't need double precision have no factor over γ above 96 / (the largest of any item's).
        self._as_they_are = bool((np.abs(np.frexp(largest)[1]) <= _EXPONENT).all())
        self._counts = largest > 0  # of a factor that no item has, a user may have anything
        n_double, reach = np.zeros(len(users), dtype=bool), np.zeros(len(users))
        for _, scores in self._each(np.arange(len(users))):
            n_double[scores.order[: scores.n_double]] = True
            np.maximum(reach, scores.reach, out=reach)
        self._needs_double = n_double
        self.n_double = int(n_double.sum())
        self.order = np.lexsort((-reach, ~n_double))

    def _each(self, rows: Rows) -> Iterator[tuple[slice, ScaledFactors]]:
        """Columns, and scores of some users with the items of those."""
        begin = 0
        for items in self._blocks:
            yield slice(begin, begin + len(items)), ScaledFactors(Factors(self._users[rows], items), self._gamma)
            begin += len(items)

    def compute_single(self, rows: Rows, room: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """The block of some users in `room`, or None where it needs double precision."""
        if self._needs_double[rows].any():
            return None
        if self._as_they_are:
            users, begin = np.where(self._counts, self._users[rows].astype(np.float64) / self._gamma, 0), 0
            users = users.astype(np.float32)
            for items in self._blocks:
                np.matmul(users, items.T, out=room[: len(rows), begin : begin + len(items)])
                begin += len(items)
            return room[: len(rows)]
        everyone = np.arange(len(rows))
        for columns, scores in self._each(rows):
            part = scores.compute_single(everyone, np.empty((len(rows), scores.shape[1]), dtype=np.float32))
            assert part is not None, "none of these users needs double precision with any block"
            room[: len(rows), columns] = part
        return room[: len(rows)]

    def compute_double(self, rows: Rows) -> NDArray[np.float64]:
        """The block of some users, in an array of the caller's own."""
        block = np.empty((len(rows), self.shape[1]))
        for columns, scores in self._each(rows):
            block[:, columns] = scores.compute_double(np.arange(len(rows)))
        return block

    def compute_pairs(self, rows: Rows, items: Rows) -> NDArray[np.float64]:
        """Single pairs."""
        values = np.empty(len(rows))
        for columns, scores in self._each(np.arange(len(self._users))):
            inside = np.flatnonzero((items >= columns.start) & (items < columns.stop))
            values[inside] = scores.compute_pairs(rows[inside], items[inside] - columns.start)
        return values
