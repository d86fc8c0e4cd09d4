"""Features of whole histories: how a user's items co-occur in other users' histories."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.compilation import njit

MAX_ITEMS = 100
"""Items of a history that are looked at by default; of a longer history a sample."""
N_FEATURES = 5


def describe_histories(
    matrix: csr_array,
    histories: list[NDArray[np.int64]],
    owners: NDArray[np.integer],
    rng: np.random.Generator,
    max_items: int = MAX_ITEMS,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return features of histories, each compared with all users but its owner.

    A user v with activity a_v counts with the weight 1 / a_v, so that a bot that clicked everything says nothing.
    The lift of a history is the weighted number of item pairs that occur together, divided by the number expected
    from the items' popularity alone; it is about 1 for items drawn by popularity.

    Parameters
    ----------
    matrix : csr_array
        Users × items.
    histories : list of ndarray of int64
        Items of each history.
    owners : ndarray of int64
        User that each history is of; −1 for a history that is no user's.
    rng : numpy.random.Generator
        Source of the samples of long histories.
    max_items : int, default 100
        Items of a history that are looked at.

    Returns
    -------
    features : ndarray of float64
        Histories × (log lift, share of items with a lift above 1, log size, mean log popularity, its deviation).
    overlap : ndarray of float64
        Largest Jaccard similarity of each history with another user's; 0 if they share fewer than four items.
    """
    by_item = matrix.tocsc()
    sizes = np.array([len(each) for each in histories], dtype=np.int64)
    samples = [rng.choice(each, max_items, replace=False) if len(each) > max_items else each for each in histories]
    indptr = np.concatenate([[0], np.cumsum([len(each) for each in samples])]).astype(np.int64)
    items = np.concatenate([np.empty(0, dtype=np.int64), *samples])
    activity = np.diff(matrix.indptr).astype(np.int64)
    return _describe(
        by_item.indptr.astype(np.int64),
        by_item.indices.astype(np.int64),
        activity,
        indptr,
        items,
        sizes,
        owners.astype(np.int64),
    )


@njit(cache=True, nogil=True)
def _describe(
    item_start: NDArray[np.int64],
    item_users: NDArray[np.int64],
    activity: NDArray[np.int64],
    indptr: NDArray[np.int64],
    items: NDArray[np.int64],
    sizes: NDArray[np.int64],
    owners: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    n_rows = len(item_users)
    features = np.zeros((len(sizes), N_FEATURES))
    nearest = np.zeros(len(sizes))
    count = np.zeros(len(activity), dtype=np.int64)
    for row in range(len(sizes)):
        own = items[indptr[row] : indptr[row + 1]]
        n, owner = len(own), owners[row]
        if n == 0:
            continue
        is_known = 1 if owner >= 0 else 0
        total, total_log, total_square = 0.0, 0.0, 0.0
        for item in own:
            popularity = item_start[item + 1] - item_start[item] - is_known
            total += popularity
            total_log += np.log(popularity + 1.0)
            total_square += np.log(popularity + 1.0) ** 2
            for position in range(item_start[item], item_start[item + 1]):
                count[item_users[position]] += 1
        if is_known:
            count[owner] = 0
        observed, expected, n_above = 0.0, 0.0, 0
        for item in own:
            seen, chance = 0.0, 0.0
            others = total - (item_start[item + 1] - item_start[item] - is_known)
            for position in range(item_start[item], item_start[item + 1]):
                user = item_users[position]
                if user == owner:
                    continue
                shared = count[user] * sizes[row] / n
                jaccard = shared / max(sizes[row] + activity[user] - shared, 1.0)
                if count[user] >= 4 and jaccard > nearest[row]:
                    nearest[row] = min(jaccard, 1.0)
                if count[user] >= 4 and jaccard > 0.5:
                    continue  # a copy of the history does not make it plausible
                seen += (count[user] - 1.0) / activity[user]
                chance += (activity[user] - 1.0) / activity[user] * others / n_rows
            observed += seen
            expected += chance
            n_above += seen > chance
        for item in own:
            for position in range(item_start[item], item_start[item + 1]):
                count[item_users[position]] = 0
        smoothing = 0.05
        features[row, 0] = np.log((observed + smoothing) / (expected + smoothing))
        features[row, 1] = n_above / n
        features[row, 2] = np.log(sizes[row])
        features[row, 3] = total_log / n
        features[row, 4] = np.sqrt(max(total_square / n - (total_log / n) ** 2, 0.0))
    return features, nearest
