"""Names and categories of items, in files of their own or in the log itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from prorec._core.errors import InputError
from prorec._core.files import as_path, atomic_write, prefix_errors
from prorec.data.formats import check_readable, detect_format
from prorec.data.text_file import TextFile, as_integers
from prorec.data.writers import write_table
from prorec.interactions import Interactions
from prorec.interactions.columns import choose_columns
from prorec.interactions.ids import encode_ids

_NAMES = ("name", "title", "item_name", "item_title", "movie_title", "product_name")
_CATEGORIES = ("categories", "category", "genres", "genre")
_BETWEEN = "|"


def add_item_info(
    interactions: Interactions, path: str | Path, item_col: str | None = None, separator: str | None = None
) -> Interactions:
    """The same interactions, with what a file says about their items.

    Parameters
    ----------
    interactions : whose items are meant; others in the file are passed over
    path : a .csv, .tsv or .parquet file with a column of item ids, and one of names (`name`, `title`, …) or of
        categories (`category`, `genres`, …), several of them with | between. Of an item that is there more than once
        the first row counts, so the log itself will do
    item_col : name of the column of ids, if it has that one; otherwise it is found by its usual names
    separator : the character between the columns of a text file, if its ending does not tell
    """
    path = as_path(path)
    with prefix_errors(path):
        check_readable(path)
        kind, separator = detect_format(path, separator)
        table = _parquet(path) if kind == "parquet" else TextFile(path, separator, True).as_written({})
        headers = [str(name).partition(":")[0].strip() for name in table.column_names]
        # The log's own name for the column counts where the file has it: the file may be the log.
        wanted = item_col if item_col in headers else None
        at = choose_columns(headers, {"item": wanted}, roles=("item",))["item"]
        name, category = _called(headers, _NAMES, at), _called(headers, _CATEGORIES, at)
        if name is None and category is None:
            raise InputError(
                f"no column says anything about items: one of names is called {_NAMES[0]} or {_NAMES[1]}, one of "
                f"categories {_CATEGORIES[0]} or {_CATEGORIES[2]}. Columns there: {', '.join(headers)}"
            )
        ids, rows = _first_rows(table.column(at), interactions)
        if not (interactions.item_positions(ids) >= 0).any():
            raise InputError("none of the log's items is in this file: are these the same ids?")
        known = ids.tolist()
        names = _texts(table, name, rows)
        lists = [_parts(each) for each in _texts(table, category, rows)]
        return interactions.with_item_info(
            None if name is None else {item: text for item, text in zip(known, names, strict=True) if text},
            None if category is None else dict(zip(known, lists, strict=True)),
        )


def _parquet(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"not a parquet file that can be read ({error})") from error


def _called(headers: Sequence[str], usual: Sequence[str], apart_from: int) -> int | None:
    """The column with the first of some usual names, if there is one."""
    places = {header.lower(): at for at, header in reversed(list(enumerate(headers))) if at != apart_from}
    return next((places[name] for name in usual if name in places), None)


def _first_rows(column: pa.ChunkedArray, interactions: Interactions) -> tuple[Any, Any]:
    """The ids in a column, as the log has them, and the first row of each."""
    if interactions.items.dtype != object and _is_text(column.type):
        column = as_integers(column.cast(pa.string()))
    elif interactions.items.dtype == object:
        column = column.cast(pa.string())
    ids, codes = encode_ids(column, "item")
    _, rows = np.unique(codes, return_index=True)
    return ids, rows


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _parts(text: str) -> list[str]:
    return [part for each in text.split(_BETWEEN) if (part := each.strip())]


def _texts(table: pa.Table, at: int | None, rows: Any) -> list[str]:
    """A column's texts in some rows; empty ones where there is none, or no column."""
    if at is None:
        return [""] * len(rows)
    column = table.column(at).take(pa.array(rows))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return [_BETWEEN.join(map(str, each or ())) for each in column.to_pylist()]
    return ["" if each is None else str(each).strip() for each in column.to_pylist()]


def write_item_info(interactions: Interactions, path: str | Path) -> None:
    """Write what is known about items to a file that `add_item_info` reads."""
    path = as_path(path)
    columns: dict[str, Any] = {"item": pa.array(interactions.items)}
    if interactions.item_names is not None:
        columns["name"] = pa.array(interactions.item_names, pa.string())
    if interactions.item_categories is not None:
        columns["categories"] = pa.array([_BETWEEN.join(each) for each in interactions.item_categories])
    with prefix_errors(path), atomic_write(path) as temporary, temporary.open("wb") as file:
        write_table(pa.table(columns), file, path.name)
