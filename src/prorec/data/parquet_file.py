"""Parquet files of interactions, with the interface of `TextFile`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from prorec._core.checks import shorten
from prorec._core.errors import InputError, RowError
from prorec.data.formats import is_gzipped, open_decompressed
from prorec.data.typed_log import TypedLog, convert_columns
from prorec.interactions.arrow_types import use_plain_type

_N_SAMPLED = 200


@dataclass(frozen=True)
class ParquetFile(TypedLog):
    """A parquet file with one interaction in each row."""

    path: Path
    """The file, plain or gzipped."""

    @property
    def unit(self) -> Literal["row"]:
        """Meaning of the places of rows."""
        return "row"

    def sample(self, position: int) -> list[Any]:
        """Return values of a column in the first rows, as `TextFile.sample` does.

        Parameters
        ----------
        position : int
            Position of the column.

        Returns
        -------
        list
        """
        return list(self._first_rows.column(position).to_pylist())

    def rows(self) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the values of each row, and its number; slow.

        Yields
        ------
        number : int
            From 1.
        values : tuple
        """
        columns = self._read_table(None).columns
        yield from enumerate(zip(*(column.to_pylist() for column in columns), strict=True), start=1)

    def read(self, chosen: Mapping[str, int], ids: str, time_format: str | None = None) -> dict[str, pa.ChunkedArray]:
        """Read the columns of some roles.

        Parameters
        ----------
        chosen : mapping of str to int
            Position of the column of each role, as `choose` finds them.
        ids : {"auto", "text"}
            Whether to read ids in the type that they have, or as text.
        time_format : str, optional
            Format of times that are text.

        Returns
        -------
        dict of str to pyarrow.ChunkedArray
            Columns by role.

        Raises
        ------
        InputError
            If the file cannot be read, or ids cannot be read as text.
        """
        table = self._read_table([self.names[position] for position in chosen.values()])
        return convert_columns({role: table.column(self.names[at]) for role, at in chosen.items()}, ids, time_format)

    def read_all(
        self, chosen: Mapping[str, int], ids: str, time_format: str | None = None
    ) -> tuple[dict[str, pa.ChunkedArray], pa.Table]:
        """Read the whole file, as columns of some roles and as a table.

        Parameters
        ----------
        chosen : mapping of str to int
            Position of the column of each role.
        ids : {"auto", "text"}
            As in `read`.
        time_format : str, optional
            As in `read`.

        Returns
        -------
        columns : dict of str to pyarrow.ChunkedArray
            Columns by role.
        table : pyarrow.Table
            All columns as they are in the file.
        """
        table = self._read_table(None)
        columns = {role: table.column(position) for role, position in chosen.items()}
        return convert_columns(columns, ids, time_format), table

    @contextmanager
    def add_line_numbers(self) -> Iterator[None]:
        """Turn each `RowError` in a `with` block into an `InputError` that names the row."""
        try:
            yield
        except RowError as error:
            raise InputError(f"row {error.row + 1}: {error.problem}") from None

    @cached_property
    def _source(self) -> Any:
        if not is_gzipped(self.path):
            return str(self.path)
        with open_decompressed(self.path) as file:
            return pa.BufferReader(file.read())

    @cached_property
    def names(self) -> list[str]:
        """Names of the columns."""
        with _explain_errors():
            return list(pq.read_schema(self._source).names)

    def _read_table(self, names: list[str] | None) -> pa.Table:
        with _explain_errors(), pq.ParquetFile(self._source) as file:
            table = file.read(columns=names)
            columns = list(map(use_plain_type, table.columns, table.column_names))
            for column in columns:
                _check_text(column)
            table = pa.table(columns, names=table.column_names)
        if not table.num_rows:
            raise InputError("the file has no rows")
        return table.filter(self._kept(table.num_rows)) if self.skipped else table

    @cached_property
    def _first_rows(self) -> pa.Table:
        with _explain_errors(), pq.ParquetFile(self._source) as file:
            return next(file.iter_batches(_N_SAMPLED), file.schema_arrow.empty_table())


def _check_text(column: pa.ChunkedArray) -> None:
    """Raise `pyarrow.ArrowInvalid` for text that is not UTF-8, which pyarrow reads from a damaged file."""
    value_type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_string(value_type) or pa.types.is_large_string(value_type):
        column.validate(full=True)


@contextmanager
def _explain_errors() -> Iterator[None]:
    try:
        yield
    except InputError:  # it names the problem already
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"not a parquet file that can be read ({shorten(str(error))})") from error
