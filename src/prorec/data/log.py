"""A log as it came: every row and every column in its order, beside the interactions it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec._columns import ColumnRef
from prorec._ids import encode
from prorec.data._files import check_readable, format_of, naming
from prorec.data._text import TextFile, as_numbers
from prorec.data.readers import parquet_columns
from prorec.errors import InputError, RowError, one_of
from prorec.interactions import Interactions


@dataclass(frozen=True, eq=False, repr=False)
class Log:
    """Rows of a file, and where each of them is among the interactions."""

    table: pa.Table
    """The file's own columns, in their order; text as it was written, if the file was text."""
    interactions: Interactions
    """One for each (user, item) pair; a pair that is repeated counts once."""
    places: NDArray[np.int64]
    """For each row, the place of its pair in `interactions.matrix.data`."""
    is_text: bool

    def __repr__(self) -> str:
        return f"Log({self.table.num_rows:,} rows × {self.table.num_columns} columns, {self.interactions})"

    def with_columns(self, values: Mapping[str, NDArray[Any]]) -> pa.Table:
        """The rows as they came, with a value for each interaction beside every row of it.

        A column that has the name of a new one stays; the new one is then called `prorec_` and its name.
        """
        table = self.table
        for name, of_pair in values.items():
            own = f"prorec_{name}" if name in table.column_names else name
            if own in table.column_names:
                raise InputError(f"the log has columns called {name!r} and {own!r} already: rename one of them")
            table = table.append_column(own, pa.array(of_pair[self.places]))
        return table


def read_log(
    path: str | Path,
    *,
    user_col: ColumnRef = None,
    item_col: ColumnRef = None,
    weight_col: ColumnRef = None,
    header: bool = True,
    separator: str | None = None,
    ids: Literal["auto", "text"] = "auto",
) -> Log:
    """Read a file as `read_interactions` does, and keep all of it.

    Of a pair that is repeated the largest weight counts, not the sum.
    """
    one_of("ids", ids, ("auto", "text"))
    path = Path(path)
    with naming(path):
        check_readable(path)
        wanted = {"user": user_col, "item": item_col, "weight": weight_col}
        kind, separator = format_of(path, separator)
        if kind == "parquet":
            try:
                columns, table = parquet_columns(path, wanted, ids, everything=True)
                return _made(columns, table, is_text=False)
            except RowError as error:
                raise InputError(str(error)) from None
        text = TextFile(path, separator, header)
        with text.naming_lines():
            return _made(text.read(wanted, ids), text.as_written(), is_text=True)


def typed(table: pa.Table) -> pa.Table:
    """Columns of text as numbers, where all of one are numbers and none would lose a digit by it."""
    columns = [as_numbers(column) if pa.types.is_string(column.type) else column for column in table.columns]
    return pa.table(columns, names=table.column_names)


def _made(columns: dict[str, pa.ChunkedArray], table: pa.Table, *, is_text: bool) -> Log:
    roles = {role: column for role, column in columns.items() if role in ("user", "item", "weight")}
    interactions = Interactions.from_columns(dict(roles), "max")
    matrix = interactions.matrix
    # Ids are coded in one way only, so these are rows and columns of the matrix.
    (_, rows), (_, items) = encode(roles["user"], "user"), encode(roles["item"], "item")
    keys = interactions.user_codes.astype(np.int64) * matrix.shape[1] + matrix.indices
    places = np.searchsorted(keys, rows.astype(np.int64) * matrix.shape[1] + items)
    assert len(places) == table.num_rows, "two readings of one file"
    return Log(table, interactions, places, is_text)
