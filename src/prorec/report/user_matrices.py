"""Rows and columns of the matrix around one user (Figure 3 of the paper): similar users, and the user's own items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

_BLOCK_BYTES = 64e6
_BYTES_PER_PAIR = 12  # a count and a column index, which may be a wide one


def find_neighbors(matrix: csr_array, rows: NDArray[np.int64], limit: int) -> NDArray[np.int32]:
    """Find the users whose items are most similar to those of some users.

    The similarity of two users with item sets A and B is the cosine |A ∩ B| / √(|A||B|), whatever the weights; an
    interaction of weight 0 counts.

    Parameters
    ----------
    matrix : csr_array
        Interactions, users × items.
    rows : ndarray
        Rows of the users to find neighbours of.
    limit : int
        Maximum number of neighbours per user.

    Returns
    -------
    ndarray of int32
        Users × `limit`: rows of the neighbours, the most similar first and the lower row first among equals. It ends
        with −1 where fewer users share an item. Nobody is their own neighbour.

    Examples
    --------
    >>> clicks = csr_array(np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]]))
    >>> find_neighbors(clicks, np.array([0, 1]), 2)
    array([[ 1, -1],
           [ 0,  2]], dtype=int32)
    """
    pattern = csr_array((np.ones(matrix.nnz, dtype=np.int32), matrix.indices, matrix.indptr), shape=matrix.shape)
    if not matrix.has_canonical_format:
        pattern = pattern.copy()
        pattern.sum_duplicates()
        pattern.data[:] = 1
    by_item = csr_array(pattern.T)
    activity = np.diff(pattern.indptr).astype(np.float64)
    neighbors = np.full((len(rows), limit), -1, dtype=np.int32)
    # A row of the product has at most one entry per user, however popular the items are.
    block = max(1, int(_BLOCK_BYTES / (_BYTES_PER_PAIR * max(1, matrix.shape[0]))))
    for start in range(0, len(rows), block):
        block_rows = rows[start : start + block]
        shared = csr_array(pattern[block_rows] @ by_item)
        for index, row in enumerate(block_rows.tolist()):
            part = slice(shared.indptr[index], shared.indptr[index + 1])
            others, counts = shared.indices[part], shared.data[part].astype(np.float64)
            others, counts = others[others != row], counts[others != row]
            # The squared cosine times |A| is a quotient of integers, so that rounding breaks no ties.
            similarity = counts**2 / activity[others]
            best = _select_largest(others, similarity, limit)
            neighbors[start + index, : len(best)] = best
    return neighbors


def drop_popular_items(matrix: csr_array, max_pairs: float) -> csr_array:
    """Remove the most popular items, until few enough pairs of users share an item.

    The search for everybody's neighbours visits each of those pairs. An item that very many users share says little
    about their similarity.

    Parameters
    ----------
    matrix : csr_array
        Interactions, users × items.
    max_pairs : float
        Maximum of Σ popularity² over the remaining items.

    Returns
    -------
    csr_array
        The matrix itself if it has few enough pairs, else a smaller one of the same shape.
    """
    popularity = np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.float64)
    order = np.argsort(popularity, kind="stable")
    is_kept = np.zeros(matrix.shape[1], dtype=bool)
    is_kept[order[np.cumsum(popularity[order] ** 2) <= max_pairs]] = True
    mask = is_kept[matrix.indices]
    if mask.all():
        return matrix
    indptr = np.append(0, np.cumsum(mask))[matrix.indptr]
    return csr_array((matrix.data[mask], matrix.indices[mask], indptr), shape=matrix.shape)


def select_items(matrix: csr_array, weights: NDArray[np.float32], row: int, limit: int) -> NDArray[np.int32]:
    """Select the items of a user that the user's matrix shows.

    Parameters
    ----------
    matrix : csr_array
        Interactions, users × items.
    weights : ndarray
        Weights after relabelling, in the order of `matrix.data`.
    row : int
        The user's row.
    limit : int
        Maximum number of items.

    Returns
    -------
    ndarray of int32
        Columns, in order of falling weight and among equals of the column. If the user has more than `limit` items,
        the first half has the largest weights and the second half the smallest.

    Examples
    --------
    >>> clicks = csr_array(np.ones((1, 5)))
    >>> select_items(clicks, np.array([0.1, 0.5, 0.3, 0.9, 0.2], dtype=np.float32), 0, 3)
    array([3, 1, 0], dtype=int32)
    """
    part = slice(matrix.indptr[row], matrix.indptr[row + 1])
    columns = matrix.indices[part]
    ordered: NDArray[np.int32] = columns[np.lexsort((columns, -weights[part]))]
    if len(ordered) <= limit:
        return ordered
    n_smallest = limit // 2
    return np.concatenate([ordered[: limit - n_smallest], ordered[len(ordered) - n_smallest :]])


def _select_largest(rows: NDArray[np.int32], values: NDArray[np.float64], limit: int) -> NDArray[np.int32]:
    """Return the rows with the largest values, in order of falling value and then of the row."""
    if len(rows) > limit:  # without sorting all of them
        is_large = values >= np.partition(values, len(values) - limit)[len(values) - limit]
        rows, values = rows[is_large], values[is_large]
    largest: NDArray[np.int32] = rows[np.lexsort((rows, -values))][:limit]
    return largest
