"""Progress of long work: one callback type, for every function that takes `progress`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prorec._core.errors import InputError

Progress = Callable[[str, int, int], object]
"""A function of the task's name, the number of steps done, and the number of steps in all."""


def check_progress(progress: Any) -> None:
    """Refuse what cannot be called, before the first block rather than after it."""
    if progress is not None and not callable(progress):
        raise InputError(f"progress must be a function; got {type(progress).__name__}")
