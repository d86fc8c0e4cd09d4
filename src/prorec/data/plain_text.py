"""One pass over a plain text file: ids are numbered and numbers parsed block by block, on all cores.

A file is plain if all of its rows are complete, quotation marks stand only around whole fields, and weights, ratings
and times are plain decimal numbers. Arrow reads all other files, with the same result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from prorec._core.parallel import N_CORES
from prorec.data.line_scan import DONE, TABLE_FULL, as_words, copy_texts, fill_slots, scan_rows
from prorec.data.text_columns import infer_integers
from prorec.interactions.column_names import ROLES

_BLOCK = 1 << 22
_MARGIN = 16
"""Bytes behind the lines of a block; they are read, but mean nothing."""
_MAX_LINE = 1 << 26
_BOM = b"\xef\xbb\xbf"
_MAX_WORDS = 1 << 32


class _NotPlainError(Exception):
    """The file is not plain."""


def read_plain(
    file: BinaryIO,
    chosen: Mapping[str, int],
    *,
    separator: str,
    n_columns: int,
    n_header_lines: int,
    ids: str,
) -> dict[str, pa.ChunkedArray] | None:
    """Read columns of a text file in one pass.

    Parameters
    ----------
    file : binary file
        The text as UTF-8, perhaps with a byte order mark.
    chosen : mapping of str to int
        Position of the column of each role; at least those of "user" and "item".
    separator : str
        The character between columns.
    n_columns : int
        Number of columns that each row must have.
    n_header_lines : int
        Number of lines before the rows.
    ids : {"auto", "text"}
        Whether to convert ids to integers where all of them are plain integers.

    Returns
    -------
    dict of str to pyarrow.ChunkedArray or None
        Columns by role; ids are categories. None if the file is not plain.
    """
    if not {"user", "item"} <= chosen.keys() or separator in '"\r\n\0':
        return None
    role_of = np.full(n_columns, -1, dtype=np.int64)
    for role, position in chosen.items():
        role_of[position] = ROLES.index(role)
    scanner = _Scanner(role_of, np.uint8(ord(separator)))
    parts: list[_Part] = []
    try:
        with ThreadPoolExecutor(N_CORES) as pool:
            waiting: deque[Future[_Part]] = deque()
            for block, size in _iterate_blocks(file, n_header_lines):
                waiting.append(pool.submit(scanner.scan, block, size))
                if len(waiting) > N_CORES:
                    parts.append(waiting.popleft().result())
            parts += [future.result() for future in waiting]
            return _join(scanner, parts, chosen, ids, pool) if sum(part.n_rows for part in parts) else None
    except (_NotPlainError, pa.ArrowInvalid):
        return None


@dataclass
class _IdTable:
    """The distinct texts that one thread has met, in the order in which they came."""

    slots: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(1 << 14, dtype=np.uint64))
    texts: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(1 << 15, dtype=np.uint64))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.array([0, 1, 0, 0], dtype=np.int64))
    """Number of texts, and of words up to the end of the last one; of both, how many there should be room for."""

    def arrays(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64]]:
        """Return the table as compiled code takes it."""
        return self.slots, self.texts, self.counts

    def grow(self) -> None:
        """Make the room that is asked for."""
        _, n_words, wanted_texts, wanted_words = self.counts
        if wanted_words > len(self.texts):
            if 2 * wanted_words > _MAX_WORDS:
                raise _NotPlainError
            self.texts = np.concatenate([self.texts[:n_words], np.zeros(2 * wanted_words - n_words, dtype=np.uint64)])
        if 2 * wanted_texts > len(self.slots):
            self.slots = np.zeros(1 << int(4 * wanted_texts - 1).bit_length(), dtype=np.uint64)
            fill_slots(self.slots, self.texts, n_words)

    def to_arrow(self) -> pa.Array:
        """Return the texts."""
        n_texts, n_words = self.counts[:2]
        offsets, content = np.empty(n_texts + 1, dtype=np.int64), np.empty(8 * n_words, dtype=np.uint8)
        copy_texts(self.texts, n_words, offsets, content)
        texts = pa.Array.from_buffers(
            pa.large_string(), int(n_texts), [None, pa.py_buffer(offsets), pa.py_buffer(content)]
        )
        texts.validate(full=True)  # text that is not UTF-8 is refused
        return texts


@dataclass
class _Part:
    """The rows of a block."""

    worker: int
    """Index of the tables by which its ids are numbered."""
    n_rows: int
    codes: dict[str, NDArray[np.int32]]
    values: dict[str, NDArray[np.float32] | NDArray[np.int64]]


class _Scanner:
    """Scan blocks in several threads, each with tables of its own."""

    def __init__(self, role_of: NDArray[np.int64], separator: np.uint8) -> None:
        self._role_of, self._separator = role_of, separator
        self.tables = [{"user": _IdTable(), "item": _IdTable()} for _ in range(N_CORES)]
        self._free: SimpleQueue[int] = SimpleQueue()
        for worker in range(N_CORES):
            self._free.put(worker)

    def scan(self, block: bytearray, size: int) -> _Part:
        """Scan a block of whole lines."""
        if block.find(b"\r", 0, size) >= 0:
            if block.count(b"\r", 0, size) != block.count(b"\r\n", 0, size):
                raise _NotPlainError
            block = block[:size].replace(b"\r\n", b"\n")
            size = len(block)
            block += bytes(_MARGIN)
        if block.find(b"\0", 0, size) >= 0:
            raise _NotPlainError
        view = np.frombuffer(block, dtype=np.uint8)
        n_rows = int(np.count_nonzero(view[:size] == ord("\n")))  # or a little more, if there are blank lines
        codes = {role: np.empty(n_rows, dtype=np.int32) for role in ("user", "item")}
        values: dict[str, NDArray[np.float32] | NDArray[np.int64]] = {}
        for role in ROLES[2:]:
            has_role = ROLES.index(role) in self._role_of
            type_ = np.int64 if role == "timestamp" else np.float32
            values[role] = np.empty(n_rows if has_role else 0, dtype=type_)
        worker = self._free.get()
        try:
            tables, at = self.tables[worker], np.zeros(3, dtype=np.int64)
            status = TABLE_FULL
            while status == TABLE_FULL:
                status = scan_rows(
                    view,
                    as_words(view),
                    size,
                    self._separator,
                    self._role_of,
                    at,
                    tables["user"].arrays(),
                    tables["item"].arrays(),
                    codes["user"],
                    codes["item"],
                    values["weight"],
                    values["rating"],
                    values["timestamp"],
                )
                if status == TABLE_FULL:
                    for table in tables.values():
                        table.grow()
        finally:
            self._free.put(worker)
        # A quotation mark inside a field may mean anything.
        if status != DONE or at[2] != np.count_nonzero(view[:size] == ord('"')):
            raise _NotPlainError
        n_rows = int(at[1])
        return _Part(
            worker,
            n_rows,
            {role: each[:n_rows] for role, each in codes.items()},
            {role: each[:n_rows] for role, each in values.items() if len(each)},
        )


def _iterate_blocks(file: BinaryIO, n_header_lines: int) -> Iterator[tuple[bytearray, int]]:
    """Yield blocks of whole lines below the header, each with the number of their bytes."""
    rest, is_end, is_first = b"", False, True
    while not is_end:
        block = bytearray(len(rest) + _BLOCK + _MARGIN)
        block[: len(rest)] = rest
        size = len(rest)
        with memoryview(block) as view:
            while size < len(block) - _MARGIN and not is_end:
                n_read = file.readinto(view[size : len(block) - _MARGIN])  # type: ignore[attr-defined]
                is_end = not n_read
                size += n_read
        if is_end and size and block[size - 1] != ord("\n"):
            block[size] = ord("\n")
            size += 1
        if is_first:
            start = len(_BOM) if block.startswith(_BOM) else 0
            for _ in range(n_header_lines):
                start = block.find(b"\n", start, size) + 1
                if not start:
                    raise _NotPlainError
            if b"\r" in block[:start].replace(b"\r\n", b"\n"):
                raise _NotPlainError
            del block[:start]
            size, is_first = size - start, False
        end = block.rfind(b"\n", 0, size) + 1
        rest = bytes(block[end:size])
        if len(rest) > _MAX_LINE:
            raise _NotPlainError
        if end:
            yield block, end


def _join(
    scanner: _Scanner, parts: list[_Part], chosen: Mapping[str, int], ids: str, pool: ThreadPoolExecutor
) -> dict[str, pa.ChunkedArray]:
    """Return the columns of all parts, with ids numbered in their order."""
    first_rows = np.cumsum([0, *(part.n_rows for part in parts)])
    columns = {}
    for role in chosen:
        if role not in ("user", "item"):
            values = np.concatenate([part.values.pop(role) for part in parts])
            columns[role] = pa.chunked_array([pa.array(values)])
            continue
        distinct, new_codes = _unify([tables.pop(role) for tables in scanner.tables], ids)
        codes = np.empty(first_rows[-1], dtype=np.int32)
        renumber = partial(_renumber, role, parts, first_rows, new_codes, codes)
        list(pool.map(renumber, range(len(parts))))
        columns[role] = pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(codes), distinct, safe=False)])
    return columns


def _unify(tables: list[_IdTable], ids: str) -> tuple[pa.Array, list[NDArray[np.int32]]]:
    """Return the sorted ids of all tables, and for each table the positions of its texts among them."""
    texts = [table.to_arrow() for table in tables]
    unified = pa.chunked_array(texts).dictionary_encode().combine_chunks()
    distinct = pa.chunked_array([unified.dictionary])
    distinct = (infer_integers(distinct) if ids == "auto" else distinct).combine_chunks()
    order = pc.array_sort_indices(distinct)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
    positions = rank[unified.indices.to_numpy()]
    return distinct.take(order), np.split(positions, np.cumsum([len(each) for each in texts])[:-1])


def _renumber(
    role: str,
    parts: list[_Part],
    first_rows: NDArray[np.int64],
    new_codes: list[NDArray[np.int32]],
    codes: NDArray[np.int32],
    index: int,
) -> None:
    """Fill in the codes of one part, numbered anew."""
    own = parts[index].codes.pop(role)
    new_codes[parts[index].worker].take(own, out=codes[first_rows[index] : first_rows[index + 1]], mode="clip")
