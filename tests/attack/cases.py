"""Seeded cases of attacks, and the count of what became of them."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

_T = TypeVar("_T")

PROMISES = (
    "tracebacks",
    "exits that are not documented",
    "messages that are not short",
    "cases without an end",
    "changed cells",
    "unsound results",
    "overwritten files",
    "half-written files",
    "wrong resumes",
    "allocations beyond twice the file",
)
"""What no case may end in."""


class BrokenPromise(AssertionError):
    """A case ended in something that is promised not to happen.

    Parameters
    ----------
    promise : str
        One of `PROMISES`.
    detail : str
        What was seen.
    """

    def __init__(self, promise: str, detail: str) -> None:
        assert promise in PROMISES, promise
        super().__init__(f"{promise}: {detail}")
        self.promise = promise


@dataclass
class Case:
    """One case: everything random in it is drawn from its seed."""

    seed: int
    """The seed, which repeats the case."""
    folder: Path
    """A new folder for its files."""
    counts: Counter[str] = field(default_factory=Counter)
    """What the case did beside its outcome, such as the processes that it started."""
    rng: np.random.Generator = field(init=False)
    """Source of everything random."""

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def choose(self, *values: _T) -> _T:
        """Return one of some values."""
        return values[int(self.rng.integers(len(values)))]

    def happens(self, probability: float) -> bool:
        """Return True with a probability."""
        return bool(self.rng.random() < probability)


@dataclass(frozen=True)
class Attack:
    """A way to attack prorec, as many cases of it as wanted."""

    name: str
    """Name, for `--only`."""
    run_case: Callable[[Case], str]
    """Runs one case, and returns its outcome in a few words."""
    n_cases: int
    """Number of cases of a full run."""
    chunk: int
    """Number of cases that a worker gets at a time."""
    seconds: float = 60
    """CPU time after which a case counts as one without an end."""
    prepare: Callable[[Path], object] | None = None
    """Makes what all cases of a process share, in the folder above theirs."""


@dataclass
class Outcomes:
    """What became of the cases of an attack."""

    n_cases: int = 0
    """Number of cases."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of cases by outcome."""
    work: Counter[str] = field(default_factory=Counter)
    """What the cases did, such as the processes that they started."""
    broken: Counter[str] = field(default_factory=Counter)
    """Number of cases by broken promise."""
    failures: list[str] = field(default_factory=list)
    """Seed and details of each case that broke a promise."""
    cpu_seconds: float = 0
    """Processor time of this process and of those that it started."""

    def add(self, other: Outcomes) -> None:
        """Add the cases of another part."""
        self.n_cases += other.n_cases
        self.counts += other.counts
        self.work += other.work
        self.broken += other.broken
        self.failures += other.failures
        self.cpu_seconds += other.cpu_seconds


def run_cases(attack: Attack, seeds: Iterable[int], folder: Path) -> Outcomes:
    """Run the cases of some seeds, each in a folder of its own that is deleted afterwards."""
    outcomes = Outcomes()
    begin = _cpu_seconds()
    if attack.prepare is not None:
        attack.prepare(folder)
    for seed in seeds:
        case = Case(seed, folder / f"{attack.name}-{seed}")
        case.folder.mkdir(parents=True)
        try:
            with warnings.catch_warnings(), _time_limit(attack.seconds):
                warnings.simplefilter("ignore")
                outcomes.counts[attack.run_case(case)] += 1
        except BrokenPromise as error:
            outcomes.broken[error.promise] += 1
            outcomes.failures.append(f"{attack.name}, seed {seed}: {error}")
        except Exception as error:
            outcomes.broken["tracebacks"] += 1
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(last.filename).name}:{last.lineno}"
            outcomes.failures.append(f"{attack.name}, seed {seed}: {type(error).__name__} at {place}: {error}"[:1000])
        outcomes.n_cases += 1
        outcomes.work += case.counts
        shutil.rmtree(case.folder)
    outcomes.cpu_seconds = _cpu_seconds() - begin
    return outcomes


def _cpu_seconds() -> float:
    """Return the processor time of this process, of its children that have ended, and where /proc tells, of others."""
    used = sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                used += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return used


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Break a promise in a block that takes too long."""

    def stop(*_: object) -> None:
        raise BrokenPromise("cases without an end", f"not ended after {seconds:g} seconds")

    # Seconds of this process alone, because a busy machine is no fault; and many more by the clock, for what waits.
    limits = ((signal.SIGVTALRM, signal.ITIMER_VIRTUAL, seconds), (signal.SIGALRM, signal.ITIMER_REAL, 20 * seconds))
    before = [(number, signal.signal(number, stop)) for number, _, _ in limits]
    for _, timer, limit in limits:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for _, timer, _ in limits:
            signal.setitimer(timer, 0)
        for number, handler in before:
            signal.signal(number, handler)
