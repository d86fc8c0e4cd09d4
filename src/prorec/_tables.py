"""Handing an Arrow table over as the kind of table the caller works with."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa

from prorec.errors import one_of

TableKind = Literal["pyarrow", "pandas", "polars"]


def as_kind(table: pa.Table, kind: TableKind) -> Any:
    """The table as pyarrow, pandas or polars has it; the latter two must be installed."""
    one_of("kind", kind, ("pyarrow", "pandas", "polars"))
    if kind == "pandas":
        return table.to_pandas()
    if kind == "polars":
        import polars

        return polars.from_arrow(table)
    return table
