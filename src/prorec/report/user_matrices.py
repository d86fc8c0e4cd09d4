"""What stands around one user: the users most like them, and which of their items to show."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

_BYTES = 64e6
_PER_PAIR = 12  # bytes: a count, a column, and room for a wider column where there are very many


def find_neighbors(matrix: csr_array, users: NDArray[np.int64], most: int) -> NDArray[np.int32]:
    """For each of some rows, the rows of the users most like it: users × `most`, the most like first, −1 at the end.

    Two users are as like as the cosine between what they have clicked on, |A ∩ B| / √(|A||B|), whatever the weights;
    what weighs 0 was clicked on too. Among equals, the lower row is first. Nobody is their own neighbour, nor is
    anybody who shares no item.

    >>> clicks = csr_array(np.array([[1, 1, 0], [1, 1, 1], [0, 0, 1]]))
    >>> find_neighbors(clicks, np.array([0, 1]), 2)
    array([[ 1, -1],
           [ 0,  2]], dtype=int32)
    """
    pattern = _pattern(matrix)
    by_item = csr_array(pattern.T)
    activity = np.diff(pattern.indptr).astype(np.float64)
    found = np.full((len(users), most), -1, dtype=np.int32)
    # However popular the items are, a row of the product has no more than one entry for each user.
    block = max(1, int(_BYTES / (_PER_PAIR * max(1, matrix.shape[0]))))
    for begin in range(0, len(users), block):
        rows = users[begin : begin + block]
        shared = csr_array(pattern[rows] @ by_item)
        for place, row in enumerate(rows.tolist(), begin):
            part = slice(shared.indptr[place - begin], shared.indptr[place - begin + 1])
            others = shared.indices[part]
            # The cosine's square times |A|, a quotient of whole numbers: rounding makes no two of the same differ.
            like = shared.data[part].astype(np.float64) ** 2 / activity[others]
            best = _best(others, np.where(others == row, -1.0, like), most)
            found[place, : len(best)] = best
    return found


def drop_popular_items(matrix: csr_array, most: float) -> csr_array:
    """The same without the most popular items, so many of them that no more than `most` pairs of users share one.

    Looking for everybody's neighbours goes through those pairs, and an item that very many share tells little of who is
    like whom. Where there are fewer pairs anyway, nothing is left out.
    """
    popularity = np.bincount(matrix.indices, minlength=matrix.shape[1]).astype(np.float64)
    order = np.argsort(popularity, kind="stable")
    kept = np.zeros(matrix.shape[1], dtype=bool)
    kept[order[np.cumsum(popularity[order] ** 2) <= most]] = True
    here = kept[matrix.indices]
    if here.all():
        return matrix
    indptr = np.append(0, np.cumsum(here))[matrix.indptr]
    return csr_array((matrix.data[here], matrix.indices[here], indptr), shape=matrix.shape)


def _pattern(matrix: csr_array) -> csr_array:
    """Ones wherever something stands, each pair once."""
    ones = csr_array((np.ones(matrix.nnz, dtype=np.int32), matrix.indices, matrix.indptr), shape=matrix.shape)
    if not matrix.has_canonical_format:
        ones = ones.copy()
        ones.sum_duplicates()
        ones.data[:] = 1
    return ones


def _best(others: NDArray[np.int32], like: NDArray[np.float64], most: int) -> NDArray[np.int32]:
    """The rows with the largest values; one below 0 is none."""
    kept = np.flatnonzero(like >= 0)
    if len(kept) > most:
        kept = kept[like[kept] >= np.partition(like[kept], len(kept) - most)[len(kept) - most]]
    best: NDArray[np.int32] = others[kept[np.lexsort((others[kept], -like[kept]))]][:most]
    return best


def select_items(matrix: csr_array, weights: NDArray[np.float32], user: int, most: int) -> NDArray[np.int32]:
    """The columns of a row's own items, those with most weight first; among equals, in their order.

    Where there are more than `most`, the first half is of those with the most weight and the second of those with the
    least. `weights` are in the order of `matrix.data`.

    >>> clicks = csr_array(np.ones((1, 5)))
    >>> select_items(clicks, np.array([0.1, 0.5, 0.3, 0.9, 0.2], dtype=np.float32), 0, 3)
    array([3, 1, 0], dtype=int32)
    """
    own = slice(matrix.indptr[user], matrix.indptr[user + 1])
    columns, worth = matrix.indices[own], weights[own]
    ordered: NDArray[np.int32] = columns[np.lexsort((columns, -worth))]
    if len(ordered) <= most:
        return ordered
    last = most // 2
    return np.concatenate([ordered[: most - last], ordered[len(ordered) - last :]])
