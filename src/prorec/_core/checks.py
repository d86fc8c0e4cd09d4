"""Checks of arguments: each returns the value it accepts, or raises `InputError`."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.errors import InputError
from prorec._core.quoting import safe_repr as safe_repr
from prorec._core.quoting import shorten as shorten


def check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse a text that is not among the allowed ones.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : object
        Value of the argument.
    allowed : tuple of str
        Texts that are accepted.

    Raises
    ------
    InputError
        If the value is not one of the allowed texts.

    Examples
    --------
    >>> check_choice("kind", "uniform", ("uniform", "swap"))
    """
    if not isinstance(value, str) or value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise InputError(f"{name} must be one of {choices}, got {safe_repr(value)}")


def check_bool(name: str, value: object) -> bool:
    """Return a truth value.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : object
        Value of the argument.

    Returns
    -------
    bool

    Raises
    ------
    InputError
        If the value is neither True nor False.

    Examples
    --------
    >>> check_bool("exclude_seen", True)
    True
    """
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False; got {safe_repr(value)}")
    return bool(value)


def check_int(name: str, value: Any, minimum: int, maximum: int | None = None, maximum_name: str = "") -> int:
    """Return a whole number within bounds.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : Any
        Value of the argument; numpy's integers are accepted, booleans are not.
    minimum : int
        Smallest accepted number.
    maximum : int, optional
        Largest accepted number.
    maximum_name : str, default ""
        What the largest number is, for the message, such as "the number of items".

    Returns
    -------
    int

    Raises
    ------
    InputError
        If the value is not a whole number within the bounds.

    Examples
    --------
    >>> check_int("k", 5, 1, maximum=100)
    5
    """
    if isinstance(value, Integral) and not isinstance(value, bool | np.timedelta64):
        number = int(value)
        if minimum <= number and (maximum is None or number <= maximum):
            return number
    upper = f"{maximum_name}, {maximum}" if maximum_name else f"{maximum}"
    bounds = f"of at least {minimum}" if maximum is None else f"from {minimum} to {upper}"
    raise InputError(f"{name} must be a whole number {bounds}; got {safe_repr(value)}")


def check_float(name: str, value: Any, minimum: float = -math.inf, maximum: float = math.inf) -> float:
    """Return a finite number within bounds.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : Any
        Value of the argument; whole numbers and numpy's numbers are accepted, booleans are not.
    minimum, maximum : float, optional
        Smallest and largest accepted number.

    Returns
    -------
    float

    Raises
    ------
    InputError
        If the value is not a finite number within the bounds.

    Examples
    --------
    >>> check_float("fraction", 0.2, 0, 1)
    0.2
    """
    if isinstance(value, Real) and not isinstance(value, bool | np.timedelta64):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number) and minimum <= number <= maximum:
            return number
    bounds = f" of at least {minimum:g}" if math.isfinite(minimum) else ""
    bounds = f" from {minimum:g} to {maximum:g}" if math.isfinite(maximum) else bounds
    raise InputError(f"{name} must be a finite number{bounds}; got {safe_repr(value)}")


def check_array(name: str, value: Any) -> NDArray[Any]:
    """Return an array of real numbers.

    Parameters
    ----------
    name : str
        Name of the argument, for the message.
    value : array_like
        Value of the argument.

    Returns
    -------
    ndarray
        The value itself, not a copy, if it is such an array already.

    Raises
    ------
    InputError
        If the value is not an array of numbers.

    Examples
    --------
    >>> check_array("rows", [[1, 2.5]])
    array([[1. , 2.5]])
    """
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O" or array.dtype.itemsize > 8:
            with np.errstate(over="ignore"):  # an overflow becomes infinity, which the caller refuses
                array = array.astype(np.float64) if array.dtype.kind in "Of" else array
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be an array of numbers: {shorten(str(error))}") from None
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must be an array of numbers; got {array.dtype}")
    return array
