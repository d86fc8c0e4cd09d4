"""Parquet files of interactions, with the interface of `TextFile`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from prorec._core.errors import InputError, RowError
from prorec.data.formats import is_gzipped, open_decompressed
from prorec.interactions.arrow_types import use_plain_type
from prorec.interactions.columns import ALIASES, ColumnRef, choose_columns


@dataclass(frozen=True)
class ParquetFile:
    """A parquet file with one interaction in each row."""

    path: Path
    """The file, plain or gzipped."""

    def choose(self, requested: Mapping[str, ColumnRef], roles: Sequence[str] = tuple(ALIASES)) -> dict[str, int]:
        """Find the column of each role, as `TextFile.choose` does.

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
        """
        names = self._names
        chosen = choose_columns(names, requested, roles=roles)
        for position in chosen.values():
            if names.count(names[position]) > 1:
                raise InputError(f"more than one column is called {names[position]!r}: rename one of them")
        return chosen

    def read(self, chosen: Mapping[str, int], ids: str) -> dict[str, pa.ChunkedArray]:
        """Read the columns of some roles.

        Parameters
        ----------
        chosen : mapping of str to int
            Position of the column of each role, as `choose` finds them.
        ids : {"auto", "text"}
            Whether to read ids in the type that they have, or as text.

        Returns
        -------
        dict of str to pyarrow.ChunkedArray
            Columns by role.

        Raises
        ------
        InputError
            If the file cannot be read, or ids cannot be read as text.
        """
        table = self._read_table([self._names[position] for position in chosen.values()])
        return _convert_ids({role: table.column(at) for at, role in enumerate(chosen)}, ids)

    def read_all(self, chosen: Mapping[str, int], ids: str) -> tuple[dict[str, pa.ChunkedArray], pa.Table]:
        """Read the whole file, as columns of some roles and as a table.

        Parameters
        ----------
        chosen : mapping of str to int
            Position of the column of each role.
        ids : {"auto", "text"}
            As in `read`.

        Returns
        -------
        columns : dict of str to pyarrow.ChunkedArray
            Columns by role.
        table : pyarrow.Table
            All columns as they are in the file.
        """
        table = self._read_table(None)
        return _convert_ids({role: table.column(position) for role, position in chosen.items()}, ids), table

    @contextmanager
    def add_line_numbers(self) -> Iterator[None]:
        """Turn each `RowError` in a `with` block into an `InputError` that names the row."""
        try:
            yield
        except RowError as error:
            raise InputError(str(error)) from None

    @cached_property
    def _source(self) -> Any:
        if not is_gzipped(self.path):
            return str(self.path)
        with open_decompressed(self.path) as file:
            return pa.BufferReader(file.read())

    @cached_property
    def _names(self) -> list[str]:
        with _explain_errors():
            return list(pq.read_schema(self._source).names)

    def _read_table(self, names: list[str] | None) -> pa.Table:
        with _explain_errors(), pq.ParquetFile(self._source) as file:
            table = file.read(columns=names)
            columns = map(use_plain_type, table.columns, table.column_names)
            table = pa.table(list(columns), names=table.column_names)
        if not table.num_rows:
            raise InputError("the file has no rows")
        return table


@contextmanager
def _explain_errors() -> Iterator[None]:
    try:
        yield
    except InputError:  # it names the problem already
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"not a parquet file that can be read ({error})") from error


def _convert_ids(columns: dict[str, pa.ChunkedArray], ids: str) -> dict[str, pa.ChunkedArray]:
    if ids == "auto":
        return columns
    try:
        return columns | {role: columns[role].cast(pa.string()) for role in ("user", "item") if role in columns}
    except pa.ArrowException as error:
        raise InputError(f"these ids cannot be read as text: {error}") from error
