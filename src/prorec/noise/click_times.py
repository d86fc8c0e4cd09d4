"""Times of clicks as numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prorec.interactions import Interactions


def click_times(interactions: Interactions) -> NDArray[np.float64] | None:
    """Return the time of each interaction as a number, in the order of `matrix.data`.

    Parameters
    ----------
    interactions : Interactions
        The log.

    Returns
    -------
    ndarray of float64 or None
        In the unit of the column `timestamp`; None if there is no such column.
    """
    times = interactions.columns.get("timestamp")
    if times is None:
        return None
    return np.asarray(times.astype(np.int64) if times.dtype.kind == "M" else times, dtype=np.float64)
