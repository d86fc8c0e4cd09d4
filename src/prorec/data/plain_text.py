"""One pass over a plain text file: ids are numbered and numbers parsed block by block, on all cores.

A file is plain if all of its rows are complete, quotation marks stand only around whole fields, and weights, ratings
and times are plain decimal numbers. Arrow reads all other files, with the same result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from prorec._core.parallel import N_CORES
from prorec.data.id_table import IdTable, NotPlainError
from prorec.data.line_scan import DONE, TABLE_FULL, as_words, count_marks, scan_rows
from prorec.data.text_columns import infer_integers
from prorec.interactions.column_names import ROLES

_BLOCK = 1 << 22
_MARGIN = 16
"""Bytes behind the lines of a block; they are read, but mean nothing."""
_MAX_LINE = 1 << 26
_TYPES: dict[str, type[np.generic]] = {"user": np.int32, "item": np.int32, "timestamp": np.int64}
_BOM = b"\xef\xbb\xbf"


def read_plain(
    file: BinaryIO,
    chosen: Mapping[str, int],
    *,
    separator: str,
    n_columns: int,
    n_header_lines: int,
    ids: str,
    file_size: int = 0,
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
    file_size : int, default 0
        About the number of bytes of the text, to reserve memory by; 0 if it is not known.

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
    scanner = _Scanner(role_of, np.uint8(ord(separator)), file_size)
    try:
        with ThreadPoolExecutor(N_CORES) as pool:
            for block, size in _iterate_blocks(file, n_header_lines):
                scanner.submit(pool, block, size)
            return scanner.finish(pool, chosen, ids)
    except (NotPlainError, pa.ArrowInvalid):
        return None


@dataclass
class _Part:
    """The rows of a block."""

    first: int
    """First row."""
    end: int
    """End of the rows; there is a gap behind it if the block has blank lines."""
    worker: int = 0
    """Index of the tables by which the ids are numbered."""


class _Scanner:
    """Scan blocks in several threads, each with tables of its own, into one array for each column."""

    def __init__(self, role_of: NDArray[np.int64], separator: np.uint8, file_size: int) -> None:
        self._role_of, self._separator, self._file_size = role_of, separator, file_size
        self._tables = [{"user": IdTable(), "item": IdTable()} for _ in range(N_CORES)]
        self._free: SimpleQueue[int] = SimpleQueue()
        for worker in range(N_CORES):
            self._free.put(worker)
        self._columns = {role: np.empty(0, dtype=_TYPES.get(role, np.float32)) for role in ROLES}
        self._waiting: deque[Future[_Part]] = deque()
        self._parts: list[_Part] = []
        self._n_rows = 0

    def submit(self, pool: ThreadPoolExecutor, block: bytearray, size: int) -> None:
        """Scan a block of whole lines in another thread."""
        view = np.frombuffer(block, dtype=np.uint8)
        n_lines, n_quotes, n_returns, n_nuls = count_marks(view, size)
        if n_nuls:
            raise NotPlainError
        if n_returns:
            if n_returns != block.count(b"\r\n", 0, size):
                raise NotPlainError
            lines = block[:size].replace(b"\r\n", b"\n")
            size = len(lines)
            view = np.frombuffer(lines + bytes(_MARGIN), dtype=np.uint8)
        first = self._n_rows
        self._n_rows += n_lines
        if self._n_rows > len(self._columns["user"]):
            self._collect(0)
            # Memory that is reserved, but never written to, costs nothing.
            self._grow(max(2 * self._n_rows, int(1.05 * n_lines * self._file_size / size)))
        self._collect(N_CORES)
        self._waiting.append(pool.submit(self._scan, view, size, first, n_lines, n_quotes))

    def _collect(self, n_left: int) -> None:
        """Wait for blocks until some are left."""
        while len(self._waiting) > n_left:
            self._parts.append(self._waiting.popleft().result())

    def _grow(self, n_rows: int) -> None:
        """Make room for more rows."""
        for index, (role, old) in enumerate(self._columns.items()):
            if index in self._role_of:
                new = np.empty(n_rows, dtype=old.dtype)
                new[: len(old)] = old
                self._columns[role] = new

    def _scan(self, view: NDArray[np.uint8], size: int, first: int, n_lines: int, n_quotes: int) -> _Part:
        at = np.zeros(3, dtype=np.int64)
        outputs = [self._columns[role][first : first + n_lines] for role in ROLES]
        worker = self._free.get()
        try:
            status = self._scan_rows(view, size, at, self._tables[worker], outputs)
        finally:
            self._free.put(worker)
        # A quotation mark inside a field may mean anything.
        if status != DONE or at[2] != n_quotes:
            raise NotPlainError
        return _Part(first, first + int(at[1]), worker)

    def _scan_rows(
        self,
        view: NDArray[np.uint8],
        size: int,
        at: NDArray[np.int64],
        tables: Mapping[str, IdTable],
        outputs: Sequence[NDArray[Any]],
    ) -> int:
        """Scan all rows of a block, with tables that grow; return the status."""
        status = TABLE_FULL
        while status == TABLE_FULL:
            users, items = (tables[role].arrays() for role in ("user", "item"))
            status = scan_rows(view, as_words(view), size, self._separator, self._role_of, at, users, items, *outputs)
            if status == TABLE_FULL:
                for table in tables.values():
                    table.grow()
        return status

    def finish(self, pool: ThreadPoolExecutor, chosen: Mapping[str, int], ids: str) -> dict[str, pa.ChunkedArray]:
        """Return the columns, with ids numbered in their order; to be called once."""
        self._collect(0)
        if not any(part.end > part.first for part in self._parts):
            raise NotPlainError
        result = {}
        tables = {role: [each.pop(role) for each in self._tables] for role in ("user", "item")}
        unified = {role: pool.submit(_unify, tables.pop(role), ids) for role in ("user", "item")}
        for role in chosen:
            values = self._columns.pop(role)
            if role in ("user", "item"):
                distinct, positions = unified[role].result()
                list(pool.map(partial(_renumber, values, positions), self._parts))
            if self._parts[-1].end < self._n_rows or any(one.end < next_.first for one, next_ in pairwise(self._parts)):
                values = np.concatenate([values[part.first : part.end] for part in self._parts])
            column = pa.array(values[: self._n_rows])
            if role in ("user", "item"):
                column = pa.DictionaryArray.from_arrays(column, distinct, safe=False)
            result[role] = pa.chunked_array([column])
        return result


def _unify(tables: list[IdTable], ids: str) -> tuple[pa.Array, list[NDArray[np.int32]]]:
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


def _renumber(codes: NDArray[np.int32], positions: list[NDArray[np.int32]], part: _Part) -> None:
    """Number the ids of some rows anew."""
    rows = codes[part.first : part.end]
    rows[:] = positions[part.worker].take(rows)


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
                    raise NotPlainError
            if b"\r" in block[:start].replace(b"\r\n", b"\n"):
                raise NotPlainError
            del block[:start]
            size, is_first = size - start, False
        end = block.rfind(b"\n", 0, size) + 1
        rest = bytes(block[end:size])
        if len(rest) > _MAX_LINE:
            raise NotPlainError
        if end:
            yield block, end
