"""Leave-one-out scores of pairs by ridge regression between items, in closed form.

EASE predicts a user's row x of the matrix X by x·B with B_ij = −P_ij/P_jj off the diagonal and P = (XᵀX + λI)⁻¹. Here B
is learned from all other users. By the Sherman–Morrison formula, with h = xᵀPx and a = Px, the matrix P without the
user's row is P + aaᵀ/(1 − h). So the score of a pair (u, i) by a history x without item k, usually the pair's own, is

    −((a_i − P_ik) + a_i·(h − a_k)/(1 − h)) / (P_ii + a_i²/(1 − h)),

and no model has to be fitted for each pair. Of a, only the items of the history and of the pairs are needed: a_i is the
sum of P_ik over the items k of the history.

The inverse is of the size of the items; if there are too many of them, K = (XXᵀ + λI)⁻¹ takes one of the size of the
users. Then P = (I − XᵀKX)/λ, and for a user of X, a = XᵀK_u: a_i is the sum of K_uv over the users v of the item.

Inverses are in single precision. Their error is that of a change of λ by some 10⁻³ of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.compilation import njit
from prorec._core.digest import digest
from prorec._core.parallel import N_CORES, map_in_order
from prorec.noise.cross_fitting import drop_entries
from prorec.noise.gram_inverse import invert_gram
from prorec.noise.grouping import group_positions
from prorec.noise.plan_ranks import Pairs

RIDGES = (30.0, 300.0)
"""Values of λ: one for sparse and one for dense logs."""
MAX_SIZE = 6_000
"""Maximum number of items, or else of users. The inverse takes 150 MB and a few seconds then."""
_ROWS_PER_PIECE = 256
_PAIRS_PER_PIECE = 65_536
_kept_inverses: ContextVar[dict[str, list[NDArray[np.float32]]] | None] = ContextVar("inverses", default=None)
_SCALE = 100.0  # scores are about .001 to 1


def compute_ridge_scores(
    reference: csr_array,
    histories: csr_array,
    pairs: Pairs,
    left_out: NDArray[np.integer],
    owners: NDArray[np.integer],
) -> NDArray[np.float32]:
    """Compute leave-one-out scores of pairs by ridge regression.

    Parameters
    ----------
    reference : csr_array, users × items
        Interactions to learn from. Those with weight 0 do not count.
    histories : csr_array, users × items
        Interactions of the users of the pairs; usually the same matrix.
    pairs : Pairs
        Rows of `histories`, and items.
    left_out : array of int
        Item that is left out of the user's history for each pair: the pair's own item if it is in the history, or the
        item of the click that a negative was sampled for; −1 for none.
    owners : array of int
        Row of `reference` that each row of `histories` is, which is not learned from; −1 for none.

    Returns
    -------
    array, pairs × λ
        arsinh(100·score) for each of `RIDGES`.

    Examples
    --------
    Items 0 and 1 occur together, item 2 does not:

    >>> clicks = csr_array([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 1]])
    >>> pairs = Pairs(np.array([2, 2]), np.array([1, 2]))
    >>> scores = compute_ridge_scores(clicks, clicks, pairs, np.array([-1, -1]), np.arange(4))
    >>> bool(scores[0, 0] > 0), float(scores[1, 0])
    (True, -0.0)
    """
    counted, own = (drop_entries(each, each.data == 0) for each in (reference, histories))
    in_history = _find_positions(own, pairs)
    queries = _Queries.of(own, pairs, in_history < 0)
    # Where each pair's a_i, and that of the item that is left out, are among the queries.
    item_query = in_history.copy()
    item_query[in_history < 0] = np.arange(own.nnz, len(queries.users))
    left_out_query = _find_positions(own, Pairs(pairs.users, left_out.astype(np.int32)))
    scores = np.empty((len(left_out), len(RIDGES)), dtype=np.float32)
    for column, (ridge, inverse) in enumerate(zip(RIDGES, _invert(counted), strict=True)):
        log = _Log(counted, own, owners, ridge, inverse)
        a = log.compute_a(queries)
        scores[:, column] = log.score(a, pairs, left_out, item_query, left_out_query)
    scores *= _SCALE
    return np.asarray(np.arcsinh(scores, out=scores))


@contextmanager
def keep_inverses() -> Iterator[None]:
    """Keep the inverses for reuse within a `with` block, for many small calls with the same reference."""
    token = _kept_inverses.set({})
    try:
        yield
    finally:
        _kept_inverses.reset(token)


def _invert(reference: csr_array) -> list[NDArray[np.float32]]:
    """Return the inverse for each λ: of the size of the items, or of the users if there are too many items."""
    kept = _kept_inverses.get()
    key = "" if kept is None else digest(np.array(reference.shape), reference.indices, reference.indptr)
    if kept is not None and key in kept:
        return kept[key]
    inverses = invert_gram(reference if reference.shape[1] <= MAX_SIZE else reference.T.tocsr(), RIDGES)
    if kept is not None:
        kept[key] = inverses
    return inverses


class _Queries(NamedTuple):
    """Pairs for which a_i is computed: all of the histories, and then those that are in no history."""

    users: NDArray[np.integer]
    items: NDArray[np.integer]

    @classmethod
    def of(cls, histories: csr_array, pairs: Pairs, is_new: NDArray[np.bool_]) -> _Queries:
        users = np.repeat(np.arange(histories.shape[0], dtype=np.int32), np.diff(histories.indptr))
        return cls(np.append(users, pairs.users[is_new]), np.append(histories.indices, pairs.items[is_new]))


class _Log(NamedTuple):
    """A log with the inverse for one λ."""

    reference: csr_array
    histories: csr_array
    owners: NDArray[np.integer]
    ridge: float
    inverse: NDArray[np.float32]

    @property
    def is_by_items(self) -> bool:
        """Whether the inverse is P; otherwise it is K."""
        return bool(self.reference.shape[1] <= MAX_SIZE)

    def compute_a(self, queries: _Queries) -> NDArray[np.float32]:
        """Return a_i of each query: the sum of a row of the inverse over a list of columns."""
        if self.is_by_items:
            groups, members, lists, n_groups = *queries[::-1], self.histories, self.reference.shape[1]
        else:
            groups, members, lists, n_groups = *queries, self.reference.T.tocsr(), self.histories.shape[0]
        order, starts = group_positions(groups, n_groups)
        a = np.empty(len(order), dtype=np.float32)
        pieces = range(0, n_groups, _ROWS_PER_PIECE)

        def work(index: int) -> None:
            begin, end = pieces[index], min(pieces[index] + _ROWS_PER_PIECE, n_groups)
            rows = self.inverse[begin:end] if self.is_by_items else self._rows_of_users(np.arange(begin, end))
            _sum_lists(rows, begin, starts, order, members, lists.indptr, lists.indices, a)

        for _ in map_in_order(work, len(pieces), N_CORES):
            pass
        if not self.is_by_items:  # a = (x − XᵀKXx)/λ for a user who is not in X
            is_new_user = self.owners[queries.users[: self.histories.nnz]] < 0
            a[: self.histories.nnz][is_new_user] += np.float32(1 / self.ridge)
        return a

    def _rows_of_users(self, users: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return K_u of users of X, and −K·X·x/λ of others."""
        is_own = self.owners[users] >= 0
        if is_own.all():
            own: NDArray[np.float32] = self.inverse[self.owners[users]]
            return own
        rows = np.empty((len(users), self.reference.shape[0]), dtype=np.float32)
        rows[is_own] = self.inverse[self.owners[users[is_own]]]
        shared = _count_clicks(self.histories[users[~is_own]]) @ _count_clicks(self.reference).T
        rows[~is_own] = shared.toarray() @ self.inverse / np.float32(-self.ridge)
        return rows

    def score(
        self,
        a: NDArray[np.float32],
        pairs: Pairs,
        left_out: NDArray[np.integer],
        item_query: NDArray[np.int64],
        left_out_query: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """Return the score of each pair."""
        users_of_items = self.reference.T.tocsr()
        diagonal = self.inverse.diagonal().astype(np.float64)
        if not self.is_by_items:
            diagonal = _sum_diagonal(self.inverse, users_of_items.indptr, users_of_items.indices, self.ridge)
        # h is 1 at most; that of a user who is not in X does not matter.
        h = np.zeros(self.histories.shape[0])
        filled = np.flatnonzero(np.diff(self.histories.indptr))
        h[filled] = np.add.reduceat(a[: self.histories.nnz], self.histories.indptr[filled], dtype=np.float64)
        remaining = np.where(self.owners >= 0, np.maximum(1.0 - h, 1e-9), np.inf)
        scores = np.empty(len(left_out))
        arrays = self.inverse, users_of_items.indptr, users_of_items.indices, diagonal, a, h, remaining
        pieces = range(0, len(scores), _PAIRS_PER_PIECE)

        def work(index: int) -> None:
            part = slice(pieces[index], pieces[index] + _PAIRS_PER_PIECE)
            queries = item_query[part], left_out_query[part]
            own = pairs.users[part], pairs.items[part], left_out[part], *queries, scores[part]
            _score_pairs(self.is_by_items, self.ridge, *arrays, *own)

        for _ in map_in_order(work, len(pieces), N_CORES):
            pass
        return scores


def _count_clicks(matrix: csr_array) -> csr_array:
    """Return the matrix with a 1 for each click."""
    return csr_array((np.ones(matrix.nnz, dtype=np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


def _find_positions(matrix: csr_array, pairs: Pairs) -> NDArray[np.int64]:
    """Return the position of each pair in a sparse matrix; −1 for pairs that are not in it."""
    positions = np.empty(len(pairs.users), dtype=np.int64)
    _find(matrix.indptr, matrix.indices, pairs.users, pairs.items, positions)
    return positions


@njit(cache=True, nogil=True)
def _find(indptr, indices, users, items, positions):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    for pair in range(len(users)):
        start, end = indptr[users[pair]], indptr[users[pair] + 1]
        position = start + np.searchsorted(indices[start:end], items[pair])
        is_in = position < end and indices[position] == items[pair]
        positions[pair] = position if is_in else -1


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _sum_lists(rows, first, starts, order, members, list_start, lists, sums):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Write the sum of each query: of its group's row over the list of its member."""
    for index in range(len(rows)):
        row = rows[index]
        for query in order[starts[first + index] : starts[first + index + 1]]:
            total = np.float32(0)
            for column in lists[list_start[members[query]] : list_start[members[query] + 1]]:
                total += row[column]
            sums[query] = total


@njit(cache=True, nogil=True)
def _score_pairs(  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    by_items, ridge, inverse, item_start, item_users, diagonal, a, h, remaining, users, items, left_out, item_query,
    left_out_query, scores,
):  # fmt: skip
    for pair in range(len(users)):
        user, item, out = users[pair], items[pair], left_out[pair]
        own_a = np.float64(a[item_query[pair]])
        prediction, rest = own_a, h[user]
        if left_out_query[pair] >= 0:
            rest -= a[left_out_query[pair]]
            if out == item:
                prediction -= diagonal[item]
            elif by_items:
                prediction -= inverse[item, out]
            else:
                own_users = item_users[item_start[item] : item_start[item + 1]]
                prediction += _sum_block(inverse, own_users, item_users[item_start[out] : item_start[out + 1]]) / ridge
        prediction += own_a * rest / remaining[user]
        scores[pair] = -prediction / (diagonal[item] + own_a * own_a / remaining[user])


@njit(cache=True, nogil=True)
def _sum_diagonal(inverse, item_start, item_users, ridge):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Return the diagonal of P = (I − XᵀKX)/λ."""
    diagonal = np.empty(len(item_start) - 1)
    for item in range(len(diagonal)):
        users = item_users[item_start[item] : item_start[item + 1]]
        diagonal[item] = (1.0 - _sum_block(inverse, users, users)) / ridge
    return diagonal


@njit(cache=True, nogil=True)
def _sum_block(matrix, rows, columns):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Return the sum of a matrix over some rows and columns."""
    total = 0.0
    for row in rows:
        for column in columns:
            total += matrix[row, column]
    return total
