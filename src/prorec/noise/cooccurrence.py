"""Co-occurrence features: how often an item occurs together with the user's other items, in other users' histories.

Every comparison leaves the user and the pair itself out, so a click says nothing for itself and no folds are needed.
For a pair (u, i), let H be the history of u without the pair's own click, and n_v the number of items that user v
shares with H. The features are sums of functions of n_v over the other users v of item i.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.compilation import njit
from prorec._core.parallel import N_CORES, map_in_order
from prorec.noise.cross_fitting import drop_entries
from prorec.noise.plan_ranks import Pairs

N_COOCCURRENCE_FEATURES = 8
MAX_LISTED_USERS = 4_000
"""Maximum number of users of an item that are looked at. A more popular item has a sample: the first of its users in a
random order of all users, so that the samples of two items overlap as much as they can."""
_ROWS_PER_PIECE = 512
_N_SUMS = 8


def compute_cooccurrence(
    reference: csr_array,
    histories: csr_array,
    pairs: Pairs,
    left_out: NDArray[np.integer],
    owners: NDArray[np.integer],
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Compute co-occurrence features of pairs.

    Parameters
    ----------
    reference : csr_array, users × items
        Interactions of the users that pairs are compared with. Those with weight 0 do not count.
    histories : csr_array, users × items
        Interactions of the users of the pairs; usually the same matrix.
    pairs : Pairs
        Rows of `histories`, and items.
    left_out : array of int
        Item that is left out of the user's history for each pair: the pair's own item, or the item of the click that a
        negative was sampled for; −1 for none.
    owners : array of int
        Row of `reference` that each row of `histories` is, which is not compared with itself; −1 for none.
    rng : numpy.random.Generator
        Generator for the samples of users of very popular items.

    Returns
    -------
    array, pairs × `N_COOCCURRENCE_FEATURES`
        With n other users of the item, h items in H and M users in all: log(1 + Σ n_v); the log of Σ n_v over its
        expectation from popularity alone; the log of the mean cosine of the item and the items of H; the log of the
        mean over v of n_v / (activity of v); the largest cosine of H and the history of a user v; the share of users v
        with n_v > 0; the log of the sum of the squared cosines of H and the histories; and log(1 + n).

    Examples
    --------
    Items 0 and 1 occur together, item 2 does not:

    >>> clicks = csr_array([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 1]])
    >>> pairs = Pairs(np.array([2, 2]), np.array([1, 2]))
    >>> rows = np.arange(4)
    >>> features = compute_cooccurrence(clicks, clicks, pairs, np.array([-1, -1]), rows, np.random.default_rng(0))
    >>> np.expm1(features[:, 0]).round()
    array([2., 0.])
    """
    counted, own = drop_entries(reference, reference.data == 0), drop_entries(histories, histories.data == 0)
    item_users = _list_item_users(counted, rng)
    activity = np.diff(counted.indptr).astype(np.int64)
    order = np.lexsort((left_out, pairs.users))
    starts = np.searchsorted(pairs.users[order], np.arange(histories.shape[0] + 1))
    sums = np.zeros((len(order), _N_SUMS))
    arrays = (*item_users, activity, own.indptr, own.indices, owners.astype(np.int64))
    pieces = range(0, histories.shape[0], _ROWS_PER_PIECE)

    def work(index: int) -> None:
        rows = np.arange(pieces[index], min(pieces[index] + _ROWS_PER_PIECE, histories.shape[0]))
        _add_up(*arrays, rows, pairs.items, left_out, order, starts, sums)

    for _ in map_in_order(work, len(pieces), N_CORES):
        pass
    return _to_features(sums, counted.shape[0])


def _to_features(sums: NDArray[np.float64], n_users: int) -> NDArray[np.float64]:
    n_others, shared, cosines, rates, largest, n_sharing, squares, expected = sums.T
    return np.column_stack(
        [
            np.log1p(shared),
            np.log((shared + 0.5) / (n_others * expected / max(n_users, 1) + 0.5)),
            np.log(cosines + 1e-3),
            np.log((rates + 0.05) / (n_others + 1)),
            largest,
            (n_sharing + 0.5) / (n_others + 1),
            np.log(squares + 1e-3),
            np.log1p(n_others),
        ]
    )


