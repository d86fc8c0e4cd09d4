"""Data frames of interactions, with the interface of `TextFile`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec._core.errors import InputError, RowError
from prorec.data.bad_rows import read_usable
from prorec.data.column_values import check_time_format
from prorec.data.readers import warn_about_skipped
from prorec.data.source_table import choose_fitting, make_interactions
from prorec.data.typed_log import TypedLog, convert_columns
from prorec.interactions import Interactions
from prorec.interactions.arrow_types import use_plain_type
from prorec.interactions.columns import ColumnRef
from prorec.interactions.tables import TableSource, frame_type, read_frame, to_arrow_column

_ROLES = ("user", "item", "weight", "timestamp")
_N_SAMPLED = 200


def read_data_frame(
    table: Any,
    *,
    user_col: ColumnRef = None,
    item_col: ColumnRef = None,
    weight_col: ColumnRef = None,
    timestamp_col: ColumnRef = None,
    time_format: str | None = None,
    skip_bad_rows: bool = False,
    can_skip: bool = True,
) -> tuple[Interactions, NDArray[np.int64]]:
    """Read a data frame as `read_source_table` reads a file: columns and bad rows are found in the same way.

    Parameters
    ----------
    table : DataFrame
        A table of pandas, polars, pyarrow or another library that narwhals supports.
    user_col, item_col, weight_col, timestamp_col : str or int, optional
        Names or positions (from 0) of the columns; by default they are found by their usual names and their values.
        "none" means that no column is the weight or the time.
    time_format : str, optional
        Format of times that are neither numbers nor ISO times, as in `datetime.strptime`.
    skip_bad_rows : bool, default False
        Leave out rows that cannot be used, with a warning that counts them. By default they are refused.
    can_skip : bool, default True
        Whether the message about such rows may advise that.

    Returns
    -------
    interactions : Interactions
        One interaction for each distinct pair; the largest weight and the latest time of repeated pairs count.
    positions : ndarray of int64
        For each row, the position of its pair in `matrix.data`; −1 for a row that was left out.

    Raises
    ------
    InputError
        If a column is not found, or if rows cannot be used; the message counts all of them with their positions.
    """
    check_time_format(time_format)
    requested = {"user": user_col, "item": item_col, "weight": weight_col, "timestamp": timestamp_col}
    log = DataFrameLog(read_frame(table))
    chosen = choose_fitting(log, requested, _ROLES, time_format)
    with log.add_line_numbers():
        (interactions, own), bad = read_usable(
            log,
            chosen,
            lambda usable: make_interactions(usable.read(chosen, time_format)),
            skip=skip_bad_rows,
            can_skip=can_skip,
            max_weight=1,
            time_format=time_format,
        )
    warn_about_skipped("the table", bad)
    source = TableSource({role: log.names[at] for role, at in chosen.items()}, frame_type(table) or "pyarrow")
    positions = np.full(len(log.frame), -1, dtype=np.int64)
    positions[np.delete(np.arange(len(positions)), [row.position for row in bad.rows] if bad else [])] = own
    return replace(interactions, source=source), positions


@dataclass(frozen=True, eq=False)
class DataFrameLog(TypedLog):
    """A data frame with one interaction in each row. Only the columns that are used are converted."""

    frame: nw.DataFrame[Any]
    """The data frame."""

    @property
    def unit(self) -> Literal["position"]:
        """Meaning of the places of rows: they are counted from 0, as libraries of data frames count."""
        return "position"

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [str(name) for name in self.frame.columns]

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
        return _to_list(self.frame[:_N_SAMPLED, position])

    def rows(self) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the values of each row, and its position; slow.

        Yields
        ------
        position : int
            From 0.
        values : tuple
        """
        columns = [_to_list(self.frame[:, position]) for position in range(len(self.names))]
        yield from enumerate(zip(*columns, strict=True))

    def read(self, chosen: Mapping[str, int], time_format: str | None = None) -> dict[str, pa.ChunkedArray]:
        """Read the columns of some roles.

        Parameters
        ----------
        chosen : mapping of str to int
            Position of the column of each role, as `choose` finds them.
        time_format : str, optional
            Format of times that are text.

        Returns
        -------
        dict of str to pyarrow.ChunkedArray
            Columns by role.

        Raises
        ------
        InputError
            If the data frame has no rows, or a column cannot be used.
        """
        if not len(self.frame):
            raise InputError("the table has no rows")
        columns = {role: to_arrow_column(self.frame, position, role) for role, position in chosen.items()}
        columns = {role: use_plain_type(column, role) for role, column in columns.items()}
        if self.skipped:
            kept = self._kept(len(self.frame))
            columns = {role: column.filter(kept) for role, column in columns.items()}
        return convert_columns(columns, "auto", time_format)

    @contextmanager
    def add_line_numbers(self) -> Iterator[None]:
        """Turn each `RowError` in a `with` block into an `InputError` that names the row."""
        try:
            yield
        except RowError as error:
            raise InputError(f"position {error.row}: {error.problem}") from None


def _to_list(column: nw.Series[Any]) -> list[Any]:
    """Return the values of a column, with None for every missing one."""
    values, is_missing = column.to_list(), column.is_null().to_list()
    return [None if missing else value for value, missing in zip(values, is_missing, strict=True)]
