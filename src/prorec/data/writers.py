"""Writing interactions to the formats they can be read from."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from prorec._core.errors import InputError
from prorec._core.files import as_path, atomic_write, prefix_errors
from prorec.data.formats import detect_format, format_suffix
from prorec.data.text_file import as_numbers
from prorec.interactions import Interactions


def write_interactions(interactions: Interactions, path: str | Path) -> None:
    """Write a .csv, .tsv, .parquet or RecBole .inter file, gzipped if the name ends in .gz.

    The columns are user, item, weight and whatever else is known of each interaction. The file appears whole or
    not at all.
    """
    path = as_path(path)
    with prefix_errors(path):
        detect_format(path)
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            write_table(interactions.to_table(), file, path.name)


def write_table(table: pa.Table, file: BinaryIO, name: str) -> None:
    """Write a table into an open file, in the format that `name` ends in.

    User and item columns of a RecBole .inter file get the names that it knows.
    """
    kind, separator = detect_format(Path(name))
    if kind == "text":
        try:
            table = _as_text(table)
            if format_suffix(Path(name)) == ".inter":
                table = _as_inter(table)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InputError(f"not everything in these columns can be written as text: {error}") from error
    with _zipped(file) if name.endswith(".gz") else nullcontext(file) as sink:
        if kind == "parquet":
            pq.write_table(table, sink)
            return
        # Arrow's "needed" puts quotes around all text; most can do without.
        style = "needed" if _needs_quotes(table, separator) else "none"
        options = pacsv.WriteOptions(delimiter=separator, quoting_style=style, quoting_header="none")
        if any(character in name for name in table.column_names for character in ('"', separator, "\n", "\r")):
            options.quoting_header = "needed"
        try:
            pacsv.write_csv(table, sink, options)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InputError(f"not everything in these columns can be written as text: {error}") from error


@contextmanager
def _zipped(raw: BinaryIO) -> Iterator[BinaryIO]:
    # No name or time inside, so that the same table gives the same bytes.
    with gzip.GzipFile("", "wb", 6, raw, 0) as zipped:
        yield cast(BinaryIO, zipped)


def _needs_quotes(table: pa.Table, separator: str) -> bool:
    pattern = f'["\\r\\n{separator}]'
    columns = [column for column in table.columns if _is_text(column)]
    return any(pc.any(pc.match_substring_regex(column, pattern)).as_py() for column in columns)


def _as_inter(table: pa.Table) -> pa.Table:
    """RecBole's columns: each name carries its type, and dates are seconds."""
    known = {"user": "user_id:token", "item": "item_id:token"}
    columns, names = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_temporal(column.type):
            column = _seconds(column)
        elif pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        usual = f"{name}:{'token' if _is_text(column) and _is_text(as_numbers(column)) else 'float'}"
        names.append(name if ":" in name else known.get(name, usual))
        columns.append(column)
    return pa.table(columns, names=names)


def _as_text(table: pa.Table) -> pa.Table:
    """Without the types that a text file does not know: categories, and other ways to keep text."""
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in table.schema.types]
    kinds = [pa.string() if pa.types.is_string_view(kind) else kind for kind in kinds]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))


def _is_text(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _seconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    microseconds = pc.cast(times, pa.timestamp("us"), safe=False).cast(pa.int64())
    return pc.divide(pc.cast(microseconds, pa.float64(), safe=False), 1e6)
