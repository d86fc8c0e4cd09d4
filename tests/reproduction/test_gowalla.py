"""`python -m reproduction gowalla`, on a small log with files of the same form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import prorec
from prorec import InputError
from prorec.models import BPR, LightGCN, SparseLinear
from reproduction import gowalla
from reproduction.__main__ import app


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clicks = prorec.make_cinema(80, 60, seed=1).interactions
    held_out = np.random.default_rng(0).random(len(clicks)) < 0.2
    parts = clicks.select(held_out)
    lines = [
        " ".join(map(str, [user, *clicks.items[parts.matrix[[row]].indices].tolist()]))
        for row, user in enumerate(clicks.users.tolist())
    ]
    (tmp_path / "test.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(prorec, "load_dataset", lambda name: clicks)
    monkeypatch.setattr(gowalla, "fetch_files", lambda entry: tmp_path)
    small = {"BPR": (BPR(4, epochs=2),), "SparseLinear": (SparseLinear(5),), "LightGCN": (LightGCN(4, epochs=1),)}
    monkeypatch.setattr(gowalla, "MODELS", small)


def test_the_test_part_is_the_files() -> None:
    train, test = gowalla.load_split()
    clicks = prorec.load_dataset("gowalla")
    held_out = np.random.default_rng(0).random(len(clicks)) < 0.2
    np.testing.assert_array_equal(test.matrix.toarray(), clicks.select(held_out).matrix.toarray())
    np.testing.assert_array_equal(train.matrix.toarray(), clicks.select(~held_out).matrix.toarray())


def test_a_row_for_each_model() -> None:
    arguments = ["gowalla", "--models", "BPR,SparseLinear,LightGCN", "--device", "cpu"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [row[0].partition("(")[0] for row in rows] == ["BPR", "SparseLinear", "LightGCN"]
    assert all(0 < float(value) < 1 for row in rows for value in row[-6:-4])


def test_unknown_models_are_refused() -> None:
    result = CliRunner().invoke(app, ["gowalla", "--models", "Oracle"])
    assert isinstance(result.exception, InputError)
    assert "models must be one of 'BPR'" in str(result.exception)
