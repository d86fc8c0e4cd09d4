"""One measured ratio, and how two pieces of work are timed side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """What was measured, against what, and how large it may be."""

    name: str
    ratio: float
    at_most: float


def side_by_side(ours: Callable[[], object], theirs: Callable[[], object], rounds: int = 7) -> float:
    """Best time of ours over best time of theirs, taken in turns, so that a busy machine slows down both alike."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for which, work in enumerate((ours, theirs)):
            time.sleep(0.1)  # BLAS's threads go on spinning for a while after their work, in the way of the next
            begin = time.perf_counter()
            result = work()
            best[which] = min(best[which], time.perf_counter() - begin)
            del result
    return best[0] / best[1]
