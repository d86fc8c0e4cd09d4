"""Conversion of a log's rows, in any order and with repeats, to a sparse matrix in the order of users and items."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_choice
from prorec._core.compilation import njit
from prorec._core.errors import DataWarning, InputError
from prorec._core.parallel import N_CORES

Codes = NDArray[np.int32]
DUPLICATES = ("max", "sum", "first", "error")
"""Rules for rows that repeat a pair."""
_MAX_THREADS = 8
"""Each thread counts all users, which costs memory."""
_ROWS_PER_THREAD = 500_000
_MAX_INSERTED = 24
"""Users with at most so many rows are sorted by insertion, which is faster then."""


@dataclass(frozen=True, eq=False)
class Assembly:
    """A matrix made of rows, and the rows that each of its entries comes from."""

    matrix: csr_array
    """Weights, users × items, one entry for each distinct pair."""
    columns: dict[str, NDArray[Any]]
    """Other columns, in the order of `matrix.data`."""
    order: NDArray[np.int64]
    """Rows sorted by user and item; rows of the same pair stay in their order."""
    is_first: NDArray[np.bool_]
    """For each element of `order`: whether it is the first row of its pair."""

    def row_positions(self) -> NDArray[np.int64]:
        """Return the position of each row's pair in `matrix.data`."""
        positions = np.empty(len(self.order), dtype=np.int64)
        positions[self.order] = np.cumsum(self.is_first) - 1
        return positions


def assemble_matrix(
    users: Codes,
    items: Codes,
    shape: tuple[int, int],
    weights: NDArray[np.float32] | None,
    columns: dict[str, NDArray[Any]],
    duplicates: str,
) -> Assembly:
    """Build a users × items matrix of weights from rows.

    Parameters
    ----------
    users, items : ndarray of int32
        Row and column of the matrix for each row of the log.
    shape : tuple of int
        Number of users and number of items.
    weights : ndarray of float32, optional
        Weight of each row; None gives each row the weight 1.
    columns : dict of str to ndarray
        Other values of each row. The dict is emptied, so that the memory of each column is freed early.
    duplicates : {"max", "sum", "first", "error"}
        Rule for rows that repeat a pair. "sum" and "max" combine their weights that way and keep the largest value
        of each other column; "first" keeps the first row as it is; "error" refuses them.

    Returns
    -------
    Assembly

    Raises
    ------
    InputError
        If a pair is repeated and `duplicates` is "error", or if `duplicates` is no such rule.

    Examples
    --------
    >>> pairs = np.array([1, 0, 1], dtype=np.int32), np.array([2, 1, 2], dtype=np.int32)
    >>> assembled = assemble_matrix(*pairs, (2, 3), None, {}, "max")
    >>> assembled.matrix.toarray()
    array([[0., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    >>> assembled.row_positions()
    array([1, 0, 1])
    """
    check_choice("duplicates", duplicates, DUPLICATES)
    indptr, indices, order = _sort_pairs(users, items, shape[0])
    del users, items
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = indices[1:] != indices[:-1]
    is_first[indptr[indptr < len(order)]] = True  # a user's first item may equal the last of the user before
    n_repeats = len(order) - int(np.count_nonzero(is_first))
    starts = np.flatnonzero(is_first) if n_repeats else np.empty(0, dtype=np.int64)
    rows = order
    if n_repeats:
        if duplicates == "error":
            raise InputError(
                f"{n_repeats:,} rows repeat a (user, item) pair, which duplicates='error' does not allow; "
                "choose 'max', 'sum' or 'first'"
            )
        indices, indptr = indices[starts], np.searchsorted(starts, indptr)
        rows = order[starts] if duplicates == "first" else order
    ordered = {name: _take_rows(columns.pop(name), rows) for name in list(columns)}
    data = np.ones(len(rows), dtype=np.float32) if weights is None else _take_rows(weights, rows)
    if n_repeats and duplicates != "first":
        ordered = {name: np.maximum.reduceat(values, starts) for name, values in ordered.items()}
        data = np.maximum.reduceat(data, starts) if duplicates == "max" else _sum_weights(data, starts)

    index_type = np.int32 if len(indices) < 2**31 else np.int64
    entries = data, indices.astype(index_type, copy=False), indptr.astype(index_type)
    return Assembly(csr_array(entries, shape=shape), ordered, order, is_first)


