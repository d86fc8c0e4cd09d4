"""The driver: one function over all blocks of users, on all cores, within a memory budget."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from prorec._threads import CORES
from prorec.errors import InputError, number
from prorec.factors import Factors
from prorec.transport.marginals import Marginals
from prorec.transport.scores import Rows, Scaled, ScoreFunction, in_parts, scaled

Progress = Callable[[int, int], object]
"""Called after each block with how many blocks are done and how many there are."""

MEMORY = 256e6
"""How many bytes of blocks may be in memory at once, unless the caller says otherwise."""

_MOST_ROWS = 512  # more don't make the product faster
_BYTES = 6  # for each entry of a block: itself, and a twelfth of it at a time in double precision, three times over
Result = TypeVar("Result")


def blocks_of(
    scores: Factors | ScoreFunction, marginals: Marginals, gamma: float, memory: float, *, in_double: bool = False
) -> Blocks:
    """Scores over γ in blocks, all of them in double precision if that is asked for; every argument checked."""
    gamma = number("gamma", gamma)
    if gamma <= 0:
        raise InputError(f"gamma must be above 0; got {gamma:g}")
    if not isinstance(marginals, Marginals):
        raise InputError(f"marginals must be Marginals(items, users); got {type(marginals).__name__}")
    return Blocks(scaled(scores, gamma, marginals.shape), memory, in_double=in_double)


class Blocks:
    """Users in blocks, each worked on in the least precision that is good enough.

    Parameters
    ----------
    scores : scores over γ
    memory : budget in bytes
    in_double : take all of them in double precision
    """

    def __init__(self, scores: Scaled, memory: float = MEMORY, *, in_double: bool = False) -> None:
        memory = number("memory", memory, 0)
        self.scores = scores
        n_users, n_items = scores.shape
        row = _BYTES * n_items
        if memory < row:
            raise InputError(f"memory must hold one row of {n_items:,} items, {row:,} bytes; got {memory:,.0f}")
        self._workers = max(1, min(CORES, int(memory / row)))
        self._n_rows = max(1, min(_MOST_ROWS, n_users, int(memory / row / self._workers)))
        n_double = n_users if in_double else scores.n_double
        first = self._cut(scores.order[:n_double])
        self.rows = first + self._cut(scores.order[n_double:])
        self._needs_double = np.arange(len(self.rows)) < len(first)
        self._own = threading.local()

    def each(
        self,
        step: Callable[[Rows, NDArray[np.float32] | NDArray[np.float64]], Result | None],
        join: Callable[[Result, Result], Result],
        progress: Progress | None = None,
    ) -> Iterator[tuple[Rows, Result]]:
        """Rows and result of `step` for each block of scores, in order, whichever is done first.

        A step that answers None to a block in single precision gets it in double; that goes in parts, to keep within
        the budget, and `join` puts the results of two parts together. The next call remembers which blocks those were.
        """

        def work(place: int) -> Result:
            rows = self.rows[place]
            if not self._needs_double[place]:
                block = self.scores.single(rows, self._buffer())
                result = None if block is None else step(rows, block)
                if result is not None:
                    return result
                self._needs_double[place] = True
            joined: Result | None = None
            for part in in_parts(rows):
                result = step(part, self.scores.double(part))
                assert result is not None, "a step must take every block in double precision"
                joined = result if joined is None else join(joined, result)
            assert joined is not None
            return joined

        for done, result in enumerate(self._in_order(work)):
            if progress is not None:
                progress(done + 1, len(self.rows))
            yield self.rows[done], result

    def _cut(self, rows: Rows) -> list[Rows]:
        return [rows[begin : begin + self._n_rows] for begin in range(0, len(rows), self._n_rows)]

    def _in_order(self, work: Callable[[int], Result]) -> Iterator[Result]:
        workers = min(self._workers, len(self.rows))
        if workers == 1:
            yield from map(work, range(len(self.rows)))
            return
        with _one_blas_thread(), ThreadPoolExecutor(workers) as pool:
            waiting: deque[Future[Result]] = deque()
            try:
                for place in range(len(self.rows)):
                    waiting.append(pool.submit(work, place))
                    if len(waiting) > 2 * workers:  # results wait for their turn; not too many of them
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def _buffer(self) -> NDArray[np.float32]:
        """One block's room for each thread: fresh memory costs more than the arithmetic."""
        if not hasattr(self._own, "buffer"):
            self._own.buffer = np.empty((self._n_rows, self.scores.shape[1]), dtype=np.float32)
        buffer: NDArray[np.float32] = self._own.buffer
        return buffer


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _one_blas_thread() -> AbstractContextManager[object]:
    """Our threads take a block each: BLAS should not start more of its own."""
    controller = _blas()
    return controller.limit(limits=1) if controller.lib_controllers else nullcontext()
