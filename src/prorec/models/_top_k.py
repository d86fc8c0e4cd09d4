"""The k best items of each user, from blocks of scores on the CPU."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from prorec._core.compilation import njit
from prorec._core.errors import InputError
from prorec._core.parallel import N_CORES, map_in_order

Ranked = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Item positions and scores, users × k, best first; −1 and 0 where no item is left."""
Pattern = tuple[NDArray[np.int32], NDArray[np.int32]]
"""`indptr` and `indices` of a sparse matrix."""

_BLOCK = 512
"""Users at a time; more do not make the product faster."""
_CHUNK = 64
"""Scores compared at once; hardly ever is one of them among the best so far."""


def rank_in_blocks(
    score: Callable[[slice], NDArray[np.float32]], rows: NDArray[np.int64], k: int, excluded: Pattern | None
) -> Ranked:
    """Score, mask and rank blocks of rows, on all cores.

    Parameters
    ----------
    score : callable
        Returns the scores of all items for a slice of `rows`; the array is overwritten.
    rows : array of int
        Rows of `excluded`, in the order of the result.
    k : int
        Number of items for each row.
    excluded : (indptr, indices), optional
        Pattern of a sparse matrix whose entries are not to be ranked.

    Raises
    ------
    InputError
        If a score of a ranked item is not finite.
    """
    ranked = np.empty((len(rows), k), dtype=np.int32)
    best = np.empty((len(rows), k), dtype=np.float32)

    def rank_block(number: int) -> None:
        part = slice(number * _BLOCK, (number + 1) * _BLOCK)
        scores = score(part)
        if excluded is not None:
            _mask(scores, rows[part], *excluded)
        _top_k(scores, k, ranked[part], best[part])

    for _ in map_in_order(rank_block, -(-len(rows) // _BLOCK), N_CORES):
        pass
    return check_scores(ranked, best)


def check_scores(ranked: NDArray[np.int32], best: NDArray[np.float32]) -> Ranked:
    """Return the arguments, or raise InputError if a score is not finite."""
    if not np.isfinite(best).all():
        raise InputError("scores must be finite in single precision, but some are too large; use smaller parameters")
    return ranked, best


@njit(cache=True, nogil=True)
def _top_k(scores: NDArray[np.float32], k: int, ranked: NDArray[np.int32], best: NDArray[np.float32]) -> None:
    """Write columns and scores of the k largest of each row, best first; the first of equal ones comes first.

    A score of −∞ is not ranked: its column is −1, its score 0.
    """
    n = scores.shape[1]
    for i in range(len(scores)):
        row = scores[i]
        columns, values = ranked[i], best[i]
        columns[:] = -1
        values[:] = -np.inf
        for begin in range(0, n, _CHUNK):
            end = min(begin + _CHUNK, n)
            if _any_above(row[begin:end], values[k - 1]):
                for column in range(begin, end):
                    if row[column] > values[k - 1]:
                        position = k - 1
                        while position > 0 and row[column] > values[position - 1]:
                            values[position] = values[position - 1]
                            columns[position] = columns[position - 1]
                            position -= 1
                        values[position] = row[column]
                        columns[position] = column
        for position in range(k):
            if columns[position] < 0:
                values[position] = 0


# A count without a branch runs in vector registers.
@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _any_above(chunk: NDArray[np.float32], bound: np.float32) -> bool:
    count = np.float32(0)
    for position in range(len(chunk)):
        count += np.float32(1) if chunk[position] > bound else np.float32(0)
    return bool(count > 0)


@njit(cache=True, nogil=True)
def _mask(
    scores: NDArray[np.float32], rows: NDArray[np.int64], indptr: NDArray[np.int32], indices: NDArray[np.int32]
) -> None:
    """Write −∞ where a sparse matrix has entries; row i of the scores is row rows[i] of the matrix."""
    for i in range(len(rows)):
        for entry in range(indptr[rows[i]], indptr[rows[i] + 1]):
            scores[i, indices[entry]] = -np.inf
