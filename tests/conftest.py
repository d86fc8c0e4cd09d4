"""What all tests share: where the real data is, and small interactions made by hypothesis."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from prorec._core.device import _has_gpu

# Without a GPU, kernels for it run in Triton's interpreter; it must know before it sees the first of them.
if not _has_gpu():
    os.environ["TRITON_INTERPRET"] = "1"

# The same examples every time: a red run must be one that anybody can repeat.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = os.environ.get("PROREC_DATA")
    for item in items:
        if marker := item.get_closest_marker("real_data"):
            (name,) = marker.args
            if not folder or not (Path(folder) / name).is_dir():
                item.add_marker(pytest.mark.skip(reason=f"{name} is not in $PROREC_DATA"))


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any data set: returns its empty cache folder."""
    monkeypatch.delenv("PROREC_DATA", raising=False)
    monkeypatch.setenv("PROREC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
