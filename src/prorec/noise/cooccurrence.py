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
from prorec.noise.grouping import group_positions
from prorec.noise.plan_ranks import Pairs

N_COOCCURRENCE_FEATURES = 8
MAX_LISTED_USERS = 4_000
"""Maximum number of users of an item that are looked at. A more popular item has a sample: the first of its users in a
random order of all users, so that the samples of two items overlap as much as they can."""
_ROWS_PER_PIECE = 512


def compute_cooccurrence(
    reference: csr_array,
    histories: csr_array,
    pairs: Pairs,
    left_out: NDArray[np.integer],
    owners: NDArray[np.integer],
    rng: np.random.Generator,
) -> NDArray[np.float32]:
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
    array([2., 0.], dtype=float32)
    """
    counted, own = drop_entries(reference, reference.data == 0), drop_entries(histories, histories.data == 0)
    item_users = _list_item_users(counted, rng)
    inverse_activity = (1 / np.maximum(np.diff(counted.indptr) - 1, 1)).astype(np.float32)
    by_left_out, _ = group_positions(left_out + 1, histories.shape[1] + 1)
    order, starts = group_positions(pairs.users, histories.shape[0], by_left_out)
    features = np.empty((len(order), N_COOCCURRENCE_FEATURES), dtype=np.float32)
    arrays = (*item_users, inverse_activity, own.indptr, own.indices, owners.astype(np.int64))
    n_users, pieces = max(counted.shape[0], 1), range(0, histories.shape[0], _ROWS_PER_PIECE)

    def work(index: int) -> None:
        rows = np.arange(pieces[index], min(pieces[index] + _ROWS_PER_PIECE, histories.shape[0]))
        _describe_pairs(*arrays, rows, pairs.items, left_out, order, starts, n_users, MAX_LISTED_USERS, features)

    for _ in map_in_order(work, len(pieces), N_CORES):
        pass
    return features


def _list_item_users(matrix: csr_array, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the users of each item: the position of each item's first user, and the users."""
    rank = rng.permutation(matrix.shape[0])
    users = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    order, _ = group_positions(matrix.indices, matrix.shape[1], group_positions(rank[users], matrix.shape[0])[0])
    counts = np.bincount(matrix.indices, minlength=matrix.shape[1])
    starts = np.append(0, np.cumsum(counts))
    position = np.arange(len(order)) - np.repeat(starts[:-1], counts)
    listed = users[order][position < MAX_LISTED_USERS]
    indptr = np.append(0, np.cumsum(np.minimum(counts, MAX_LISTED_USERS)))
    return indptr.astype(np.int64), listed.astype(np.int32)


