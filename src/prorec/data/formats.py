"""Formats of files of interactions, recognised by name, and access to plain and gzipped files.

Messages here do not name the file: callers work inside `prefix_errors(path)`.
"""

from __future__ import annotations

import gzip
import io
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from prorec._core.errors import DamagedFileError, InputError
from prorec._core.files import describe_kind

Format = Literal["text", "parquet"]
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".inter": "\t"}
_PARQUET = (".parquet", ".pq")
_BUFFER = 1 << 18


def format_suffix(path: Path) -> str:
    """Return the suffix that names the format, without a `.gz` behind it.

    Parameters
    ----------
    path : Path
        A path; the file need not exist.

    Returns
    -------
    str
        In lower case.

    Examples
    --------
    >>> format_suffix(Path("clicks.csv.gz"))
    '.csv'
    """
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def detect_format(path: Path) -> tuple[Format, str]:
    r"""Find the format in which a file is to be written by its name.

    Parameters
    ----------
    path : Path
        A path; the file need not exist.

    Returns
    -------
    format : {"text", "parquet"}
    separator : str
        Separator of the columns of a text file; empty for parquet.

    Raises
    ------
    InputError
        If the name has no known suffix.

    Examples
    --------
    >>> detect_format(Path("clicks.tsv"))
    ('text', '\t')
    """
    suffix = format_suffix(path)
    if suffix in _PARQUET:
        return "parquet", ""
    if suffix not in _SEPARATORS:
        raise InputError(
            "cannot tell the format from the name: .csv, .tsv, .inter and .parquet are known, each also with .gz"
        )
    return "text", _SEPARATORS[suffix]


def is_parquet(path: Path) -> bool:
    """Return whether a log is a parquet file, by its name or by its first bytes.

    Parameters
    ----------
    path : Path
        An existing file, plain or gzipped.

    Returns
    -------
    bool
    """
    if format_suffix(path) in _PARQUET:
        return True
    with open_decompressed(path) as file:
        return file.read(4) == b"PAR1"


def usual_separator(path: Path) -> str:
    r"""Return the separator that a text file of this name usually has.

    Parameters
    ----------
    path : Path
        A path; the file need not exist.

    Returns
    -------
    str

    Examples
    --------
    >>> usual_separator(Path("clicks.tsv")), usual_separator(Path("clicks.txt"))
    ('\t', ',')
    """
    return _SEPARATORS.get(format_suffix(path), ",")


def check_readable(path: Path) -> None:
    """Refuse a path that cannot be a file of interactions.

    Parameters
    ----------
    path : Path
        The path.

    Raises
    ------
    InputError
        If it is a directory, a pipe or a device, does not exist, or is empty.
    """
    if path.is_dir():
        raise InputError("this is a directory; a file was expected")
    if not path.exists():
        raise InputError("there is no such file")
    if not stat.S_ISREG(path.stat().st_mode):
        raise InputError(
            f"this is {describe_kind(path.stat().st_mode)}, and a log is read more than once; write it into a file, or "
            "pipe it into prorec and give - for the log"
        )
    if not path.stat().st_size:
        raise InputError("the file is empty")


def is_gzipped(path: Path) -> bool:
    """Return whether a file's content is gzipped, whatever its name.

    Parameters
    ----------
    path : Path
        An existing file.

    Returns
    -------
    bool
    """
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def find_plain_or_gzipped(folder: Path, name: str) -> Path:
    """Return the path of a file that may have `.gz` behind its name.

    Parameters
    ----------
    folder : Path
        The folder.
    name : str
        Name of the file without `.gz`.

    Returns
    -------
    Path
        With `.gz` if only that file exists, otherwise without.
    """
    zipped = folder / f"{name}.gz"
    return zipped if zipped.exists() and not (folder / name).exists() else folder / name


@contextmanager
def open_decompressed(path: Path, on_read: Callable[[int], object] | None = None) -> Iterator[BinaryIO]:
    """Open a plain or gzipped file for reading.

    Parameters
    ----------
    path : Path
        The file.
    on_read : callable, optional
        Gets the number of bytes of the file after each of its parts that is read.

    Yields
    ------
    file
        Its decompressed bytes.

    Raises
    ------
    DamagedFileError
        If a gzipped file is damaged.
    """
    with io.BufferedReader(_WatchedFile(path, on_read), _BUFFER) as file:
        if not is_gzipped(path):
            yield file
            return
        try:
            with gzip.GzipFile(fileobj=file, mode="rb") as unzipped:
                yield cast(BinaryIO, unzipped)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DamagedFileError("the gzip file is broken or cut short; compress it again") from error


class _WatchedFile(io.FileIO):
    """A file that tells how much of it is read."""

    def __init__(self, path: Path, on_read: Callable[[int], object] | None) -> None:
        super().__init__(path, "rb")
        self._on_read = on_read

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer."""
        size = super().readinto(buffer)
        if self._on_read is not None and size:
            self._on_read(size)
        return size
