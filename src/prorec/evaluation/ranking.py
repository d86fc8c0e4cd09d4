"""Ranked lists against what turned out to be relevant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from prorec._core.checks import check_choice, check_int
from prorec._core.errors import InputError
from prorec.evaluation.metrics import FAMILIES, Family, Hits, Values
from prorec.interactions.pairs import as_coo


def ranking_metrics(
    ranked: NDArray[Any], relevant: csr_array, k: int | Iterable[int], metrics: Family = "standard"
) -> dict[str, Values]:
    """Every metric at every k, for each user.

    Parameters
    ----------
    ranked : users × K, item positions, best first; −1 for no item. An item that repeats counts once.
    relevant : users × items; each row must have at least one entry
    k : the list lengths to judge at, at most K
    metrics : {"standard", "paper"}, see `prorec.evaluation.metrics`

    >>> relevant = csr_array([[0, 1, 1, 0]])
    >>> ranking_metrics(np.array([[0, 2]]), relevant, k=2)["recall@2"]
    array([0.5])
    """
    check_choice("metrics", metrics, tuple(FAMILIES))
    if not issparse(relevant) or relevant.ndim != 2:
        raise InputError(f"relevant must be a sparse users × items matrix, got {type(relevant).__name__}")
    if not isinstance(relevant, csr_array) or not relevant.has_canonical_format:
        relevant = csr_array(as_coo(relevant))  # of its own: duplicates are summed in it
    lengths = checked_lengths(k, relevant.shape[1])
    try:
        ranked, n_items = np.asarray(ranked), relevant.shape[1]
    except ValueError as error:
        raise InputError("ranked must have as many items for each user; fill up with −1") from error
    if ranked.ndim != 2 or ranked.shape[0] != relevant.shape[0] or ranked.shape[1] < lengths[-1]:
        raise InputError(f"ranked must be {relevant.shape[0]} users × at least {lengths[-1]} items, got {ranked.shape}")
    if ranked.dtype.kind not in "iu" or (ranked.size and not -1 <= ranked.min() <= ranked.max() < n_items):
        raise InputError(f"ranked must hold item positions from 0 to {n_items - 1}, or −1 for none")
    ranked = np.ascontiguousarray(ranked, dtype=np.int32)
    n_relevant = np.diff(relevant.indptr).astype(np.int64)
    if not n_relevant.all():
        raise InputError(f"user {np.argmin(n_relevant)} (by position) has no relevant item to be judged by")
    is_hit = _find_hits(ranked, relevant.indptr, relevant.indices, relevant.shape[1])
    hits = Hits.from_matrix(is_hit, n_relevant)
    values = {}
    for length in lengths:
        first = hits.up_to(length)
        for name, metric in FAMILIES[metrics].items():
            values[f"{name}@{length}"] = metric(first, length)
    return values


def checked_lengths(k: int | Iterable[int], n_items: int) -> list[int]:
    """List lengths in order: whole numbers between 1 and the size of the catalogue."""
    is_one = not isinstance(k, Iterable) or (isinstance(k, np.ndarray) and not k.ndim)
    several: Iterable[Any] = [k] if is_one else k  # type: ignore[assignment]
    lengths = {check_int("k", length, 1, n_items, "the number of items") for length in several}
    if not lengths:
        raise InputError("k must name at least one list length")
    return sorted(lengths)


@njit(cache=True, nogil=True)
def _find_hits(
    ranked: NDArray[np.int32], indptr: NDArray[np.int32], indices: NDArray[np.int32], n_items: int
) -> NDArray[np.bool_]:
    """Mark the places of `ranked` that hold one of the user's relevant items, each item once."""
    is_hit = np.zeros(ranked.shape, dtype=np.bool_)
    # Whose relevant item it was last: no clearing between users.
    relevant_to = np.full(n_items, -1, dtype=np.int32)
    for user in range(ranked.shape[0]):
        for place in range(indptr[user], indptr[user + 1]):
            relevant_to[indices[place]] = user
        for place in range(ranked.shape[1]):
            item = ranked[user, place]
            if item >= 0 and relevant_to[item] == user:
                is_hit[user, place] = True
                relevant_to[item] = -1
    return is_hit
