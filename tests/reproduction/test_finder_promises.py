"""The experiment on what the noise finder promises, in small, and its tables by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import prorec
from prorec import InputError
from reproduction import finder_promises
from reproduction.finder_promises import Run, make_tables, measure


@pytest.fixture
def small_cinema(monkeypatch: pytest.MonkeyPatch) -> None:
    club = prorec.make_cinema(200, 120, seed=1)
    clicks = club.interactions.select(~club.is_mistake)
    monkeypatch.setattr(finder_promises, "load_log", lambda _: clicks)


@pytest.mark.usefixtures("small_cinema")
def test_finished_runs_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finder_promises.main("cinema", "uniform", "0,0.2", 1, out=tmp_path)
    tables = capsys.readouterr().out
    row = json.loads((tmp_path / "noise-promises-cinema-uniform-0.2-0.json").read_text())
    assert row["true"] == pytest.approx(1 / 6, abs=0.01)
    assert row["auroc"]["NoiseFinder"] > 0.7
    assert abs(row["other_estimates"]["BBE"] - row["true"]) < 0.15
    monkeypatch.setattr(finder_promises, "measure", None)
    finder_promises.main("cinema", "uniform", "0,0.2", 1, out=tmp_path)
    assert capsys.readouterr().out == tables
    with pytest.raises(InputError, match="logs must be data sets"):
        finder_promises.main("moon", out=tmp_path)


@pytest.mark.usefixtures("small_cinema")
def test_short_histories_are_compared_by_ndcg_too() -> None:
    row = measure(Run("cinema-cut", "none", 0.0, 0))
    assert not row["is_identified"]
    assert row["ndcg@10 weighted"] == row["ndcg@10 plain"]
    assert "auroc" not in row


def make_row(seed: int, estimate: float, wrong: float | None) -> dict[str, Any]:
    scores = {"NoiseFinder": 0.9, "popularity": 0.6 + 0.2 * seed, "out-of-fold rank": 0.65}
    flags = {f"flagged at {fdr:g}": 0.1 for fdr in finder_promises.FDRS}
    return (
        {"log": "shop", "kind": "uniform", "level": 0.1, "seed": seed, "true": 0.1, "estimate": estimate}
        | {"low": estimate - 0.03, "high": estimate + 0.03, "is_identified": True, "calibration_error": 0.02}
        | {"mean_probability": estimate, "auroc": scores, "ap": scores, "genuine kept": 0.5, "noise kept": 0.01}
        | {"other_estimates": {"Storey": 0.2, "BBE": 0.1, "DEDPUL": 0.0}}
        | flags
        | {f"wrong at {fdr:g}": wrong for fdr in finder_promises.FDRS}
    )


def test_tables_by_hand() -> None:
    tables = make_tables([make_row(0, 0.12, 0.1), make_row(1, 0.06, None)])
    assert "| shop | uniform 10% | 0.900 / 0.900 | 0.700 (popularity) | 0.700 (popularity) |" in tables
    assert "| shop | uniform 10% | 0.100 | 0.090 | 0.030 | 1 of 2 | 2 of 2 | 0.020 |" in tables
    assert "| shop | uniform 10% | 0.030 | 0.100 | 0.000 | 0.100 |" in tables
    assert "| shop | uniform 10% | 10.0%, 0.10 | 10.0%, 0.10 | 10.0%, 0.10 | 50%, 0.010 | – |" in tables
