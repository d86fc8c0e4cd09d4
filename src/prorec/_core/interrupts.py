"""Ctrl-C and SIGTERM: one line, and the exit code that shells expect, at any moment.

This module is imported before all others, so that there is little time in which Python would print a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM") if hasattr(signal, name))
_RETRY_SECONDS = 0.05
_received: list[int] = []
"""Signals that have arrived."""
_advice: list[str] = []
"""Sentences for the line that is printed at the end."""


def add_advice(text: str) -> None:
    """Add a sentence to the line that is printed if the command is interrupted.

    Parameters
    ----------
    text : str
        The sentence.
    """
    _advice.append(text)


def is_command() -> bool:
    """Return whether this process was started as the command `prorec`, or as `python -m prorec`."""
    words = sys.orig_argv[1:]
    name = words[0].replace(os.sep, "/").rpartition("/")[2] if words else ""
    return name in ("prorec", "prorec.exe") or words[:2] == ["-m", "prorec"]


def exit_at_once() -> None:
    """Let signals end the process without delay, as long as it has nothing to keep: while it starts, and at its end."""
    _install(_exit)


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn a signal in a `with` block into `KeyboardInterrupt`, and that into one line and an exit code.

    Raises
    ------
    SystemExit
        With 130 after Ctrl-C and 143 after SIGTERM, whatever the block made of the interrupt.
    """
    _received.clear()
    _advice.clear()
    hook, handlers = sys.unraisablehook, {}
    try:
        sys.unraisablehook = _interrupt_again
        handlers = _install(_interrupt)
        yield
    except BaseException:
        if not _received:
            raise
        _install(_exit)
        with suppress(OSError, ValueError):
            sys.stderr.write(_line())
        raise SystemExit(128 + _received[0]) from None
    finally:
        sys.unraisablehook = hook
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _install(handler: Any) -> dict[int, Any]:
    """Handle the signals that the caller does not have us ignore, and return the handlers until now."""
    caught = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    try:
        return {number: signal.signal(number, handler) for number in caught}
    except ValueError:  # only the main thread can do that
        return {}


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Interrupt the work; a second signal ends the process at once."""
    if _received:
        _exit(number, frame)
    _received.append(number)
    raise KeyboardInterrupt


def _interrupt_again(unraisable: Any) -> None:
    """Interrupt the work a moment later, if Python could only ignore the interrupt, such as in a destructor."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
    elif hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _raise)
        signal.setitimer(signal.ITIMER_REAL, _RETRY_SECONDS)


def _raise(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _exit(number: int, frame: FrameType | None) -> None:
    """End the process; only system calls, because the interpreter may be in any state."""
    try:
        os.write(2, _line().encode())
    finally:
        os._exit(128 + (_received[0] if _received else number))


def _line() -> str:
    return " ".join(["prorec: interrupted.", *_advice]) + "\n"
