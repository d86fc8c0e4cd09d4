"""Features of whole histories: how a user's items co-occur in other users' histories."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.compilation import njit
from prorec._core.parallel import N_CORES, map_in_order

MAX_ITEMS = 100
"""Items of a history that are looked at by default; of a longer history a sample."""
N_FEATURES = 5
_HISTORIES_PER_PIECE = 256


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
    chance = 1 - 1 / np.maximum(activity, 1)
    chance_of_item = np.bincount(matrix.indices, np.repeat(chance, activity), matrix.shape[1])
    features, overlap = np.zeros((len(sizes), N_FEATURES)), np.zeros(len(sizes))
    log = by_item.indptr, by_item.indices, activity, chance, chance_of_item
    starts = range(0, len(sizes), _HISTORIES_PER_PIECE)

    def work(piece: int) -> None:
        end = min(starts[piece] + _HISTORIES_PER_PIECE, len(sizes))
        _describe(*log, indptr, items, sizes, owners.astype(np.int64), starts[piece], end, features, overlap)

    for _ in map_in_order(work, len(starts), N_CORES):
        pass
    return features, overlap


@njit(cache=True, nogil=True)
def _describe(  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    item_start, item_users, activity, chance, chance_of_item, indptr, items, sizes, owners, begin, end,
    features, nearest,
):  # fmt: skip
    """Write features and overlap of the histories from `begin` to `end`.

    A user v who shares n_v items with the history adds (n_v − 1)/a_v to what is observed for each of them, and
    `chance` times the other items' popularity to what is expected. The owner and copies of the history do not.
    """
    n_rows = len(item_users)
    count = np.zeros(len(activity), dtype=np.int32)
    rate = np.zeros(len(activity), dtype=np.float32)
    sharing = np.empty(len(activity), dtype=np.int32)
    is_sharing = np.zeros(len(activity), dtype=np.bool_)
    is_copy = np.zeros(len(activity), dtype=np.bool_)
    for row in range(begin, end):
        own = items[indptr[row] : indptr[row + 1]]
        n, owner = len(own), owners[row]
        if n == 0:
            continue
        is_known = 1 if owner >= 0 else 0
        total, total_log, total_square = 0.0, 0.0, 0.0
        n_sharing, n_listed = 0, 0
        for item in own:
            popularity = item_start[item + 1] - item_start[item] - is_known
            total += popularity
            total_log += np.log(popularity + 1.0)
            total_square += np.log(popularity + 1.0) ** 2
            users = item_users[item_start[item] : item_start[item + 1]]
            n_listed += len(users)
            for user in users:
                count[user] += 1
        if n_listed > len(count):
            for user in range(len(count)):
                if count[user]:
                    sharing[n_sharing] = user
                    n_sharing += 1
        else:
            for item in own:
                for user in item_users[item_start[item] : item_start[item + 1]]:
                    if not is_sharing[user]:
                        is_sharing[user] = True
                        sharing[n_sharing] = user
                        n_sharing += 1
        n_copies, observed, largest = 0, 0.0, 0.0
        for user in sharing[:n_sharing]:
            rate[user] = 0.0
            if user == owner:
                continue
            if count[user] >= 4:
                shared = count[user] * sizes[row] / n
                union = max(sizes[row] + activity[user] - shared, 1.0)
                if shared > largest * union:
                    largest = shared / union
                if shared > 0.5 * union:  # a copy of the history does not make it plausible
                    is_copy[user] = True
                    n_copies += 1
                    continue
            rate[user] = (count[user] - 1.0) * (1.0 - chance[user])
            observed += count[user] * rate[user]
        nearest[row] = min(largest, 1.0)
        expected, n_above = 0.0, 0
        for item in own:
            users = item_users[item_start[item] : item_start[item + 1]]
            seen, weight = _sum_rates(users, rate), chance_of_item[item]
            if is_known:
                weight -= chance[owner]
            if n_copies:
                for user in users:
                    if is_copy[user]:
                        weight -= chance[user]
            by_chance = weight * (total - (len(users) - is_known)) / n_rows
            expected += by_chance
            n_above += seen > by_chance * (1 + 1e-6) + 1e-9  # more than rounding
        for user in sharing[:n_sharing]:
            count[user] = 0
            is_sharing[user] = is_copy[user] = False
        smoothing = 0.05
        features[row, 0] = np.log((observed + smoothing) / (expected + smoothing))
        features[row, 1] = n_above / n
        features[row, 2] = np.log(sizes[row])
        features[row, 3] = total_log / n
        features[row, 4] = np.sqrt(max(total_square / n - (total_log / n) ** 2, 0.0))


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _sum_rates(users, rate):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    total = np.float32(0)
    for user in users:
        total += rate[user]
    return total
