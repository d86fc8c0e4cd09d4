"""Text files of separated columns: which columns, of which types, and where a bad line is."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from prorec._columns import ColumnRef, choose_columns, is_number
from prorec.data._files import ending_of, is_gzipped, opened
from prorec.errors import InputError, RowError

_HEAD_BYTES = 1 << 20
# Integers whose text can be had back from their value ("007" cannot, and stays text), and missing ones.
_INTEGER_OR_MISSING = r"^(|0|-?[1-9][0-9]{0,17})$"


@dataclass(frozen=True)
class TextFile:
    """A file of lines, each with columns between separators."""

    path: Path
    separator: str
    header: bool

    def read(self, wanted: dict[str, ColumnRef], ids: str) -> dict[str, pa.ChunkedArray]:
        """The columns that play a role, by role."""
        chosen = choose_columns(self._names, wanted, has_header=self.header)
        try:
            types = self._types(chosen, ids)
        except pa.ArrowInvalid as error:
            raise self._explained(error, None, chosen) from error
        table = self._read_as(chosen, types)
        if not table.num_rows:
            raise InputError("the file has a header but no rows")
        return {role: table.column(place) for place, role in enumerate(chosen)}

    def line_of(self, row: int) -> int:
        """The line, from 1, on which a row, from 0, begins."""
        return next(line for at, (line, _) in enumerate(self._rows()) if at == row)

    @cached_property
    def _head(self) -> bytes:
        """The first whole lines, enough to tell columns and types by."""
        with opened(self.path) as file:
            head = file.read(_HEAD_BYTES)
        if not head.strip():
            raise InputError("the file has nothing in it")
        if b"\x00" in head:
            raise InputError("the file is binary; text was expected")
        if len(head) == _HEAD_BYTES and b"\n" in head:
            head = head[: head.rindex(b"\n") + 1]
        return head

    @cached_property
    def _first(self) -> tuple[int, list[str]]:
        """Number of lines up to the end of the first row, and that row."""
        reader = csv.reader(io.StringIO(self._head.decode("utf-8-sig", "replace")), delimiter=self.separator)
        try:
            return next((reader.line_num, row) for row in reader if row)
        except csv.Error as error:
            raise InputError(f"not a text file with columns between {self.separator!r}: {error}") from error

    @property
    def _names(self) -> list[str]:
        _, first = self._first
        if not self.header:
            return [f"column {at}" for at in range(len(first))]
        if ending_of(self.path) == ".inter":
            # RecBole writes each column's type behind its name: user_id:token.
            return [name.partition(":")[0] for name in first]
        return first

    def _types(self, chosen: dict[str, int], ids: str) -> dict[str, pa.DataType]:
        """The type to read each role as, judged by the first lines; a role left out is for Arrow to infer."""
        types: dict[str, pa.DataType] = {"weight": pa.float32(), "rating": pa.float32()}
        id_columns = {role: chosen[role] for role in ("user", "item")}
        sample = self._parse(pa.BufferReader(self._head), id_columns, dict.fromkeys(id_columns, pa.string()))
        for role, column in zip(id_columns, sample.columns, strict=True):
            integers = pc.all(pc.match_substring_regex(column, _INTEGER_OR_MISSING), min_count=0).as_py()
            types[role] = pa.int64() if integers and ids == "auto" else pa.string()
        return types

    def _read_as(self, chosen: dict[str, int], types: dict[str, pa.DataType]) -> pa.Table:
        """The whole file; where the first lines misled about an id or a time, again with a wider type."""
        while True:
            try:
                if not is_gzipped(self.path):
                    return self._parse(str(self.path), chosen, types)
                with opened(self.path) as file:
                    return self._parse(pa.PythonFile(file, mode="r"), chosen, types)
            except pa.ArrowInvalid as error:
                place = re.search(r"In CSV column #(\d+)", str(error))
                role = next((role for role, at in chosen.items() if place and at == int(place[1])), None)
                if role in ("user", "item") and types[role] == pa.int64():
                    types[role] = pa.string()
                elif role == "timestamp" and role not in types:
                    types[role] = pa.float64()
                else:
                    raise self._explained(error, role, chosen) from error

    def _parse(self, source: Any, chosen: dict[str, int], types: dict[str, pa.DataType]) -> pa.Table:
        # Arrow gets our own names for the columns, so that empty or repeated ones in the header do no harm.
        lines, first = self._first
        names = [str(at) for at in range(len(first))]
        return pacsv.read_csv(
            source,
            pacsv.ReadOptions(column_names=names, skip_rows=lines if self.header else 0),
            pacsv.ParseOptions(delimiter=self.separator, newlines_in_values=self._has_quoted_newlines),
            pacsv.ConvertOptions(
                include_columns=[names[at] for at in chosen.values()],
                column_types={names[at]: types[role] for role, at in chosen.items() if role in types},
            ),
        )

    @cached_property
    def _has_quoted_newlines(self) -> bool:
        # Looking costs little; Arrow reads such files in one thread, so it is not told to without need.
        return b'"' in self._head and any("\n" in field for _, row in self._rows(self._head) for field in row)

    def _explained(self, error: pa.ArrowInvalid, role: str | None, chosen: dict[str, int]) -> InputError:
        """What Arrow found wrong, as the row and the value it is about where that can be told."""
        if role in ("weight", "rating", "timestamp"):
            at = chosen[role]
            kind = "a number or a date" if role == "timestamp" else "a number"
            found = self._find(lambda row: len(row) > at and row[at] != "" and not is_number(row[at]))
            if found:
                return RowError(f"the {role} {found[1][at]!r} is not {kind}", found[0])
        width = len(self._first[1])
        if found := self._find(lambda row: len(row) != width):
            return RowError(f"{len(found[1])} columns instead of {width}", found[0])
        return InputError(f"not a text file with columns between {self.separator!r}: {error}")

    def _find(self, is_bad: Callable[[list[str]], bool]) -> tuple[int, list[str]] | None:
        try:
            return next(((at, row) for at, (_, row) in enumerate(self._rows()) if is_bad(row)), None)
        except csv.Error:
            return None

    def _rows(self, head: bytes | None = None) -> Iterator[tuple[int, list[str]]]:
        """Each row with the line it begins on, the header left out: slow, for what Arrow cannot tell."""
        with opened(self.path) as file:
            source: Any = file if head is None else io.BytesIO(head)
            text = io.TextIOWrapper(source, encoding="utf-8-sig", errors="replace", newline="")
            reader = csv.reader(text, delimiter=self.separator)
            begins = 1
            skip = self.header
            for row in reader:
                if row and not skip:
                    yield begins, row
                skip = skip and not row
                begins = reader.line_num + 1
            text.detach()
