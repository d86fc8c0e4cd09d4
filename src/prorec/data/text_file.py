"""Text files of separated columns: their columns and types, and the line of a bad row."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from prorec._core.errors import DataWarning, InputError, RowError
from prorec.data.byte_check import ByteCheck, check_bytes
from prorec.data.formats import format_suffix, is_gzipped, open_decompressed
from prorec.data.text_columns import infer_integers, parse_floats
from prorec.interactions.columns import ALIASES, ColumnRef, choose_columns, is_number

_HEAD_BYTES = 1 << 20
_LARGE_BLOCK = 1 << 28


@dataclass(frozen=True)
class TextFile:
    """A text file with one row on each line, and a separator between columns.

    Messages do not name the file: callers work inside `prefix_errors`, and inside `add_line_numbers`.
    """

    path: Path
    """The file, plain or gzipped."""
    separator: str
    """The one ASCII character between columns."""
    header: bool
    """Whether the first line has the names of the columns."""

    def choose(self, requested: Mapping[str, ColumnRef], roles: Sequence[str] = tuple(ALIASES)) -> dict[str, int]:
        """Find the column of each role.

        Parameters
        ----------
        requested : mapping of str to str, int or None
            Column of each role by name or position, as the caller gave it.
        roles : sequence of str, optional
            Roles to find; all by default.

        Returns
        -------
        dict of str to int
            Position of the column of each role that the file has.

        Raises
        ------
        InputError
            If a column is not found; the message suggests another separator or `header=False` where they may help.
        """
        names = self._names
        try:
            chosen = choose_columns(names, requested, has_header=self.header, roles=roles)
        except InputError as error:
            others = [other for other in ",;\t|" if len(names) == 1 and other in self._first_row[1][0]]
            if others:
                raise InputError(f"there is one column only, {names[0]!r}: is the separator {others[0]!r}?") from error
            if self.header and any(is_number(name) for name in names):
                raise InputError(f"{error}. If the first line is data, give header=False") from error
            raise
        numeric = {names[at] for at in chosen.values() if self.header and is_number(names[at]) and names[at] != str(at)}
        if numeric:
            warnings.warn(
                f"{self.path}: the first line was taken for names, but has {', '.join(sorted(numeric))} in it; "
                "if it is data, give header=False",
                DataWarning,
                stacklevel=3,
            )
        return chosen

    def read(self, chosen: Mapping[str, int], ids: str) -> dict[str, pa.ChunkedArray]:
        """Read the columns of some roles.

        Parameters
        ----------
        chosen : mapping of str to int
            Position of the column of each role, as `choose` finds them.
        ids : {"auto", "text"}
            Whether to read ids as integers where all of them are plain integers, or always as text.

        Returns
        -------
        dict of str to pyarrow.ChunkedArray
            Columns by role.

        Raises
        ------
        InputError
            If the file cannot be read as such a table.
        """
        types = {"weight": pa.float32(), "rating": pa.float32(), **self._id_types(chosen, ids)}
        table = self._read_table(chosen, types)
        return _infer_ids(dict(zip(chosen, table.columns, strict=True)), ids)

    def read_all(self, chosen: Mapping[str, int], ids: str) -> tuple[dict[str, pa.ChunkedArray], pa.Table]:
        """Read the whole file once, as columns of some roles and as a table of text.

        Parameters
        ----------
        chosen : mapping of str to int
            Position of the column of each role; only user, item and weight, or none.
        ids : {"auto", "text"}
            As in `read`.

        Returns
        -------
        columns : dict of str to pyarrow.ChunkedArray
            Columns by role, typed.
        table : pyarrow.Table
            All columns with the text of every field as it is in the file. They have the names that the file gives
            them; in a file without a header, their role or position.
        """
        n_columns = len(self._first_row[1])
        roles = {position: role for role, position in chosen.items()}
        positions = {roles.get(at, str(at)): at for at in range(n_columns)}
        table = self._read_table(positions, dict.fromkeys(positions, pa.string()) | self._id_types(chosen, ids))
        columns = _infer_ids({role: table.column(at) for role, at in chosen.items()}, ids)
        if "weight" in columns:
            columns["weight"] = parse_floats(columns["weight"])
        # Ids were read as integers only if the text of every one can be had back.
        names = self._first_row[1] if self.header else [roles.get(at, self._names[at]) for at in range(n_columns)]
        return columns, pa.table([column.cast(pa.string()) for column in table.columns], names=names)

    @contextmanager
    def add_line_numbers(self) -> Iterator[None]:
        """Turn the row of a `RowError` in a `with` block into the number of the line on which it starts.

        Raises
        ------
        InputError
            In place of each `RowError` of the block.
        """
        try:
            yield
        except RowError as error:
            line = next(line for row, (line, _) in enumerate(self._iterate_rows()) if row == error.row)
            raise InputError(f"line {line}: {error.problem}") from None

    @cached_property
    def _byte_check(self) -> ByteCheck:
        return check_bytes(self.path, self.separator)

    @cached_property
    def _head(self) -> bytes:
        """The first lines, enough to recognise columns and types."""
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
    def _first_row(self) -> tuple[int, list[str]]:
        """Number of lines up to the end of the first row, and its fields."""
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
        _, first = self._first_row
        if not self.header:
            return [f"column {position}" for position in range(len(first))]
        if format_suffix(self.path) == ".inter":
            # RecBole writes each column's type behind its name: user_id:token.
            return [name.partition(":")[0] for name in first]
        return [name.strip() for name in first]

    def _id_types(self, chosen: Mapping[str, int], ids: str) -> dict[str, pa.DataType]:
        """Return the type to read user and item ids as, judged by the first lines."""
        positions = {role: chosen[role] for role in ("user", "item") if role in chosen}
        types = dict.fromkeys(positions, pa.string())
        if positions and ids == "auto" and not self._byte_check.has_odd_integers:
            head = pa.BufferReader(self._head)
            with suppress(pa.ArrowInvalid):  # the head may end inside a row; text serves until all is read
                sample = self._parse(head, positions, types, self._has_quoted_newlines, len(self._head))
                types |= {role: infer_integers(sample.column(at)).type for at, role in enumerate(positions)}
        return types

    def _read_table(self, positions: Mapping[str, int], types: dict[str, pa.DataType]) -> pa.Table:
        """Read columns of the whole file; after a failure, read again with more careful settings."""
        quoted_newlines, block_size = self._has_quoted_newlines, _HEAD_BYTES
        while True:
            try:
                with self._open_for_arrow() as source:
                    table = self._parse(source, positions, types, quoted_newlines, block_size)
            except pa.ArrowInvalid as error:
                column = re.search(r"In CSV column #(\d+)", str(error))
                role = next((role for role, at in positions.items() if column and at == int(column[1])), None)
                if role in ("user", "item") and types[role] == pa.int64():
                    types[role] = pa.string()
                elif role == "timestamp" and role not in types:
                    types[role] = pa.float64()
                elif role is None and self._byte_check.n_quotes and not quoted_newlines:
                    # There may be a line break inside quotes below the first lines.
                    self._has_newlines_in_quotes(self._iterate_rows())
                    quoted_newlines = True
                elif "straddling" in str(error) and block_size < _LARGE_BLOCK:
                    block_size = _LARGE_BLOCK  # a line is longer than a block
                else:
                    raise self._explain(error, role, positions) from error
            else:
                if not table.num_rows:
                    raise InputError("the file has a header but no rows")
                return table

    @contextmanager
    def _open_for_arrow(self) -> Iterator[pa.NativeFile]:
        if is_gzipped(self.path):
            with open_decompressed(self.path) as unzipped:
                yield pa.PythonFile(unzipped, mode="r")
        else:
            with pa.OSFile(str(self.path)) as plain:
                yield plain

    def _parse(
        self,
        source: Any,
        positions: Mapping[str, int],
        types: Mapping[str, pa.DataType],
        quoted_newlines: bool,
        block_size: int,
    ) -> pa.Table:
        # The columns get names of our own, so that empty or repeated names in the header do no harm.
        lines, first = self._first_row
        names = [str(position) for position in range(len(first))]
        return pacsv.read_csv(
            source,
            pacsv.ReadOptions(column_names=names, skip_rows=lines if self.header else 0, block_size=block_size),
            pacsv.ParseOptions(delimiter=self.separator, newlines_in_values=quoted_newlines),
            pacsv.ConvertOptions(
                include_columns=[names[at] for at in positions.values()],
                column_types={names[at]: types[role] for role, at in positions.items() if role in types},
                null_values=[""],
            ),
        )

    @cached_property
    def _has_quoted_newlines(self) -> bool:
        """Whether quoted fields of the first lines span lines; Arrow reads such files in one thread, so it matters."""
        if self._byte_check.n_quotes % 2:
            self._check_quotes()
        # A quote is still open at the end of a line that has an odd number of them.
        is_open = any(line.count(b'"') % 2 for line in self._head.splitlines() if b'"' in line)
        return is_open and self._has_newlines_in_quotes(self._iterate_rows(self._head))

    def _has_newlines_in_quotes(self, rows: Iterator[tuple[int, list[str]]]) -> bool:
        """Return whether a field spans lines, and warn if what it spans looks like rows."""
        result = False
        n_separators = len(self._first_row[1]) - 1
        try:
            for line, row in rows:
                result = result or any(map(_has_newline, row))
                inner_lines = [each for field in row for each in field.splitlines()[1:-1]]
                if any(each.count(self.separator) == n_separators for each in inner_lines):
                    warnings.warn(
                        f"{self.path}: the text in quotes from line {line} on looks like rows of its own; it is read "
                        "as one field. Is there a stray quotation mark?",
                        DataWarning,
                        stacklevel=6,
                    )
                    return True
        except InputError:
            return True
        return result

    def _check_quotes(self) -> None:
        """Refuse a quote that is never closed, because one field would contain the rest of the file."""
        line, row = 0, [""]
        for line, row in self._iterate_rows():  # noqa: B007 - only the last row counts
            pass
        if any(map(_has_newline, row)):
            raise InputError(f"line {line}: a quotation mark is opened and never closed")

    def _explain(self, error: pa.ArrowInvalid, role: str | None, positions: Mapping[str, int]) -> InputError:
        """Return an error that names the row and the value that Arrow's error is about."""
        if role in ("weight", "rating", "timestamp"):
            at = positions[role]
            expected = "a number or a date" if role == "timestamp" else "a number"
            bad = self._find_row(lambda row: len(row) > at and row[at] != "" and not is_number(row[at]))
            if bad:
                return RowError(f"the {role} {bad[1][at]!r} is not {expected}", bad[0])
        if "invalid UTF8" in str(error):
            return InputError("this is not UTF-8 text: save it as UTF-8")
        if "skip initial" in str(error):
            return InputError("the file has a header but no rows")
        width = len(self._first_row[1])
        if bad := self._find_row(lambda row: len(row) != width):
            return RowError(f"{len(bad[1])} columns instead of {width}", bad[0])
        return InputError(f"not a text file with columns between {self.separator!r}: {error}")

    def _find_row(self, is_bad: Callable[[list[str]], bool]) -> tuple[int, list[str]] | None:
        """Return the first bad row and its position, if there is one."""
        with suppress(InputError):
            return next(((at, row) for at, (_, row) in enumerate(self._iterate_rows()) if is_bad(row)), None)
        return None

    def _iterate_rows(self, head: bytes | None = None) -> Iterator[tuple[int, list[str]]]:
        """Yield each row below the header with the line on which it starts; slow, for what Arrow does not tell."""
        with open_decompressed(self.path) if head is None else nullcontext(io.BytesIO(head)) as source:
            text = io.TextIOWrapper(source, encoding="utf-8-sig", errors="replace", newline="")
            reader = csv.reader(text, delimiter=self.separator)
            line, skip = 1, self.header
            try:
                for row in reader:
                    if row and not skip:
                        yield line, row
                    skip = skip and not row
                    line = reader.line_num + 1
            except csv.Error as error:
                raise InputError(f"line {line}: {error}") from error
            text.detach()


def _infer_ids(columns: dict[str, pa.ChunkedArray], ids: str) -> dict[str, pa.ChunkedArray]:
    """Convert text ids to integers where they are plain ones, unless ids are to stay text."""
    texts = [role for role in ("user", "item") if role in columns and pa.types.is_string(columns[role].type)]
    return columns | {role: infer_integers(columns[role]) for role in texts if ids == "auto"}


def _has_newline(field: str) -> bool:
    return "\n" in field or "\r" in field
