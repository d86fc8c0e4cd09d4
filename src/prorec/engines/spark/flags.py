"""The line between what is flagged and what is not, over any number of interactions: exactly, in two passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from prorec.engines.spark import partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Probability = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def cutoff(matched: DataFrame, probability: Probability, n_pairs: int, *, share: float) -> float:
    """The largest noise probability that is not flagged; −1 where all are.

    As in `prorec.noise.flags`: the share of the most suspicious, and equals are not told apart. Probabilities are in
    the order of their bits, so the first pass counts them by the upper half of those, and the second, within the one
    that the line goes through, by the lower.
    """
    most = int(share * n_pairs)
    high, before = _crossed(_counts(matched, probability, None), most, 0)
    if high is None:
        return -1.0
    low, _ = _crossed(_counts(matched, probability, high), most, before)
    assert low is not None, "the line goes through this group"
    return float(np.array([(high << 16) | low], dtype=np.uint32).view(np.float32)[0])


def _counts(matched: DataFrame, probability: Probability, high: int | None) -> list[tuple[int, int]]:
    """How many have which bits, the largest first: at most 65,536 numbers."""
    work = partial(partition.counted, probability=probability, high=high)
    rows = matched.select("shares").mapInArrow(work, partition.COUNTED).groupBy("bits").sum("number").collect()
    return sorted(((int(row[0]), int(row[1])) for row in rows), reverse=True)


def _crossed(counts: list[tuple[int, int]], most: int, before: int) -> tuple[int | None, int]:
    """The first group that does not fit whole, and how many are before it."""
    for bits, number in counts:
        if before + number > most:
            return bits, before
        before += number
    return None, before
