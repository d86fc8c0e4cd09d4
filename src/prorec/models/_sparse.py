"""Sparse matrix times dense matrix, on all cores."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._parallel import in_order
from prorec._threads import CORES


def times(matrix: csr_array, dense: NDArray[np.float32]) -> NDArray[np.float32]:
    """Matrix @ dense, in single precision.

    >>> times(csr_array([[1.0, 0.0], [2.0, 3.0]]), np.eye(2, dtype=np.float32))
    array([[1., 0.],
           [2., 3.]], dtype=float32)
    """
    out = np.zeros((matrix.shape[0], dense.shape[1]), dtype=np.float32)
    dense = np.ascontiguousarray(dense, dtype=np.float32)
    data = matrix.data.astype(np.float32, copy=False)
    cuts = balanced(matrix.indptr, 2 * CORES)

    def work(place: int) -> None:
        _times(data, matrix.indices, matrix.indptr, dense, cuts[place], cuts[place + 1], out)

    for _ in in_order(work, len(cuts) - 1, CORES):
        pass
    return out


def balanced(indptr: NDArray[np.int32], parts: int) -> list[int]:
    """Where to cut rows so that each part has about as many entries (a row itself counts as one)."""
    n_rows = len(indptr) - 1
    work = indptr + np.arange(n_rows + 1)
    cuts = np.searchsorted(work, np.linspace(0, work[-1], parts + 1)[1:-1]).tolist()
    cuts = [0, *cuts, n_rows]
    return [0, *(cut for before, cut in pairwise(cuts) if cut > before)]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _times(
    data: NDArray[np.float32],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int32],
    dense: NDArray[np.float32],
    begin: int,
    end: int,
    out: NDArray[np.float32],
) -> None:
    width = dense.shape[1]
    for row in range(begin, end):
        target = out[row]
        for place in range(indptr[row], indptr[row + 1]):
            source, weight = dense[indices[place]], data[place]
            for column in range(width):
                target[column] += weight * source[column]
