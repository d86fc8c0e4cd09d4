"""Controls: pairs that were not clicked, drawn at random, for clicks to be held against."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

EVERYTHING = "every user has an interaction with every item: there is nothing to hold them against"
CONTROLS = 2  # for each click
LEARN_FROM = 100_000  # clicks: three times as many took twice as long on MovieLens-1M, and found no more


def drawn(
    observed: csr_array, users: NDArray[np.int32], chance: NDArray[np.float64]
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """One item for each of these users, out of those that the user has no interaction with, all alike.

    `chance` has a random number from 0 to 1 for each. Also whether there was any item: somebody who has clicked on
    everything has no controls.

    >>> drawn(csr_array([[1, 0, 1]]), np.zeros(2, dtype=np.int32), np.array([0.2, 0.9]))
    (array([1, 1], dtype=int32), array([ True,  True]))
    """
    left = observed.shape[1] - np.diff(observed.indptr)[users]
    number = (chance * left).astype(np.int64)
    items = np.zeros(len(users), dtype=np.int32)
    _select(observed.indptr.astype(np.int64), observed.indices, users, number, items)
    return items, left > 0


@njit(cache=True, nogil=True)
def _select(indptr, indices, users, number, items):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """The `number`-th item that is not among the user's, from 0: before the k-th of these are indices[k] − k others."""
    for place in range(len(users)):
        begin, low, high = indptr[users[place]], 0, indptr[users[place] + 1] - indptr[users[place]]
        while low < high:
            middle = (low + high) // 2
            if indices[begin + middle] - middle <= number[place]:
                low = middle + 1
            else:
                high = middle
        items[place] = number[place] + low
