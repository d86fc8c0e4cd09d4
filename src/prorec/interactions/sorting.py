"""Sorting the rows of a log by user and item, in time linear in their number.

A radix sort on 64-bit keys that hold user, item and row: a few passes that stream through memory, shared among
threads. The kernels let go of the interpreter lock, so plain threads run them side by side.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from prorec._core.parallel import N_CORES

Codes = NDArray[np.int32]
Keys = NDArray[np.int64]

N_THREADS = min(8, N_CORES)  # more would wait for memory
_DIGIT_BITS = 12  # 4,096 places to write to at once still fit the cache


def sort_by_user_and_item(users: Codes, items: Codes, n_users: int, n_items: int) -> tuple[Codes, Codes, NDArray[Any]]:
    """Codes sorted by (user, item), and the stable order of rows that sorts them.

    >>> sort_by_user_and_item(np.int32([1, 0, 1, 1]), np.int32([2, 1, 0, 2]), 2, 3)
    (array([0, 1, 1, 1], dtype=int32), array([1, 0, 2, 2], dtype=int32), array([1, 2, 0, 3]))
    """
    row_bits, item_bits, user_bits = (_bits(count) for count in (len(users), n_items, n_users))
    if row_bits + item_bits + user_bits > 63:
        order = np.lexsort((items, users))
        return users[order], items[order], order
    keys, spare = np.empty((2, len(users)), dtype=np.int64)
    is_sorted = _pack(users, items, item_bits, row_bits, keys)
    if not is_sorted:
        keys, spare = _radix_sorted(keys, spare, row_bits, item_bits + user_bits)
    # Fresh memory is what costs most here: the codes go where the spare keys were, the order where the keys are.
    sorted_users, sorted_items = spare.view(np.int32).reshape(2, -1)
    _unpack(keys, item_bits, row_bits, sorted_users, sorted_items)
    return sorted_users, sorted_items, keys


def _bits(count: int) -> int:
    """How many bits the numbers 0 … count − 1 need."""
    return max(count - 1, 0).bit_length()


def _radix_sorted(keys: Keys, spare: Keys, low_bits: int, bits: int) -> tuple[Keys, Keys]:
    """Keys sorted by the `bits` above the lowest `low_bits`, and the array that is spare then."""
    passes = -(-bits // _DIGIT_BITS)
    digit = -(-bits // passes)
    cuts = np.linspace(0, len(keys), N_THREADS + 1, dtype=np.int64)
    parts = [slice(begin, end) for begin, end in pairwise(cuts)]
    with ThreadPoolExecutor(N_THREADS) as pool:
        for shift in range(low_bits, low_bits + bits, digit):
            counts = np.zeros((len(parts), 1 << digit), dtype=np.int64)
            list(pool.map(_count, [keys[part] for part in parts], [shift] * len(parts), counts))
            # The places of one digit go part by part, so that equal digits stay in the order they were in.
            ends = np.cumsum(counts.T).reshape(counts.shape[::-1]).T
            places = np.ascontiguousarray(ends - counts)
            source = [keys[part] for part in parts]
            list(pool.map(_scatter, source, [shift] * len(parts), places, [spare] * len(parts)))
            keys, spare = spare, keys
    return keys, spare


@njit(cache=True, nogil=True)
def _pack(users: Codes, items: Codes, item_bits: int, row_bits: int, keys: Keys) -> bool:
    """Write the keys; say whether they are in order already."""
    is_sorted = True
    for row in range(len(keys)):
        pair = (np.int64(users[row]) << item_bits) | np.int64(items[row])
        keys[row] = (pair << row_bits) | row
        if row and keys[row] < keys[row - 1]:
            is_sorted = False
    return is_sorted


@njit(cache=True, nogil=True)
def _unpack(keys: Keys, item_bits: int, row_bits: int, users: Codes, items: Codes) -> None:
    """Take the keys apart; what is left of each is its row."""
    item_mask = (1 << item_bits) - 1
    row_mask = (1 << row_bits) - 1
    for place in range(len(keys)):
        pair = keys[place] >> row_bits
        users[place] = pair >> item_bits
        items[place] = pair & item_mask
        keys[place] &= row_mask


@njit(cache=True, nogil=True)
def _count(keys: Keys, shift: int, counts: NDArray[np.int64]) -> None:
    mask = len(counts) - 1
    for key in keys:
        counts[(key >> shift) & mask] += 1


@njit(cache=True, nogil=True)
def _scatter(keys: Keys, shift: int, places: NDArray[np.int64], out: Keys) -> None:
    mask = len(places) - 1
    for key in keys:
        digit = (key >> shift) & mask
        out[places[digit]] = key
        places[digit] += 1
