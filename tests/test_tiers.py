"""Checks of the list of slow tests, and of how workers share files."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import ONE_WORKER
from tests.conftest import SLOW

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("test_id", SLOW)
def test_slow_tests_exist(test_id: str) -> None:
    path, _, function = test_id.partition("::")
    assert (ROOT / path).exists()
    assert not function or f"def {function}" in (ROOT / path).read_text()


@pytest.mark.parametrize("folder", ONE_WORKER)
def test_folders_of_one_worker_exist(folder: str) -> None:
    assert folder.endswith("/")
    assert (ROOT / folder).is_dir()


def test_files_with_slow_tests_come_first(request: pytest.FixtureRequest) -> None:
    items = request.session.items
    slow_files = {item.path for item in items if item.get_closest_marker("slow")}
    order = [item.path in slow_files for item in items]
    assert order == sorted(order, reverse=True)
