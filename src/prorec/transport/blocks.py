"""Blocks of users: a function is run on each of them, on all cores, within a memory budget."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_float
from prorec._core.errors import InputError, MemoryLimitError
from prorec._core.parallel import N_CORES, map_in_order
from prorec._core.progress import Progress, check_progress
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals
from prorec.transport.scores import PARTS, Rows, ScaledScores, ScoreFunction, scale_scores

BlockProgress = Callable[[int, int], object]
"""A function of the number of blocks done and the number of all blocks: `Progress` with its task filled in."""

DEFAULT_MEMORY = 256e6
"""Default memory budget: the maximum number of bytes of blocks in memory at once."""

_MAX_ROWS = 512  # larger blocks don't make the product faster
Result = TypeVar("Result")


def bind_task(progress: Progress | None, task: str) -> BlockProgress | None:
    """Check a progress callback and fill in the name of the task.

    Parameters
    ----------
    progress : callable or None
        The callback.
    task : str
        Name of the task.

    Returns
    -------
    callable or None
        A function of the number of blocks done and the number of all blocks.
    """
    check_progress(progress)
    return None if progress is None else partial(progress, task)


def make_blocks(
    scores: Factors | ScoreFunction, marginals: Marginals, gamma: float, memory: float, *, in_double: bool = False
) -> Blocks:
    """Check all arguments and split scores over γ into blocks.

    Parameters
    ----------
    scores : Factors or callable
        Factors, or a function from row numbers to a block of scores.
    marginals : Marginals
        The marginals.
    gamma : float
        γ, above 0.
    memory : float
        Memory budget in bytes.
    in_double : bool, default False
        Compute all blocks in double precision.

    Returns
    -------
    Blocks

    Raises
    ------
    InputError
        If an argument is invalid.
    """
    gamma = check_float("gamma", gamma)
    if gamma <= 0:
        raise InputError(f"gamma must be above 0; got {gamma:g}")
    return Blocks(scale_scores(scores, gamma, marginals, in_double=in_double), memory)


class Blocks:
    """Users in blocks whose scores for all items are in memory at once.

    Parameters
    ----------
    scores : ScaledScores
        Scores over γ.
    memory : float, default 256e6
        Memory budget in bytes.
    workers : int, default the number of cores
        Maximum number of threads.

    Attributes
    ----------
    rows : list of array
        Row numbers of the users in each block.
    """

    def __init__(self, scores: ScaledScores, memory: float = DEFAULT_MEMORY, workers: int = N_CORES) -> None:
        self.scores = scores
        n_users, n_items = scores.shape
        memory = check_memory(memory, n_items)
        self._workers = min(workers, int(memory / _bytes_per_worker(1, n_items)), n_users)
        largest = min(_MAX_ROWS, -(-n_users // self._workers))
        sizes = range(largest, 0, -1)
        self._n_rows = next(size for size in sizes if self._workers * _bytes_per_worker(size, n_items) <= memory)
        # Users who need double precision have blocks of their own. These come first, because they take longest.
        self.rows = self._split(scores.order[: scores.n_double]) + self._split(scores.order[scores.n_double :])

    def map(
        self, step: Callable[[Rows, NDArray[np.float32]], Result], progress: BlockProgress | None = None
    ) -> Iterator[tuple[Rows, Result]]:
        """Run a function on each block, and yield rows and result in the order of the blocks.

        Parameters
        ----------
        step : callable
            Function of the row numbers and of a buffer for their scores, which no other thread uses.
        progress : callable, optional
            Called after each block.

        Yields
        ------
        rows : array of int
            Row numbers of the block.
        result
            Result of the function.
        """
        own = threading.local()  # fresh memory for every block would cost more than the arithmetic

        def run(index: int) -> Result:
            if not hasattr(own, "buffer"):
                own.buffer = np.empty((self._n_rows, self.scores.shape[1]), dtype=np.float32)
            return step(self.rows[index], own.buffer)

        for index, result in enumerate(map_in_order(run, len(self.rows), self._workers)):
            if progress is not None:
                progress(index + 1, len(self.rows))
            yield self.rows[index], result

    def _split(self, rows: Rows) -> list[Rows]:
        """Split users into blocks of about equal size, the same number for each worker."""
        n_blocks = -(-len(rows) // self._n_rows)
        if n_blocks > 1:
            n_blocks = min(-(-n_blocks // self._workers) * self._workers, len(rows))
        return np.array_split(rows, n_blocks) if n_blocks else []


def check_memory(memory: Any, n_items: int) -> float:
    """Check a memory budget, which must hold at least one row of items.

    Parameters
    ----------
    memory : float
        Budget in bytes.
    n_items : int
        Number of items.

    Returns
    -------
    float

    Raises
    ------
    MemoryLimitError
        If the budget is too small.
    """
    budget = check_float("memory", memory, 0)
    needed = _bytes_per_worker(1, n_items)
    if budget < needed:
        raise MemoryLimitError(
            f"memory must be at least {needed:,} bytes, for one row of {n_items:,} items; got {budget:,.0f}"
        )
    return budget


def _bytes_per_worker(n_rows: int, n_items: int) -> int:
    """Return the size of a block in single precision, four copies of a part of it in double, and some vectors."""
    return n_items * (4 * n_rows + 32 * -(-n_rows // PARTS) + 60)
