"""What prorec raises and warns with: words for the person who typed the command."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


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


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse a choice that is not among the allowed ones.

    >>> one_of("kind", "uniform", ("uniform", "swap"))
    """
    if not isinstance(value, str) or value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise InputError(f"{name} must be one of {choices}, got {shown(value)}")


class DownloadError(RuntimeError):
    """A data set is not on this machine and could not be fetched; the message says what to put where."""


def whole(name: str, value: Any, least: int, most: int | None = None, of: str = "") -> int:
    """A whole number within bounds; `of` says what the upper bound is, for the message.

    >>> whole("k", 5, 1, most=100)
    5
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        given = int(value)
        if least <= given and (most is None or given <= most):
            return given
    bounds = f"of at least {least}" if most is None else f"from {least} to {of + ', ' if of else ''}{most}"
    raise InputError(f"{name} must be a whole number {bounds}; got {shown(value)}")


def number(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    """A finite number within bounds.

    >>> number("level", 0.2, 0, 1)
    0.2
    """
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            given = float(value)
        except OverflowError:
            given = math.inf
        if math.isfinite(given) and least <= given <= most:
            return given
    bounds = f" of at least {least:g}" if math.isfinite(least) else ""
    bounds = f" from {least:g} to {most:g}" if math.isfinite(most) else bounds
    raise InputError(f"{name} must be a finite number{bounds}; got {shown(value)}")


def numbers(name: str, given: Any) -> NDArray[Any]:
    """An array of real numbers; not a copy, if it is one already.

    >>> numbers("rows", [[1, 2.5]])
    array([[1. , 2.5]])
    """
    try:
        array = np.asarray(given)
        if array.dtype.kind == "O" or array.dtype.itemsize > 8:
            with np.errstate(over="ignore"):  # it is infinite then, and refused for that
                array = array.astype(np.float64) if array.dtype.kind in "Of" else array
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be an array of numbers: {error}") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must be an array of numbers; got {array.dtype}")
    return array


def shown(value: object) -> str:
    """The value as it is written in Python, for a message.

    >>> shown("a")
    "'a'"
    """
    try:
        return repr(value)
    except Exception:  # a number of thousands of digits, an object that cannot be shown
        return f"something of type {type(value).__name__}"
