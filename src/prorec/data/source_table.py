"""A log with every row and column in its order, beside the interactions that it contains."""

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
from prorec.data.readers import open_table
from prorec.data.text_columns import infer_numbers
from prorec.data.text_file import TextFile
from prorec.interactions import Interactions
from prorec.interactions.columns import ColumnRef, choose_columns, parse_times

_ROLES = ("user", "item", "weight")  # a column that is not read cannot be refused


@dataclass(frozen=True, eq=False, repr=False)
class SourceTable:
    """Rows of a file, and the position of each among the interactions."""

    table: pa.Table
    """All columns of the file in their order; those of a text file as text."""
    interactions: Interactions
    """One interaction for each distinct pair; the largest weight of repeated pairs counts."""
    positions: NDArray[np.int64]
    """For each row, the position of its pair in `interactions.matrix.data`."""
    roles: Mapping[str, int]
    """Position of the columns of user and item, and of the weight if there is one."""
    is_text: bool
    """Whether the file is a text file."""

    def __repr__(self) -> str:
        return f"SourceTable({self.table.num_rows:,} rows × {self.table.num_columns} columns, {self.interactions})"

    @property
    def weight_column(self) -> str | None:
        """Name of the column of weights, if there is one."""
        return str(self.table.column_names[self.roles["weight"]]) if "weight" in self.roles else None

    def with_columns(self, values: Mapping[str, NDArray[Any] | pa.Array]) -> pa.Table:
        """Add columns to the rows.

        Parameters
        ----------
        values : mapping of str to array
            For each new column one value for each interaction, which is written beside every row of it.

        Returns
        -------
        pyarrow.Table
            The file's rows and columns, and the new columns. A new column whose name the file has already is called
            `prorec_` and its name.

        Raises
        ------
        InputError
            If the file has a column of that name, too.
        """
        table = self.table
        # In RecBole's files a name has its type behind it.
        taken = {*table.column_names, *(name.partition(":")[0] for name in table.column_names)}
        for name, pair_values in values.items():
            new_name = f"prorec_{name}" if name in taken else name
            if new_name in taken:
                raise InputError(f"the log has columns called {name!r} and {new_name!r} already: rename one of them")
            table = table.append_column(new_name, pa.array(pair_values).take(pa.array(self.positions)))
        return table

    def with_timestamps(self, column: ColumnRef = None) -> Interactions:
        """Return the interactions with a column `timestamp`.

        Parameters
        ----------
        column : str or int, optional
            Name or position of the column of times; by default it is found by its usual names.

        Returns
        -------
        Interactions
            The time of a repeated pair is the latest of its rows. If no column was given, and none is found or the one
            that is found has no times in it, the interactions have no timestamps.

        Raises
        ------
        InputError
            If the given column does not exist or has no times in it.
        """
        names = [name.partition(":")[0] for name in self.table.column_names]
        try:
            chosen = choose_columns(names, {"timestamp": column}, roles=("timestamp",))
            if "timestamp" not in chosen:
                return self.interactions
            values = self.table.column(chosen["timestamp"])
            times = parse_times(infer_numbers(values) if self.is_text else values)
        except InputError as error:
            if column is None:
                return self.interactions
            if isinstance(error, RowError):
                raise InputError(f"row {error.row + 1}: {error.problem}") from None
            raise
        order = np.lexsort((times, self.positions))
        is_latest = np.append(np.diff(self.positions[order]) != 0, True)
        columns = {**self.interactions.columns, "timestamp": times[order[is_latest]]}
        return replace(self.interactions, columns=columns)

    def infer_types(self, table: pa.Table) -> pa.Table:
        """Convert columns of text to numbers, for a file format that has types.

        Parameters
        ----------
        table : pyarrow.Table
            A table that starts with the columns of the file, as `with_columns` returns it.

        Returns
        -------
        pyarrow.Table
            Ids have the type that they have in the interactions. Other columns of a text file are numbers if nothing
            of their text is lost.
        """
        if not self.is_text:
            return table
        columns = list(table.columns)
        ids = {self.roles["user"]: self.interactions.users, self.roles["item"]: self.interactions.items}
        for position in range(self.table.num_columns):
            if position not in ids:
                columns[position] = infer_numbers(columns[position])
            elif ids[position].dtype != object:
                columns[position] = columns[position].cast(pa.int64())
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
    """Read a file as `read_interactions` does, and keep all of its rows and columns.

    The file is parsed once, and its ids are numbered once.

    Parameters
    ----------
    path : str or Path
        A .csv, .tsv, .inter or .parquet file, also gzipped; with a `separator`, any other text file.
    user_col, item_col, weight_col : str or int, optional
        Names or positions (from 0) of the columns; by default they are found by their usual names.
    header : bool, default True
        Whether the first line of a text file has the names of the columns.
    separator : str, optional
        The one character between columns of a text file; by default the ending of the name decides.
    ids : {"auto", "text"}, default "auto"
        Whether to read ids as integers where all of them are plain integers, or always as text.

    Returns
    -------
    SourceTable

    Raises
    ------
    InputError
        If the file cannot be used; the message names the file and, if one is bad, the line.
    """
    check_choice("ids", ids, ("auto", "text"))
    requested = {"user": user_col, "item": item_col, "weight": weight_col}
    with open_table(path, header=header, separator=separator) as file:
        chosen = file.choose(requested, _ROLES)
        columns, table = file.read_all(chosen, ids)
        interactions, positions = Interactions.from_columns_with_positions(columns)
        return SourceTable(table, interactions, positions, chosen, isinstance(file, TextFile))
