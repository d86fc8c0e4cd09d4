"""Standard streams that are closed, or that cannot be written to the end."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from prorec._core.errors import ProrecError

_exit_codes = [0]
"""The exit code of the last block of `checked_streams`."""


@contextmanager
def checked_streams() -> Iterator[None]:
    """Give closed streams a meaning in a `with` block, and see at its end that everything was printed.

    Standard input is empty if it is closed, messages to a closed standard error are lost, and printing to a closed
    standard output raises `ProrecError`. No file that is opened later gets the descriptor of a stream, into which
    libraries might print.

    Raises
    ------
    SystemExit
        With 1 in place of 0, if something could not be printed.
    """
    _open_closed_streams()
    is_failed = True
    _exit_codes[:] = [1]
    try:
        yield
        is_failed = False
        _exit_codes[:] = [0]
    except SystemExit as stop:
        is_failed = bool(stop.code)
        _exit_codes[:] = [int(stop.code or 0)] if isinstance(stop.code, int | None) else [1]
        raise
    finally:
        try:
            sys.stdout.flush()
        except (OSError, ValueError, ProrecError) as error:
            # What is left in the buffer would be tried, and reported, once more when Python ends.
            sys.stdout = None
            if not is_failed:
                if not isinstance(error, BrokenPipeError):  # the reader of a pipe, such as head, has ended
                    text = str(error) if isinstance(error, ProrecError) else f"standard output failed: {error}"
                    sys.stderr.write(f"prorec: {text}\n")
                _exit_codes[:] = [1]
                raise SystemExit(1) from None


def end_process() -> None:
    """End the process with the exit code of the last `checked_streams`, without the exit handlers of libraries.

    Arrow's handler would wait forever for what is left of a csv that has been refused while its other blocks were
    still being read.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError, ProrecError):
            stream.flush()
    os._exit(_exit_codes[0])


def _open_closed_streams() -> None:
    """Open the null device in place of each standard stream that is closed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is not None:
            continue
        descriptor = os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
        if descriptor != number:  # a library holds the number, which it would not get back
            os.close(descriptor)
        if name == "stdout":
            sys.stdout = io.TextIOWrapper(io.BufferedWriter(_ClosedOutput()), write_through=True)
        else:
            setattr(sys, name, Path(os.devnull).open("r" if number == 0 else "w"))  # noqa: SIM115


class _ClosedOutput(io.RawIOBase):
    """A standard output that refuses everything."""

    def writable(self) -> bool:
        return True

    def write(self, content: Any, /) -> int:
        raise ProrecError("standard output is closed; redirect it to a file or to the null device")
