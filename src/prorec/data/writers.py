"""Writers of interactions and tables to the formats that `read_interactions` reads."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from prorec._core.checks import safe_repr, shorten
from prorec._core.errors import InputError
from prorec._core.files import as_path, atomic_write, prefix_errors
from prorec._core.progress import Progress
from prorec.data.formats import detect_format, format_suffix
from prorec.data.formula_cells import count_formula_cells, escape_formula_cells
from prorec.data.text_columns import infer_numbers
from prorec.interactions import Interactions
from prorec.interactions.interactions import check_interactions

_PART = 1 << 20
"""Rows that are written together; a row group of a parquet file."""


def write_interactions(interactions: Interactions, path: str | Path, *, overwrite: bool = True) -> None:
    """Write interactions to a file, whole or not at all.

    Parameters
    ----------
    interactions : Interactions
        Their user, item, weight and other columns are written.
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
    with prefix_errors(path):
        detect_format(path)
        check_interactions("interactions", interactions)
        with atomic_write(path, overwrite=overwrite) as temporary, temporary.open("wb") as file:
            write_table(interactions.to_table("pyarrow"), file, path.name)


def write_table(
    table: pa.Table,
    file: BinaryIO,
    name: str,
    *,
    escape_formulas: bool = False,
    progress: Progress | None = None,
) -> int:
    """Write a table into an open file.

    Parameters
    ----------
    table : pyarrow.Table
        The table. Its columns `user` and `item` get RecBole's names in a .inter file.
    file : binary file
        The file to write into.
    name : str
        A name that ends as the format does, such as "clicks.csv.gz".
    escape_formulas : bool, default False
        Put quotes around all texts of a csv or tsv file, and an apostrophe before those that a spreadsheet takes for a
        formula.
    progress : Progress, optional
        Gets the number of rows that are written, and of all.

    Returns
    -------
    int
        Number of cells in a csv or tsv file that a spreadsheet takes for a formula.

    Raises
    ------
    InputError
        If a column has a type or a character that a text file cannot hold.
    """
    format_, separator = detect_format(Path(name))
    # Without a name or a time in it, equal tables give equal bytes.
    zipped: Any = gzip.GzipFile("", "wb", 6, file, 0) if name.endswith(".gz") else nullcontext(file)
    with zipped as sink:
        if progress is not None:
            progress("Preparing the rows", 0, 1)
        if format_ == "parquet":
            with pq.ParquetWriter(sink, table.schema) as writer:
                for part in _iterate_parts(table, progress):
                    writer.write_table(part)
            return 0
        try:
            table = _to_text_types(table)
            check_characters(table, name)
            is_recbole = format_suffix(Path(name)) == ".inter"
            if is_recbole:
                table = _to_recbole(table)
            elif escape_formulas:
                table = escape_formula_cells(table)
            counts = not is_recbole and not escape_formulas
            n_formulas = n_names = count_formula_cells(table.slice(0, 0)) if counts else 0
            options = _csv_options(table, separator, quote=escape_formulas)
            with pacsv.CSVWriter(sink, table.schema, write_options=options) as writer:
                for part in _iterate_parts(table, progress):
                    n_formulas += count_formula_cells(part) - n_names if counts else 0
                    writer.write_table(part)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise InputError(
                f"not everything in these columns can be written as text: {shorten(str(error))}"
            ) from error
        return n_formulas


def _iterate_parts(table: pa.Table, progress: Progress | None) -> Iterator[pa.Table]:
    """Yield the rows in parts, and report how many the caller is done with."""
    if progress is not None:
        progress("Preparing the rows", 1, 1)
    yield table.slice(0, _PART)
    for start in range(_PART, table.num_rows, _PART):
        if progress is not None:
            progress("Writing the rows", start, table.num_rows)
        yield table.slice(start, _PART)
    if progress is not None:
        progress("Writing the rows", table.num_rows, table.num_rows)


def check_characters(table: pa.Table, name: str) -> None:
    """Refuse text that a file cannot hold, because no reader of such a file would take it back.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    name : str
        A name that ends as the format does.

    Raises
    ------
    InputError
        If the file is a text file, and a name or a text of the table has the character NUL in it.
    """
    if detect_format(Path(name))[0] == "parquet":
        return
    for column_name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        has_nul = _is_text(column) and pc.any(pc.match_substring(column, "\0"), min_count=0).as_py()
        if has_nul or "\0" in column_name:
            raise InputError(
                f"the column {safe_repr(column_name)} has the character NUL in it, which no text file can hold: "
                "write .parquet, or remove it"
            )


def _csv_options(table: pa.Table, separator: str, *, quote: bool) -> pacsv.WriteOptions:
    """Return options that put quotes only into files that need them; Arrow's "needed" quotes every text."""
    special = f'["\\r\\n{separator}]'
    texts = [column for column in table.columns if _is_text(column)]
    quote = quote or any(pc.any(pc.match_substring_regex(column, special)).as_py() for column in texts)
    quote_header = any(character in name for name in table.column_names for character in ('"', separator, "\n", "\r"))
    return pacsv.WriteOptions(
        delimiter=separator,
        quoting_style="needed" if quote else "none",
        quoting_header="needed" if quote_header else "none",
    )


def _to_text_types(table: pa.Table) -> pa.Table:
    """Convert categories and other encodings of text to plain columns."""
    types = [type_.value_type if pa.types.is_dictionary(type_) else type_ for type_ in table.schema.types]
    types = [pa.string() if pa.types.is_string_view(type_) else type_ for type_ in types]
    return table.cast(pa.schema(list(zip(table.column_names, types, strict=True))))


def _to_recbole(table: pa.Table) -> pa.Table:
    """Convert to RecBole's columns: each name has its type behind it, and dates are seconds."""
    id_names = {"user": "user_id:token", "item": "item_id:token"}
    columns, names = [], []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_temporal(column.type):
            microseconds = pc.cast(column, pa.timestamp("us"), safe=False).cast(pa.int64())
            column = pc.divide(pc.cast(microseconds, pa.float64(), safe=False), 1e6)
        elif pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        typed_name = f"{name}:{'token' if _is_text(column) and _is_text(infer_numbers(column)) else 'float'}"
        names.append(name if ":" in name else id_names.get(name, typed_name))
        columns.append(column)
    return pa.table(columns, names=names)


def _is_text(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))
