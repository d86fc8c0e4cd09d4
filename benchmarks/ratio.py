"""A measured ratio, and the measurement of time and memory."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ratio:
    """A measured ratio with its limit."""

    name: str
    """The measured work and its reference, separated by " / "; the same in every run, because history goes by it."""
    value: float
    """The measured quantity of the work over that of the reference."""
    limit: float
    """The largest value that is accepted."""
    detail: str = ""
    """Further results of the run, such as the quality of both models."""


def time_ratio(work: Callable[[], object], reference: Callable[[], object], rounds: int = 7) -> float:
    """Return the best time of the work over the best time of the reference.

    The two run in turns, so that other load on the machine slows both alike.
    """
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for side, function in enumerate((work, reference)):
            time.sleep(0.1)  # BLAS threads spin for a while after their work and would slow the next one
            start = time.perf_counter()
            result = function()
            best[side] = min(best[side], time.perf_counter() - start)
            del result
    return best[0] / best[1]


def peak_memory() -> int:
    """Return the peak resident memory of this process in bytes (Linux only)."""
    status = Path("/proc/self/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+)", status)
    assert match, "VmHWM must be in /proc/self/status; run this benchmark on Linux"
    return 1024 * int(match[1])
