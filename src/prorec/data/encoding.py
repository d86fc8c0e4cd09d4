"""Encodings of text files: UTF-8 is read as it is, and UTF-16 with a byte order mark as if it were UTF-8."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Literal

from prorec._core.errors import InputError
from prorec.data.formats import open_decompressed

Encoding = Literal["utf-8", "utf-8-sig", "utf-16"]

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CHUNK = 1 << 18


def detect_encoding(start: bytes) -> Encoding:
    """Recognise the encoding of a text file by its first bytes.

    Parameters
    ----------
    start : bytes
        The first bytes.

    Returns
    -------
    {"utf-8", "utf-8-sig", "utf-16"}
        "utf-8-sig" is UTF-8 with a byte order mark. Text without such a mark counts as UTF-8.

    Examples
    --------
    >>> detect_encoding("user".encode("utf-16"))
    'utf-16'
    """
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    return "utf-16" if start.startswith(_UTF16_MARKS) else "utf-8"


def explain_encoding(path: Path) -> InputError:
    """Return an error that counts the lines of a file that are not UTF-8.

    Parameters
    ----------
    path : Path
        The file, plain or gzipped, with such a line.

    Returns
    -------
    InputError
    """
    bad: list[tuple[int, bytes]] = []
    with open_decompressed(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                bad.append((number, line[:60]))
    number, line = bad[0]
    n_bad = "1 line is" if len(bad) == 1 else f"{len(bad):,} lines are"
    return InputError(
        f"this is not UTF-8 text: {n_bad} not, such as line {number}, which is {line.decode('latin-1').strip()!r} if "
        f"the file is Latin-1. Save it as UTF-8: iconv -f latin1 -t utf-8 {path.name} > utf8-{path.name}"
    )


@contextmanager
def open_as_utf8(path: Path, on_read: Callable[[int], object] | None = None) -> Iterator[BinaryIO]:
    """Open a plain or gzipped text file, and read it as UTF-8 whatever its encoding.

    Parameters
    ----------
    path : Path
        The file.
    on_read : callable, optional
        Gets the number of bytes of the file after each of its parts that is read.

    Yields
    ------
    file
        Its text in UTF-8.

    Raises
    ------
    InputError
        If a UTF-16 file is cut inside a character.
    """
    with open_decompressed(path, on_read) as file:
        start = file.read(4)
        file.seek(0)
        yield as_file(_recode(file)) if detect_encoding(start) == "utf-16" else file


def as_file(chunks: Iterator[bytes]) -> BinaryIO:
    """Return a file whose content is made while it is read.

    Parameters
    ----------
    chunks : iterator of bytes
        Parts of the content, in their order.

    Returns
    -------
    file
    """
    return io.BufferedReader(_Chunks(chunks), _CHUNK)


def _recode(file: BinaryIO) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")()
    chunk = b"start"
    while chunk:
        chunk = file.read(_CHUNK)
        try:
            yield decoder.decode(chunk, final=not chunk).encode()
        except UnicodeError as error:
            raise InputError(f"this is not UTF-16 text ({error}); save it as UTF-8") from None


class _Chunks(io.RawIOBase):
    """A file over an iterator of bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
