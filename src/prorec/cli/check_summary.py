"""The summary that `prorec check` prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_ENCODINGS = {"utf-8": "UTF-8", "utf-8-sig": "UTF-8 with a byte order mark", "utf-16": "UTF-16"}
_ROLES = {"timestamp": "time"}
_N_SHOWN = 8
_GROUPS = {
    "extreme_accounts": "Extreme accounts: prorec denoise leaves them out of the fit and flags all of their clicks",
    "suspicious_accounts": "Suspicious accounts: prorec denoise neither flags nor down-weights them",
    "suspicious_items": "Suspicious items",
}
"""Headings of what stands out."""


def print_check(result: Mapping[str, Any], console: Console) -> None:
    """Print the findings about a log.

    Parameters
    ----------
    result : mapping
        From `prorec.cli.check.describe_check`, with `log` and `next`.
    console : rich.console.Console
        Where to print.
    """
    name = "standard input" if result["log"] == "-" else Path(result["log"]).name
    console.print(Text.assemble((name, "bold"), f"  {_describe_file(result['file'])}\n"))
    console.print(_column_table(result["columns"]))
    counts = result["counts"]
    if counts:
        console.print()
        console.print(_count_table(result))
    if result["bad_rows"]:
        _print_heading(console, f"{counts['bad_rows']:,} rows cannot be used")
        console.print(_bad_row_table(result["bad_rows"]))
    for kind, title in _GROUPS.items():
        if rows := result[kind]:
            _print_heading(console, title)
            console.print(_issue_table(rows[:_N_SHOWN]))
            if len(rows) > _N_SHOWN:
                console.print(f"and {len(rows) - _N_SHOWN:,} more; --json lists all")
    if result["problem"] is not None:
        if result["next"]:
            _print_heading(console, "Say which column it is")
    else:
        skipped = ", without the rows that cannot be used" if result["bad_rows"] else ""
        _print_heading(console, f"To find the clicks that don't belong{skipped}, run")
    for command in result["next"]:
        # A long command is not wrapped, so that it can be copied.
        console.print(Text(f"  {command}"), soft_wrap=True)
    if (command := result["cleaning_command"]) is not None:
        _print_heading(
            console,
            "This writes the log without suspicious accounts and flagged rows; take out of it whoever is a person",
        )
        if "@suspicious-users.txt" in command:
            console.print("write their ids into suspicious-users.txt, one on each line, and run")
        console.print(Text(f"  {command}"), soft_wrap=True)


def _print_heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def _describe_file(layout: Mapping[str, Any]) -> str:
    """Return the layout of a file in words."""
    size = _describe_size(layout["bytes"])
    zipped = ", gzipped" if layout["compressed"] else ""
    if layout["format"] == "parquet":
        return f"parquet{zipped}, {size}"
    encoding = _ENCODINGS[layout["encoding"]]
    header = "with a header" if layout["header"] else "without a header"
    separator = f"{layout['separator']}s" if len(layout["separator"]) > 1 else repr(layout["separator"])
    return f"text with {separator} between columns, {header}, {encoding}{zipped}, {size}"


def _describe_size(n_bytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes} bytes"


def _column_table(columns: list[dict[str, Any]]) -> Table:
    table = _grid("column", "read as", "because of", "for example")
    table.columns[3].no_wrap, table.columns[3].overflow = True, "ellipsis"
    for column in columns:
        role = _ROLES.get(column["role"], column["role"])
        style = "" if role else "dim"
        table.add_row(
            Text(column["name"] or "(no name)", style=style),
            Text(role or "–", style="green" if role else style),
            Text(column["reason"], style=style if not role and not column["reason"] else "" if role else "yellow"),
            Text(", ".join(_shorten(each) for each in column["examples"][:2]), style=style),
        )
    return table


def _count_table(result: Mapping[str, Any]) -> Table:
    counts = result["counts"]
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right")
    table.add_column()

    def add(number: int, text: str) -> None:
        table.add_row(f"{number:,}", Text(text))

    add(counts["rows"], "rows")
    if counts["repeated_rows"]:
        add(counts["repeated_rows"], "rows that repeat a pair of user and item; a repeated pair counts once")
    add(counts["interactions"], "interactions, which are different pairs")
    for kind in ("users", "items"):
        n_single = counts[f"{kind}_with_one_click"]
        share = f", {n_single:,} ({n_single / counts[kind]:.0%}) of them with one click only" if n_single else ""
        add(counts[kind], f"{kind}{share}")
    if result["first_time"] is not None:
        table.add_row("", Text(f"from {result['first_time']} to {result['last_time']}"))
    return table


def _bad_row_table(groups: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(justify="right", style="yellow")
    table.add_column()
    table.add_column(style="dim")
    for group in groups:
        more = ", …" if group["count"] > len(group["places"]) else ""
        cells = [
            f"{place:,}" if value is None else f"{place:,} {_shorten(value)!r}"
            for place, value in zip(group["places"], group["values"], strict=True)
        ]
        unit = group["unit"] if group["count"] == 1 else f"{group['unit']}s"
        table.add_row(f"{group['count']:,}", Text(group["reason"]), Text(f"{unit} {', '.join(cells)}{more}"))
    return table


def _issue_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="yellow", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for row in rows:
        table.add_row(Text(_shorten(str(row["id"]))), f"{row['clicks']:,} clicks", Text(row["reason"]))
    return table


def _grid(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading)
    return table


def _shorten(text: str, width: int = 24) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
