"""`--noise-method cross-fit` of `prorec train` and `prorec denoise`; `prorec score`."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import prorec
from tests.cli.shell import COMMAND, run, run_anew


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
    assert done.returncode == 3
    assert "--noise-method cross-fit" in done.stderr
    plain = run("train", str(folder / "week.csv"), "--model", "svd", "-p", "rank=4", "--out", str(folder / "svd"))
    assert plain.returncode == 0, plain.stderr
    done = run("score", str(folder / "svd"), later, "--out", "-")
    assert done.returncode == 3
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


def test_a_stream_is_scored_line_by_line(folder: Path) -> None:
    """Each line is answered before the next one is sent."""
    words = [COMMAND, "score", str(folder / "model"), "-", "--out", "-"]
    week = prorec.read_interactions(folder / "week.csv")
    users, items = week.users, week.items
    sent = [f"{users[0]};{items[3]}", f"{users[1]};{items[5]}", f"stranger;{items[2]}", f"{users[0]};no such item"]
    answers = []
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(words, text=True, **pipes) as run_:
        assert run_.stdin is not None
        assert run_.stdout is not None
        assert run_.stderr is not None
        for line in ["user;item", *sent]:
            run_.stdin.write(line + "\n")
            run_.stdin.flush()
            answers.append(run_.stdout.readline().rstrip("\n"))
        run_.stdin.write("only one column\n")
        run_.stdin.close()
        assert run_.stdout.read() == ""
        errors = run_.stderr.read()
    assert run_.returncode == 0, errors
    assert answers[0] == "user;item;noise_probability;basis"
    assert [answer.rpartition(";")[0].rpartition(";")[0] for answer in answers[1:]] == sent
    bases = [answer.rpartition(";")[2] for answer in answers[1:]]
    assert bases[2:] == ["popularity", "unknown item"]
    assert set(bases[:2]) <= {"models", "seen"}
    assert "line 6 is left out: a row must have 2 columns" in errors
    assert "4 rows scored" in errors


def test_a_stream_and_a_file_agree_about_known_users(folder: Path) -> None:
    later = (folder / "later.csv").read_bytes()
    streamed = run_anew("score", str(folder / "model"), "-", "--out", "-", "--json", stdin=later)
    assert streamed.returncode == 0, streamed.stderr
    filed = run("score", str(folder / "model"), str(folder / "later.csv"), "--out", "-", "--quiet")
    rows = [list(csv.DictReader(io.StringIO(done.stdout))) for done in (streamed, filed)]
    assert [row["basis"] for row in rows[0]] == [row["basis"] for row in rows[1]]
    values = [[float(row["noise_probability"] or -1) for row in each] for each in rows]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-5)
    summary = json.loads(streamed.stderr)
    assert (summary["rows"], summary["rows_skipped"]) == (len(rows[0]), 0)
    refused = run_anew("score", str(folder / "model"), "-", "--out", "-", stdin=b"user,item\n1\n")
    assert (refused.returncode, "none of the 1 rows can be used" in refused.stderr) == (3, True)
    assert run_anew("score", str(folder / "model"), "-", "--out", "-", stdin=b"").returncode == 3


def test_ids_of_another_type_are_those_of_the_model(folder: Path) -> None:
    """One id that is no number makes all ids of a file text."""
    week = prorec.read_interactions(folder / "week.csv")
    known = f"{week.users[0]},{week.items[3]}\n"
    (folder / "numbers.csv").write_text(f"user,item\n{known}")
    (folder / "texts.csv").write_text(f"user,item\n{known}ann,{week.items[3]}\n{week.users[0]},tea\n")
    answers = {}
    for name in ("numbers", "texts"):
        done = run("score", str(folder / "model"), str(folder / f"{name}.csv"), "--out", "-", "--quiet")
        assert done.returncode == 0, done.stderr
        answers[name] = done.stdout.splitlines()
    assert answers["texts"][1] == answers["numbers"][1]
    assert [line.rpartition(",")[2] for line in answers["texts"][2:]] == ["popularity", "unknown item"]
    done = run("recommend", str(folder / "model"), "-k", "1", "-u", str(week.users[0]), "-u", "ann", "--json")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2
    assert "the model does not know this user" in done.stderr
    assert json.loads(done.stderr.splitlines()[-1])["unknown_users"] == ["ann"]
