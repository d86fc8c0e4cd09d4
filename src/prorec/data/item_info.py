"""Names and categories of items, from a file of their own or from the log itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec._core.checks import shorten
from prorec._core.errors import InputError
from prorec._core.files import as_path, atomic_write, prefix_errors
from prorec.data.readers import open_table
from prorec.data.text_columns import infer_integers
from prorec.data.writers import write_table
from prorec.interactions import Interactions
from prorec.interactions.columns import choose_columns
from prorec.interactions.ids import encode_ids

_NAMES = ("name", "title", "item_name", "item_title", "movie_title", "product_name")
_CATEGORIES = ("categories", "category", "genres", "genre")
_SEPARATOR = "|"


def add_item_info(
    interactions: Interactions, path: str | Path, item_col: str | None = None, separator: str | None = None
) -> Interactions:
    """Set names and categories of items from a file.

    Parameters
    ----------
    interactions : Interactions
        Interactions with the items; other items in the file are ignored.
    path : str or Path
        A .csv, .tsv, .inter or .parquet file with a column of item ids, and one of names (`name`, `title`, …) or one of
        categories (`category`, `genres`, …), several of them with | between. The first row of each item counts, so the
        file may be the log itself.
    item_col : str, optional
        Name of the column of item ids; if the file has no such column, it is found by its usual names.
    separator : str, optional
        The one character between columns of a text file; by default the ending of the name decides.

    Returns
    -------
    Interactions

    Raises
    ------
    InputError
        If the file has neither names nor categories, or none of the items.
    """
    with open_table(path, separator=separator) as file:
        _, table = file.read_all({}, "auto")
        headers = [str(name).partition(":")[0].strip() for name in table.column_names]
        requested = item_col if item_col in headers else None
        item = choose_columns(headers, {"item": requested}, roles=("item",))["item"]
        name, category = _find_column(headers, _NAMES, item), _find_column(headers, _CATEGORIES, item)
        if name is None and category is None:
            raise InputError(
                f"no column has names ({_NAMES[0]}, {_NAMES[1]}, …) or categories ({_CATEGORIES[0]}, "
                f"{_CATEGORIES[2]}, …) of items: rename one. The columns are {shorten(', '.join(headers))}"
            )
        ids, rows = _find_first_rows(table.column(item), interactions)
        if not (interactions.item_positions(ids) >= 0).any():
            raise InputError("none of the log's items is in this file: are these the same ids?")
        names = None if name is None else dict(zip(ids.tolist(), _texts(table, name, rows), strict=True))
        categories = None if category is None else dict(zip(ids.tolist(), _texts(table, category, rows), strict=True))
        return interactions.with_item_info(
            names and {item: text for item, text in names.items() if text},
            categories and {item: _split(text) for item, text in categories.items()},
        )


def write_item_info(interactions: Interactions, path: str | Path, *, overwrite: bool = True) -> None:
    """Write names and categories of items to a file that `add_item_info` reads.

    Parameters
    ----------
    interactions : Interactions
        Interactions with names or categories of items.
    path : str or Path
        A .csv, .tsv, .parquet or RecBole .inter file; it is gzipped if the name ends in .gz.
    overwrite : bool, default True
        Replace a file that exists when the new one is complete.

    Raises
    ------
    InputError
        If the format is unknown, or the file cannot be written or must not be replaced.
    """
    path = as_path(path)
    columns: dict[str, Any] = {"item": pa.array(interactions.items)}
    if interactions.item_names is not None:
        columns["name"] = pa.array(interactions.item_names, pa.string())
    if interactions.item_categories is not None:
        columns["categories"] = pa.array([_SEPARATOR.join(each) for each in interactions.item_categories])
    with prefix_errors(path), atomic_write(path, overwrite=overwrite) as temporary, temporary.open("wb") as file:
        write_table(pa.table(columns), file, path.name)


def _find_column(headers: Sequence[str], names: Sequence[str], item: int) -> int | None:
    """Return the position of the column with the first of some names, other than the column of items."""
    positions = {header.lower(): at for at, header in reversed(list(enumerate(headers))) if at != item}
    return next((positions[name] for name in names if name in positions), None)


def _find_first_rows(column: pa.ChunkedArray, interactions: Interactions) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct ids of a column, in the type of the log's, and the first row of each."""
    if interactions.items.dtype == object:
        column = column.cast(pa.string())
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = infer_integers(column.cast(pa.string()))
    ids, codes = encode_ids(column, "item")
    return ids, np.unique(codes, return_index=True)[1]


def _texts(table: pa.Table, position: int, rows: NDArray[np.int64]) -> list[str]:
    """Return the texts of a column in some rows; empty for a missing one, and lists joined."""
    column = table.column(position).take(pa.array(rows))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        return [_SEPARATOR.join(map(str, each or ())) for each in column.to_pylist()]
    return ["" if each is None else str(each).strip() for each in column.to_pylist()]


def _split(text: str) -> list[str]:
    return [part for each in text.split(_SEPARATOR) if (part := each.strip())]
