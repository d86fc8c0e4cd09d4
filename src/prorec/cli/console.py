"""Text and tables on the console."""

from __future__ import annotations

import re

from rich.console import Console
from rich.table import Table
from rich.text import Text

_LONG_WORD = re.compile(r"\S{200,}")
_MAX_LINES, _MAX_LENGTH = 12, 2_000


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


def shorten_message(text: str) -> str:
    """Shorten a message, whatever value it quotes.

    Parameters
    ----------
    text : str
        The message.

    Returns
    -------
    str
        At most 12 lines and about 2,000 characters; words of more than 200 characters lose their middle.

    Examples
    --------
    >>> shorten_message("no column is called " + "x" * 10_000)[:50]
    'no column is called xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'
    >>> len(shorten_message("no column is called " + "x" * 10_000))
    141
    """
    text = _LONG_WORD.sub(lambda match: f"{match[0][:80]}…{match[0][-40:]}", text)
    lines = text.splitlines()
    if len(lines) > _MAX_LINES:
        lines = [*lines[: _MAX_LINES - 2], "…", lines[-1]]
    text = "\n".join(lines)
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 400]} … {text[-400:]}"


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
