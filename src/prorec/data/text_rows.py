"""Rows of a text file, one after the other: slower than Arrow, and for what Arrow does not tell."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from prorec._core.errors import DataWarning, InputError

Row = tuple[int, list[str]]
"""Number of the line on which a row starts, and its fields."""
_CHUNK = 1 << 20


def iterate_rows(source: BinaryIO, separator: str, header: bool) -> Iterator[Row]:
    """Yield the rows of a text file.

    Parameters
    ----------
    source : file
        The text as UTF-8; what is not UTF-8 is replaced.
    separator : str
        The character between columns.
    header : bool
        Whether the first row is a header, which is left out.

    Yields
    ------
    line : int
    fields : list of str

    Raises
    ------
    InputError
        If a line cannot be split into fields.
    """
    text = io.TextIOWrapper(source, encoding="utf-8-sig", errors="replace", newline="")
    reader = csv.reader(text, delimiter=separator)
    line, skip = 1, header
    try:
        for row in reader:
            if row and not skip:
                yield line, row
            skip = skip and not row
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(f"line {line}: {error}") from error
    finally:
        text.detach()  # the caller closes the file


def write_rows(rows: Iterable[Row], separator: str, n_blank_lines: int) -> Iterator[bytes]:
    """Yield the text of rows.

    Parameters
    ----------
    rows : iterable of tuple
        Lines and fields.
    separator : str
        The character between columns.
    n_blank_lines : int
        Number of blank lines before the rows.

    Yields
    ------
    bytes
        Parts of the text, as UTF-8.
    """
    buffer = io.StringIO()
    buffer.write("\n" * n_blank_lines)
    writer = csv.writer(buffer, delimiter=separator, lineterminator="\n")
    for _, row in rows:
        writer.writerow(row)
        if buffer.tell() > _CHUNK:
            yield buffer.getvalue().encode()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue().encode()


def has_newlines_in_quotes(rows: Iterable[Row], separator: str, n_columns: int, path: Path) -> bool:
    """Find out whether a field spans lines, and warn if what it spans looks like rows.

    Parameters
    ----------
    rows : iterable of tuple
        Lines and fields.
    separator : str
        The character between columns.
    n_columns : int
        Number of columns.
    path : Path
        The file, for the warning.

    Returns
    -------
    bool
    """
    result = False
    try:
        for line, row in rows:
            result = result or any(map(_has_newline, row))
            inner_lines = [each for field in row for each in field.splitlines()[1:-1]]
            if any(each.count(separator) == n_columns - 1 for each in inner_lines):
                warnings.warn(
                    f"{path}: the text in quotes from line {line} on looks like rows of its own; it is read as one "
                    "field. Is there a stray quotation mark?",
                    DataWarning,
                    stacklevel=6,
                )
                return True
    except InputError:
        return True
    return result


def check_quotes(rows: Iterable[Row]) -> None:
    """Refuse a quote that is never closed, because one field would contain the rest of the file.

    Parameters
    ----------
    rows : iterable of tuple
        Lines and fields of the whole file.

    Raises
    ------
    InputError
        If the last row has a field that spans lines.
    """
    line, row = 0, [""]
    for line, row in rows:  # noqa: B007 - only the last row counts
        pass
    if any(map(_has_newline, row)):
        raise InputError(f"line {line}: a quotation mark is opened and never closed")


def _has_newline(field: str) -> bool:
    return "\n" in field or "\r" in field
