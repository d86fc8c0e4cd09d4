"""Folds: each interaction is left out of the learning once, and judged then."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array


def dealt(matrix: csr_array, n_folds: int, rng: np.random.Generator) -> NDArray[np.int16]:
    """The fold of each interaction, in the order of `matrix.data`.

    Each user's interactions are dealt out like cards, so that as much as possible of every user is learned from in
    every fold; who gets the first card is drawn for each user.

    >>> folds = dealt(csr_array(np.ones((2, 6))), 3, np.random.default_rng(0))
    >>> np.bincount(folds[:6]), np.bincount(folds[6:])
    (array([2, 2, 2]), array([2, 2, 2]))
    """
    chance = rng.random(matrix.nnz)
    return dealt_by(matrix.indptr, n_folds, chance, rng.integers(n_folds, size=matrix.shape[0]))


def dealt_by(
    indptr: NDArray[np.integer], n_folds: int, chance: NDArray[np.float64], first: NDArray[np.integer]
) -> NDArray[np.int16]:
    """The same where chance comes from elsewhere: cards go in the order of `chance`, each user's to `first` first."""
    users = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.lexsort((chance, users))
    card = np.empty(len(users), dtype=np.int64)
    card[order] = np.arange(len(users)) - indptr[users]
    return np.asarray((card + first[users]) % n_folds, dtype=np.int16)


def without(matrix: csr_array, left_out: NDArray[np.bool_]) -> csr_array:
    """The matrix without some of its entries."""
    kept = np.append(0, np.cumsum(~left_out))
    return csr_array(
        (matrix.data[~left_out], matrix.indices[~left_out], kept[matrix.indptr].astype(matrix.indptr.dtype)),
        shape=matrix.shape,
    )
