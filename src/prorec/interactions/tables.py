"""Tables of any kind, in as Arrow columns and out as the kind the caller works with."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Literal

import narwhals as nw
import pyarrow as pa
from narwhals.exceptions import NarwhalsError

from prorec._core.checks import check_choice
from prorec._core.errors import InputError, MissingExtraError, RowError
from prorec.interactions.columns import is_number

FrameType = Literal["pyarrow", "pandas", "polars"]


def to_frame(table: pa.Table, frame: FrameType) -> Any:
    """The table as pyarrow, pandas or polars has it; the latter two must be installed."""
    check_choice("frame", frame, ("pyarrow", "pandas", "polars"))
    if frame != "pyarrow" and find_spec(frame) is None:
        raise MissingExtraError(
            f"frame={frame!r} requires {frame}, which is not installed: pip install {frame}, or use frame='pyarrow'"
        )
    if frame == "pandas":
        return table.to_pandas()
    if frame == "polars":
        import polars

        return polars.from_arrow(table)
    return table


def read_frame(table: Any) -> nw.DataFrame[Any]:
    """Any table that narwhals takes, with its rows in memory."""
    try:
        frame = nw.from_native(table)
        return frame.collect("pyarrow") if isinstance(frame, nw.LazyFrame) else frame
    except (TypeError, ValueError, NarwhalsError) as error:
        raise InputError(f"not a table that narwhals takes, {type(table).__name__}: {error}") from error


def to_arrow_column(frame: nw.DataFrame[Any], at: int, role: str) -> pa.ChunkedArray:
    """One column as Arrow has it; one that mixes types is refused by what is wrong with it."""
    series = frame[:, at]
    native = series.to_native()
    if isinstance(native, pa.ChunkedArray):
        return native  # as it is, without putting its chunks together
    try:
        column = series.to_arrow()
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        values = series.to_list()
        if role in ("weight", "rating"):
            for row, value in enumerate(values):
                if not is_number(value):
                    raise RowError(f"the {role} {value!r} is not a number", row) from None
        kinds = ", ".join(sorted({type(value).__name__ for value in values}))
        raise InputError(f"column {series.name!r} ({role}) mixes values of different types: {kinds}") from error
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
