"""Sets of (user, item) pairs, as sparse matrices of which only the pattern counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse


def as_coo(matrix: Any) -> coo_array:
    """A matrix of any sparse layout, or a dense one, by its entries: those that repeat one another stay apart."""
    if not issparse(matrix):
        matrix = coo_array(matrix)
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"weights must be real numbers, not {matrix.dtype}")
    entries = matrix.tocoo()
    if matrix.format == "bsr":  # fills its blocks with zeros that nobody put there
        entries.eliminate_zeros()
    return entries


def union(one: csr_array | None, other: csr_array) -> csr_array:
    """The pairs that are in either; None is no pairs."""
    return other if one is None else csr_array(one + other, dtype=bool)


def reindex(matrix: csr_array, rows: NDArray[Any], cols: NDArray[Any]) -> csr_array:
    """The old rows and columns at the given positions, in that order; empty ones where a position is −1.

    >>> reindex(csr_array([[1, 2], [3, 4]]), np.array([1, -1]), np.array([1, 0])).toarray()
    array([[4, 3],
           [0, 0]])
    """
    new_row = np.full(matrix.shape[0], -1, dtype=np.int32)
    new_col = np.full(matrix.shape[1], -1, dtype=np.int32)
    new_row[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    new_col[cols[cols >= 0]] = np.flatnonzero(cols >= 0)
    old = matrix.tocoo()
    row, col = new_row[old.row], new_col[old.col]
    inside = (row >= 0) & (col >= 0)
    moved = csr_array((old.data[inside], (row[inside], col[inside])), shape=(len(rows), len(cols)))
    moved.sort_indices()
    return moved