def _take_rows(values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Return the values of some rows; threads take a share of them each."""
    result = np.empty(len(rows), dtype=values.dtype)
    n_threads = min(N_CORES, 1 + len(rows) // _ROWS_PER_THREAD)
    cuts = [len(rows) * each // n_threads for each in range(n_threads + 1)]

    def take(first: int, last: int) -> None:
        values.take(rows[first:last], out=result[first:last], mode="clip")  # the other modes copy once more

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(take, cuts[:-1], cuts[1:]))
    return result


def _sum_weights(weights: NDArray[np.float32], starts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the sum of each pair's weights, with a warning that counts the repeats."""
    warnings.warn(
        f"{len(weights) - len(starts):,} rows repeat a (user, item) pair, and their weights were summed; "
        "duplicates='max', the default, counts each pair once",
        DataWarning,
        stacklevel=5,
    )
    with np.errstate(over="ignore"):  # too large a sum becomes infinite, which `Interactions` refuses
        return np.asarray(np.add.reduceat(weights, starts, dtype=np.float64).astype(np.float32))


def _sort_pairs(users: Codes, items: Codes, n_users: int) -> tuple[NDArray[np.int64], Codes, NDArray[np.int64]]:
    """Return the index pointers of users, the items of each user sorted, and the rows in that order.

    Threads count their share of the rows into users, then each sorts its share of the users by item: several times as
    fast as `np.lexsort`.
    """
    n_rows, row_bits = len(users), max(len(users) - 1, 1).bit_length()
    n_threads = min(N_CORES, _MAX_THREADS, 1 + n_rows // _ROWS_PER_THREAD)
    rows = [slice(n_rows * each // n_threads, n_rows * (each + 1) // n_threads) for each in range(n_threads)]
    keys = np.empty(n_rows, dtype=np.int64)
    sorted_items = np.empty(n_rows, dtype=np.int32)
    with ThreadPoolExecutor(n_threads) as pool:
        # For each thread, the next free position of each user; the rows of a thread come behind those of earlier ones.
        counts = np.stack(list(pool.map(lambda part: np.bincount(users[part], minlength=n_users), rows)))
        indptr = np.zeros(n_users + 1, dtype=np.int64)
        np.cumsum(counts.sum(axis=0), out=indptr[1:])
        positions = indptr[:-1] + np.cumsum(counts, axis=0) - counts
        list(
            pool.map(
                lambda part, own: _place_rows(users, items, part.start, part.stop, own, row_bits, keys), rows, positions
            )
        )
        cuts = np.searchsorted(indptr, [part.start for part in rows] + [n_rows])
        list(
            pool.map(
                lambda first, last: _sort_users(indptr[first : last + 1], row_bits, keys, sorted_items),
                cuts[:-1],
                cuts[1:],
            )
        )
    return indptr, sorted_items, keys


@njit(cache=True, nogil=True)
def _place_rows(
    users: Codes,
    items: Codes,
    first: int,
    last: int,
    positions: NDArray[np.int64],
    row_bits: int,
    keys: NDArray[np.int64],
) -> None:
    """Put some rows to their users, with item and row in one number, so that equal items stay in row order."""
    for row in range(first, last):
        user = users[row]
        keys[positions[user]] = (np.int64(items[row]) << row_bits) | row
        positions[user] += 1


@njit(cache=True, nogil=True)
def _sort_users(indptr: NDArray[np.int64], row_bits: int, keys: NDArray[np.int64], sorted_items: Codes) -> None:
    """Sort the rows of some users by item; keys become rows."""
    for user in range(len(indptr) - 1):
        start, end = indptr[user], indptr[user + 1]
        if end - start > _MAX_INSERTED:
            keys[start:end].sort()
        else:
            for next_one in range(start + 1, end):
                key, at = keys[next_one], next_one
                while at > start and keys[at - 1] > key:
                    keys[at] = keys[at - 1]
                    at -= 1
                keys[at] = key
        for at in range(start, end):
            sorted_items[at] = keys[at] >> row_bits
            keys[at] &= (1 << row_bits) - 1
