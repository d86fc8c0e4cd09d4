"""Threads: work in pieces on all cores, with results in order, and one BLAS thread meanwhile."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

N_CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""Number of cores that this process may use."""

Result = TypeVar("Result")


def map_in_order(work: Callable[[int], Result], n_pieces: int, workers: int) -> Iterator[Result]:
    """Yield work(0), work(1), … in that order, computed by several threads.

    Work that releases the interpreter lock (BLAS, compiled loops) runs in parallel. BLAS uses one thread for each piece
    meanwhile.

    Parameters
    ----------
    work : callable
        Function of the index of a piece.
    n_pieces : int
        Number of pieces.
    workers : int
        Number of threads; with 1, or with one piece, the calling thread does the work.

    Yields
    ------
    Result
        The result of each piece; about twice as many as there are threads are computed ahead.

    Examples
    --------
    >>> list(map_in_order(lambda index: index**2, 5, workers=2))
    [0, 1, 4, 9, 16]
    """
    if min(workers, n_pieces) <= 1:
        yield from map(work, range(n_pieces))
        return
    with single_blas_thread(), ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for index in range(n_pieces):
                waiting.append(pool.submit(work, index))
                if len(waiting) > 2 * workers:  # bounds the memory of results that wait for their turn
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


_LARGE = 2_000
_lock = threading.Lock()
_limits: list[Any] = []


@contextmanager
def single_blas_thread(size: int = 0) -> Iterator[None]:
    """Keep BLAS to one thread inside a `with` block.

    Its threads slow down threads of prorec. For small matrices they cost more than they bring as soon as anything else
    runs on the machine, because each of them waits for the slowest. The limit holds for the whole process. The first of
    several overlapping blocks sets it, and the last lifts it.

    Parameters
    ----------
    size : int, default 0
        Side of the largest square matrix that is decomposed. Above 2,000 nothing is limited, because threads pay then.
    """
    if size > _LARGE:
        yield
        return
    with _lock:
        _limits.append(_blas().limit(limits=1) if not _limits else None)
    try:
        yield
    finally:
        with _lock:
            if len(_limits) == 1:
                _limits.pop().restore_original_limits()
            else:
                _limits.pop()


@cache
def _blas() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401 - loads a BLAS of its own, which must be found too

    return ThreadpoolController().select(user_api="blas")
