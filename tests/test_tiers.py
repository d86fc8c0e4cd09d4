"""Checks of the list of slow tests: each entry names a test that exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import SLOW

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("test_id", SLOW)
def test_slow_tests_exist(test_id: str) -> None:
    path, _, function = test_id.partition("::")
    assert (ROOT / path).exists()
    assert not function or f"def {function}" in (ROOT / path).read_text()
