"""`prorec train`, `recommend` and `evaluate`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import prorec
from prorec.models import WRMF
from tests.cli.shell import run


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "clicks.csv"
    club = prorec.make_cinema(200, 150, seed=3).interactions
    prorec.write_interactions(club, path)
    return path


@pytest.fixture(scope="module")
def folder(clicks: Path) -> Path:
    out = clicks.parent / "model"
    done = run("train", str(clicks), "--model", "wrmf", "--denoise", "--out", str(out), "-p", "rank=8")
    assert done.returncode == 0, done.stderr
    assert "WRMF trained on" in done.stdout
    assert "the column 'weight'" in done.stdout
    return out


def test_train_and_recommend(clicks: Path, folder: Path, tmp_path: Path) -> None:
    log = prorec.read_interactions(clicks)
    expected = prorec.ProRec(WRMF(rank=8)).fit(log).recommend(log.users, k=4).to_table()
    done = run("recommend", str(folder), "-k", "4", "--out", str(tmp_path / "recs.parquet"))
    assert done.returncode == 0, done.stderr
    assert f"{4 * log.n_users:,} recommendations for {log.n_users:,} users" in done.stdout
    got = pq.read_table(tmp_path / "recs.parquet")
    assert got.column_names == ["user", "rank", "item", "score"]
    assert got.select(["user", "rank", "item"]).equals(expected.select(["user", "rank", "item"]))
    np.testing.assert_allclose(got["score"].to_numpy(), expected["score"].to_numpy(), rtol=1e-4)
    some = run("recommend", str(folder), "-k", "2", "-u", "3", "-u", "7").stdout
    assert [line.split(",")[0] for line in some.splitlines()] == ["user", "3", "3", "7", "7"]


def test_train_without_denoising(clicks: Path, tmp_path: Path) -> None:
    done = run("train", str(clicks), "--out", str(tmp_path / "plain"), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["interactions"] == len(prorec.read_interactions(clicks))
    model = prorec.load(tmp_path / "plain")
    assert type(model).__name__ == "NCE"
    assert model.rank == model.interactions_.n_items // 4, "at most"  # type: ignore[attr-defined]


def test_bad_input_of_train_and_recommend(clicks: Path, folder: Path, tmp_path: Path) -> None:
    before = (folder / "model.json").read_text()
    for words, problem in (
        (("train", str(clicks), "--out", str(folder)), "this folder is not empty; pass --force"),
        (("train", str(clicks), "--out", str(clicks)), "this is a file; a folder was expected"),
        (("train", str(clicks), "--out", "/proc/model"), "the folder /proc is not writable"),
        (("train", str(clicks), "--out", str(tmp_path / "m"), "--model", "wmrf"), "did you mean 'wrmf'?"),
        (("train", str(tmp_path / "none.csv"), "--out", str(tmp_path / "m")), "there is no such file"),
        (("recommend", str(tmp_path)), "model.json is missing"),
        (("recommend", str(clicks)), "a model is a folder, and this is a file"),
        (("recommend", str(folder), "-k", "0"), "k must be a whole number from 1 to the number of items"),
        (("recommend", str(folder), "-u", "999"), "--user must be a user of the model; got 999"),
        (("recommend", str(folder), "-u", "ann", "-u", "--5"), "--user must be a user of the model; got ann, --5"),
        (("recommend", str(folder), "--out", str(clicks)), "this file exists already"),
        (("train", str(clicks), "--out", str(tmp_path / "m"), "--denoise", "--gamma", "x"), "gamma must be"),
        (
            ("train", str(clicks), "--out", str(tmp_path / "m"), "--gamma", "1"),
            "--gamma has no effect without --denoise",
        ),
        (("train", str(clicks), "--out", str(tmp_path / "m"), "-p", "rank={[]:1}"), "rank must be a whole number"),
    ):
        done = run(*words)
        is_about_data = problem in (
            "there is no such file",
            "model.json is missing",
            "a model is a folder, and this is a file",
        )
        assert done.returncode == (3 if is_about_data else 2), words
        assert problem in done.stderr
        assert "Traceback" not in done.stderr
    assert (folder / "model.json").read_text() == before
    assert not (tmp_path / "m").exists()


def test_evaluate(clicks: Path) -> None:
    words = ("evaluate", str(clicks), "--models", "popularity,nce,nce+prorec", "--seeds", "2", "-p", "nce.rank=8")
    done = run(*words, "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["models"]
    assert [row["model"] for row in rows] == ["popularity", "nce", "nce+prorec"]
    log = prorec.read_interactions(clicks)
    values = []
    for seed in range(2):
        parts = prorec.split_by_user(log, (0.7, 0.3), seed=seed)
        model = prorec.ProRec(prorec.models.NCE(rank=8)).fit(parts.train)
        values.append(prorec.evaluate(model, parts.test, k=10).mean["ndcg@10"])
    assert rows[2]["mean"]["ndcg@10"] == pytest.approx(np.mean(values), rel=1e-6)
    change = rows[2]["difference"]["ndcg@10"]
    assert change["absolute"] == pytest.approx(rows[2]["mean"]["ndcg@10"] - rows[1]["mean"]["ndcg@10"]), "with its own"
    assert change["low"] < change["absolute"] < change["high"]
    own = rows[1]["difference"]["ndcg@10"]["absolute"]
    assert own == pytest.approx(rows[1]["mean"]["ndcg@10"] - rows[0]["mean"]["ndcg@10"]), "with the first"
    shown = run(*words).stdout
    assert f"{rows[2]['mean']['ndcg@10']:.4f}" in shown
    assert "2 random splits" in shown


def test_the_control_has_equal_weights(clicks: Path) -> None:
    done = run("evaluate", str(clicks), "--models", "nce,nce+scaled,nce+prorec", "--seeds", "1", "--json", "--quiet")
    nce, control, ours = json.loads(done.stdout)["models"]
    parts = prorec.split_by_user(prorec.read_interactions(clicks), (0.7, 0.3), seed=0)
    model = prorec.models.NCE(rank=parts.train.n_items // 4)
    mean = prorec.ProRec(model).fit(parts.train).weights_.data.mean()
    # NCE's own gain of smaller weights: a penalty of ζ·c³ for weights of c leaves the model as it is.
    neutral = replace(model, regularization=model.regularization * float(mean) ** 3)
    scaled = neutral.fit(parts.train.with_weights(np.full(len(parts.train), mean)))
    assert control["mean"]["ndcg@10"] == pytest.approx(prorec.evaluate(scaled, parts.test, k=10).mean["ndcg@10"])
    assert control["mean"]["ndcg@10"] == pytest.approx(nce["mean"]["ndcg@10"]), "equal weights change nothing"
    assert ours["mean"]["ndcg@10"] != pytest.approx(nce["mean"]["ndcg@10"])


def test_evaluate_warns_of_a_denoised_log(clicks: Path, tmp_path: Path) -> None:
    run("denoise", str(clicks), "-o", str(tmp_path / "cleaned.csv"))
    done = run("evaluate", str(tmp_path / "cleaned.csv"), "--models", "popularity", "--seeds", "1")
    assert "this log has been denoised" in done.stderr
    assert "popularity" in done.stdout


def test_a_baseline_of_zero(tmp_path: Path) -> None:
    pairs = [f"{user},{4 * user + item}" for user in range(6) for item in range(4)]
    (tmp_path / "apart.csv").write_text("\n".join(["user,item", *pairs]))
    done = run("evaluate", str(tmp_path / "apart.csv"), "--models", "popularity,ease", "--seeds", "1", "-k", "1")
    assert done.returncode == 0, done.stderr
    assert "ease" in done.stdout
    assert " +0." in done.stdout, "there is nothing to be relative to"


def test_bad_input_of_evaluate(clicks: Path) -> None:
    for words, problem in (
        (("--models", "nce,nec"), "there is no model called 'nec'; did you mean 'nce'?"),
        (("--models", "nce+magic"), "got 'nce+magic'"),
        (("-p", "rank=5"), "such as -p nce.rank=5"),
        (("-p", "wrmf.rank=5"), "--param is for wrmf"),
        (("--seeds", "0"), "seeds must be a whole number of at least 1"),
        (("-k", "100000"), "k must be a whole number from 1 to the number of items"),
        (("--models", "nce,NCE"), "got 'nce' twice"),
        (("--lam", "2"), "lam must be a finite number from 0 to 1; got 2.0"),
        (("--metrics", "own"), "metrics must be 'standard' or 'paper'"),
    ):
        done = run("evaluate", str(clicks), *words)
        assert done.returncode == 2, (words, done.stderr)
        assert problem in done.stderr


def test_datasets_get_writes_a_file(tmp_path: Path, no_data: Path) -> None:
    out = tmp_path / "clicks.csv"
    assert run("datasets", "get", "cinema", "--out", str(out)).returncode == 0
    assert pacsv.read_csv(out).num_rows == len(prorec.load_dataset("cinema"))
    done = run("datasets", "get", "cinema", "--out", str(out))
    assert done.returncode == 2
    assert "exists already" in done.stderr


def test_bursts_are_found_by_every_command(tmp_path: Path) -> None:
    club = prorec.make_cinema(150, 100, seed=6).interactions
    frame = club.to_table("pandas")[["user", "item", "timestamp"]]
    frame.loc[frame["user"] == frame["user"].mode()[0], "timestamp"] = frame["timestamp"].max()
    frame.to_csv(tmp_path / "log.csv", index=False)
    expected = prorec.NoiseFinder().fit(frame)
    assert expected.issues_.user_scores["burst"].any()
    for more in ((), ("--timestamp-col", "none")):
        out = tmp_path / f"model{len(more)}"
        done = run("train", str(tmp_path / "log.csv"), "--denoise", "--out", str(out), *more)
        assert done.returncode == 0, done.stderr
        finder = prorec.load(out).finder_  # type: ignore[attr-defined]
        scores = finder.issues_.user_scores["burst"]
        if more:
            assert not scores.any()
        else:
            np.testing.assert_array_equal(scores, expected.issues_.user_scores["burst"])
            np.testing.assert_array_equal(finder.noise_probability_, expected.noise_probability_)
    for words, problem in (
        (("evaluate", str(tmp_path / "log.csv"), "--timestamp-col", "nope"), "no column is called 'nope'"),
        (("train", str(tmp_path / "log.csv"), "--out", "m", "--timestamp-col", "2"), "no effect without --denoise"),
    ):
        refused = run(*words)
        assert refused.returncode == (3 if words[0] == "evaluate" else 2)
        assert problem in refused.stderr
