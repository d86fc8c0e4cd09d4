"""`--noise-method cross-fit` of `prorec train` and `prorec denoise`; `prorec score`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import prorec
from tests.cli.shell import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A week's clicks, a model of them that can score, and one that can't."""
    folder = tmp_path_factory.mktemp("weekly")
    parts = prorec.split_by_user(prorec.make_cinema(200, 150, seed=3).interactions, (0.8, 0.2), seed=0)
    for name, part in (("week", parts.train), ("later", parts.test)):
        prorec.write_interactions(part, folder / f"{name}.csv")
    for name, noise in (("model", "cross-fit"), ("plan", "plan")):
        done = run(
            "train",
            str(folder / "week.csv"),
            "--denoise",
            "--noise-method",
            noise,
            "-p",
            "rank=8",
            "--out",
            str(folder / name),
        )
        assert done.returncode == 0, done.stderr
    return folder


def test_score_later_clicks(folder: Path) -> None:
    out = folder / "scored.parquet"
    done = run("score", str(folder / "model"), str(folder / "later.csv"), "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "rows scored:" in done.stdout
    table = pq.read_table(out)
    later = prorec.read_interactions(folder / "later.csv")
    assert table.column_names[-2:] == ["noise_probability", "basis"]
    assert table.num_rows == len(later)
    model = prorec.load(folder / "model")
    assert isinstance(model, prorec.ProRec)
    expected = model.score(later).sort_by([("user", "ascending"), ("item", "ascending")])
    got = table.sort_by([("user", "ascending"), ("item", "ascending")])
    np.testing.assert_array_equal(got["noise_probability"].to_numpy(), expected["noise_probability"].to_numpy())


def test_score_unknown_users_and_items(folder: Path) -> None:
    first, second = prorec.read_interactions(folder / "week.csv").items[:2]
    (folder / "new.csv").write_text(f"who,item\n999999,{first}\n999999,{second}\n888888,{first}\n1,777777\n")
    done = run("score", str(folder / "model"), str(folder / "new.csv"), "--user-col", "who", "--out", "-", "--json")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "who,item,noise_probability,basis"
    assert [line.rpartition(",")[2] for line in lines[1:]] == ["models", "models", "popularity", "unknown item"]
    assert lines[4] == "1,777777,,unknown item", "an empty cell, not a number that is none"
    summary = json.loads(done.stderr)
    assert summary["basis"] == {"models": 2, "popularity": 1, "unknown item": 1}


def test_models_that_cannot_score_are_refused(folder: Path) -> None:
    later = str(folder / "later.csv")
    done = run("score", str(folder / "plan"), later, "--out", "-")
    assert done.returncode == 2
    assert "--noise-method cross-fit" in done.stderr
    plain = run("train", str(folder / "week.csv"), "--model", "svd", "-p", "rank=4", "--out", str(folder / "svd"))
    assert plain.returncode == 0, plain.stderr
    done = run("score", str(folder / "svd"), later, "--out", "-")
    assert done.returncode == 2
    assert "SVD" in done.stderr
    done = run("score", str(folder / "model"), later, "--out", str(folder / "week.csv"))
    assert done.returncode == 2
    assert "--force" in done.stderr
    done = run("train", later, "--noise-method", "cross-fit", "--out", str(folder / "x"))
    assert done.returncode == 2
    assert "--noise-method has no effect without --denoise" in done.stderr


def test_denoise_with_cross_fitted_probabilities(folder: Path) -> None:
    out = folder / "cleaned.csv"
    week = str(folder / "week.csv")
    done = run("denoise", week, "--noise-method", "cross-fit", "--fdr", "0.5", "-p", "rank=8", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "noise rate is estimated at" in done.stdout
    assert "not calibrated" not in done.stdout
    table = pacsv.read_csv(out)
    expected = prorec.NoiseFinder().fit(prorec.read_interactions(week))
    np.testing.assert_allclose(
        np.sort(table["noise_probability"].to_numpy()), np.sort(expected.noise_probability_), atol=1e-6
    )
    assert table["flagged"].to_numpy(zero_copy_only=False).sum() == expected.flag(fdr=0.5).sum()
    for words in (["--fdr", "0"], ["--fdr", "1.5"], ["--noise-method", "guess"]):
        done = run("denoise", week, *words, "--out", str(folder / "no.csv"))
        assert done.returncode == 2
        assert words[0].lstrip("-") in done.stderr
        assert "Traceback" not in done.stderr
