"""Work in pieces on all cores, one piece for each thread, with results in order."""

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
"""Cores that this process may use."""

Result = TypeVar("Result")


def map_in_order(work: Callable[[int], Result], n_pieces: int, workers: int) -> Iterator[Result]:
    """Results of work(0), work(1), … in that order, whichever is done first.

    Work that lets go of the interpreter lock (BLAS, compiled loops) runs side by side; BLAS keeps to one thread for
    each piece meanwhile.

    >>> list(map_in_order(lambda place: place**2, 5, workers=2))
    [0, 1, 4, 9, 16]
    """
    if min(workers, n_pieces) <= 1:
        yield from map(work, range(n_pieces))
        return
    with single_blas_thread(), ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for place in range(n_pieces):
                waiting.append(pool.submit(work, place))
                if len(waiting) > 2 * workers:  # results wait for their turn; not too many of them
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


_lock = threading.Lock()
_limits: list[Any] = []


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: where products take turns with threads of ours, its own only get in the way.

    The limit is the whole process's: whoever comes first sets it, whoever leaves last lifts it.
    """
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
    return ThreadpoolController().select(user_api="blas")
