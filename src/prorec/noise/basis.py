"""By what a click was judged."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_NAMES = ("models", "popularity", "unknown item", "seen")
MODELS, POPULARITY, UNKNOWN, SEEN = range(4)


def basis_of(is_alone: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Models; or popularity, where nothing else of the user was learned from."""
    return np.where(is_alone, POPULARITY, MODELS).astype(np.int8)


def basis_names(basis: NDArray[np.int8]) -> pa.Array:
    """The same in words."""
    return pa.array(np.array(_NAMES, dtype=object)[basis], pa.string())
