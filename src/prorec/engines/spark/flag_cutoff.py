"""The line between what is flagged and what is not, over any number of interactions: exactly, in two passes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prorec.engines.spark import block_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Probability = Callable[[NDArray[np.float32]], NDArray[np.float32]]
Fits = Callable[[int, float], bool]


class _Group(NamedTuple):
    """Interactions whose noise probability begins with the same bits."""

    bits: int
    number: int
    wrong: float
    """Σ(1 − p): how many of them are not noise."""


def cutoff(frame: DataFrame, probability: Probability | None, fits: Fits) -> float:
    """The largest noise probability that is not flagged; −1 where all are.

    As in `prorec.noise.flagging`: as many of the most suspicious as are allowed, and equals are not told apart.
    Probabilities are in the order of their bits, so the first pass counts them by the upper half of those, and the
    second, within the one that the line goes through, by the lower.

    Parameters
    ----------
    frame : one column, with probabilities, or with lists of what they are worked out from
    probability : how they are, if so
    fits : whether so many flags are allowed, of which so many are expected to be wrong
    """
    high, before = _crossed(_groups(frame, probability, None), fits, _Group(0, 0, 0.0))
    if high is None:
        return -1.0
    low, _ = _crossed(_groups(frame, probability, high), fits, before)
    # Sums in another order may come out a little smaller, and all of the group fit after all.
    bits = (high << 16) + (-1 if low is None else low)
    return float(np.array([bits], dtype=np.uint32).view(np.float32)[0]) if bits >= 0 else -1.0


def _groups(frame: DataFrame, probability: Probability | None, high: int | None) -> list[_Group]:
    """All groups, the largest first: at most 65,536."""
    work = partial(block_tasks.counted, probability=probability, high=high)
    rows = frame.mapInArrow(work, block_tasks.COUNTED).groupBy("bits").sum("number", "wrong").collect()
    return sorted((_Group(int(row[0]), int(row[1]), float(row[2])) for row in rows), reverse=True)


def _crossed(groups: list[_Group], fits: Fits, before: _Group) -> tuple[int | None, _Group]:
    """The first group that does not fit whole, and all that is before it."""
    for each in groups:
        up_to = _Group(each.bits, before.number + each.number, before.wrong + each.wrong)
        if not fits(up_to.number, up_to.wrong):
            return each.bits, before
        before = up_to
    return None, before
