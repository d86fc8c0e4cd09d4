"""Text files of separated columns: which columns, of which types, and where a bad line is."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from prorec._core.errors import DataWarning, InputError, RowError
from prorec.data.byte_check import Look, look_at
from prorec.data.formats import format_suffix, is_gzipped, open_decompressed
from prorec.interactions.columns import ALIASES, ColumnRef, choose_columns, is_number

_HEAD_BYTES = 1 << 20
_LARGE_BLOCK = 1 << 28
# Integers whose text can be had back from their value ("007" cannot, and stays text), and missing ones.
_INTEGER_OR_MISSING = r"^(|0|-?[1-9][0-9]{0,18})$"
# Numbers of at most fifteen digits, which double precision holds, without a zero in front or an exponent.
_DECIMAL_OR_MISSING = r"^(|-?(0|[1-9][0-9]{0,7})(\.[0-9]{1,7})?)$"


@dataclass(frozen=True)
class TextFile:
    """A file of lines, each with columns between separators."""

    path: Path
    separator: str
    header: bool

    def read(self, wanted: dict[str, ColumnRef], ids: str) -> dict[str, pa.ChunkedArray]:
        """The columns that play a role, by role."""
        return self.read_chosen(self.choose(wanted), ids)

    def read_chosen(self, chosen: dict[str, int], ids: str) -> dict[str, pa.ChunkedArray]:
        """The same of columns that have been chosen."""
        table = self._parsed(chosen, self._types(chosen, ids))
        if not table.num_rows:
            raise InputError("the file has a header but no rows")
        columns = {role: table.column(place) for place, role in enumerate(chosen)}
        for role in ("user", "item"):
            if ids == "auto" and pa.types.is_string(columns[role].type):
                columns[role] = as_integers(columns[role])
        return columns

    def as_written(self, chosen: dict[str, int]) -> pa.Table:
        """All columns with the text of every field as it is.

        They have the names the file gives them; where it gives none, what they are: user, item, or their position.
        """
        at = range(len(self._first[1]))
        everything = {str(place): place for place in at}
        table = self._parsed(everything, {str(place): pa.string() for place in at})
        if self.header:
            return table.rename_columns(self._first[1])
        names = {at: role for role, at in chosen.items()}
        return table.rename_columns([names.get(place, self._names[place]) for place in at])

    @contextmanager
    def naming_lines(self) -> Iterator[None]:
        """Say of a bad row on which line it begins."""
        try:
            yield
        except RowError as error:
            line = next(line for at, (line, _) in enumerate(self._rows()) if at == error.row)
            raise InputError(f"line {line}: {error.problem}") from None

    def choose(self, wanted: dict[str, ColumnRef], roles: Sequence[str] = tuple(ALIASES)) -> dict[str, int]:
        """Which column plays which role."""
        names = self._names
        try:
            chosen = choose_columns(names, wanted, has_header=self.header, roles=roles)
        except InputError as error:
            others = [other for other in ",;\t|" if len(names) == 1 and other in self._first[1][0]]
            if others:
                raise InputError(f"there is one column only, {names[0]!r}: is the separator {others[0]!r}?") from error
            if self.header and any(is_number(name) for name in names):
                raise InputError(f"{error}. If the first line is data, give header=False") from error
            raise
        if self.header:
            numeric = {names[at] for at in chosen.values() if is_number(names[at]) and names[at] != str(at)}
            if numeric:
                warnings.warn(
                    f"{self.path}: the first line was taken for names, but has {', '.join(sorted(numeric))} in it; "
                    "if it is data, give header=False",
                    DataWarning,
                    stacklevel=5,
                )
        return chosen

    @cached_property
    def _look(self) -> Look:
        return look_at(self.path, self.separator)

    @cached_property
    def _head(self) -> bytes:
        """The first whole lines, enough to tell columns and types by."""
        with open_decompressed(self.path) as file:
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
        text = io.StringIO(self._head.decode("utf-8-sig", "replace"), newline="")
        reader = csv.reader(text, delimiter=self.separator)
        try:
            return next((reader.line_num, row) for row in reader if row)
        except csv.Error as error:
            raise InputError(f"not a text file with columns between {self.separator!r}: {error}") from error
        except StopIteration:
            raise InputError("the file has nothing in it") from None

    @property
    def _names(self) -> list[str]:
        _, first = self._first
        if not self.header:
            return [f"column {at}" for at in range(len(first))]
        if format_suffix(self.path) == ".inter":
            # RecBole writes each column's type behind its name: user_id:token.
            return [name.partition(":")[0] for name in first]
        return [name.strip() for name in first]

    def _types(self, chosen: dict[str, int], ids: str) -> dict[str, pa.DataType]:
        """The type to read each role as, judged by the first lines; a role left out is for Arrow to infer."""
        types: dict[str, pa.DataType] = {"weight": pa.float32(), "rating": pa.float32()}
        id_columns = {role: chosen[role] for role in ("user", "item")}
        types |= dict.fromkeys(id_columns, pa.string())
        if ids == "auto" and not self._look.has_odd_integers:
            head = pa.BufferReader(self._head)
            try:
                sample = self._parse(head, id_columns, types, self._has_quoted_newlines, len(self._head))
            except pa.ArrowInvalid:
                return types  # cut inside a row, perhaps: text will do until all of it is read
            types |= {role: as_integers(sample.column(at)).type for at, role in enumerate(id_columns)}
        return types

    def _parsed(self, chosen: dict[str, int], types: dict[str, pa.DataType]) -> pa.Table:
        """The whole file; where a first reading of it failed, read more carefully."""
        has_newlines, block_size = self._has_quoted_newlines, _HEAD_BYTES
        while True:
            try:
                if not is_gzipped(self.path):
                    with pa.OSFile(str(self.path)) as plain:
                        return self._parse(plain, chosen, types, has_newlines, block_size)
                with open_decompressed(self.path) as unzipped:
                    return self._parse(pa.PythonFile(unzipped, mode="r"), chosen, types, has_newlines, block_size)
            except pa.ArrowInvalid as error:
                place = re.search(r"In CSV column #(\d+)", str(error))
                role = next((role for role, at in chosen.items() if place and at == int(place[1])), None)
                if role in ("user", "item") and types[role] == pa.int64():
                    types[role] = pa.string()
                elif role == "timestamp" and role not in types:
                    types[role] = pa.float64()
                elif role is None and self._look.n_quotes and not has_newlines:
                    # A line break inside quotes, further down than the first lines.
                    self._has_line_breaks_in_quotes(self._rows())
                    has_newlines = True
                elif "straddling" in str(error) and block_size < _LARGE_BLOCK:
                    block_size = _LARGE_BLOCK  # a line longer than a block
                else:
                    raise self._explained(error, role, chosen) from error

    def _parse(
        self, source: Any, chosen: dict[str, int], types: dict[str, pa.DataType], has_newlines: bool, block_size: int
    ) -> pa.Table:
        # Arrow gets our own names for the columns, so that empty or repeated ones in the header do no harm.
        lines, first = self._first
        names = [str(at) for at in range(len(first))]
        return pacsv.read_csv(
            source,
            pacsv.ReadOptions(column_names=names, skip_rows=lines if self.header else 0, block_size=block_size),
            pacsv.ParseOptions(delimiter=self.separator, newlines_in_values=has_newlines),
            pacsv.ConvertOptions(
                include_columns=[names[at] for at in chosen.values()],
                column_types={names[at]: types[role] for role, at in chosen.items() if role in types},
                null_values=[""],
            ),
        )

    @cached_property
    def _has_quoted_newlines(self) -> bool:
        # Looking costs little; Arrow reads such files in one thread, so it is not told to without need.
        if self._look.n_quotes % 2:
            self._check_quotes()
        # A line on which a quote stays open has an odd number of them.
        is_open = any(line.count(b'"') % 2 for line in self._head.splitlines() if b'"' in line)
        return is_open and self._has_line_breaks_in_quotes(self._rows(self._head))

    def _has_line_breaks_in_quotes(self, rows: Iterator[tuple[int, list[str]]]) -> bool:
        """Whether there are line breaks inside quotes; with a warning where they look like rows that were swallowed."""
        found = False
        try:
            for line, row in rows:
                inside = [each for field in row for each in field.splitlines()[1:-1]]
                found = found or any(_has_line_break(field) for field in row)
                if any(each.count(self.separator) == len(self._first[1]) - 1 for each in inside):
                    warnings.warn(
                        f"{self.path}: what is in quotes from line {line} on looks like rows of its own; they are read "
                        "as one field. Is there a stray quotation mark?",
                        DataWarning,
                        stacklevel=7,
                    )
                    return True
        except InputError:
            return True
        return found

    def _check_quotes(self) -> None:
        """Refuse a quote that is opened and never closed: everything behind it would be lost in one field."""
        last, row = 0, [""]
        for last, row in self._rows():  # noqa: B007 - it is the last that counts
            pass
        if any(_has_line_break(field) for field in row):
            raise InputError(f"line {last}: a quotation mark is opened and never closed")

    def _explained(self, error: pa.ArrowInvalid, role: str | None, chosen: dict[str, int]) -> InputError:
        """What Arrow found wrong, as the row and the value it is about where that can be told."""
        if role in ("weight", "rating", "timestamp"):
            at = chosen[role]
            kind = "a number or a date" if role == "timestamp" else "a number"
            found = self._find(lambda row: len(row) > at and row[at] != "" and not is_number(row[at]))
            if found:
                return RowError(f"the {role} {found[1][at]!r} is not {kind}", found[0])
        if "invalid UTF8" in str(error):
            return InputError("this is not UTF-8 text: save it as UTF-8")
        if "skip initial" in str(error):
            return InputError("the file has a header but no rows")
        width = len(self._first[1])
        if found := self._find(lambda row: len(row) != width):
            return RowError(f"{len(found[1])} columns instead of {width}", found[0])
        return InputError(f"not a text file with columns between {self.separator!r}: {error}")

    def _find(self, is_bad: Callable[[list[str]], bool]) -> tuple[int, list[str]] | None:
        try:
            return next(((at, row) for at, (_, row) in enumerate(self._rows()) if is_bad(row)), None)
        except InputError:
            return None

    def _rows(self, head: bytes | None = None) -> Iterator[tuple[int, list[str]]]:
        """Each row with the line it begins on, the header left out: slow, for what Arrow cannot tell."""
        with open_decompressed(self.path) if head is None else nullcontext(io.BytesIO(head)) as source:
            text = io.TextIOWrapper(source, encoding="utf-8-sig", errors="replace", newline="")
            reader = csv.reader(text, delimiter=self.separator)
            begins = 1
            skip = self.header
            try:
                for row in reader:
                    if row and not skip:
                        yield begins, row
                    skip = skip and not row
                    begins = reader.line_num + 1
            except csv.Error as error:
                raise InputError(f"line {begins}: {error}") from error
            text.detach()


def _has_line_break(field: str) -> bool:
    return "\n" in field or "\r" in field


def as_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text as integers, where each is one that can be had back from its value; otherwise the text as it is."""
    for part in (column.slice(0, 1000), column):  # mostly the first few tell
        if not pc.all(pc.match_substring_regex(part, _INTEGER_OR_MISSING), min_count=0).as_py():
            return column
    try:
        return _without_empty(column).cast(pa.int64())
    except pa.ArrowInvalid:  # too large for 64 bits
        return column


def as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text as numbers where all of it are plain ones, of no more digits than can be had back; otherwise as it is."""
    if not pc.any(pc.not_equal(column, ""), min_count=0).as_py():
        return column  # nothing in it to tell by
    whole = as_integers(column)
    if pa.types.is_integer(whole.type) or not pc.all(pc.match_substring_regex(column, _DECIMAL_OR_MISSING)).as_py():
        return whole
    return _without_empty(column).cast(pa.float64())


def _without_empty(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
