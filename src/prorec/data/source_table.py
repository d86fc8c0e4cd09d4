"""A log as it came: every row and every column in its order, beside the interactions it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec._core.checks import check_choice
from prorec._core.errors import InputError, RowError
from prorec._core.files import as_path, prefix_errors
from prorec.data.formats import check_readable, detect_format
from prorec.data.readers import read_parquet
from prorec.data.text_file import TextFile, as_integers, as_numbers
from prorec.interactions import Interactions
from prorec.interactions.columns import ColumnRef, choose_columns, parse_times
from prorec.interactions.ids import encode_ids

_ROLES = ("user", "item", "weight")  # nobody asks for more here, and what is not asked for cannot be wrong


@dataclass(frozen=True, eq=False, repr=False)
class SourceTable:
    """Rows of a file, and where each of them is among the interactions."""

    table: pa.Table
    """The file's own columns, in their order; text as it was written, if the file was text."""
    interactions: Interactions
    """One for each (user, item) pair; a pair that is repeated counts once."""
    positions: NDArray[np.int64]
    """For each row, the position of its pair in `interactions.matrix.data`."""
    roles: Mapping[str, int]
    """Which column is the user, which the item, and which the weight, if there is one."""
    is_text: bool
    """Whether the file was text."""

    def __repr__(self) -> str:
        return f"Log({self.table.num_rows:,} rows × {self.table.num_columns} columns, {self.interactions})"

    @property
    def weight_column(self) -> str | None:
        """The name of the column that weights were taken from."""
        return str(self.table.column_names[self.roles["weight"]]) if "weight" in self.roles else None

    def with_columns(self, values: Mapping[str, NDArray[Any] | pa.Array]) -> pa.Table:
        """The rows as they came, with a value for each interaction beside every row of it.

        A column that has the name of a new one stays; the new one is then called `prorec_` and its name.
        """
        table = self.table
        # In RecBole's files a name has its type behind it.
        taken = {*table.column_names, *(name.partition(":")[0] for name in table.column_names)}
        for name, of_pair in values.items():
            own = f"prorec_{name}" if name in taken else name
            if own in taken:
                raise InputError(f"the log has columns called {name!r} and {own!r} already: rename one of them")
            table = table.append_column(own, pa.array(of_pair).take(pa.array(self.positions)))
        return table

    def with_timestamps(self, column: ColumnRef = None) -> Interactions:
        """The interactions with the time of each, the latest of its rows'.

        The column is found by its usual names unless it is given. One that nobody asked for and that cannot be read as
        times is left alone, as if it were not there.
        """
        names = [name.partition(":")[0] for name in self.table.column_names]
        try:
            chosen = choose_columns(names, {"timestamp": column}, roles=("timestamp",))
            if "timestamp" not in chosen:
                return self.interactions
            written = self.table.column(chosen["timestamp"])
            found = parse_times(as_numbers(written) if self.is_text else written)
        except InputError as error:
            if column is None:
                return self.interactions
            if isinstance(error, RowError):
                raise InputError(f"row {error.row + 1}: {error.problem}") from None
            raise
        order = np.lexsort((found, self.positions))
        is_last = np.append(np.diff(self.positions[order]) != 0, True)
        latest = found[order[is_last]]
        return replace(self.interactions, columns={**self.interactions.columns, "timestamp": latest})

    def infer_types(self, table: pa.Table) -> pa.Table:
        """Columns of text as numbers, where that loses nothing; ids as the interactions have them."""
        if not self.is_text:
            return table
        columns = list(table.columns)
        for at in range(self.table.num_columns):
            column = columns[at]
            if at in (self.roles["user"], self.roles["item"]):
                ids = self.interactions.users if at == self.roles["user"] else self.interactions.items
                columns[at] = as_integers(column) if ids.dtype != object else column
            else:
                columns[at] = as_numbers(column)
        return pa.table(columns, names=table.column_names)


def read_source_table(
    path: str | Path,
    *,
    user_col: ColumnRef = None,
    item_col: ColumnRef = None,
    weight_col: ColumnRef = None,
    header: bool = True,
    separator: str | None = None,
    ids: Literal["auto", "text"] = "auto",
) -> SourceTable:
    """Read a file as `read_interactions` does, and keep all of it.

    Of a pair that is repeated the largest weight counts, not the sum.
    """
    check_choice("ids", ids, ("auto", "text"))
    path = as_path(path)
    with prefix_errors(path):
        check_readable(path)
        wanted = {"user": user_col, "item": item_col, "weight": weight_col}
        kind, separator = detect_format(path, separator)
        if kind == "parquet":
            try:
                columns, table = read_parquet(path, wanted, ids, roles=_ROLES, everything=True)
                chosen = choose_columns(table.column_names, wanted, roles=_ROLES)
                return _made(columns, table, chosen, is_text=False)
            except RowError as error:
                raise InputError(str(error)) from None
        text = TextFile(path, separator, header)
        with text.naming_lines():
            chosen = text.choose(wanted, _ROLES)
            return _made(text.read_chosen(chosen, ids), text.as_written(chosen), chosen, is_text=True)


def _made(
    columns: dict[str, pa.ChunkedArray], table: pa.Table, chosen: dict[str, int], *, is_text: bool
) -> SourceTable:
    interactions = Interactions.from_columns(dict(columns), "max")
    # Ids are coded in one way only, so these are rows and columns of the matrix.
    (_, rows), (_, items) = encode_ids(columns["user"], "user"), encode_ids(columns["item"], "item")
    places = interactions.pair_positions(rows, items)
    assert len(places) == table.num_rows, "two readings of one file"
    return SourceTable(table, interactions, places, chosen, is_text)
