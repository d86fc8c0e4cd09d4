"""The k best of each row of scores."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

_CHUNK = 64  # so many scores are compared at once; hardly ever is one of them among the best so far


@njit(cache=True, nogil=True)
def top_k(scores: NDArray[np.float32], k: int, ranked: NDArray[np.int32], best: NDArray[np.float32]) -> None:
    """Columns and scores of the k largest of each row, best first; among equals, the first.

    What is −∞ does not count: its place in `ranked` is −1, its score 0.
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
                        place = k - 1
                        while place > 0 and row[column] > values[place - 1]:
                            values[place] = values[place - 1]
                            columns[place] = columns[place - 1]
                            place -= 1
                        values[place] = row[column]
                        columns[place] = column
        for place in range(k):
            if columns[place] < 0:
                values[place] = 0


# Counting without a branch is what lets this run in vector registers.
@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _any_above(part: NDArray[np.float32], bar: np.float32) -> bool:
    count = np.float32(0)
    for place in range(len(part)):
        count += np.float32(1) if part[place] > bar else np.float32(0)
    return bool(count > 0)


@njit(cache=True, nogil=True)
def mask(
    scores: NDArray[np.float32], rows: NDArray[np.int64], indptr: NDArray[np.int32], indices: NDArray[np.int32]
) -> None:
    """Put −∞ where a sparse matrix has entries; row i of the scores is its row rows[i]."""
    for i in range(len(rows)):
        for place in range(indptr[rows[i]], indptr[rows[i] + 1]):
            scores[i, indices[place]] = -np.inf
