"""Parquet files of interactions, with the interface of `TextFile`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from prorec._core.errors import InputError, RowError
from prorec.data.column_values import choose_by_values, parse_with_format, without_ambiguous
from prorec.data.formats import is_gzipped, open_decompressed
from prorec.interactions.arrow_types import use_plain_type
from prorec.interactions.column_names import ROLES
from prorec.interactions.columns import ColumnRef, choose_columns

_N_SAMPLED = 200


@dataclass(frozen=True)
class ParquetFile:
    """A parquet file with one interaction in each row."""

    path: Path
    """The file, plain or gzipped."""
    skipped: frozenset[int] = frozenset()
    """Positions of rows that are left out, as if they were not in the file."""

    @property
    def unit(self) -> Literal["row"]:
        """Meaning of the places of rows."""
        return "row"

    def choose(
        self,
        requested: Mapping[str, ColumnRef],
        roles: Sequence[str] = ROLES,
        *,
        time_format: str | None = None,
    ) -> dict[str, int]:
        """Find the column of each role, as `TextFile.choose` does.

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
        """
        names = self.names
        plain = without_ambiguous(names, requested, roles)
        chosen = choose_columns(names, requested, roles=plain)
        for position in chosen.values():
            if names.count(names[position]) > 1:
                raise InputError(f"more than one column is called {names[position]!r}: rename one of them")
        return choose_by_values(self, chosen, requested, roles, time_format)

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

    def has_decimal_commas(self, position: int) -> bool:
        """Return False: numbers are not text."""
        return False

    def without(self, positions: frozenset[int]) -> ParquetFile:
        """Return the file without some of its rows, as `TextFile.without` does.

        Parameters
        ----------
        positions : frozenset of int
            Positions of the rows, from 0.

        Returns
        -------
        ParquetFile
        """
        return replace(self, skipped=positions)

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
        return _convert({role: table.column(self.names[at]) for role, at in chosen.items()}, ids, time_format)

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
        return _convert(columns, ids, time_format), table

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
            columns = map(use_plain_type, table.columns, table.column_names)
            table = pa.table(list(columns), names=table.column_names)
        if not table.num_rows:
            raise InputError("the file has no rows")
        if not self.skipped:
            return table
        keep = np.ones(table.num_rows, dtype=bool)
        keep[list(self.skipped)] = False
        return table.filter(pa.array(keep))

    @cached_property
    def _first_rows(self) -> pa.Table:
        with _explain_errors(), pq.ParquetFile(self._source) as file:
            return next(file.iter_batches(_N_SAMPLED), file.schema_arrow.empty_table())


@contextmanager
def _explain_errors() -> Iterator[None]:
    try:
        yield
    except InputError:  # it names the problem already
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"not a parquet file that can be read ({error})") from error


def _convert(columns: dict[str, pa.ChunkedArray], ids: str, time_format: str | None) -> dict[str, pa.ChunkedArray]:
    if time_format is not None and "timestamp" in columns:
        columns["timestamp"] = parse_with_format(columns["timestamp"], time_format)
    if ids == "auto":
        return columns
    try:
        return columns | {role: columns[role].cast(pa.string()) for role in ("user", "item") if role in columns}
    except pa.ArrowException as error:
        raise InputError(f"these ids cannot be read as text: {error}") from error