@njit(cache=True, nogil=True)
def _describe_pairs(  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    item_start, item_users, inverse_activity, history_start, history, owners, rows, items, left_out, order, starts,
    n_users, max_listed, features,
):  # fmt: skip
    """Write the features of each pair of some rows."""
    n_shared = np.zeros(len(inverse_activity), dtype=np.float32)
    inverse_roots = np.zeros(len(inverse_activity), dtype=np.float32)
    has_left_out = np.zeros(len(inverse_activity), dtype=np.float32)
    for row in rows:
        if starts[row] == starts[row + 1]:
            continue
        owner, own = owners[row], history[history_start[row] : history_start[row + 1]]
        n_history_users, n_listed = 0.0, 0
        for item in own:
            users = item_users[item_start[item] : item_start[item + 1]]
            n_others = len(users) - _is_listed(users, owner, max_listed)
            n_history_users += n_others
            n_listed += len(users)
            weight = np.float32(1.0 / np.sqrt(max(n_others, 1)))
            for user in users:
                n_shared[user] += np.float32(1)
                inverse_roots[user] += weight
        if owner >= 0:  # who is not compared with itself
            n_shared[owner] = inverse_roots[owner] = 0
        marked = -1
        for pair in order[starts[row] : starts[row + 1]]:
            item, out = items[pair], left_out[pair]
            size, n_expected, out_weight = len(own), n_history_users, np.float32(0)
            if out >= 0 and _contains(own, out):  # a left-out item with weight 0 is not in the history
                users = item_users[item_start[out] : item_start[out + 1]]
                n_others = len(users) - _is_listed(users, owner, max_listed)
                size, n_expected = size - 1, n_expected - n_others
                out_weight = np.float32(1.0 / np.sqrt(max(n_others, 1)))
            else:
                out = -1
            users = item_users[item_start[item] : item_start[item + 1]]
            n = len(users) - (_contains(own, item) and _is_listed(users, owner, max_listed))
            if out == item:  # which all of its users have
                sums = _add_up_own_click(users, n_shared, inverse_roots, inverse_activity)
                n_having = np.float32(n)
            else:
                if out != marked:
                    for each, value in ((marked, np.float32(0)), (out, np.float32(1))):
                        if each >= 0:
                            for user in item_users[item_start[each] : item_start[each + 1]]:
                                has_left_out[user] = value
                    if owner >= 0:
                        has_left_out[owner] = 0
                    marked = out
                sums, n_having = _add_up(users, n_shared, inverse_roots, has_left_out, inverse_activity)
            total, rates, roots, squares, largest, n_sharing = sums
            # Without shared items only rounding is left of the roots.
            cosines = (roots - out_weight * n_having) / np.sqrt(max(n, 1)) / max(size, 1) if total > 0 else 0.0
            own_features = features[pair]
            own_features[0] = np.log1p(total)
            own_features[1] = np.log((total + 0.5) / (n * n_expected / n_users + 0.5))
            own_features[2] = np.log(cosines + 1e-3)
            own_features[3] = np.log((rates + 0.05) / (n + 1))
            own_features[4] = np.sqrt(largest / max(size, 1))
            own_features[5] = (n_sharing + 0.5) / (n + 1)
            own_features[6] = np.log(squares / max(size, 1) + 1e-3)
            own_features[7] = np.log1p(n)
        if n_listed > len(n_shared):
            n_shared[:] = inverse_roots[:] = has_left_out[:] = 0
        else:
            for item in own:  # the one that is left out among them
                for user in item_users[item_start[item] : item_start[item + 1]]:
                    n_shared[user] = inverse_roots[user] = has_left_out[user] = 0


# Without fastmath: the order of sums would depend on how the function is inlined, which differs between code that has
# just been compiled and code from the cache.
@njit(cache=True, nogil=True)
def _add_up_own_click(users, n_shared, inverse_roots, inverse_activity):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Return Σ n_v, Σ n_v/activity, Σ inverse roots, Σ n_v²/activity, its largest term, and the number of n_v > 0.

    Every user of the item shares it, and it is left out.
    """
    total = rates = roots = squares = largest = n_sharing = np.float32(0)
    for user in users:
        shared = max(n_shared[user] - np.float32(1), np.float32(0))  # that of the owner is 0
        rate = shared * inverse_activity[user]
        square = shared * rate
        total += shared
        rates += rate
        roots += inverse_roots[user]
        squares += square
        largest = max(largest, square)
        n_sharing += min(shared, np.float32(1))
    return total, rates, roots, squares, largest, n_sharing


@njit(cache=True, nogil=True)
def _add_up(users, n_shared, inverse_roots, has_left_out, inverse_activity):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Return the sums of `_add_up_own_click` if another item is left out, and the number of users who have that."""
    total = rates = roots = squares = largest = n_sharing = n_having = np.float32(0)
    for user in users:
        shared = n_shared[user] - has_left_out[user]
        rate = shared * inverse_activity[user]
        square = shared * rate
        total += shared
        rates += rate
        roots += inverse_roots[user]
        squares += square
        largest = max(largest, square)
        n_sharing += min(shared, np.float32(1))
        n_having += has_left_out[user]
    return (total, rates, roots, squares, largest, n_sharing), n_having


@njit(cache=True, nogil=True)
def _is_listed(users, owner, max_listed):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Return whether the owner of a history is among the listed users of one of its items."""
    if owner < 0 or len(users) < max_listed:
        return owner >= 0
    for user in users:  # noqa: SIM110 - numba has no any
        if user == owner:
            return True
    return False


@njit(cache=True, nogil=True)
def _contains(sorted_items, item):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    position = np.searchsorted(sorted_items, item)
    return position < len(sorted_items) and sorted_items[position] == item
