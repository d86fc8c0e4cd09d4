"""Ranking metrics of recommended lists, given the relevant items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from prorec._core.checks import check_choice, check_int
from prorec._core.compilation import njit
from prorec._core.errors import InputError
from prorec.evaluation.metrics import FAMILIES, Family, Hits, Values
from prorec.interactions.pairs import as_coo


def ranking_metrics(
    ranked: NDArray[Any], relevant: csr_array, k: int | Iterable[int], metrics: Family = "standard"
) -> dict[str, Values]:
    """Compute every metric at every list length, for each user.

    Parameters
    ----------
    ranked : array of int, users × ranks
        Item positions, best first; −1 for no item. An item that repeats counts once.
    relevant : sparse array, users × items
        Relevant items; each user must have at least one.
    k : int or iterable of int
        List lengths, at most the number of columns of `ranked`.
    metrics : {"standard", "paper"}, default "standard"
        Family of metric definitions, see `prorec.evaluation.metrics`.

    Returns
    -------
    dict of str to array
        Values by metric, such as `ndcg@5`: one per user.

    Raises
    ------
    InputError
        If an argument has the wrong shape or type, or a user has no relevant item.

    Examples
    --------
    >>> relevant = csr_array([[0, 1, 1, 0]])
    >>> ranking_metrics(np.array([[0, 2]]), relevant, k=2)["recall@2"]
    array([0.5])
    """
    check_choice("metrics", metrics, tuple(FAMILIES))
    if not issparse(relevant) or relevant.ndim != 2:
        raise InputError(f"relevant must be a sparse users × items matrix, got {type(relevant).__name__}")
    if not isinstance(relevant, csr_array) or not relevant.has_canonical_format:
        relevant = csr_array(as_coo(relevant))  # a copy: summing duplicates must not change the caller's matrix
    n_users, n_items = relevant.shape
    lengths = check_list_lengths(k, n_items)
    try:
        ranked = np.asarray(ranked)
    except ValueError as error:
        raise InputError("ranked must have as many items for each user; fill up with −1") from error
    if ranked.ndim != 2 or ranked.shape[0] != n_users or ranked.shape[1] < lengths[-1]:
        raise InputError(f"ranked must be {n_users} users × at least {lengths[-1]} items, got {ranked.shape}")
    if ranked.dtype.kind not in "iu" or (ranked.size and not -1 <= ranked.min() <= ranked.max() < n_items):
        raise InputError(f"ranked must hold item positions from 0 to {n_items - 1}, or −1 for none")
    n_relevant = np.diff(relevant.indptr).astype(np.int64)
    if not n_relevant.all():
        raise InputError(
            f"relevant must have an item in each row; user {np.argmin(n_relevant)} (by position) has no relevant item. "
            "Leave out users without test interactions"
        )
    ranked = np.ascontiguousarray(ranked, dtype=np.int32)
    hits = Hits.from_matrix(_find_hits(ranked, relevant.indptr, relevant.indices, n_items), n_relevant)
    values = {}
    for length in lengths:
        first = hits.up_to(length)
        for name, metric in FAMILIES[metrics].items():
            values[f"{name}@{length}"] = metric(first, length)
    return values


def check_list_lengths(k: int | Iterable[int], n_items: int) -> list[int]:
    """Check list lengths and return them in ascending order.

    Parameters
    ----------
    k : int or iterable of int
        List lengths.
    n_items : int
        Number of items, the largest length allowed.

    Returns
    -------
    list of int
        Each length once.

    Raises
    ------
    InputError
        If a length is not a whole number from 1 to `n_items`, or there is none.
    """
    is_single = not isinstance(k, Iterable) or (isinstance(k, np.ndarray) and not k.ndim)
    several: Iterable[Any] = [k] if is_single else k  # type: ignore[assignment]
    lengths = {check_int("k", length, 1, n_items, "the number of items") for length in several}
    if not lengths:
        raise InputError("k must have at least one list length")
    return sorted(lengths)


@njit(cache=True, nogil=True)
def _find_hits(
    ranked: NDArray[np.int32], indptr: NDArray[np.int32], indices: NDArray[np.int32], n_items: int
) -> NDArray[np.bool_]:
    """Mark the entries of `ranked` that are relevant to their user; a repeated item counts once."""
    is_hit = np.zeros(ranked.shape, dtype=np.bool_)
    # The last user to whom each item was relevant: nothing needs to be cleared between users.
    relevant_to = np.full(n_items, -1, dtype=np.int32)
    for user in range(ranked.shape[0]):
        for entry in range(indptr[user], indptr[user + 1]):
            relevant_to[indices[entry]] = user
        for rank in range(ranked.shape[1]):
            item = ranked[user, rank]
            if item >= 0 and relevant_to[item] == user:
                is_hit[user, rank] = True
                relevant_to[item] = -1
    return is_hit
