"""A digest of arrays, to tell whether a checkpoint or a saved model belongs to the data at hand."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def digest(*arrays: NDArray[Any]) -> str:
    """Return a short text that depends on every value, the types and the shapes of some arrays.

    Parameters
    ----------
    *arrays : ndarray
        Arrays of any type; their order counts.

    Returns
    -------
    str
        32 hexadecimal digits.

    Examples
    --------
    >>> digest(np.arange(3), np.arange(2)) == digest(np.arange(3), np.arange(2))
    True
    >>> digest(np.arange(3), np.arange(2)) == digest(np.arange(2), np.arange(3))
    False
    """
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        total.update(f"{array.dtype} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()
