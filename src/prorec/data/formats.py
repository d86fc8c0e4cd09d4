"""Files of interactions: their formats, reading them whole or not at all, writing them whole or not at all.

Messages in here don't repeat the file's name: the caller works inside `naming(path)`, which puts it in front.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, cast

from prorec._core.errors import InputError

Format = Literal["text", "parquet"]
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".inter": "\t"}
_PARQUET = (".parquet", ".pq")


def format_suffix(path: Path) -> str:
    """The ending that tells the format, below a possible .gz.

    >>> format_suffix(Path("clicks.csv.gz"))
    '.csv'
    """
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def detect_format(path: Path, separator: str | None = None) -> tuple[Format, str]:
    """Format of a file by its name, and, for text, the separator of its columns."""
    ending = format_suffix(path)
    if ending in _PARQUET and separator is None:
        return "parquet", ""
    if separator is None and ending not in _SEPARATORS:
        raise InputError(
            "cannot tell the format from the name: .csv, .tsv, .inter and .parquet are known, each also with "
            ".gz; for another text file give the separator"
        )
    chosen = _SEPARATORS[ending] if separator is None else separator
    if not isinstance(chosen, str) or len(chosen) != 1 or not chosen.isascii():
        raise InputError(f"the separator must be one ASCII character, got {chosen!r}")
    return "text", chosen


def check_readable(path: Path) -> None:
    """Refuse what cannot be a file of interactions, before anything tries to read it."""
    if path.is_dir():
        raise InputError("this is a directory; a file was expected")
    if not path.exists():
        raise InputError("there is no such file")
    if not path.stat().st_size:
        raise InputError("the file is empty")


def is_gzipped(path: Path) -> bool:
    """Whether the file starts as gzip does, whatever its name."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def find_plain_or_gzipped(folder: Path, name: str) -> Path:
    """Where a file is, by its name or with .gz behind it; by its name where it is not there at all."""
    zipped = folder / f"{name}.gz"
    return zipped if zipped.exists() and not (folder / name).exists() else folder / name


@contextmanager
def open_decompressed(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, unzipped if need be."""
    if not is_gzipped(path):
        with path.open("rb") as file:
            yield file
        return
    try:
        with gzip.open(path, "rb") as unzipped:
            yield cast(BinaryIO, unzipped)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError("the gzip file is broken or cut short") from error
