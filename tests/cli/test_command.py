"""The command as a person runs it: a process of its own, its words and its exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

import prorec
from tests.cli.shell import run


def test_demo_ends_with_something_a_person_can_read(no_data: Path) -> None:
    done = run("demo")
    assert done.returncode == 0, done.stderr
    assert "1,000 users, 800 films" in done.stdout
    assert "mistake" in done.stdout
    result = prorec.split_by_user(prorec.load_dataset("cinema"), (0.5, 0.2, 0.3))
    scored = prorec.evaluate(prorec.models.Popularity().fit(result.train_and_valid), result.test, k=10)
    assert f"{scored.mean['ndcg@10']:.4f}" in done.stdout
    assert "nan" not in done.stdout
    assert run("demo").stdout == done.stdout, "the same every time"
    assert run("demo", "--seed", "1").stdout != done.stdout
    assert run("demo", environment={"PYTHONIOENCODING": "ascii"}).returncode == 0


def test_datasets_list(no_data: Path) -> None:
    done = run("datasets", "list")
    assert done.returncode == 0
    for name in ("ml-100k", "ml-1m", "amusic", "atoy", "gowalla", "yahoo-r1", "cinema"):
        assert name in done.stdout
    lines = {line.split()[0]: line.split()[-1] for line in done.stdout.splitlines() if line and line[0] != " "}
    assert lines["cinema"] == "made"
    assert lines["yahoo-r1"] == "no"


@pytest.mark.real_data("amusic")
def test_datasets_get() -> None:
    assert run("datasets", "list").stdout.split("amusic")[1].split("\n")[0].rstrip().endswith("yes")
    done = run("datasets", "get", "amusic")
    assert done.returncode == 0
    assert "1,776 users × 12,929 items, 46,087 interactions" in done.stdout
    assert "please cite" in done.stdout


def test_exit_codes_and_no_tracebacks(no_data: Path) -> None:
    for words, code, message in (
        (("datasets", "get", "nope"), 2, "prorec: no data set is called 'nope'"),
        (("datasets", "get", "yahoo-r1"), 1, "sign up first"),
        (("nonsense",), 2, "No such command"),
        (("demo", "--seed", "-1"), 2, "seed must be a whole number of at least 0; got -1"),
    ):
        done = run(*words)
        assert done.returncode == code
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    for words in (("--debug", "datasets", "get", "nope"), ("datasets", "get", "nope", "--debug")):
        assert "Traceback" in run(*words).stderr
    assert run("--version").stdout == f"prorec {prorec.__version__}\n"
