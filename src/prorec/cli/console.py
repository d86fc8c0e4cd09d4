"""Text and tables on the console."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_plain(console: Console, text: str) -> None:
    """Print text without markup and colours; only a terminal wraps long lines.

    Parameters
    ----------
    console : rich.console.Console
        Where to print.
    text : str
        One or more lines.
    """
    console.print(Text(text), highlight=False, soft_wrap=not console.is_terminal)


def make_table(*columns: str, left: int = 1) -> Table:
    """Return an empty table without lines.

    Parameters
    ----------
    *columns : str
        Headings.
    left : int, default 1
        Number of columns aligned to the left; the others hold numbers.

    Returns
    -------
    rich.table.Table
    """
    table = Table(box=None, pad_edge=False)
    for position, name in enumerate(columns):
        table.add_column(name, justify="left" if position < left else "right")
    return table
