"""Compiled functions, with a cache on the disk that may be missing, full, read-only or damaged."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_log = logging.getLogger(__name__)
_DIGEST_BYTES = hashlib.sha256().digest_size


def njit(*, cache: bool, **options: Any) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Compile a function when it is first called; as `numba.njit`, but a cache that fails is as good as none.

    Parameters
    ----------
    cache : bool
        Keep the compiled code on the disk, where there is a folder for it.
    **options
        Other options of `numba.njit`.

    Returns
    -------
    callable
        A decorator.
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        dispatcher: Any = numba.njit(**options)(function)
        if cache and hasattr(dispatcher, "_cache"):  # a plain function, if numba is switched off
            with suppress(RuntimeError):  # there is no folder that can be written
                dispatcher._cache = _Cache(function)
        return dispatcher  # type: ignore[no-any-return]

    return decorate


class _Cache(FunctionCache):
    """Numba's cache, without its exceptions."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _CheckedFile(
            cache_path=self._cache_path,
            filename_base=self._impl.filename_base,
            source_stamp=self._impl.locator.get_source_stamp(),
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code for a signature, or None to have it compiled."""
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # a damaged pickle may raise anything
            _log.info("the cache of %s cannot be read and is made again (%r)", self._name, error)
            with suppress(Exception):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the compiled code for a signature, if that is possible."""
        try:
            super().save_overload(sig, data)
        except Exception as error:
            _log.info("the cache of %s cannot be written (%r)", self._name, error)


class _CheckedFile(IndexDataCacheFile):
    """Numba's files with a digest at their end, because damaged code would run all the same."""

    def _save_data(self, name: str, data: Any) -> None:
        content = self._dump(data)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(content + hashlib.sha256(content).digest())

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        if hashlib.sha256(content[:-_DIGEST_BYTES]).digest() != content[-_DIGEST_BYTES:]:
            raise ValueError(f"{name} is damaged")
        return super()._load_data(name)  # which ignores what is behind the code
