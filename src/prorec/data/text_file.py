"""Text files of separated columns: their columns and types, and the line of a bad row."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv as pacsv

from prorec._core.checks import safe_repr, shorten
from prorec._core.errors import DataWarning, InputError, RowError
from prorec._core.progress import Progress
from prorec.data.bad_rows import find_bad_rows
from prorec.data.byte_check import ByteCheck, check_bytes
from prorec.data.column_values import choose_by_values, parse_with_format, without_ambiguous
from prorec.data.encoding import Encoding, as_file, detect_encoding, explain_encoding, open_as_utf8
from prorec.data.formats import format_suffix, is_gzipped, open_decompressed
from prorec.data.plain_text import read_plain
from prorec.data.text_columns import empty_to_null, infer_integers, parse_floats
from prorec.data.text_recognition import SEPARATORS, parse_rows, read_head
from prorec.data.text_rows import Row, check_quotes, has_newlines_in_quotes, iterate_rows, write_rows
from prorec.interactions.column_names import ROLES, is_usual_name
from prorec.interactions.columns import ColumnRef, choose_columns, is_number

_HEAD_BYTES = 1 << 20
_LARGE_BLOCK = 1 << 28
_TWO_COLONS = ", and count every second column (separator=':', user_col=0, item_col=2)"


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
    skipped: frozenset[int] = frozenset()
    """Positions of rows that are left out, as if they were not in the file."""
    progress: Progress | None = field(default=None, repr=False, compare=False)
    """Function that gets the number of bytes that are read."""

    @property
    def unit(self) -> Literal["line"]:
        """Meaning of the places of rows."""
        return "line"

    def choose(
        self,
        requested: Mapping[str, ColumnRef],
        roles: Sequence[str] = ROLES,
        *,
        time_format: str | None = None,
    ) -> dict[str, int]:
        """Find the column of each role.

        Parameters
        ----------
        requested : mapping of str to str, int or None
            Column of each role by name or position, as the caller gave it.
        roles : sequence of str, optional
            Roles to find; all by default.
        time_format : str, optional
            Format of times.

        Returns
        -------
        dict of str to int
            Position of the column of each role that the file has.

        Raises
        ------
        InputError
            If a column is not found; the message suggests another separator or `header=False` where they may help.
        """
        names = self.names
        try:
            plain = without_ambiguous(names, requested, roles)
            chosen = choose_columns(names, requested, has_header=self.header, roles=plain)
        except InputError as error:
            others = [other for other in SEPARATORS if len(names) == 1 and other in self._first_row[1][0]]
            if others:
                raise InputError(
                    f"there is one column only, {safe_repr(names[0])}: is the separator {others[0]!r}?"
                ) from error
            if len(names) == 1:
                first = self._first_row[1][0]
                raise InputError(
                    f"no comma, semicolon, tab or pipe separates columns in the first line, {first[:60]!r}: "
                    f"give the separator{_TWO_COLONS if '::' in first else ''}"
                ) from error
            if self.header and not any(is_usual_name(name) for name in names):
                raise InputError(f"{error}. If the first line is data, give header=False") from error
            raise
        numeric = {names[at] for at in chosen.values() if self.header and is_number(names[at]) and names[at] != str(at)}
        if numeric:
            warnings.warn(
                f"{self.path}: the first line was taken for names, but has {shorten(', '.join(sorted(numeric)))} in "
                "it; "
                "if it is data, give header=False",
                DataWarning,
                stacklevel=3,
            )
        if self.header:
            return choose_by_values(self, chosen, requested, roles, time_format)
        return chosen

    def sample(self, position: int) -> list[str]:
        """Return values of a column in the first rows.

        Parameters
        ----------
        position : int
            Position of the column.

        Returns
        -------
        list of str
        """
        values = [row[position] for row in self._first_rows if position < len(row)]
        return [each.replace(",", ".") for each in values] if self.has_decimal_commas(position) else values

    def without(self, positions: frozenset[int]) -> TextFile:
        """Return the file without some of its rows.

        Parameters
        ----------
        positions : frozenset of int
            Positions of the rows, from 0.

        Returns
        -------
        TextFile
        """
        return replace(self, skipped=positions)

    def read(self, chosen: Mapping[str, int], ids: str, time_format: str | None = None) -> dict[str, pa.ChunkedArray]:
        """Read the columns of some roles.

        Parameters
        ----------
        chosen : mapping of str to int
            Position of the column of each role, as `choose` finds them.
        ids : {"auto", "text"}
            Whether to read ids as integers where all of them are plain integers, or always as text.
        time_format : str, optional
            Format of times.

        Returns
        -------
        dict of str to pyarrow.ChunkedArray
            Columns by role.

        Raises
        ------
        InputError
            If the file cannot be read as such a table.
        """
        if (plain := self._read_plain(chosen, ids, time_format)) is not None:
            return plain
        types = {"weight": pa.float32(), "rating": pa.float32(), **self._id_types(chosen, ids)}
        if time_format is not None:
            types["timestamp"] = pa.string()
        table = self._read_table(chosen, types)
        columns = dict(zip(chosen, table.columns, strict=True))
        if time_format is not None and "timestamp" in columns:
            columns["timestamp"] = parse_with_format(columns["timestamp"], time_format)
        return _infer_ids(columns, ids)

    def read_all(
        self, chosen: Mapping[str, int], ids: str, time_format: str | None = None
    ) -> tuple[dict[str, pa.ChunkedArray], pa.Table]:
        """Read the whole file once, as columns of some roles and as a table of text.

        Parameters
        ----------
        chosen : mapping of str to int
            Position of the column of each role; none of ratings.
        ids : {"auto", "text"}
            As in `read`.
        time_format : str, optional
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
        if self.progress is not None:
            self.progress("Converting the columns", 0, 1)
        columns = _infer_ids({role: table.column(at) for role, at in chosen.items()}, ids)
        if "weight" in columns:
            columns["weight"] = parse_floats(columns["weight"], self.has_decimal_commas(chosen["weight"]))
        if "timestamp" in columns:
            times = empty_to_null(columns["timestamp"])
            columns["timestamp"] = times if time_format is None else parse_with_format(times, time_format)
        # Ids were read as integers only if the text of every one can be had back.
        names = self._first_row[1] if self.header else [roles.get(at, self.names[at]) for at in range(n_columns)]
        texts = pa.table([column.cast(pa.string()) for column in table.columns], names=names)
        if self.progress is not None:
            self.progress("Converting the columns", 1, 1)
        return columns, texts

    def rows(self) -> Generator[Row]:
        """Yield the fields of each row below the header, and the line on which it starts; slow.

        Yields
        ------
        line : int
        fields : list of str
        """
        with closing(self._iterate_rows()) as rows:
            for position, (line, row) in enumerate(rows):
                if position not in self.skipped:
                    yield line, row

    def has_decimal_commas(self, position: int) -> bool:
        """Find out whether a column has numbers such as 4,5.

        Parameters
        ----------
        position : int
            Position of the column.

        Returns
        -------
        bool
        """
        values = [row[position] for row in self._first_rows if position < len(row)]
        return self.separator != "," and not any("." in each for each in values) and any("," in each for each in values)

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
            with closing(self.rows()) as rows:
                line = next(line for row, (line, _) in enumerate(rows) if row == error.row)
            raise InputError(f"line {line}: {error.problem}") from None

    @cached_property
    def encoding(self) -> Encoding:
        """Encoding of the file."""
        with open_decompressed(self.path) as file:
            return detect_encoding(file.read(4))

    @cached_property
    def _byte_check(self) -> ByteCheck:
        return check_bytes(self.path, self.separator)

    @cached_property
    def _head(self) -> bytes:
        """The first lines, enough to recognise columns and types."""
        return read_head(self.path, _HEAD_BYTES)

    @cached_property
    def _first_rows(self) -> list[list[str]]:
        """Fields of the first rows below the header."""
        return parse_rows(self._head.decode("utf-8-sig", "replace"), self.separator)[self.header :]

    @cached_property
    def _first_row(self) -> tuple[int, list[str]]:
        """Number of lines up to the end of the first row, and its fields."""
        text = io.StringIO(self._head.decode("utf-8-sig", "replace"), newline="")
        reader = csv.reader(text, delimiter=self.separator)
        try:
            lines, row = next((reader.line_num, row) for row in reader if row)
            if self.header and any("\ufffd" in name for name in row):  # it stands for bytes that are not UTF-8
                b"".join(self._head.splitlines(keepends=True)[:lines]).decode()
            return lines, row
        except UnicodeDecodeError:
            raise explain_encoding(self.path) from None
        except csv.Error as error:
            raise InputError(
                f"not a text file with columns between {self.separator!r}: {shorten(str(error))}"
            ) from error
        except StopIteration:
            raise InputError("the file has nothing in it") from None

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns; in a file without a header, their positions."""
        _, first = self._first_row
        if not self.header:
            return [f"column {position}" for position in range(len(first))]
        if format_suffix(self.path) == ".inter":
            # RecBole writes each column's type behind its name: user_id:token.
            return [name.partition(":")[0] for name in first]
        return [name.strip() for name in first]

    def _read_plain(
        self, chosen: Mapping[str, int], ids: str, time_format: str | None
    ) -> dict[str, pa.ChunkedArray] | None:
        """Read columns in one pass; None if the file is not as plain as that takes."""
        if self.skipped or (time_format is not None and "timestamp" in chosen):
            return None
        n_lines, first = self._first_row
        with open_as_utf8(self.path, self._watch("Reading the log")) as file:
            return read_plain(
                file,
                chosen,
                separator=self.separator,
                n_columns=len(first),
                n_header_lines=n_lines if self.header else 0,
                ids=ids,
                file_size=self.path.stat().st_size,
            )

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
                    types[role] = pa.string()  # numbers and dates of several forms
                elif role is None and self._byte_check.n_quotes and not quoted_newlines:
                    # There may be a line break inside quotes below the first lines.
                    self._spans_lines(self._iterate_rows())
                    quoted_newlines = True
                elif "straddling" in str(error) and block_size < _LARGE_BLOCK:
                    block_size = _LARGE_BLOCK  # a line is longer than a block
                else:
                    raise self._explain(error, positions) from error
            else:
                if not table.num_rows:
                    raise InputError("the file has a header but no rows")
                return table

    @contextmanager
    def _open_for_arrow(self) -> Iterator[pa.NativeFile]:
        if self.skipped:
            n_lines = self._first_row[0] if self.header else 0
            yield pa.PythonFile(as_file(write_rows(self.rows(), self.separator, n_lines)), mode="r")
        elif is_gzipped(self.path) or self.encoding == "utf-16":
            with open_as_utf8(self.path, self._watch("Reading the log")) as recoded:
                yield pa.PythonFile(recoded, mode="r")
        elif self.progress is not None:
            with open_decompressed(self.path, self._watch("Reading the log")) as watched:
                yield pa.PythonFile(watched, mode="r")
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
        decimal_commas = any(
            self.has_decimal_commas(at) for role, at in positions.items() if types.get(role) == pa.float32()
        )
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
                decimal_point="," if decimal_commas else ".",
            ),
        )

    @cached_property
    def _has_quoted_newlines(self) -> bool:
        """Whether quoted fields of the first lines span lines; Arrow reads such files in one thread, so it matters."""
        if self._byte_check.n_quotes % 2:
            check_quotes(self._iterate_rows())
        # A quote is still open at the end of a line that has an odd number of them.
        is_open = any(line.count(b'"') % 2 for line in self._head.splitlines() if b'"' in line)
        return is_open and self._spans_lines(iterate_rows(io.BytesIO(self._head), self.separator, self.header))

    def _spans_lines(self, rows: Iterator[Row]) -> bool:
        """Return whether a field of some rows spans lines."""
        return has_newlines_in_quotes(rows, self.separator, len(self._first_row[1]), self.path)

    def _watch(self, task: str) -> Callable[[int], None] | None:
        """Return a function that adds up the bytes that are read, and passes them on as progress."""
        if self.progress is None:
            return None
        progress, total, done = self.progress, self.path.stat().st_size, 0

        def on_read(size: int) -> None:
            nonlocal done
            done = min(done + size, total)
            progress(task, done, total)

        return on_read

    def _explain(self, error: pa.ArrowInvalid, positions: Mapping[str, int]) -> InputError:
        """Return an error that names the first row that Arrow's error may be about."""
        if "invalid UTF8" in str(error):
            return explain_encoding(self.path)
        if "skip initial" in str(error):
            return InputError("the file has a header but no rows")
        with suppress(InputError):
            chosen = {role: at for role, at in positions.items() if role in ROLES}
            examples = [row for rows in find_bad_rows(self, chosen).examples.values() for row in rows]
            if examples:
                first = min(examples, key=lambda row: row.position)
                return RowError(first.message, first.position)
        return InputError(f"not a text file with columns between {self.separator!r}: {shorten(str(error))}")

    def _iterate_rows(self) -> Generator[Row]:
        with open_as_utf8(self.path, self._watch("Looking for rows that cannot be used")) as source:
            yield from iterate_rows(source, self.separator, self.header)


def _infer_ids(columns: dict[str, pa.ChunkedArray], ids: str) -> dict[str, pa.ChunkedArray]:
    """Convert text ids to integers where they are plain ones, unless ids are to stay text."""
    texts = [role for role in ("user", "item") if role in columns and pa.types.is_string(columns[role].type)]
    return columns | {role: infer_integers(columns[role]) for role in texts if ids == "auto"}
