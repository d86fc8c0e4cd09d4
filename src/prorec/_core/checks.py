"""Checks of arguments: each returns the value it accepts, or raises `InputError`."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.errors import InputError


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse a choice that is not among the allowed ones.

    >>> check_choice("kind", "uniform", ("uniform", "swap"))
    """
    if not isinstance(value, str) or value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise InputError(f"{name} must be one of {choices}, got {safe_repr(value)}")


def check_int(name: str, value: Any, least: int, most: int | None = None, of: str = "") -> int:
    """A whole number within bounds; `of` says what the upper bound is, for the message.

    >>> check_int("k", 5, 1, most=100)
    5
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        given = int(value)
        if least <= given and (most is None or given <= most):
            return given
    bounds = f"of at least {least}" if most is None else f"from {least} to {of + ', ' if of else ''}{most}"
    raise InputError(f"{name} must be a whole number {bounds}; got {safe_repr(value)}")


def check_float(name: str, value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    """A finite number within bounds.

    >>> check_float("level", 0.2, 0, 1)
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
    raise InputError(f"{name} must be a finite number{bounds}; got {safe_repr(value)}")


def check_array(name: str, given: Any) -> NDArray[Any]:
    """An array of real numbers; not a copy, if it is one already.

    >>> check_array("rows", [[1, 2.5]])
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


def safe_repr(value: object) -> str:
    """The value as it is written in Python, for a message.

    >>> safe_repr("a")
    "'a'"
    """
    try:
        return repr(value)
    except Exception:  # a number of thousands of digits, an object that cannot be shown
        return f"something of type {type(value).__name__}"
