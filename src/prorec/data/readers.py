"""Readers of interactions from text of separated columns, RecBole's .inter and parquet files, each also gzipped."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

from prorec._core.checks import check_choice, safe_repr
from prorec._core.errors import DataWarning, InputError
from prorec._core.files import as_path, prefix_errors
from prorec._core.progress import Progress
from prorec.data.bad_rows import BadRows, read_usable
from prorec.data.column_values import check_time_format
from prorec.data.formats import check_readable, format_suffix, is_parquet, usual_separator
from prorec.data.parquet_file import ParquetFile
from prorec.data.text_file import TextFile
from prorec.data.text_recognition import find_header, find_separator, parse_rows, read_head
from prorec.interactions import Interactions
from prorec.interactions.column_names import ROLES
from prorec.interactions.columns import ColumnRef, is_number, is_time
from prorec.interactions.tables import TableSource

Header = bool | Literal["auto"]
_HEAD_BYTES = 1 << 16
_N_SHOWN = 20


def read_interactions(
    path: str | Path,
    *,
    user_col: ColumnRef = None,
    item_col: ColumnRef = None,
    weight_col: ColumnRef = None,
    rating_col: ColumnRef = None,
    timestamp_col: ColumnRef = None,
    time_format: str | None = None,
    header: Header = "auto",
    separator: str | None = None,
    ids: Literal["auto", "text"] = "auto",
    duplicates: str = "max",
    skip_bad_rows: bool = False,
) -> Interactions:
    r"""Read interactions from a file with one in each row.

    Parameters
    ----------
    path : str or Path
        A text file with one row on each line, or a parquet file, also gzipped.
    user_col, item_col, weight_col, rating_col, timestamp_col : str or int, optional
        Names or positions (from 0) of the columns; by default they are found by their usual names, and columns of
        ratings and times by their values too. "none" means that no column is the weight, the rating or the time.
        Without a header the user is column 0 and the item column 1, and other columns are used only if given.
    time_format : str, optional
        Format of times that are neither numbers nor ISO times, as in `datetime.strptime`, such as "%d.%m.%Y %H:%M".
    header : bool or "auto", default "auto"
        Whether the first line of a text file has the names of the columns; "auto" finds out.
    separator : str, optional
        The one character between columns of a text file; by default a comma, semicolon, tab or pipe is found.
    ids : {"auto", "text"}, default "auto"
        "auto" reads ids of a text file as integers if all of them are plain integers without leading zeros; "text"
        reads ids as text always.
    duplicates : {"max", "sum", "first", "error"}, default "max"
        Rule for rows that repeat a pair: see `Interactions.from_table`.
    skip_bad_rows : bool, default False
        Leave out rows that cannot be used, with a warning that counts them. By default they are refused.

    Returns
    -------
    Interactions

    Raises
    ------
    InputError
        If the file cannot be used; the message names the file, and counts all bad rows with their lines.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "clicks.csv")
    ...     _ = path.write_text("user,item\nann,tea\nbob,tea\nann,tea\n")
    ...     read_interactions(path)
    Interactions(2 users × 1 items, 2 interactions)
    """
    check_choice("ids", ids, ("auto", "text"))
    check_time_format(time_format)
    requested = dict(zip(ROLES, (user_col, item_col, weight_col, rating_col, timestamp_col), strict=True))
    with open_table(path, header=header, separator=separator, requested=requested) as file:
        chosen = file.choose(requested, time_format=time_format)

        def read(file: TextFile | ParquetFile) -> Interactions:
            return Interactions.from_columns(file.read(chosen, ids, time_format), duplicates)

        clicks, bad = read_usable(file, chosen, read, skip=skip_bad_rows, time_format=time_format)
        warn_about_skipped(path, bad)
        return replace(clicks, source=TableSource({role: file.names[at] for role, at in chosen.items()}))


def warn_about_skipped(path: str | Path, bad: BadRows | None) -> None:
    """Warn about rows that were left out.

    Parameters
    ----------
    path : str or Path
        The file.
    bad : BadRows or None
        The rows, if any.
    """
    if bad is not None:
        listed = "\n".join(f"  {line}" for line in bad.describe())
        text = f"{path}: {bad.n_bad:,} of {bad.n_rows:,} rows cannot be used and are left out:\n{listed}"
        warnings.warn(text, DataWarning, stacklevel=3)


@contextmanager
def open_table(
    path: str | Path,
    *,
    header: Header = "auto",
    separator: str | None = None,
    requested: Mapping[str, ColumnRef] | None = None,
    progress: Progress | None = None,
) -> Iterator[TextFile | ParquetFile]:
    """Open a text or parquet file of rows and columns.

    Parameters
    ----------
    path : str or Path
        The file.
    header : bool or "auto", default "auto"
        Whether the first line of a text file has the names of the columns; "auto" finds out.
    separator : str, optional
        The one character between columns of a text file; by default a comma, semicolon, tab or pipe is found.
    requested : mapping of str to str, int or None, optional
        Columns that the user named, which tell that there is a header.
    progress : Progress, optional
        Gets the number of bytes of a text file that are read, and of all.

    Yields
    ------
    TextFile or ParquetFile
        Errors inside the `with` block name the file, and the line of a bad row.

    Raises
    ------
    InputError
        If the file does not exist or is empty, or if it is neither text nor parquet.
    """
    path = as_path(path)
    if not isinstance(header, bool):
        check_choice("header", header, ("auto",))
    with prefix_errors(path):
        check_readable(path)
        if separator is None and is_parquet(path):
            file: TextFile | ParquetFile = ParquetFile(path)
        else:
            file = replace(_open_text(path, header, separator, requested or {}), progress=progress)
        with file.add_line_numbers():
            yield file


def _open_text(path: Path, header: Header, separator: str | None, requested: Mapping[str, ColumnRef]) -> TextFile:
    """Open a text file, and recognise what is not given."""
    text = read_head(path, _HEAD_BYTES).decode("utf-8-sig", "replace")
    if separator is None:
        separator = find_separator(text, usual_separator(path))
    if not isinstance(separator, str) or len(separator) != 1 or not separator.isascii():
        raise InputError(f"the separator must be one ASCII character, got {safe_repr(separator)}")
    if header == "auto":
        rows = parse_rows(text, separator)
        has_header = not rows or format_suffix(path) == ".inter" or find_header(rows, tuple(requested.values()))
        if not has_header and None in (requested.get("user"), requested.get("item")):
            _check_first_columns(rows, requested)
            _warn_about_header(path, rows[0])
        return TextFile(path, separator, has_header)
    return TextFile(path, separator, header)


def _check_first_columns(rows: list[list[str]], requested: Mapping[str, ColumnRef]) -> None:
    """Refuse a file without a header in which times are where ids should be."""
    for position, role in enumerate(("user", "item")):
        values = [row[position] for row in rows if position < len(row)]
        n_times = sum(is_time(value) and not is_number(value) for value in values)
        if requested.get(role) is None and 2 * n_times > len(values):
            shown = ", ".join(f"{at}: {safe_repr(value)}" for at, value in enumerate(rows[0][:_N_SHOWN]))
            raise InputError(
                f"there is no header, and column {position} has times, such as {safe_repr(values[0])}, so it is not "
                f"the {role}: "
                f"name the columns by position with user_col and item_col. The first line is {shown}"
            )


def _warn_about_header(path: Path, first: list[str]) -> None:
    shown = ", ".join(safe_repr(value) for value in first[:4])
    warnings.warn(
        f"{path}: there is no header, because the first line has {shown}{', …' if len(first) > 4 else ''} in it; the "
        "user is column 0 and the item column 1. If others are, pass user_col and item_col",
        DataWarning,
        stacklevel=6,
    )
