"""Results that computations within one context share, such as decompositions in the trials of tuning."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

MAX_SHARED = 8
"""Results that are kept; the one that was used first goes first."""

_Result = TypeVar("_Result")
_shared: ContextVar[dict[Hashable, Any] | None] = ContextVar("shared results", default=None)


@contextmanager
def share_results() -> Iterator[None]:
    """Keep the latest results of `share` for reuse within this context; a context inside another one adds nothing."""
    if _shared.get() is not None:
        yield
        return
    token = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(token)


def is_sharing() -> bool:
    """Return whether results are shared, so that a key is worth its cost."""
    return _shared.get() is not None


def share(key: Hashable, compute: Callable[[], _Result]) -> _Result:
    """Return a result, computed unless there is one of the same key in a context of `share_results`.

    Parameters
    ----------
    key : hashable
        It determines the result.
    compute : callable
        Function without arguments that returns the result. Nobody may change a shared result.

    Returns
    -------
    Any

    Examples
    --------
    >>> with share_results():
    ...     share("a", lambda: 1), share("a", lambda: 2)
    (1, 1)
    >>> share("a", lambda: 3)
    3
    """
    shared = _shared.get()
    if shared is None:
        return compute()
    result: _Result = shared.pop(key) if key in shared else compute()
    shared[key] = result  # at the end, as the one used last
    if len(shared) > MAX_SHARED:
        del shared[next(iter(shared))]
    return result
