"""The cache of compiled functions: damaged, missing or not writable, and the function still computes."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numba.core.caching import FunctionCache

_MODULE = """
from prorec._core.compilation import njit

@njit(cache=True, nogil=True)
def add(first, second):
    return first + second
"""


def load_add(folder: Path) -> Any:
    """Import the function anew, as another process would."""
    path = folder / "adding.py"
    if not path.exists():
        path.write_text(_MODULE)
    spec = importlib.util.spec_from_file_location("adding", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.add


def find_cache(folder: Path, suffix: str) -> Path:
    (path,) = (folder / "__pycache__").glob(f"*.{suffix}")
    return path


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [cut, flip, lambda path: path.write_bytes(b""), Path.unlink])
def test_a_damaged_cache_is_made_again(suffix: str, damage: Callable[[Path], Any], tmp_path: Path) -> None:
    assert load_add(tmp_path)(1, 2) == 3
    damage(find_cache(tmp_path, suffix))
    assert load_add(tmp_path)(1, 2) == 3
    again = load_add(tmp_path)
    assert again(1, 2) == 3
    assert sum(again.stats.cache_hits.values()) == 1, "what was compiled in place of the damaged code is used"


def test_no_folder_for_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(FunctionCache, "__init__", refuse)
    assert load_add(tmp_path)(1, 2) == 3


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    add = load_add(tmp_path)
    monkeypatch.setattr(FunctionCache, "_save_overload", refuse)
    assert add(1, 2) == 3
