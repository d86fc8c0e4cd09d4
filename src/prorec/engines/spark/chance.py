"""Chance that is the same wherever and however often it is asked for: a task that is run again draws the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_STEP = np.uint64(0x9E3779B97F4A7C15)


def chance(*numbers: Any) -> NDArray[np.float64]:
    """A number from 0 to 1 (without 1) for whole numbers, or columns of them: as good as drawn, and always the same.

    Each number in turn is stirred into what came of those before it, as in the generator SplitMix64.

    >>> chance(0, np.array([7, 8, 7])).round(3)
    array([0.394, 0.893, 0.394])
    """
    state = np.zeros((), dtype=np.uint64)
    with np.errstate(over="ignore"):  # which is how it is meant
        for each in numbers:
            state = (state ^ np.asarray(each).astype(np.int64).view(np.uint64)) + _STEP
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return np.asarray((state >> np.uint64(11)) * 2.0**-53, dtype=np.float64)
