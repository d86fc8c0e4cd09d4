"""Saying how far a long job is: bars on a terminal, plain lines elsewhere, nothing if nobody wants to know."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_EVERY = 60.0  # seconds between lines, where there is no bar


class Reporter:
    """Called with what is being done, how much of it is done, and how much there is.

    Parameters
    ----------
    quiet : say nothing
    """

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(stderr=True, quiet=quiet)
        self._bars: Progress | None = None
        if self._console.is_terminal and not quiet:
            columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
            self._bars = Progress(*columns, console=self._console, transient=True)
        self._task: TaskID | None = None
        self._what = ""
        self._begin = self._last = 0.0

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Report."""
        is_new = what != self._what
        if is_new:
            self._what, self._begin = what, time.perf_counter()
            self._last = self._begin
        if self._bars is not None:
            if is_new or self._task is None:
                self._task = self._bars.add_task(what, total=total)
            self._bars.update(self._task, completed=done, total=total)
        elif done == total:
            seconds = time.perf_counter() - self._begin
            self._console.print(f"{what}: {seconds:.1f} s", highlight=False)
            self._what = ""
        elif time.perf_counter() - self._last > _EVERY:
            self._last = time.perf_counter()
            self._console.print(f"{what}: {done:,} of {total:,}", highlight=False)
