"""Leave-one-out scores of pairs by ridge regression between items, in closed form.

EASE predicts a user's row x of the matrix X by x·B with B_ij = −P_ij/P_jj off the diagonal and P = (XᵀX + λI)⁻¹. Here B
is learned from all other users. By the Sherman–Morrison formula, with h = xᵀPx and a = Px, the matrix P without the
user's row is P + aaᵀ/(1 − h). So the score of a pair (u, i) by a history x without item k, usually the pair's own, is

    −((a_i − P_ik) + a_i·(h − a_k)/(1 − h)) / (P_ii + a_i²/(1 − h)),

and no model has to be fitted for each pair. The inverse is of the size of the items; if there are too many of them,
P = (I − Xᵀ(XXᵀ + λI)⁻¹X)/λ takes one of the size of the users.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.sparse import csr_array

from prorec._core.compilation import njit
from prorec._core.digest import digest
from prorec._core.parallel import N_CORES, map_in_order, single_blas_thread
from prorec.noise.cross_fitting import drop_entries
from prorec.noise.plan_ranks import Pairs

RIDGES = (30.0, 300.0)
"""Values of λ: one for sparse and one for dense logs."""
MAX_SIZE = 6_000
"""Maximum number of items, or else of users. The inverse takes 300 MB and several seconds then."""
_ROWS_PER_PIECE = 256
_kept_inverses: ContextVar[dict[tuple[float, str], NDArray[np.float64]] | None] = ContextVar("inverses", default=None)
_SCALE = 100.0  # scores are about .001 to 1


def compute_ridge_scores(
    reference: csr_array,
    histories: csr_array,
    pairs: Pairs,
    left_out: NDArray[np.integer],
    owners: NDArray[np.integer],
) -> NDArray[np.float64]:
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
    counted, own = (
        csr_array((np.ones(kept.nnz), kept.indices, kept.indptr), shape=kept.shape)
        for kept in (drop_entries(each, each.data == 0) for each in (reference, histories))
    )
    order = np.argsort(pairs.users, kind="stable")
    starts = np.searchsorted(pairs.users[order], np.arange(histories.shape[0] + 1))
    is_own = owners >= 0
    return np.column_stack([_score(counted, own, pairs, left_out, is_own, order, starts, ridge) for ridge in RIDGES])


@contextmanager
def keep_inverses() -> Iterator[None]:
    """Keep the inverses for reuse within a `with` block, for many small calls with the same reference."""
    token = _kept_inverses.set({})
    try:
        yield
    finally:
        _kept_inverses.reset(token)


def _score(
    reference: csr_array,
    histories: csr_array,
    pairs: Pairs,
    left_out: NDArray[np.integer],
    is_own: NDArray[np.bool_],
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    ridge: float,
) -> NDArray[np.float64]:
    """Return arsinh(100·score) of each pair for one λ."""
    by_items = reference.shape[1] <= MAX_SIZE
    rows = reference.T.tocsr() if by_items else reference
    kept = _kept_inverses.get()
    key = ridge, "" if kept is None else digest(np.array(reference.shape), reference.indices, reference.indptr)
    inverse = _invert(rows, ridge) if kept is None or key not in kept else kept[key]
    if kept is not None:
        kept[key] = inverse
    columns = reference.T.tocsr()  # users of each item
    diagonal = (
        inverse.diagonal().copy() if by_items else _invert_diagonal(inverse, columns.indptr, columns.indices, ridge)
    )
    scores = np.empty(len(order))
    pieces = range(0, histories.shape[0], _ROWS_PER_PIECE)

    def work(index: int) -> None:
        piece = np.arange(pieces[index], min(pieces[index] + _ROWS_PER_PIECE, histories.shape[0]))
        piece = piece[starts[piece + 1] > starts[piece]]
        own = histories[piece]
        block = own @ inverse if by_items else (own @ reference.T).toarray() @ inverse
        _score_rows(
            by_items, ridge, np.ascontiguousarray(block), inverse, diagonal, columns.indptr, columns.indices,
            own.indptr, own.indices, piece, is_own, pairs.items, left_out, order, starts, scores,
        )  # fmt: skip

    for _ in map_in_order(work, len(pieces), N_CORES):
        pass
    return np.arcsinh(_SCALE * scores)


def _invert(rows: csr_array, ridge: float) -> NDArray[np.float64]:
    """Return (R·Rᵀ + λI)⁻¹ for a sparse matrix R."""
    gram = (rows @ rows.T).toarray(order="F")
    gram[np.diag_indices_from(gram)] += ridge
    with single_blas_thread():  # the last bits must not depend on the number of threads
        factor, _ = lapack.dpotrf(gram, lower=True, overwrite_a=True)
        inverse, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)
    for row in range(len(inverse)):  # in place, because a copy would double the memory
        inverse[row, row + 1 :] = inverse[row + 1 :, row]
    return np.asarray(inverse)


@njit(cache=True, nogil=True)
def _score_rows(  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    by_items, ridge, block, inverse, diagonal, item_start, item_users, history_start, history, rows, is_own, items,
    left_out, order, starts, scores,
):  # fmt: skip
    """Write the score of each pair of some rows; row r of `block` is Px, or (XXᵀ + λI)⁻¹Xx."""
    a = np.empty(len(item_start) - 1)
    for index in range(len(rows)):
        own = history[history_start[index] : history_start[index + 1]]
        leverage = 0.0
        for item in own:
            if by_items:
                a[item] = block[index, item]
            else:
                users = item_users[item_start[item] : item_start[item + 1]]
                a[item] = (1.0 - block[index][users].sum()) / ridge
            leverage += a[item]
        remaining = max(1.0 - leverage, 1e-9) if is_own[rows[index]] else np.inf
        for pair in order[starts[rows[index]] : starts[rows[index] + 1]]:
            item, out = items[pair], left_out[pair]
            users = item_users[item_start[item] : item_start[item + 1]]
            position = np.searchsorted(own, item)
            is_in_history = position < len(own) and own[position] == item
            if is_in_history:
                own_a = a[item]
            elif by_items:
                own_a = block[index, item]
            else:
                own_a = -block[index][users].sum() / ridge
            position = np.searchsorted(own, out) if out >= 0 else len(own)
            prediction = own_a
            rest = leverage
            if position < len(own) and own[position] == out:
                rest -= a[out]
                if by_items:
                    prediction -= inverse[item, out]
                elif out == item:
                    prediction -= diagonal[item]
                else:
                    prediction += _sum_block(inverse, users, item_users[item_start[out] : item_start[out + 1]]) / ridge
            prediction += own_a * rest / remaining
            scores[pair] = -prediction / (diagonal[item] + own_a * own_a / remaining)


@njit(cache=True, nogil=True)
def _invert_diagonal(inverse, item_start, item_users, ridge):  # type: ignore[no-untyped-def] # pragma: no cover
    """Return the diagonal of P from the inverse of the size of the users."""
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
