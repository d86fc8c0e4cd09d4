"""Exit codes of the command line: every way in which a command may end, and the errors that lead there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import typer

from prorec._core.errors import DamagedFileError, InputError, MemoryLimitError, MissingExtraError, ProrecError

UsageError: type[Any] = typer.BadParameter.__mro__[1]
"""Error of the parser of the command line, such as an unknown option."""


class ExitCode(IntEnum):
    """The end of a command. JSON has the name in small letters as the `kind` of an error."""

    SUCCESS = 0
    """The command did its work."""
    FAILED_RUN = 1
    """The work began and failed: no memory, no space on the disk, no network, or a fault in prorec."""
    USAGE = 2
    """An option or an output was refused, or an extra is not installed. Nothing was written."""
    BAD_DATA = 3
    """The log, another file to read or a model is missing, damaged or cannot be used. No result was written."""
    FAILED_GATE = 4
    """The noise rate is above `--fail-above`. All results were written."""
    INTERRUPTED = 130
    """Somebody interrupted the command by Ctrl-C."""
    TERMINATED = 143
    """SIGTERM ended the command, as before a machine stops."""

    @property
    def kind(self) -> str:
        """Name for JSON, such as `bad_data`."""
        return self.name.lower()


class BadDataError(InputError):
    """Something that a command reads cannot be used."""


class FailedGateError(ProrecError):
    """The results are written, and they do not pass a quality gate."""


@contextmanager
def blame_data() -> Iterator[None]:
    """Turn a refusal inside a `with` block into a refusal of the data rather than of an option.

    Raises
    ------
    BadDataError
        In place of each `InputError`, but for lack of memory or of space on the disk.
    """
    try:
        yield
    except InputError as error:
        if find_exit_code(error) is ExitCode.FAILED_RUN:
            raise
        raise BadDataError(str(error)) from error.__cause__


def find_exit_code(error: BaseException) -> ExitCode:
    """Return the exit code of an error.

    Parameters
    ----------
    error : BaseException
        What a command raised.

    Returns
    -------
    ExitCode

    Examples
    --------
    >>> find_exit_code(InputError("k must be at least 1; got 0")).kind
    'usage'
    >>> find_exit_code(ZeroDivisionError()).kind
    'failed_run'
    """
    from prorec._core.files import DISK_FULL  # imported here: it takes numpy, which the help does without

    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, FailedGateError):
        return ExitCode.FAILED_GATE
    if isinstance(error, BadDataError | DamagedFileError):
        return ExitCode.BAD_DATA
    is_full = isinstance(error.__cause__, OSError) and error.__cause__.errno in DISK_FULL
    if is_full or isinstance(error, MemoryLimitError):
        return ExitCode.FAILED_RUN
    if isinstance(error, (InputError, MissingExtraError, UsageError)):
        return ExitCode.USAGE
    return ExitCode.FAILED_RUN
