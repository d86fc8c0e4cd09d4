"""A log with every row and column in its order, beside the interactions that it contains."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec._core.checks import check_choice, safe_repr
from prorec._core.errors import DataWarning, InputError, RowError
from prorec._core.progress import Progress
from prorec.data.bad_rows import BadRows, read_usable
from prorec.data.column_values import check_time_format, fits_role
from prorec.data.parquet_file import ParquetFile
from prorec.data.readers import Header, open_table
from prorec.data.text_columns import infer_numbers
from prorec.data.text_file import TextFile
from prorec.data.typed_log import TypedLog
from prorec.interactions import Interactions
from prorec.interactions.columns import ColumnRef
from prorec.interactions.tables import TableSource

_ROLES = ("user", "item", "weight")  # a column that is not read cannot be refused


@dataclass(frozen=True, eq=False, repr=False)
class SourceTable:
    """Rows of a file, and the position of each among the interactions."""

    table: pa.Table
    """All columns of the file in their order; those of a text file as text."""
    interactions: Interactions
    """One interaction for each distinct pair; the largest weight and the latest time of repeated pairs count."""
    positions: NDArray[np.int64]
    """For each row, the position of its pair in `interactions.matrix.data`."""
    roles: Mapping[str, int]
    """Position of the columns of user and item, and of the weight and the time if they are used."""
    is_text: bool
    """Whether the file is a text file."""
    skipped: BadRows | None = None
    """Rows of the file that cannot be used and are left out."""
    digest: str | None = None
    """SHA-256 of the file, if the caller took it."""

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
        for name, pair_values in values.items():
            column = pa.array(pair_values).take(pa.array(self.positions))
            table = table.append_column(self.free_name(name), column)
        return table

    def free_name(self, name: str) -> str:
        """Return the name of a new column.

        Parameters
        ----------
        name : str
            Name that the column has if the file has none of that name.

        Returns
        -------
        str
            The name, if necessary with `prorec_` before it.

        Raises
        ------
        InputError
            If the file has a column of that name, too.
        """
        # In RecBole's files a name has its type behind it.
        taken = {*self.table.column_names, *(each.partition(":")[0] for each in self.table.column_names)}
        # Nobody tells Weight from weight, and prorec would find two weights in its own output.
        lower = {each.lower() for each in taken}
        new_name = f"prorec_{name}" if name in lower else name
        if new_name in lower:
            raise InputError(
                f"the log has columns called {safe_repr(name)} and {safe_repr(new_name)} already: rename one of them"
            )
        return new_name

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
    timestamp_col: ColumnRef = None,
    time_format: str | None = None,
    with_times: bool = False,
    header: Header = "auto",
    separator: str | None = None,
    ids: Literal["auto", "text"] = "auto",
    skip_bad_rows: bool = False,
    progress: Progress | None = None,
) -> SourceTable:
    """Read a file as `read_interactions` does, and keep all of its rows and columns.

    The file is parsed once, and its ids are numbered once.

    Parameters
    ----------
    path : str or Path
        A text file with one row on each line, or a parquet file, also gzipped.
    user_col, item_col, weight_col, timestamp_col : str or int, optional
        Names or positions (from 0) of the columns; by default they are found by their usual names and their values.
        "none" means that no column is the weight or the time.
    time_format : str, optional
        Format of times that are neither numbers nor ISO times, as in `datetime.strptime`.
    with_times : bool, default False
        Whether to read times. A column that is not read cannot be refused.
    header : bool or "auto", default "auto"
        Whether the first line of a text file has the names of the columns; "auto" finds out.
    separator : str, optional
        The one character between columns of a text file; by default a comma, semicolon, tab or pipe is found.
    ids : {"auto", "text"}, default "auto"
        Whether to read ids as integers where all of them are plain integers, or always as text.
    skip_bad_rows : bool, default False
        Leave out rows that cannot be used. By default they are refused.
    progress : Progress, optional
        Gets the number of bytes of a text file that are read, and the steps after that.

    Returns
    -------
    SourceTable

    Raises
    ------
    InputError
        If the file cannot be used; the message names the file, and counts all bad rows with their lines.
    """
    check_choice("ids", ids, ("auto", "text"))
    check_time_format(time_format)
    requested = {"user": user_col, "item": item_col, "weight": weight_col, "timestamp": timestamp_col}
    roles = (*_ROLES, "timestamp") if with_times else _ROLES
    with open_table(path, header=header, separator=separator, requested=requested, progress=progress) as file:
        chosen = choose_fitting(file, requested, roles, time_format, f"{path}: ")

        def read(file: TextFile | ParquetFile) -> SourceTable:
            report = progress or (lambda task, done, total: None)
            if isinstance(file, ParquetFile):
                report("Reading the log", 0, 1)  # of a text file, the reader counts bytes
            columns, table = file.read_all(chosen, ids, time_format)
            if isinstance(file, ParquetFile):
                report("Reading the log", 1, 1)
            report("Numbering users and items", 0, 1)
            interactions, positions = make_interactions(columns)
            report("Numbering users and items", 1, 1)
            interactions = replace(
                interactions, source=TableSource({role: file.names[at] for role, at in chosen.items()})
            )
            return SourceTable(table, interactions, positions, chosen, isinstance(file, TextFile))

        source, bad = read_usable(file, chosen, read, skip=skip_bad_rows, max_weight=1, time_format=time_format)
        return replace(source, skipped=bad)


def choose_fitting(
    file: TextFile | TypedLog,
    requested: Mapping[str, ColumnRef],
    roles: Sequence[str],
    time_format: str | None = None,
    label: str = "",
) -> dict[str, int]:
    """Find the column of each role, with a warning for each that is not used because of its values.

    Parameters
    ----------
    file : TextFile, ParquetFile or DataFrameLog
        The log.
    requested : mapping of str to str, int or None
        Columns that the user named.
    roles : sequence of str
        Roles to find.
    time_format : str, optional
        Format of times.
    label : str, default ""
        Beginning of the warnings.

    Returns
    -------
    dict of str to int
        Position of the column of each role that is used.
    """
    chosen = file.choose(requested, roles, time_format=time_format)
    for role, reason in find_misfits(file, chosen, requested, time_format).items():
        del chosen[role]
        warnings.warn(f"{label}{reason}", DataWarning, stacklevel=3)
    return chosen


def make_interactions(columns: dict[str, pa.ChunkedArray]) -> tuple[Interactions, NDArray[np.int64]]:
    """Make interactions whose weights are from 0 to 1, and tell where each row is among them.

    Parameters
    ----------
    columns : dict of str to pyarrow.ChunkedArray
        Columns by role; the dict is emptied.

    Returns
    -------
    interactions : Interactions
    positions : ndarray of int64
        For each row, the position of its pair in `matrix.data`.

    Raises
    ------
    RowError
        If a row cannot be used.
    """
    interactions, positions = Interactions.from_columns_with_positions(columns)
    weights = interactions.matrix.data
    if len(weights) and weights.max() > 1:
        raise RowError("a weight is above 1", 0)
    return interactions, positions


def find_misfits(
    file: TextFile | TypedLog,
    chosen: Mapping[str, int],
    requested: Mapping[str, ColumnRef],
    time_format: str | None = None,
) -> dict[str, str]:
    """Find columns whose names suggest weights or times, but whose values do not.

    Parameters
    ----------
    file : TextFile, ParquetFile or DataFrameLog
        The log.
    chosen : mapping of str to int
        Position of the column of each role.
    requested : mapping of str to str, int or None
        Columns that the user named, which are never misfits.
    time_format : str, optional
        Format of times.

    Returns
    -------
    dict of str to str
        For each role, a sentence that says why the column is not used.
    """
    result = {}
    for role in ("weight", "timestamp"):
        if role not in chosen or requested.get(role) is not None:
            continue
        values = file.sample(chosen[role])
        if values and not fits_role(values, role, time_format):
            name = file.names[chosen[role]]
            example = next(each for each in values if not fits_role([each], role, time_format))
            expected = "weights are numbers from 0 to 1" if role == "weight" else "times are numbers or ISO times"
            remedy = "" if role == "weight" else " Pass time_format if they are dates of another form."
            result[role] = (
                f"the column {safe_repr(name)} is not used as {role}: it has values such as {safe_repr(example)}, "
                f"and {expected}."
                f"{remedy} Pass {role}_col='none' to say that it has another meaning."
            )
    return result
