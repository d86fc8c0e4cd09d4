"""Paths, errors that name their file, and atomic writes."""

from __future__ import annotations

import errno
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError, RowError

_WRONG_PLACE = (
    errno.EACCES,
    errno.EPERM,
    errno.EEXIST,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.EROFS,
)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def as_path(given: Any) -> Path:
    """A path, of a text or a path."""
    try:
        return Path(given)
    except TypeError:
        raise InputError(f"a path must be text or a Path; got {safe_repr(given)}") from None


@contextmanager
def prefix_errors(path: Path) -> Iterator[None]:
    """Put the file's name in front of what is wrong with it."""
    try:
        yield
    except RowError:
        raise  # whoever knows how rows lie in the file has more to say
    except InputError as error:
        raise InputError(f"{path}: {error}") from error.__cause__
    except OSError as error:
        if error.errno in _FULL:
            raise InputError(f"{path}: there is no room to write this ({error.strerror})") from error
        if error.errno not in _WRONG_PLACE:
            raise
        raise InputError(f"{path}: {error.strerror}") from error


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and goes away otherwise."""
    if path.is_dir():
        raise InputError("this is a directory; a file was expected")
    if not path.parent.is_dir():
        raise InputError(f"the folder {path.parent} does not exist")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
