"""The cut-off between flagged and other interactions, found exactly in two passes over any number of them."""

from __future__ import annotations

import math
from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_N_BINS = 65_536


def find_cutoff(probabilities: DataFrame, is_allowed: Callable[[int, float], bool]) -> float:
    """Return the largest noise probability that is not flagged.

    The rule is that of `prorec.noise.flagging`: the most suspicious interactions are flagged, as many as are allowed,
    and interactions tied at the cut-off are not. The first pass counts interactions in bins of equal width, and the
    second counts each value in the bin of the cut-off.

    Parameters
    ----------
    probabilities : DataFrame
        A column `noise_probability`.
    is_allowed : callable
        Takes a number of flags and the expected number of wrong ones among them, and returns whether that is allowed.

    Returns
    -------
    float
        The cut-off; −1 if all interactions are flagged.
    """
    probability = F.col("noise_probability").cast("double")
    bin_number = F.floor(probability * _N_BINS)
    crossing, n_flags, n_wrong = _find_crossing(probabilities, bin_number, is_allowed)
    if crossing is None:
        return -1.0
    inside = probabilities.where(bin_number == crossing)
    cutoff, _, _ = _find_crossing(inside, probability, is_allowed, n_flags, n_wrong)
    # Sums in another order may be a little smaller, so that the whole bin is allowed after all.
    return math.nextafter(crossing / _N_BINS, -1.0) if cutoff is None else cutoff


def _find_crossing(
    probabilities: DataFrame,
    group: Column,
    is_allowed: Callable[[int, float], bool],
    n_flags: int = 0,
    n_wrong: float = 0.0,
) -> tuple[float | None, int, float]:
    """Flag groups in descending order, and return the first that is not allowed, and the totals before it."""
    genuine = 1 - F.col("noise_probability").cast("double")
    counts = probabilities.groupBy(group.alias("group")).agg(F.count(F.lit(1)), F.sum(genuine))
    for value, n_in_group, n_genuine in counts.orderBy(F.desc("group")).collect():
        if not is_allowed(n_flags + n_in_group, n_wrong + n_genuine):
            return value, n_flags, n_wrong
        n_flags, n_wrong = n_flags + n_in_group, n_wrong + n_genuine
    return None, n_flags, n_wrong
