"""Compiled scan of lines of text: fields are found, ids numbered, and numbers parsed, in one pass over the bytes.

Eight bytes are looked at together, as one word. Whatever is not plain ends the scan, and Arrow reads the file then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prorec._core.compilation import njit
from prorec.data.id_table import Table, Words, finish_hash, has_room, mix_word, number_ids

BATCH = 2048
"""Rows that are scanned together, so few that their fields stay in the cache."""
DONE, TABLE_FULL, ODD = 0, 1, 2
"""Reasons for which a scan ends: the block is done, a table of ids must grow, or a field is not plain."""
USER, ITEM, WEIGHT, RATING, TIMESTAMP = range(5)
"""Meaning of a column."""

_LF, _CR, _QUOTE = (np.uint8(code) for code in b'\n\r"')
_ONES, _HIGH_BITS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_1, _7, _8, _32, _56 = (np.uint64(bits) for bits in (1, 7, 8, 32, 56))
_ZEROS, _ABOVE_NINE, _MINUS = np.uint64(0x3030303030303030), np.uint64(0x4646464646464646), np.uint64(ord("-"))
_LOW_HALF = np.uint64(0xFFFFFFFF)
_MAX_MANTISSA, _MAX_DECIMALS = 1 << 24, 10
"""A float32 holds integers and powers of ten up to these exactly, so that one division rounds as it should."""


def as_words(block: NDArray[np.uint8]) -> Words:
    """Return the eight bytes from each position of a block on, as one number for each position.

    Parameters
    ----------
    block : ndarray of uint8
        Bytes; the last seven start no word.

    Returns
    -------
    ndarray of uint64
        A view.
    """
    return np.ndarray(len(block) - 7, np.uint64, block.data, strides=(1,))


@njit(cache=True, nogil=True, error_model="numpy")
def count_marks(block: NDArray[np.uint8], size: int) -> tuple[int, int, int, int]:
    """Count line feeds, quotation marks, carriage returns and NULs.

    Parameters
    ----------
    block : ndarray of uint8
        Bytes.
    size : int
        Number of bytes to look at.

    Returns
    -------
    tuple of int
    """
    n_lines, n_quotes, n_returns, n_nuls = 0, 0, 0, 0
    for at in range(size):
        byte = block[at]
        n_lines += byte == _LF
        n_quotes += byte == _QUOTE
        n_returns += byte == _CR
        n_nuls += byte == 0
    return n_lines, n_quotes, n_returns, n_nuls


@njit(cache=True, nogil=True, error_model="numpy")
def scan_rows(
    block: NDArray[np.uint8],
    words: Words,
    size: int,
    separator: np.uint8,
    role_of: NDArray[np.int64],
    position: NDArray[np.int64],
    users: Table,
    items: Table,
    user_codes: NDArray[np.int32],
    item_codes: NDArray[np.int32],
    weights: NDArray[np.float32],
    ratings: NDArray[np.float32],
    times: NDArray[np.int64],
) -> int:
    """Scan rows from a position on.

    Parameters
    ----------
    block : ndarray of uint8
        Whole lines, each ended by a line feed, with eight bytes more behind them.
    words : ndarray of uint64
        The block, as `as_words` gives it.
    size : int
        Number of bytes of the lines.
    separator : uint8
        The character between columns.
    role_of : ndarray of int64
        Meaning of each column, or -1.
    position : ndarray of int64
        First byte and first row to scan, and the number of quotes around the fields before them; moved on.
    users, items : tuple of ndarray
        Slots, texts and counts of a table of ids.
    user_codes, item_codes : ndarray of int32
        Filled with the number of each row's user and item.
    weights, ratings, times : ndarray
        Filled with the other values of each row; empty if there is no such column.

    Returns
    -------
    int
        `DONE`, `TABLE_FULL` or `ODD`.
    """
    starts = np.empty((5, BATCH), dtype=np.int64)
    lengths = np.zeros((5, BATCH), dtype=np.int64)
    hashes = np.empty((5, BATCH), dtype=np.uint64)
    while position[0] < size:
        n_rows, end, n_quotes = _split_rows(
            block, words, position[0], size, separator, role_of, starts, lengths, hashes
        )
        if n_rows < 0:
            return ODD
        if not (has_room(users, lengths[USER], n_rows) & has_room(items, lengths[ITEM], n_rows)):
            return TABLE_FULL
        rows = slice(position[1], position[1] + n_rows)
        number_ids(words, starts[USER], lengths[USER], hashes[USER], users, user_codes[rows])
        number_ids(words, starts[ITEM], lengths[ITEM], hashes[ITEM], items, item_codes[rows])
        if not (
            _parse_floats(block, starts[WEIGHT], lengths[WEIGHT], weights[rows])
            and _parse_floats(block, starts[RATING], lengths[RATING], ratings[rows])
            and _parse_integers(words, starts[TIMESTAMP], lengths[TIMESTAMP], times[rows])
        ):
            return ODD
        position += np.array([end - position[0], n_rows, n_quotes])
    return DONE


@njit(cache=True, nogil=True, error_model="numpy")
def _split_rows(
    block: NDArray[np.uint8],
    words: Words,
    at: int,
    size: int,
    separator: np.uint8,
    role_of: NDArray[np.int64],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    hashes: Words,
) -> tuple[int, int, int]:
    """Find the fields of at most a batch of rows.

    Return the number of rows, or -1 if one is odd, the position behind them, and the number of quotes around fields.
    """
    separators, quotes, line_feeds = np.uint64(separator) * _ONES, np.uint64(_QUOTE) * _ONES, np.uint64(_LF) * _ONES
    n_columns, row, n_quotes = len(role_of), 0, 0
    while row < BATCH and at < size:
        if block[at] == _LF:  # a blank line is no row
            at += 1
            continue
        for column in range(n_columns):
            is_quoted = block[at] == _QUOTE
            at += is_quoted
            ends = quotes if is_quoted else separators
            start, total = at, np.uint64(0)
            while True:
                word = words[at]
                # The lowest byte of `found` that is not zero stands where the field or the line ends.
                one, other = word ^ ends, word ^ line_feeds
                found = (((one - _ONES) & ~one) | ((other - _ONES) & ~other)) & _HIGH_BITS
                if found:
                    break
                total = mix_word(total, word)
                at += 8
            below = ((found & (~found + _1)) >> _7) - _1
            at += np.int64(((below & _ONES) * _ONES) >> _56)  # type: ignore[assignment]
            end = at
            if is_quoted:
                if block[at] == _LF:
                    return -1, 0, 0
                n_quotes += 2
                at += 1
            if block[at] != (_LF if column == n_columns - 1 else separator):
                return -1, 0, 0
            role = role_of[column]
            if role >= 0:
                if end == start:
                    return -1, 0, 0
                total = finish_hash(mix_word(total, word & below))
                starts[role, row], lengths[role, row], hashes[role, row] = start, end - start, total
            at += 1
        row += 1
    return row, at, n_quotes


@njit(cache=True, nogil=True, error_model="numpy")
def _parse_integers(
    words: Words, starts: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.int64]
) -> bool:
    """Parse plain integers of at most 16 digits; return whether all of them are."""
    is_plain = True
    for row in range(len(out)):
        start, n_digits = starts[row], lengths[row]
        is_negative = (words[start] & np.uint64(255)) == _MINUS
        if is_negative:
            start, n_digits = start + 1, n_digits - 1
        if not 0 < n_digits <= 16:
            return False
        n_last = min(n_digits, 8)
        value, is_number = _parse_digits(words[start + n_digits - n_last], n_last)
        is_plain &= is_number
        if n_digits > 8:
            first, is_number = _parse_digits(words[start], n_digits - 8)
            value += 100_000_000 * first
            is_plain &= is_number
        out[row] = -value if is_negative else value
    return is_plain


@njit(cache=True, nogil=True, error_model="numpy")
def _parse_digits(word: np.uint64, n_digits: int) -> tuple[int, bool]:
    """Return the number of one to eight digits at the beginning of a word, and whether they are digits."""
    n_bits = np.uint64(8 * (n_digits - 1))
    digits = (word << (_56 - n_bits)) | (_ZEROS >> n_bits >> _8)  # zeros are put before them
    is_number = ((digits + _ABOVE_NINE) | (digits - _ZEROS)) & _HIGH_BITS == 0
    digits -= _ZEROS
    # Neighbours become numbers of two digits, then of four, then of eight.
    digits = (digits * np.uint64(10) + (digits >> _8)) & np.uint64(0x00FF00FF00FF00FF)
    digits = (digits * np.uint64(100) + (digits >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    digits = (digits * np.uint64(10_000) + (digits >> _32)) & _LOW_HALF
    return np.int64(digits), is_number  # type: ignore[return-value]


@njit(cache=True, nogil=True, error_model="numpy")
def _parse_floats(
    block: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], out: NDArray[np.float32]
) -> bool:
    """Parse plain decimal numbers such as 4.5 that one division rounds correctly; return whether all of them are."""
    power_of = np.array([10**power for power in range(_MAX_DECIMALS + 1)], dtype=np.float32)
    for row in range(len(out)):
        start, end = starts[row], starts[row] + lengths[row]
        is_negative = block[start] == ord("-")
        start += is_negative
        mantissa, n_decimals, point = np.int64(0), 0, -1
        if end - start > 12 or end == start:
            return False
        for at in range(start, end):
            digit = np.int64(block[at]) - 48
            if (digit >= 0) & (digit <= 9):
                mantissa = 10 * mantissa + digit
            elif block[at] == ord(".") and point < 0 and start < at < end - 1:
                point = at
            else:
                return False
        n_decimals = end - 1 - point if point >= 0 else 0
        if mantissa > _MAX_MANTISSA or n_decimals > _MAX_DECIMALS:
            return False
        value = np.float32(mantissa) / power_of[n_decimals]
        out[row] = -value if is_negative else value
    return True
