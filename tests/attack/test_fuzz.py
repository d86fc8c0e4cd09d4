"""A few cases of each attack; `make attack` runs many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.cases import run_cases
from tests.attack.runner import ATTACKS

SMALL = {
    "logs": 150,
    "options": 60,
    "calls": 250,
    "model-folders": 100,
    "interrupts": 2,
    "races": 2,
    "full-disks": 2,
}
"""Number of cases of each attack that takes seconds; a case of `reproduction` takes half a minute."""


@pytest.mark.parametrize("name", SMALL)
def test_no_promise_is_broken(name: str, tmp_path: Path) -> None:
    outcomes = run_cases(ATTACKS[name], range(SMALL[name]), tmp_path)
    assert outcomes.failures == []
    assert outcomes.n_cases == SMALL[name]


def test_cases_of_every_kind_occur(tmp_path: Path) -> None:
    """Nothing is learned from logs or folders that are all refused."""
    for name, good in (("logs", "read, and written again"), ("model-folders", "used"), ("options", "exit 0")):
        counts = run_cases(ATTACKS[name], range(1000, 1060), tmp_path).counts
        assert len(counts) > 1
        assert counts[good] >= 4
