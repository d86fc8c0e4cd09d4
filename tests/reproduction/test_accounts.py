"""`python -m reproduction accounts`, on a small log."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from prorec import make_cinema
from prorec.data.account_injection import ACCOUNT_KINDS
from reproduction import accounts
from reproduction.__main__ import app


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small = make_cinema(600, 500, mistake_rate=0.0, seed=1).interactions
    monkeypatch.setattr(accounts, "load_clean_dataset", lambda name: small)
    monkeypatch.setattr(accounts, "_FOLDS", 2)


def table(*arguments: str) -> list[list[str]]:
    result = CliRunner().invoke(app, ["accounts", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in result.stdout.splitlines()]


def test_auroc_of_each_kind_of_accounts() -> None:
    header, _, row = table("--datasets", "cinema", "--seeds", "1")
    assert header[2:] == list(ACCOUNT_KINDS)
    assert row[:2] == ["cinema", "0"]
    aurocs = dict(zip(header[2:], map(float, row[2:]), strict=True))
    assert min(aurocs["bots"], aurocs["tests"]) > 0.98
    assert all(0.9 < auroc <= 1 for auroc in aurocs.values()), aurocs


def test_noise_is_found_with_and_without_accounts() -> None:
    header, _, row = table("--datasets", "cinema", "--seeds", "1", "--finder")
    values = dict(zip(header, row, strict=True))
    aurocs = [float(values[f"AUROC, {kind}"]) for kind in ("none", "bots", "random-attack")]
    assert min(aurocs) > 0.8
    assert max(aurocs) - min(aurocs) < 0.02
    assert values["extreme accounts"].startswith("0, 6, ")


def test_unknown_data_sets_are_refused() -> None:
    result = CliRunner().invoke(app, ["accounts", "--datasets", "nonsense"])
    assert "datasets must be" in str(result.exception)
