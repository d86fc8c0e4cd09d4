"""Exceptions and warnings of the package. Every exception derives from `ProrecError`."""

from __future__ import annotations


class ProrecError(Exception):
    """Base of all exceptions that this package raises on purpose."""


class InputError(ProrecError, ValueError):
    """An argument, a file or a table is not usable; the message names it, its value and a remedy."""


class RowError(InputError):
    """One row of a table is not usable.

    A reader that knows the file catches this and adds the file's name and the line number.

    Parameters
    ----------
    problem : str
        What is wrong with the row, without its position.
    row : int
        Position of the row in the table, from 0.
    """

    def __init__(self, problem: str, row: int) -> None:
        super().__init__(f"row {row} (counting from 0): {problem}")
        self.problem = problem
        self.row = row


class DamagedFileError(InputError):
    """A saved model, a checkpoint or a cached file is incomplete or has been changed."""


class NotFittedError(ProrecError, ValueError, AttributeError):
    """A fitted attribute or method was used before `fit`."""


class MissingExtraError(ProrecError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""


class MemoryLimitError(InputError, MemoryError):
    """The work does not fit into the memory of the machine, the device or the budget; the message has the bytes."""


class DownloadError(ProrecError, RuntimeError):
    """A data set is not on this machine and could not be downloaded; the message says where to put it."""


class EngineError(ProrecError, RuntimeError):
    """Spark could not finish a run; the message says why, and what is kept of it."""


class DataWarning(UserWarning):
    """The data is usable, but something in it deserves a look."""


class ConvergenceWarning(UserWarning):
    """An iteration stopped before it reached its tolerance; the message has the numbers."""
