"""Recognition of a text file's layout by its first rows: the separator, and whether there is a header."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from prorec._core.errors import InputError
from prorec.data.encoding import open_as_utf8
from prorec.interactions.column_names import is_usual_name
from prorec.interactions.columns import is_number, is_time

SEPARATORS = ",;\t|"
"""Separators that are recognised."""
_N_ROWS = 200
_DECIMAL_COMMAS = re.compile(r"(?:[^,]|(?<=\d),(?=\d))*")


def read_head(path: Path, size: int) -> bytes:
    """Read the first lines of a text file, as UTF-8.

    Parameters
    ----------
    path : Path
        The file, plain or gzipped.
    size : int
        Maximum number of bytes; an incomplete line at the end is left out.

    Returns
    -------
    bytes

    Raises
    ------
    InputError
        If there is nothing in the file, or it is not text.
    """
    with open_as_utf8(path) as file:
        head = file.read(size)
    if not head.strip():
        raise InputError("the file has nothing in it")
    if head.startswith(b"PK\x03\x04"):
        raise InputError("the file is binary, a spreadsheet or a zip archive; save the table in it as csv")
    if b"\x00" in head:
        raise InputError("the file is binary; text was expected (UTF-8, or UTF-16 with a byte order mark)")
    if len(head) == size and b"\n" in head:
        head = head[: head.rindex(b"\n") + 1]
    return head


def parse_rows(text: str, separator: str, limit: int = _N_ROWS) -> list[list[str]]:
    """Parse the first rows of a text.

    Parameters
    ----------
    text : str
        The text; blank lines do not count.
    separator : str
        The character between columns.
    limit : int, default 200
        Maximum number of rows.

    Returns
    -------
    list of list of str
        Fields of each row; fewer rows if one cannot be parsed.
    """
    rows: list[list[str]] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    with suppress(csv.Error):  # the reader of the whole file names the line
        rows.extend(islice((row for row in reader if row), limit))
    return rows


def find_separator(text: str, default: str = ",") -> str:
    r"""Find the character between columns: the one that gives all rows as many columns as the first one.

    If several do, the one that gives the most columns counts, because a cell may have another separator in it.

    Parameters
    ----------
    text : str
        The first rows.
    default : str, default ","
        Separator that the name of the file stands for, which is returned if nothing separates columns. A tab is also
        preferred to others that fit as well: .tsv means tabs, while .csv may have any separator.

    Returns
    -------
    str
        A comma, semicolon, tab or pipe; the default if none of them separates columns.

    Raises
    ------
    InputError
        If several separators fit equally well.

    Examples
    --------
    >>> find_separator("user;item;price\nann;tea;3,50\n")
    ';'
    """
    shares, n_columns = {}, {}
    lines = "".join(islice(io.StringIO(text, newline=""), 2 * _N_ROWS))
    for separator in SEPARATORS:
        widths = [len(row) for row in parse_rows(lines, separator)]
        if widths and widths[0] > 1:
            shares[separator] = widths.count(widths[0]) / len(widths)
            n_columns[separator] = widths[0]
    if not shares:
        return default
    best = [separator for separator, share in shares.items() if share == max(shares.values())]
    if default == "\t" and default in best:
        return default
    if "," in best and len(best) > 1 and _DECIMAL_COMMAS.fullmatch(lines):
        best.remove(",")
    widest = max(n_columns[separator] for separator in best)
    best = [separator for separator in best if n_columns[separator] == widest]
    if len(best) > 1:
        raise InputError(
            f"one separator must fit best, but {' and '.join(map(repr, best))} give {widest} columns each: "
            f"pass {' or '.join(f'separator={each!r}' for each in best)}"
        )
    return best[0]


def find_header(rows: Sequence[Sequence[str]], requested: Sequence[object] = ()) -> bool:
    """Find out whether the first row has the names of the columns.

    Parameters
    ----------
    rows : sequence of sequence of str
        Fields of the first rows.
    requested : sequence, optional
        Columns that the user named.

    Returns
    -------
    bool
        True if the first row has a usual or a requested name. If not, False if it has a number or a time, or if one of
        its values comes again in the same column. Otherwise True.

    Examples
    --------
    >>> find_header([["user", "item"], ["1", "2"]]), find_header([["1", "2"], ["1", "3"]])
    (True, False)
    """
    first = [name.strip() for name in rows[0]]
    if any(is_usual_name(name.partition(":")[0]) for name in first) or any(name in requested for name in first):
        return True
    if any(is_number(name) or is_time(name) for name in first):
        return False
    return not any(
        name and name == row[at].strip() for row in rows[1:] for at, name in enumerate(first) if at < len(row)
    )
