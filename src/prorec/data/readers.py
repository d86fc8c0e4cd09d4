"""Readers of interactions from csv, tsv, RecBole's .inter and parquet files, each also gzipped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from prorec._core.checks import check_choice
from prorec._core.files import as_path, prefix_errors
from prorec.data.formats import check_readable, detect_format
from prorec.data.parquet_file import ParquetFile
from prorec.data.text_file import TextFile
from prorec.interactions import Interactions
from prorec.interactions.columns import ALIASES, ColumnRef


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
    r"""Read interactions from a file with one in each row.

    Parameters
    ----------
    path : str or Path
        A .csv, .tsv, .inter or .parquet file, also gzipped; with a `separator`, any other text file.
    user_col, item_col, weight_col, rating_col, timestamp_col : str or int, optional
        Names or positions (from 0) of the columns; by default they are found by their usual names. Without a
        header the user is column 0 and the item column 1, and other columns are used only if given.
    header : bool, default True
        Whether the first line of a text file has the names of the columns.
    separator : str, optional
        The one character between columns of a text file; by default the ending of the name decides.
    ids : {"auto", "text"}, default "auto"
        "auto" reads ids of a text file as integers if all of them are plain integers without leading zeros; "text"
        reads ids as text always.
    duplicates : {"max", "sum", "first", "error"}, default "max"
        Rule for rows that repeat a pair: see `Interactions.from_table`.

    Returns
    -------
    Interactions

    Raises
    ------
    InputError
        If the file cannot be used; the message names the file and, if one is bad, the line.

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
    requested = dict(zip(ALIASES, (user_col, item_col, weight_col, rating_col, timestamp_col), strict=True))
    with open_table(path, header=header, separator=separator) as file:
        chosen = file.choose(requested)
        return Interactions.from_columns(file.read(chosen, ids), duplicates)


@contextmanager
def open_table(
    path: str | Path, *, header: bool = True, separator: str | None = None
) -> Iterator[TextFile | ParquetFile]:
    """Open a text or parquet file of rows and columns.

    Parameters
    ----------
    path : str or Path
        The file.
    header : bool, default True
        Whether the first line of a text file has the names of the columns.
    separator : str, optional
        The one character between columns of a text file; by default the ending of the name decides.

    Yields
    ------
    TextFile or ParquetFile
        Errors inside the `with` block name the file, and the line of a bad row.

    Raises
    ------
    InputError
        If the file does not exist, is empty, or is of an unknown format.
    """
    path = as_path(path)
    with prefix_errors(path):
        check_readable(path)
        format_, separator = detect_format(path, separator)
        file = ParquetFile(path) if format_ == "parquet" else TextFile(path, separator, header)
        with file.add_line_numbers():
            yield file
