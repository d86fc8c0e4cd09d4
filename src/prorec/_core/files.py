"""Paths, errors that name their file, regular files only, and atomic writes."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError, RowError

_BAD_PATH = (
    errno.EACCES,
    errno.EPERM,
    errno.EEXIST,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.EROFS,
)
"""Errors of the system that a user can remove by giving another path."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of the system that more space would avoid."""


def as_path(path: Any) -> Path:
    """Return a path given as text or as a Path.

    Parameters
    ----------
    path : str or Path
        The path.

    Returns
    -------
    Path

    Raises
    ------
    InputError
        If it is something else.
    """
    try:
        return Path(path)
    except TypeError:
        raise InputError(f"a path must be text or a Path; got {safe_repr(path)}") from None


@contextmanager
def prefix_errors(path: Path) -> Iterator[None]:
    """Put a file's name in front of errors that are raised inside a `with` block.

    Parameters
    ----------
    path : Path
        The file that the block reads or writes.

    Raises
    ------
    InputError
        Of the same class, for each `InputError` of the block but `RowError`; and for errors of the system that another
        path or more space would avoid. `RowError` and other errors pass unchanged.
    """
    try:
        yield
    except RowError:
        raise  # the reader of the file turns the row into a line number
    except InputError as error:
        raise type(error)(f"{path}: {error}") from error.__cause__
    except OSError as error:
        if error.errno in DISK_FULL:
            raise InputError(f"{path}: there is no space left to write this file ({error.strerror})") from error
        if error.errno not in _BAD_PATH:
            raise
        raise InputError(f"{path}: {error.strerror}") from error


@contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; nothing that could lead elsewhere, wait or never end.

    Parameters
    ----------
    path : Path
        The file. Links among the folders above it are followed.

    Yields
    ------
    file
        Its bytes.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    InputError
        If it is a folder, a symbolic link, a pipe, a socket or a device.
    """
    _check_regular(path.lstat().st_mode)
    # The file may be replaced between the check and here: no link is followed, and a pipe does not wait.
    flags = [getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")]
    with os.fdopen(os.open(path, os.O_RDONLY | sum(flags)), "rb") as file:
        _check_regular(os.fstat(file.fileno()).st_mode)
        yield file


def read_small_text(path: Path, max_bytes: int) -> str:
    """Return the content of a regular text file, if it is not too large.

    Parameters
    ----------
    path : Path
        The file.
    max_bytes : int
        Largest size that is read.

    Returns
    -------
    str

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    InputError
        If it is not a regular file, is larger, or is not UTF-8.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise InputError(f"{path.name} must have at most {max_bytes:,} bytes; it has {size:,}")
        content = file.read(size)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name} must be text in UTF-8, but is not ({error.reason})") from None


def _check_regular(mode: int) -> None:
    """Raise InputError unless the mode is that of a regular file."""
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a pipe"}
        found = kinds.get(stat.S_IFMT(mode), "a device or a socket")
        raise InputError(f"a regular file is required here, but this is {found}; copy the file itself here")


@contextmanager
def atomic_write(path: Path, folder: Path | None = None) -> Iterator[Path]:
    """Write a file whole or not at all.

    Parameters
    ----------
    path : Path
        The file to write or to replace.
    folder : Path, optional
        Folder for the unfinished file, on the same disk; by default that of `path`.

    Yields
    ------
    Path
        A temporary name in that folder. The file there is renamed to `path` when the block ends, and deleted if
        the block raises.

    Raises
    ------
    InputError
        If `path` is a directory or its folder does not exist.
    """
    if path.is_dir():
        raise InputError("this is a directory; a file was expected")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist")
    temporary = (folder or path.parent) / f".{path.name}.{secrets.token_hex(4)}"
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
