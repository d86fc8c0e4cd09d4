"""What prorec raises and warns with: words for the person who typed the command."""

from __future__ import annotations


class InputError(ValueError):
    """Something the caller gave is wrong; the message says what, where, and what would be right."""


class RowError(InputError):
    """One row of a table is wrong.

    Code that knows where the table came from can turn the row into a place a person can open.

    Parameters
    ----------
    problem : what is wrong with the row, without saying which row
    row : the row's position in the table, from 0
    """

    def __init__(self, problem: str, row: int) -> None:
        super().__init__(f"row {row} (counting from 0): {problem}")
        self.problem = problem
        self.row = row


class DataWarning(UserWarning):
    """The data was usable, but something in it deserves a look."""


class ConvergenceWarning(UserWarning):
    """An iteration stopped before it was as exact as it should be; the message has the numbers."""


class DownloadError(RuntimeError):
    """A data set is not on this machine and could not be fetched; the message says what to put where."""
