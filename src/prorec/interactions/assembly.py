"""Rows of a log, in any order and with repeats, to the order of a sparse matrix: by user, then by item."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_choice
from prorec._core.errors import DataWarning, InputError
from prorec.interactions.sorting import N_THREADS, sort_by_user_and_item

DUPLICATES = ("max", "sum", "first", "error")


def assemble(
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    shape: tuple[int, int],
    weights: NDArray[np.float32] | None,
    columns: Mapping[str, NDArray[Any]],
    duplicates: str,
) -> tuple[csr_array, dict[str, NDArray[Any]]]:
    """A users × items matrix of weights, and the columns in the order of its entries.

    Pairs that occur more than once become one entry. `sum` and `max` combine their weights that way and keep
    the highest rating and the latest time; `first` keeps the first row as it is; `error` refuses.
    `weights=None` means a weight of 1 for each row.
    """
    check_choice("duplicates", duplicates, DUPLICATES)
    rows, indices, order = sort_by_user_and_item(users, items, *shape)
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (rows[1:] != rows[:-1]) | (indices[1:] != indices[:-1])
    n_repeats = len(order) - int(np.count_nonzero(is_new))

    if not n_repeats:
        data = np.ones(len(order), dtype=np.float32) if weights is None else weights.take(order)
        columns = _taken(columns, order)
    else:
        if duplicates == "error":
            raise InputError(f"{n_repeats:,} rows repeat a (user, item) pair, and duplicates='error' was asked for")
        rows, indices = _squeezed(rows, is_new), _squeezed(indices, is_new)
        if duplicates == "first":
            order = _squeezed(order, is_new)
            data = np.ones(len(order), dtype=np.float32) if weights is None else weights.take(order)
            columns = _taken(columns, order)
        else:
            starts = np.flatnonzero(is_new)
            each = np.ones(len(order), dtype=np.float32) if weights is None else weights.take(order)
            if duplicates == "sum":
                warnings.warn(
                    f"{n_repeats:,} rows repeat a (user, item) pair: their weights were summed "
                    "(duplicates='max', the default, counts each pair once)",
                    DataWarning,
                    stacklevel=4,
                )
                with np.errstate(over="ignore"):  # a sum too large becomes inf, and is refused as such
                    data = np.add.reduceat(each, starts, dtype=np.float64).astype(np.float32)
            else:
                data = np.maximum.reduceat(each, starts)
            columns = {name: np.maximum.reduceat(values, starts) for name, values in _taken(columns, order).items()}

    # A copy: the sort's own array holds more than the indices, and would live as long as they do.
    indices = indices.astype(np.int32 if len(rows) < 2**31 else np.int64)
    indptr = np.zeros(shape[0] + 1, dtype=indices.dtype)
    np.cumsum(np.bincount(rows, minlength=shape[0]), out=indptr[1:])
    return csr_array((data, indices, indptr), shape=shape), dict(columns)


@njit(cache=True, nogil=True)
def _squeezed(values: NDArray[Any], keep: NDArray[np.bool_]) -> NDArray[Any]:
    """The values to keep, moved together where they lie: no memory for a second copy."""
    kept = 0
    for at in range(len(values)):
        if keep[at]:
            values[kept] = values[at]
            kept += 1
    return values[:kept]


def _taken(columns: Mapping[str, NDArray[Any]], order: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Each column in another order, the columns side by side: `take` lets go of the interpreter lock."""
    with ThreadPoolExecutor(N_THREADS) as pool:
        return dict(zip(columns, pool.map(lambda values: values.take(order), columns.values()), strict=True))
