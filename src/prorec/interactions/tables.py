"""Conversion of pandas, polars and pyarrow tables to Arrow columns, and of Arrow tables back to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import narwhals as nw
import pyarrow as pa
from narwhals.exceptions import NarwhalsError

from prorec._core.checks import check_choice, safe_repr, shorten
from prorec._core.errors import InputError, MissingExtraError, RowError
from prorec.interactions.columns import is_number

FrameType = Literal["pyarrow", "pandas", "polars"]
"""Libraries whose tables prorec returns."""
FRAME_TYPES: tuple[FrameType, ...] = ("pyarrow", "pandas", "polars")


@dataclass(frozen=True)
class TableSource:
    """The table that interactions were read from."""

    columns: Mapping[str, str]
    """Name of the column of each role, such as `user` and `item`."""
    frame: FrameType = "pyarrow"
    """Library of the table; results come as tables of it."""


def to_frame(table: pa.Table, frame: FrameType | None, default: FrameType = "pyarrow") -> Any:
    """Return an Arrow table as a table of the library that the caller works with.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    frame : {"pyarrow", "pandas", "polars"} or None
        The library.
    default : {"pyarrow", "pandas", "polars"}, default "pyarrow"
        The library if `frame` is None: that of the table that the interactions were read from.

    Returns
    -------
    pyarrow.Table, pandas.DataFrame or polars.DataFrame

    Raises
    ------
    MissingExtraError
        If the library is not installed.
    """
    frame = default if frame is None else frame
    check_choice("frame", frame, FRAME_TYPES)
    if frame != "pyarrow" and find_spec(frame) is None:
        raise MissingExtraError(
            f"frame={safe_repr(frame)} requires {frame}, which is not installed: pip install {frame}, or use "
            "frame='pyarrow'"
        )
    if frame == "pandas":
        return table.to_pandas()
    if frame == "polars":
        import polars

        return polars.from_arrow(table)
    return table


def frame_type(table: Any) -> FrameType | None:
    """Return the library in which results about a table come.

    Parameters
    ----------
    table : Any
        Anything.

    Returns
    -------
    {"pyarrow", "pandas", "polars"} or None
        "pyarrow" for a table of another library that narwhals supports; None if it is no table.

    Examples
    --------
    >>> frame_type(pa.table({"user": [1]})), frame_type([1])
    ('pyarrow', None)
    """
    frame = nw.from_native(table, pass_through=True)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        return None
    if frame.implementation.is_pandas():
        return "pandas"
    return "polars" if frame.implementation.is_polars() else "pyarrow"


def read_frame(table: Any) -> nw.DataFrame[Any]:
    """Return a table of any library that narwhals supports, with its rows in memory.

    Parameters
    ----------
    table : Any
        A table of pandas, polars, pyarrow or another library; a lazy one is collected.

    Returns
    -------
    narwhals.DataFrame

    Raises
    ------
    InputError
        If narwhals does not support it.
    """
    try:
        frame = nw.from_native(table)
        return frame.collect("pyarrow") if isinstance(frame, nw.LazyFrame) else frame
    except (TypeError, ValueError, NarwhalsError) as error:
        raise InputError(
            f"table must be of pandas, polars, pyarrow or another library that narwhals supports; "
            f"got {type(table).__name__}: {shorten(str(error))}"
        ) from error


def convert_frame(table: nw.DataFrame[Any], frame: FrameType | None) -> Any:
    """Return a table as one of the library that the caller works with.

    Parameters
    ----------
    table : narwhals.DataFrame
        The table.
    frame : {"pyarrow", "pandas", "polars"} or None
        The library; None for the table as it is.

    Returns
    -------
    table
    """
    if frame is None or frame == frame_type(table.to_native()):
        return table.to_native()
    return to_frame(table.to_arrow(), frame)


def to_arrow_column(frame: nw.DataFrame[Any], position: int, role: str) -> pa.ChunkedArray:
    """Return one column of a table as an Arrow column.

    Parameters
    ----------
    frame : narwhals.DataFrame
        The table.
    position : int
        Position of the column.
    role : {"user", "item", "weight", "rating", "timestamp"}
        Meaning of the column, for messages.

    Returns
    -------
    pyarrow.ChunkedArray

    Raises
    ------
    InputError
        If the column mixes values of different types.
    """
    series = frame[:, position]
    native = series.to_native()
    if isinstance(native, pa.ChunkedArray):
        return native  # narwhals would combine its chunks, which copies them
    try:
        column = series.to_arrow()
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        values = series.to_list()
        for row, value in enumerate(values if role in ("weight", "rating") else ()):
            if not is_number(value):
                raise RowError(f"the {role} {safe_repr(value)} is not a number", row) from None
        types = ", ".join(sorted({type(value).__name__ for value in values}))
        raise InputError(
            f"column {safe_repr(series.name)} ({role}) must hold values of one type; it mixes {types}: convert it first"
        ) from error
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
