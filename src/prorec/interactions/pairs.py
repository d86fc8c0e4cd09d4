"""Sets of (user, item) pairs as sparse matrices, of which only the positions of the entries count."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse


def as_coo(matrix: Any) -> coo_array:
    """Return the entries of a matrix; entries that repeat a position stay separate.

    Parameters
    ----------
    matrix : sparse matrix or array_like
        Sparse in any layout, or dense.

    Returns
    -------
    coo_array

    Raises
    ------
    TypeError
        If its values are not real numbers.
    """
    if not issparse(matrix):
        matrix = coo_array(matrix)
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"weights must be real numbers, not {matrix.dtype}")
    entries = matrix.tocoo()
    if matrix.format == "bsr":  # this layout fills its blocks with zeros that are no entries
        entries.eliminate_zeros()
    return entries


def union(first: csr_array | None, second: csr_array) -> csr_array:
    """Return the pairs that are in either of two sets.

    Parameters
    ----------
    first : csr_array, optional
        A set of pairs; None is the empty set.
    second : csr_array
        Another set of pairs, of the same shape.

    Returns
    -------
    csr_array
        With the value True at each pair.
    """
    return second if first is None else csr_array(first + second, dtype=bool)


def reindex(matrix: csr_array, rows: NDArray[Any], cols: NDArray[Any]) -> csr_array:
    """Return a matrix of chosen rows and columns of another one.

    Parameters
    ----------
    matrix : csr_array
        The matrix to choose from.
    rows, cols : ndarray of int
        Position of each new row and column in the old matrix, each at most once; −1 for an empty one.

    Returns
    -------
    csr_array
        With sorted indices.

    Examples
    --------
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
