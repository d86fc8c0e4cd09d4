"""Sparse matrices as sets of (user, item) pairs: checks, conversion, union and reindexing.

scipy's compiled code trusts the arrays inside a matrix, so a matrix that somebody else made is checked here first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse

from prorec._core.errors import InputError


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
    InputError
        If it has not two dimensions, or its arrays are not those of a matrix of its shape.
    """
    if not issparse(matrix):
        matrix = coo_array(matrix)
    if matrix.ndim != 2 or max(matrix.shape) >= 2**31:
        raise InputError(f"the matrix must be users × items, fewer than 2^31 of each; it is {matrix.shape}")
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"weights must be real numbers, not {matrix.dtype}")
    if matrix.format in ("csr", "csc", "bsr"):
        check_compressed(matrix)
    entries = matrix.tocoo()
    for name, positions, length in (("row", entries.row, matrix.shape[0]), ("column", entries.col, matrix.shape[1])):
        _check_positions(f"the {name} numbers", positions, length)
    if matrix.format == "bsr":  # this layout fills its blocks with zeros that are no entries
        entries.eliminate_zeros()
    return entries


def check_compressed(matrix: Any, name: str = "matrix") -> None:
    """Refuse a compressed sparse matrix whose arrays do not fit together, before compiled code reads them.

    Parameters
    ----------
    matrix : sparse matrix
        In the layout csr, csc or bsr. Its indices may be in any order, and may repeat.
    name : str, default "matrix"
        Name of the argument, for the message.

    Raises
    ------
    InputError
        If `indptr` does not divide the entries into rows, or an index is outside the matrix.

    Examples
    --------
    >>> matrix = csr_array([[1, 0], [0, 1]])
    >>> matrix.indices[1] = 5
    >>> check_compressed(matrix)
    Traceback (most recent call last):
    prorec._core.errors.InputError: matrix: indices must be from 0 to 1; one is 5. Make the matrix again
    """
    n_rows, n_columns = matrix.shape if matrix.format != "csc" else matrix.shape[::-1]
    if matrix.format == "bsr":
        n_rows, n_columns = n_rows // matrix.blocksize[0], n_columns // matrix.blocksize[1]
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    for part, array in (("indptr", indptr), ("indices", indices)):
        if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
            raise InputError(f"{name}: {part} must be whole numbers in one dimension. {_AGAIN}")
    if not isinstance(data, np.ndarray) or len(data) != len(indices):
        raise InputError(f"{name} must have as many values as indices, {len(indices)}. {_AGAIN}")
    if len(indptr) != n_rows + 1 or indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():
        raise InputError(
            f"{name}: indptr must be {n_rows + 1} numbers that rise from 0 to {len(indices)}, the number of entries. "
            f"{_AGAIN}"
        )
    _check_positions(f"{name}: indices", indices, n_columns)


def is_sorted(matrix: csr_array) -> bool:
    """Return whether the indices of each row rise, so that none repeats; the matrix must be a checked one."""
    rises = matrix.indices[1:] > matrix.indices[:-1]
    starts = matrix.indptr[1:-1]
    rises[starts[(starts > 0) & (starts < matrix.nnz)] - 1] = True
    return bool(rises.all())


def _check_positions(name: str, positions: NDArray[Any], length: int) -> None:
    """Raise InputError unless all positions are from 0 to length − 1."""
    if len(positions) and not (positions.min() >= 0 and positions.max() < length):
        outside = positions[(positions < 0) | (positions >= length)][0]
        raise InputError(f"{name} must be from 0 to {length - 1}; one is {outside}. {_AGAIN}")


_AGAIN = "Make the matrix again"


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
