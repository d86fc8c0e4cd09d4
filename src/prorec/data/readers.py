"""Reading interactions from csv, tsv, RecBole's .inter and parquet files, each also gzipped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from prorec._core.checks import check_choice
from prorec._core.errors import InputError, RowError
from prorec._core.files import as_path, prefix_errors
from prorec.data.formats import check_readable, detect_format, is_gzipped, open_decompressed
from prorec.data.text_file import TextFile
from prorec.interactions import Interactions
from prorec.interactions.columns import ALIASES, ColumnRef, choose_columns


def read_interactions(
    path: str | Path,
    *,
    user_col: ColumnRef = None,
    item_col: ColumnRef = None,
    weight_col: ColumnRef = None,
    rating_col: ColumnRef = None,
    timestamp_col: ColumnRef = None,
    header: bool = True,
    separator: str | None = None,
    ids: Literal["auto", "text"] = "auto",
    duplicates: str = "max",
) -> Interactions:
    """Read a file of interactions, one a row.

    Parameters
    ----------
    path : a .csv, .tsv, .inter or .parquet file, also gzipped; any other text file with a `separator`
    user_col, item_col, weight_col, rating_col, timestamp_col
        Names or positions (from 0) of the columns; by default they are found by their usual names. Without a
        header the user is column 0 and the item column 1, and other columns are used only if given.
    header : whether the first line of a text file names the columns
    separator : the one character between the columns of a text file; by default the ending tells
    ids : {"auto", "text"}
        `auto` reads ids as integers where all of them are plain integers, and as text otherwise (also where
        they have leading zeros); `text` always reads text.
    duplicates : {"max", "sum", "first", "error"}
        What becomes of rows that repeat a pair: see `Interactions.from_table`.
    """
    check_choice("ids", ids, ("auto", "text"))
    path = as_path(path)
    with prefix_errors(path):
        check_readable(path)
        wanted = {
            "user": user_col,
            "item": item_col,
            "weight": weight_col,
            "rating": rating_col,
            "timestamp": timestamp_col,
        }
        kind, separator = detect_format(path, separator)
        if kind == "parquet":
            try:
                columns, _ = read_parquet(path, wanted, ids)
                return Interactions.from_columns(columns, duplicates)
            except RowError as error:
                raise InputError(str(error)) from None
        text = TextFile(path, separator, header)
        with text.naming_lines():
            return Interactions.from_columns(text.read(wanted, ids), duplicates)


def read_parquet(
    path: Path,
    wanted: dict[str, ColumnRef],
    ids: str,
    *,
    roles: Sequence[str] = tuple(ALIASES),
    everything: bool = False,
) -> tuple[dict[str, pa.ChunkedArray], pa.Table]:
    """The columns that play a role, by role; and the table they are from, with the others only if that is asked for."""
    source: Any = str(path)
    if is_gzipped(path):
        with open_decompressed(path) as file:
            source = pa.BufferReader(file.read())
    try:
        with pq.ParquetFile(source) as parquet:
            names: Sequence[str] = parquet.schema_arrow.names
            chosen = choose_columns(names, wanted, roles=roles)
            for at in chosen.values():
                if names.count(names[at]) > 1:
                    raise InputError(f"more than one column is called {names[at]!r}")
            table = parquet.read(columns=None if everything else [names[at] for at in chosen.values()])
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"not a parquet file that can be read ({error})") from error
    if not table.num_rows:
        raise InputError("the file has no rows")
    columns = {role: table.column(names[at]) for role, at in chosen.items()}
    if ids == "text":
        try:
            columns |= {role: columns[role].cast(pa.string()) for role in ("user", "item")}
        except pa.ArrowException as error:
            raise InputError(f"these ids cannot be read as text: {error}") from error
    return columns, table
