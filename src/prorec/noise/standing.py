"""Where a value stands among others of its kind: a click among its user's other clicks, say."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Values = NDArray[np.float32]


def standing(
    values: Values,
    begins: NDArray[np.int64],
    groups: NDArray[np.int32],
    asked: Values,
    left_out: Values,
) -> NDArray[np.float64]:
    """log-odds of (a + e/2 + ½) / (n + 1): a of the n others in the group are larger, e are equal.

    Half of one more on either side: who has few others stands near the middle.

    Parameters
    ----------
    values : of all groups, one after the other
    begins : where each group's values begin, and where the last ends
    groups : the group of each value asked for
    asked : that value
    left_out : one value of the group that it is not held against, itself as a rule; NaN for none

    >>> group = np.array([1, 2, 3], dtype=np.float32)
    >>> standing(group, np.array([0, 3]), np.zeros(3, dtype=np.int32), group, group).round(2)
    array([ 1.61,  0.  , -1.61])
    """
    order = np.lexsort((values, np.repeat(np.arange(len(begins) - 1), np.diff(begins))))
    above, equal, n = (np.empty(len(asked), dtype=np.int64) for _ in range(3))
    _standing(values[order], begins.astype(np.int64), groups, asked, left_out, above, equal, n)
    return log_odds(above, equal, n)


def log_odds(above: NDArray[np.int64], equal: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float64]:
    """What `standing` answers where so many others are larger and equal, of so many."""
    shares = (above + 0.5 * equal + 0.5) / (others + 1)
    return np.asarray(np.log(shares) - np.log1p(-shares))


@njit(cache=True, nogil=True)
def _standing(  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    ordered, begins, groups, asked, left_out, above, equal, others
):
    for place in range(len(asked)):
        group = ordered[begins[groups[place]] : begins[groups[place] + 1]]
        own, other = asked[place], left_out[place]
        n = len(group)
        up_to = np.searchsorted(group, own, side="right")
        above[place], equal[place] = n - up_to, up_to - np.searchsorted(group, own, side="left")
        if other == other:  # not NaN
            n -= 1
            above[place] -= other > own
            equal[place] -= other == own
        others[place] = n
