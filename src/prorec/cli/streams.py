"""Files in and out, and `-` for the streams that a shell connects."""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from prorec._core.checks import check_choice
from prorec._core.errors import InputError
from prorec._core.files import prefix_errors
from prorec.data.formats import detect_format, format_suffix
from prorec.data.item_info import add_item_info
from prorec.data.source_table import SourceTable, read_source_table
from prorec.data.writers import write_table
from prorec.interactions import Interactions
from prorec.report.page import check_report_path

FORMATS = ("csv", "tsv", "parquet")
_SEPARATORS = {"csv": ",", "tsv": "\t"}
_ENDINGS = (".csv", ".tsv", ".inter", ".parquet", ".pq")


def read(path: str, kind: str | None, columns: dict[str, Any]) -> SourceTable:
    """The log in a file, or what comes through the stream."""
    if kind is not None:
        check_choice("format", kind, FORMATS)
    if path != "-":
        if kind in _SEPARATORS and columns["separator"] is None and format_suffix(Path(path)) not in _ENDINGS:
            columns = columns | {"separator": _SEPARATORS[kind]}
        return read_source_table(path, **columns)
    with _standard_input(kind or "csv") as whole:
        return read_source_table(whole, **columns)


@contextmanager
def _standard_input(kind: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / f"standard input.{kind}"
        with whole.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield whole
        except InputError as error:
            raise InputError(str(error).replace(str(whole), "standard input")) from error.__cause__


def check_free(path: Path, *, force: bool) -> None:
    """Refuse a file that cannot be written, before any work is done for it."""
    with prefix_errors(path):
        if not path.name:
            raise InputError("this is no name for a file")
        detect_format(path)
        if path.is_dir():
            raise InputError("this is a directory; a file was expected")
        _check_new(path, force=force)


def check_report_free(path: Path, *, force: bool) -> None:
    """The same of a report."""
    check_report_path(path)
    with prefix_errors(path):
        _check_new(path, force=force)


def _check_new(path: Path, *, force: bool) -> None:
    if path.exists() and not force:
        raise InputError("this file exists already; --force replaces it")
    check_writable(path.parent)


def described(
    log: str, given: SourceTable, items: Path | None, columns: dict[str, Any], timestamp_col: str | None
) -> Interactions:
    """The interactions of a log with what a report can say about them: times, names and categories."""
    with prefix_errors(Path("standard input" if log == "-" else log)):
        clicks = given.with_timestamps(timestamp_col)
    if items is None:
        return clicks
    is_the_log = log != "-" and items.resolve() == Path(log).resolve()
    return add_item_info(clicks, items, columns["item_col"], columns["separator"] if is_the_log else None)


def title_of(log: str) -> str:
    """What a report about a log is called.

    >>> title_of("logs/clicks.csv")
    'Which clicks in clicks.csv are noise?'
    """
    return f"Which clicks in {'the stream' if log == '-' else Path(log).name} are noise?"


def check_writable(folder: Path) -> None:
    """Refuse a folder that no file can be made in."""
    if not folder.is_dir():
        raise InputError(f"the folder {folder} does not exist")
    probe = folder / f".prorec-{secrets.token_hex(4)}"
    try:
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise InputError(f"nothing can be written into {folder} ({error.strerror})") from None


def to_stdout(table: pa.Table, kind: str | None) -> None:
    """Write a table to the stream."""
    write_table(table, sys.stdout.buffer, f"-.{kind or 'csv'}")
    sys.stdout.buffer.flush()
