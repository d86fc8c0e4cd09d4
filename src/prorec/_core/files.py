"""Paths, errors that name their file, regular files only, and atomic writes that replace nothing unasked."""

from __future__ import annotations

import errno
import filecmp
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from prorec._core.checks import safe_repr, shorten
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
_LONGEST_PATH = 1000
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of the system that more space would avoid."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems that cannot give a file a second name."""
EXISTS = "this file exists already; pass overwrite=True to replace it"
"""Message for a file that must not be replaced."""


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
        If it is something else, or has the character NUL in it.
    """
    try:
        result = Path(path)
    except TypeError:
        raise InputError(f"a path must be text or a Path; got {safe_repr(path)}") from None
    if "\0" in str(result):
        raise InputError(f"a path must not have the character NUL in it; got {safe_repr(str(result))}")
    return result


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
    # A path is named in full, unless it is so long that there can be no such file.
    name = str(path) if len(str(path)) <= _LONGEST_PATH else shorten(str(path))
    try:
        yield
    except RowError:
        raise  # the reader of the file turns the row into a line number
    except InputError as error:
        raise type(error)(f"{name}: {error}") from error.__cause__
    except OSError as error:
        if error.errno in DISK_FULL:
            raise InputError(f"{name}: there is no space left to write this file ({error.strerror})") from error
        if error.errno not in _BAD_PATH:
            raise
        raise InputError(f"{name}: {error.strerror}") from error


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
        raise InputError(
            f"a regular file is required here, but this is {describe_kind(mode)}; copy the file itself here"
        )


def describe_kind(mode: int) -> str:
    """Return what a path is that is not a regular file.

    Parameters
    ----------
    mode : int
        Mode of the path, as `stat` returns it.

    Returns
    -------
    str

    Examples
    --------
    >>> describe_kind(stat.S_IFIFO)
    'a pipe'
    """
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a pipe"}
    return kinds.get(stat.S_IFMT(mode), "a device or a socket")


def is_file(path: str | Path) -> bool:
    """Return whether there is a file of this name; False for what no file can be called.

    Parameters
    ----------
    path : str or Path
        Any text; a system refuses to look for some, such as very long ones.

    Returns
    -------
    bool
    """
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


@contextmanager
def atomic_write(path: Path, folder: Path | None = None, *, overwrite: bool = True) -> Iterator[Path]:
    """Write a file whole or not at all.

    The content is on the disk before the file gets its name, and the name is on the disk at the end. A file that is
    replaced keeps its mode.

    Parameters
    ----------
    path : Path
        The file to write.
    folder : Path, optional
        Folder for the unfinished file, on the same disk; by default that of `path`.
    overwrite : bool, default True
        Replace a file that is there when the block ends. Otherwise, only one with the same content is accepted.

    Yields
    ------
    Path
        A temporary name in that folder. The file there is renamed to `path` when the block ends, and deleted if
        the block raises.

    Raises
    ------
    InputError
        If `path` is not a regular file, its folder does not exist, or a file is there that must not be replaced.
    """
    check_replaceable(path)
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist")
    temporary = (folder or path.parent) / f".prorec-{secrets.token_hex(8)}"  # short, whatever the name of the file is
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        replaced = check_replaceable(path)
        if overwrite:
            if replaced is not None:
                temporary.chmod(stat.S_IMODE(replaced.st_mode) & 0o777)
            temporary.replace(path)
        else:
            _give_new_name(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def check_replaceable(path: Path) -> os.stat_result | None:
    """Refuse a path at which no regular file can be written.

    Parameters
    ----------
    path : Path
        The path. Links among the folders above it are followed, and it may not be one itself.

    Returns
    -------
    os.stat_result or None
        The file that is there, if there is one.

    Raises
    ------
    InputError
        If it is a folder, a symbolic link, a pipe or a device.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise InputError("this is a directory; a file was expected")
    if stat.S_ISLNK(found.st_mode):
        raise InputError("this is a symbolic link, which is not followed; give the name of the file that it leads to")
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"this is {describe_kind(found.st_mode)}; give the name of a regular file or of a new one")
    return found


def sync_folder(folder: Path) -> None:
    """Have the system write the names in a folder to the disk, where it can.

    Parameters
    ----------
    folder : Path
        The folder.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # a folder that may be written and not read, and any folder on Windows
        return
    try:
        os.fsync(descriptor)
    except OSError:  # not every file system can
        pass
    finally:
        os.close(descriptor)


def _give_new_name(temporary: Path, path: Path) -> None:
    """Give a file a name that no file has; in one step, so that no other process comes between."""
    try:
        if os.name == "nt":
            temporary.rename(path)  # which refuses an existing file there, and only there
            return
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            _claim_and_replace(temporary, path)
    except FileExistsError:
        # A run that was killed just after this step is repeated when it is resumed.
        if path.is_symlink() or not filecmp.cmp(temporary, path, shallow=False):
            raise InputError(EXISTS) from None


def _claim_and_replace(temporary: Path, path: Path) -> None:
    """Give a file a new name where the file system has no links: make an empty file of the name, and replace it."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    try:
        temporary.replace(path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
