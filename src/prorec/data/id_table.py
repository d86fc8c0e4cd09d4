"""Tables that number distinct texts, for compiled code: ids are looked up by the bytes of a file."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec._core.compilation import njit

Words = NDArray[np.uint64]
Table = tuple[Words, Words, NDArray[np.int64]]
"""Slots, entries and counts, as `IdTable` describes them."""

_GROUP = 128
"""Rows whose ids are looked up together."""
_MAX_WORDS = 1 << 32
_1, _8, _32, _56 = (np.uint64(bits) for bits in (1, 8, 32, 56))
_LOW_HALF = np.uint64(0xFFFFFFFF)
_FACTOR, _LAST_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


class NotPlainError(Exception):
    """A text file is not plain, so that Arrow must read it."""


@dataclass
class IdTable:
    """The distinct texts that one thread has met, in the order in which they came."""

    slots: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(1 << 14, dtype=np.uint64))
    """A hash table: in each slot half of a hash and the place of an entry, or 0."""
    texts: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(1 << 15, dtype=np.uint64))
    """Entries: a number with the other half of the hash, and the text padded by one to eight zero bytes."""
    counts: NDArray[np.int64] = field(default_factory=lambda: np.array([0, 1, 0, 0], dtype=np.int64))
    """Number of texts, and of words up to the end of the last one; of both, how many there should be room for."""

    def arrays(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
        """Return the table as compiled code takes it.

        Returns
        -------
        slots, texts, counts : ndarray
        """
        return self.slots, self.texts, self.counts

    def grow(self) -> None:
        """Make the room that is asked for.

        Raises
        ------
        NotPlainError
            If the texts are too large for the table.
        """
        _, n_words, wanted_texts, wanted_words = self.counts
        if wanted_words > len(self.texts):
            if 2 * wanted_words > _MAX_WORDS:
                raise NotPlainError
            self.texts = np.concatenate([self.texts[:n_words], np.zeros(2 * wanted_words - n_words, dtype=np.uint64)])
        if 2 * wanted_texts > len(self.slots):
            self.slots = np.zeros(1 << int(4 * wanted_texts - 1).bit_length(), dtype=np.uint64)
            _fill_slots(self.slots, self.texts, n_words)

    def to_arrow(self) -> pa.Array:
        """Return the texts.

        Returns
        -------
        pyarrow.Array of large_string

        Raises
        ------
        pyarrow.ArrowInvalid
            If a text is not UTF-8.
        """
        n_texts, n_words = self.counts[:2]
        offsets, content = np.empty(n_texts + 1, dtype=np.int64), np.empty(8 * n_words, dtype=np.uint8)
        _copy_texts(self.texts, n_words, offsets, content)
        texts = pa.Array.from_buffers(
            pa.large_string(), int(n_texts), [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        )
        texts.validate(full=True)  # text that is not UTF-8 is refused
        return texts


@njit(cache=True, nogil=True, error_model="numpy")
def mix_word(total: np.uint64, word: np.uint64) -> np.uint64:
    """Add a word to the hash of a text.

    Parameters
    ----------
    total : uint64
        Hash of the words before; 0 at first.
    word : uint64
        The next eight bytes.

    Returns
    -------
    uint64
    """
    total = (total ^ word) * _FACTOR
    return total ^ (total >> _32)


@njit(cache=True, nogil=True, error_model="numpy")
def finish_hash(total: np.uint64) -> np.uint64:
    """Return the hash of a text, all bits of which depend on all bytes.

    Parameters
    ----------
    total : uint64
        What `mix_word` gives for the last word.

    Returns
    -------
    uint64
    """
    total *= _LAST_FACTOR
    return total ^ (total >> _32)


@njit(cache=True, nogil=True, error_model="numpy")
def has_room(table: Table, lengths: NDArray[np.int64], n_rows: int) -> bool:
    """Return whether a table has room for some texts, even if all of them are new, and note what that takes.

    Parameters
    ----------
    table : tuple of ndarray
        A table, as `IdTable.arrays` gives it.
    lengths : ndarray of int64
        Number of bytes of each text.
    n_rows : int
        Number of texts.

    Returns
    -------
    bool
    """
    slots, texts, counts = table
    n_words = counts[1]
    for row in range(n_rows):
        n_words += 2 + (lengths[row] >> 3)
    counts[2], counts[3] = counts[0] + n_rows, n_words
    return bool(2 * counts[2] <= len(slots)) and bool(n_words <= len(texts))


@njit(cache=True, nogil=True, error_model="numpy")
def number_ids(
    words: Words,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    hashes: Words,
    table: Table,
    codes: NDArray[np.int32],
) -> None:
    """Look up the number of each text in a table; a new text gets the next number.

    Parameters
    ----------
    words : ndarray of uint64
        The eight bytes from each position of a block on.
    starts, lengths : ndarray of int64
        First byte and number of bytes of each text.
    hashes : ndarray of uint64
        Hash of each text.
    table : tuple of ndarray
        A table with room for all of them.
    codes : ndarray of int32
        Filled with the numbers.
    """
    slots, texts, counts = table
    mask = np.uint64(len(slots) - 1)
    for row in range(len(codes)):
        if row % _GROUP == 0:
            # Touching the slots and entries of several rows first lets the memory answer many requests together.
            touched = np.uint64(0)
            for each in range(row, min(row + _GROUP, len(codes))):
                touched += slots[hashes[each] & mask]
            for each in range(row, min(row + _GROUP, len(codes))):
                touched += texts[np.int64(slots[hashes[each] & mask] & _LOW_HALF)]
            counts[2] = np.int64(touched)
        start, n_whole, hash_ = starts[row], lengths[row] >> 3, hashes[row]
        last = words[start + 8 * n_whole] & ((_1 << (np.uint64(lengths[row] & 7) * _8)) - _1)
        at = hash_ & mask
        while True:
            slot = slots[at]
            if slot == 0:
                entry = counts[1]
                slots[at] = (hash_ >> _32 << _32) | np.uint64(entry)
                texts[entry] = (np.uint64(counts[0]) << _32) | (hash_ & _LOW_HALF)
                for each in range(n_whole):
                    texts[entry + 1 + each] = words[start + 8 * each]
                texts[entry + 1 + n_whole] = last
                codes[row] = counts[0]
                counts[0] += 1
                counts[1] += n_whole + 2
                break
            if slot >> _32 == hash_ >> _32:
                entry = np.int64(slot & _LOW_HALF)
                is_same = True
                for each in range(n_whole):
                    is_same &= texts[entry + 1 + each] == words[start + 8 * each]
                    if not is_same:
                        break
                if is_same and texts[entry + 1 + n_whole] == last:
                    codes[row] = np.int64(texts[entry] >> _32)
                    break
            at = (at + _1) & mask


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_slots(slots: Words, texts: Words, n_words: int) -> None:
    """Fill empty slots, as many as a power of two, with the entries of a table."""
    mask = np.uint64(len(slots) - 1)
    entry = 1
    while entry < n_words:
        word, end = np.uint64(0), entry + 1
        total = np.uint64(0)
        while True:
            word = texts[end]
            total = mix_word(total, word)
            end += 1
            if word >> _56 == 0:  # the padding
                break
        total = finish_hash(total)
        at = total & mask
        while slots[at] != 0:
            at = (at + _1) & mask
        slots[at] = (total >> _32 << _32) | np.uint64(entry)
        entry = end


@njit(cache=True, nogil=True, error_model="numpy")
def _copy_texts(texts: Words, n_words: int, offsets: NDArray[np.int64], out: NDArray[np.uint8]) -> None:
    """Copy the texts of a table one behind the other, and the beginning of each and the end of the last."""
    entry, number, size = 1, 0, 0
    while entry < n_words:
        offsets[number] = size
        number += 1
        entry += 1
        while True:
            word = texts[entry]
            entry += 1
            is_last = word >> _56 == 0
            while word:
                out[size] = np.uint8(word & np.uint64(255))
                word >>= _8
                size += 1
            if is_last:
                break
    offsets[number] = size
