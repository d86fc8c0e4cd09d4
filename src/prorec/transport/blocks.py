"""The driver: one function over all blocks of users, on all cores, within a memory budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_float
from prorec._core.errors import InputError
from prorec._core.parallel import N_CORES, map_in_order
from prorec._core.progress import Progress, check_progress
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals
from prorec.transport.scores import PARTS, Rows, ScaledScores, ScoreFunction, scale_scores

BlockProgress = Callable[[int, int], object]
"""A function of the number of blocks done and the number of blocks in all: `Progress` with its task filled in."""

DEFAULT_MEMORY = 256e6
"""How many bytes of blocks may be in memory at once, unless the caller says otherwise."""

_MOST_ROWS = 512  # more don't make the product faster
Result = TypeVar("Result")


def bind_task(progress: Progress | None, task: str) -> BlockProgress | None:
    """Check a progress callback and fill in the name of the task, for reports block by block."""
    check_progress(progress)
    return None if progress is None else partial(progress, task)


def make_blocks(
    scores: Factors | ScoreFunction, marginals: Marginals, gamma: float, memory: float, *, in_double: bool = False
) -> Blocks:
    """Scores over γ in blocks, all of them in double precision if that is asked for; every argument checked."""
    gamma = check_float("gamma", gamma)
    if gamma <= 0:
        raise InputError(f"gamma must be above 0; got {gamma:g}")
    return Blocks(scale_scores(scores, gamma, marginals, in_double=in_double), memory)


class Blocks:
    """Users in blocks.

    Parameters
    ----------
    scores : scores over γ
    memory : budget in bytes
    workers : threads, at most
    """

    def __init__(self, scores: ScaledScores, memory: float = DEFAULT_MEMORY, workers: int = N_CORES) -> None:
        self.scores = scores
        n_users, n_items = scores.shape
        memory = check_memory(memory, n_items)
        self._workers = min(workers, int(memory / _bytes(1, n_items)), n_users)
        most = min(_MOST_ROWS, -(-n_users // self._workers))
        fits = (rows for rows in range(most, 0, -1) if self._workers * _bytes(rows, n_items) <= memory)
        self._n_rows = next(fits)
        # Those known to need double precision have blocks of their own, the first: they take longest.
        self.rows = self._cut(scores.order[: scores.n_double]) + self._cut(scores.order[scores.n_double :])

    def map(
        self, work: Callable[[Rows, NDArray[np.float32]], Result], progress: BlockProgress | None = None
    ) -> Iterator[tuple[Rows, Result]]:
        """Rows and result of `work` for each block, in order, whichever is done first.

        `work` is given the rows and room for their block, which it shares with no other thread.
        """
        own = threading.local()  # fresh memory for every block would cost more than the arithmetic

        def work_on(place: int) -> Result:
            if not hasattr(own, "room"):
                own.room = np.empty((self._n_rows, self.scores.shape[1]), dtype=np.float32)
            return work(self.rows[place], own.room)

        for place, result in enumerate(map_in_order(work_on, len(self.rows), self._workers)):
            if progress is not None:
                progress(place + 1, len(self.rows))
            yield self.rows[place], result

    def _cut(self, rows: Rows) -> list[Rows]:
        """Blocks of about the same size, as many for one worker as for the other."""
        n_blocks = -(-len(rows) // self._n_rows)
        if n_blocks > 1:
            n_blocks = min(-(-n_blocks // self._workers) * self._workers, len(rows))
        return np.array_split(rows, n_blocks) if n_blocks else []


def check_memory(memory: Any, n_items: int) -> float:
    """A budget in bytes that has room for one row of items."""
    budget = check_float("memory", memory, 0)
    if budget < _bytes(1, n_items):
        raise InputError(
            f"memory must be at least {_bytes(1, n_items):,} bytes, for one row of {n_items:,} items; got {budget:,.0f}"
        )
    return budget


def _bytes(rows: int, n_items: int) -> int:
    """What one worker needs: a block in single precision, a part of it in double four times over, and some vectors."""
    return n_items * (4 * rows + 32 * -(-rows // PARTS) + 60)
