"""The inverses (XᵀX + λI)⁻¹ of a matrix of clicks for several λ, on as many cores, with the same bits on any number."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numba.extending import get_cython_function_address
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.compilation import njit
from prorec._core.parallel import N_CORES, map_in_order, single_blas_thread

_COLUMNS_PER_PIECE = 128
_BLOCK = 64


def invert_gram(clicks: csr_array, ridges: Sequence[float]) -> list[NDArray[np.float32]]:
    """Invert XᵀX + λI in single precision.

    Parameters
    ----------
    clicks : csr_array
        Every entry counts as 1. It should have few columns, because the inverses are dense.
    ridges : sequence of float
        Values of λ, above 0.

    Returns
    -------
    list of array
        One inverse for each λ.

    Examples
    --------
    >>> invert_gram(csr_array([[1, 1], [0, 1]]), [1.0])[0].round(3)
    array([[ 0.6, -0.2],
           [-0.2,  0.4]], dtype=float32)
    """
    gram = _count_pairs(clicks)
    with single_blas_thread():  # the last bits must not depend on the number of threads
        return list(map_in_order(lambda index: _invert(gram, ridges[index]), len(ridges), min(N_CORES, len(ridges))))


def _count_pairs(clicks: csr_array) -> NDArray[np.float32]:
    """Return XᵀX above and on the diagonal: how often two columns occur in one row."""
    by_column, n_columns = clicks.tocsc(), clicks.shape[1]
    gram = np.zeros((n_columns, n_columns), dtype=np.float32)
    pieces = range(0, n_columns, _COLUMNS_PER_PIECE)

    def work(piece: int) -> None:
        begin, end = pieces[piece], min(pieces[piece] + _COLUMNS_PER_PIECE, n_columns)
        _count(by_column.indptr, by_column.indices, clicks.indptr, clicks.indices, begin, end, gram)

    for _ in map_in_order(work, len(pieces), N_CORES):
        pass
    return gram


@njit(cache=True, nogil=True)
def _count(column_start, rows, row_start, columns, begin, end, gram):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    for column in range(begin, end):
        line = gram[column]
        for row in rows[column_start[column] : column_start[column + 1]]:
            own = columns[row_start[row] : row_start[row + 1]]
            for other in own[np.searchsorted(own, column) :]:
                line[other] += 1


def _invert(gram: NDArray[np.float32], ridge: float) -> NDArray[np.float32]:
    inverse = gram.copy()
    inverse[np.diag_indices_from(inverse)] += np.float32(ridge)
    for name in ("spotrf", "spotri"):  # Cholesky factor, and the inverse from it
        size, info = ctypes.c_int(len(inverse)), ctypes.c_int()
        # LAPACK counts columns first, so what is above the diagonal here is below it there.
        _lapack(name)(b"L", ctypes.byref(size), inverse.ctypes.data, ctypes.byref(size), ctypes.byref(info))
    _mirror(inverse)
    return inverse


@cache
def _lapack(name: str) -> Any:
    """Return a function of LAPACK that releases the interpreter lock, which those of scipy.linalg.lapack hold."""
    pointer = ctypes.c_void_p
    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return ctypes.CFUNCTYPE(None, ctypes.c_char_p, pointer, pointer, pointer, pointer)(address)


@njit(cache=True, nogil=True)
def _mirror(matrix):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Copy what is above the diagonal below it, in blocks that fit into a cache."""
    for top in range(0, len(matrix), _BLOCK):
        for left in range(top, len(matrix), _BLOCK):
            for row in range(top, min(top + _BLOCK, len(matrix))):
                for column in range(max(left, row + 1), min(left + _BLOCK, len(matrix))):
                    matrix[column, row] = matrix[row, column]
