"""Rules for arrays that come from a file: which there must be, and of which type, shape and values.

Compiled code does not check its arguments, so an array of a file is checked here before anything else uses it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import safe_repr
from prorec._core.errors import DamagedFileError

Arrays = dict[str, NDArray[Any]]
"""Arrays by name."""


@dataclass(frozen=True)
class ArrayRule:
    """Type, shape and values that an array must have."""

    shape: tuple[int | str, ...]
    """Length of each dimension. A text stands for a length that is the same wherever the text is used."""
    dtype: str = "float32"
    """Type of the numbers."""
    minimum: float = -math.inf
    """Smallest value; a float must be finite in any case."""
    maximum: float = math.inf
    """Largest value."""
    is_optional: bool = False
    """Whether the array may be missing."""


def check_arrays(
    arrays: Mapping[str, NDArray[Any]], rules: Mapping[str, ArrayRule], subject: str, remedy: str = "save it again"
) -> None:
    """Refuse arrays that break a rule.

    Parameters
    ----------
    arrays : mapping of str to array
        Arrays by name.
    rules : mapping of str to ArrayRule
        Rule of each array. An array without a rule is refused.
    subject : str
        What the arrays belong to, for the message, such as "the model".
    remedy : str, default "save it again"
        What the reader of the message can do.

    Raises
    ------
    DamagedFileError
        If an array is missing or unknown, or has another type, another shape or a value out of range.

    Examples
    --------
    >>> check_arrays({"weights": np.ones(3)}, {"weights": ArrayRule((3,), "float64", 0, 1)}, "the model")
    """
    lengths: dict[str, int] = {}
    for name, rule in rules.items():
        if name in arrays:
            _check_array(name, arrays[name], rule, lengths, subject, remedy)
        elif not rule.is_optional:
            raise DamagedFileError(f"{subject} is incomplete or damaged: {name} is missing; {remedy}")
    if unknown := sorted(arrays.keys() - rules.keys()):
        raise DamagedFileError(
            f"{subject} is damaged: {safe_repr(unknown[0])} is not one of its arrays, {', '.join(rules)}; {remedy}"
        )


def _check_array(
    name: str, array: NDArray[Any], rule: ArrayRule, lengths: dict[str, int], subject: str, remedy: str
) -> None:
    is_of_shape = array.ndim == len(rule.shape) and all(
        length == (lengths.setdefault(wanted, length) if isinstance(wanted, str) else wanted)
        for length, wanted in zip(array.shape, rule.shape, strict=True)
    )
    if not is_of_shape or array.dtype != rule.dtype:
        shape = ", ".join(str(lengths.get(each, each) if isinstance(each, str) else each) for each in rule.shape)
        raise DamagedFileError(
            f"{subject} is incomplete or damaged: {name} is {array.dtype} of shape {array.shape}, but must be "
            f"{rule.dtype} of shape ({shape}); {remedy}"
        )
    if not array.size:
        return
    values = array.view(np.uint8) if array.dtype == np.bool_ else array
    low, high = values.min(), values.max()  # NaN if any value is
    maximum = min(rule.maximum, 1) if array.dtype == np.bool_ else rule.maximum
    if not (np.isfinite(low) and np.isfinite(high) and rule.minimum <= low and high <= maximum):
        raise DamagedFileError(
            f"{subject} is damaged: {name} has values from {low:g} to {high:g}, but they must be finite and from "
            f"{rule.minimum:g} to {maximum:g}; {remedy}"
        )
