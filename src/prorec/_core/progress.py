"""Progress of long work: one callback type for every function that takes `progress`, and its console version."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from prorec._core.errors import InputError

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

_SECONDS_BETWEEN_LINES = 60.0


class Progress(Protocol):
    """Function that takes a task's name, the number of steps done, and the number of steps in all.

    >>> progress: Progress = lambda task, done, total: print(f"{task}: {done}/{total}")
    >>> progress("fitting", 2, 10)
    fitting: 2/10
    """

    def __call__(self, task: str, done: int, total: int, /) -> object:
        """Take note of the progress."""


def check_progress(progress: Any) -> None:
    """Refuse a `progress` argument that cannot be called, before the work starts.

    Parameters
    ----------
    progress : Any
        The argument; None is accepted.

    Raises
    ------
    InputError
        If it is neither None nor callable.
    """
    if progress is not None and not callable(progress):
        raise InputError(f"progress must be a function of (task, done, total); got {type(progress).__name__}")


class ConsoleProgress:
    """Show progress on the console: a bar on a terminal, plain lines on stderr elsewhere.

    Use it as a context manager, and pass it to any function that takes `progress`. Off a terminal each finished task
    prints one line, and a long task one more line per minute.

    Parameters
    ----------
    quiet : bool, default False
        Show nothing.

    Examples
    --------
    >>> import prorec
    >>> with prorec.ConsoleProgress(quiet=True) as progress:
    ...     denoiser = prorec.ProRec(prorec.models.SVD(rank=4)).fit(prorec.load_dataset("cinema"), progress=progress)
    """

    def __init__(self, *, quiet: bool = False) -> None:
        from rich.console import Console  # imported here: `import prorec` should not pay for it
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._console = Console(stderr=True, quiet=quiet)
        self._bars: RichProgress | None = None
        if self._console.is_terminal and not quiet:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            self._bars = RichProgress(*columns, console=self._console, transient=True)
        self._bar: TaskID | None = None
        self._task = ""
        self._started = self._last_line = 0.0

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def __call__(self, task: str, done: int, total: int) -> None:
        """Show how far a task is.

        Parameters
        ----------
        task : str
            Name of the task; another name starts another bar.
        done, total : int
            Number of steps done, and in all.
        """
        is_new = task != self._task
        if is_new:
            self._task, self._started = task, time.perf_counter()
            self._last_line = self._started
        if self._bars is not None:
            if is_new or self._bar is None:
                self._bar = self._bars.add_task(task, total=total)
            self._bars.update(self._bar, completed=done, total=total)
        elif done == total:
            seconds = time.perf_counter() - self._started
            self._console.print(f"{task}: {seconds:.1f} s", highlight=False, markup=False)
            self._task = ""
        elif time.perf_counter() - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = time.perf_counter()
            self._console.print(f"{task}: {done:,} of {total:,}", highlight=False, markup=False)
