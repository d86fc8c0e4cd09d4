"""The number of times that each user counts in a loss, by a power of the user's activity."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

_MIN_ACTIVITY = 1e-12
"""Smallest activity relative to the largest; below it, counts would not fit into single precision."""


def count_users(matrix: csr_array, power: float) -> NDArray[np.float64] | None:
    """Return how many times each user counts: activity^(−power), scaled so that a click counts once on average.

    A user's activity is the sum of the user's weights, which is the expected number of genuine clicks. With a power of
    1, the clicks of every user count the same in sum. The scale keeps the size of the loss, so that a regularizer that
    was tuned without a power stays about right.

    Parameters
    ----------
    matrix : csr_array
        Weights, users × items.
    power : float
        Exponent from 0 to 1.

    Returns
    -------
    array of float64 or None
        One number for each user, 0 without interactions; None if all users count the same.

    Examples
    --------
    >>> matrix = csr_array([[1.0, 1, 1, 1], [1, 0, 0, 0]])
    >>> count_users(matrix, 0.5)
    array([0.83333333, 1.66666667])
    >>> count_users(matrix, 1.0)
    array([0.625, 2.5  ])
    """
    if power == 0:
        return None
    activity = np.asarray(matrix.sum(axis=1, dtype=np.float64)).ravel()
    is_active = activity > 0
    counts = np.zeros_like(activity)
    if is_active.any():
        relative = np.maximum(activity[is_active] / activity.max(), _MIN_ACTIVITY)
        counts[is_active] = relative ** -float(power)
        counts *= activity.sum() / (counts @ activity)
    return counts