def _list_item_users(matrix: csr_array, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the users of each item: the position of each item's first user, and the users."""
    rank = rng.permutation(matrix.shape[0])
    users = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order = np.lexsort((rank[users], matrix.indices))
    counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
    starts = np.append(0, np.cumsum(counts))
    position = np.arange(len(order)) - np.repeat(starts[:-1], counts)
    listed = users[order][position < MAX_LISTED_USERS]
    indptr = np.append(0, np.cumsum(np.minimum(counts, MAX_LISTED_USERS)))
    return indptr.astype(np.int64), listed.astype(np.int32)


@njit(cache=True, nogil=True)
def _add_up(  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    item_start, item_users, activity, history_start, history, owners, rows, items, left_out, order, starts, sums
):
    """Write the sums of each pair.

    The columns are n, Σ n_v, the mean cosine, Σ n_v/activity, the largest cosine, the number of users with n_v > 0,
    Σ cosine², and the number of users of all items of the history.
    """
    n_shared = np.zeros(len(activity), dtype=np.int32)
    inverse_roots = np.zeros(len(activity), dtype=np.float64)
    has_left_out = np.zeros(len(activity), dtype=np.bool_)
    for row in rows:
        if starts[row] == starts[row + 1]:
            continue
        owner = owners[row]
        n_history, n_history_users = 0, 0.0
        for item in history[history_start[row] : history_start[row + 1]]:
            n_others = _count_others(item_start, item_users, item, owner)
            n_history += 1
            n_history_users += n_others
            weight = 1.0 / np.sqrt(max(n_others, 1))
            for user in item_users[item_start[item] : item_start[item + 1]]:
                n_shared[user] += 1
                inverse_roots[user] += weight
        marked = -1
        for pair in order[starts[row] : starts[row + 1]]:
            item, out = items[pair], left_out[pair]
            if out != marked:
                if marked >= 0:
                    has_left_out[item_users[item_start[marked] : item_start[marked + 1]]] = False
                marked = -1
                # A left-out item with weight 0 is not in the history.
                if out >= 0 and _contains(history[history_start[row] : history_start[row + 1]], out):
                    has_left_out[item_users[item_start[out] : item_start[out + 1]]] = True
                    marked = out
            size, n_expected, out_weight = n_history, n_history_users, 0.0
            if marked >= 0:
                n_others = _count_others(item_start, item_users, out, owner)
                size, n_expected, out_weight = size - 1, n_expected - n_others, 1.0 / np.sqrt(max(n_others, 1))
            n, n_sharing, largest, cosines, rates, total, squares = 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0
            for user in item_users[item_start[item] : item_start[item + 1]]:
                if user == owner:
                    continue
                n += 1
                shared = n_shared[user] - has_left_out[user]
                if shared > 0:
                    others = max(activity[user] - 1, 1)
                    n_sharing += 1
                    total += shared
                    rates += shared / others
                    cosines += inverse_roots[user] - out_weight * has_left_out[user]
                    square = shared * shared / (float(size) * others)
                    squares += square
                    largest = max(largest, square)
            sums[pair, 0], sums[pair, 1] = n, total
            sums[pair, 2] = cosines / np.sqrt(max(n, 1)) / max(size, 1)
            sums[pair, 3], sums[pair, 4], sums[pair, 5] = rates, np.sqrt(largest), n_sharing
            sums[pair, 6], sums[pair, 7] = squares, n_expected
        if marked >= 0:
            has_left_out[item_users[item_start[marked] : item_start[marked + 1]]] = False
        for item in history[history_start[row] : history_start[row + 1]]:
            listed = item_users[item_start[item] : item_start[item + 1]]
            n_shared[listed] = 0
            inverse_roots[listed] = 0.0


@njit(cache=True, nogil=True)
def _count_others(item_start, item_users, item, owner):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Return the number of listed users of an item other than the owner."""
    n = item_start[item + 1] - item_start[item]
    for user in item_users[item_start[item] : item_start[item + 1]]:
        if user == owner:
            return n - 1
    return n


@njit(cache=True, nogil=True)
def _contains(sorted_items, item):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    position = np.searchsorted(sorted_items, item)
    return position < len(sorted_items) and sorted_items[position] == item
