"""`prorec demo`, `prorec datasets`, exit codes and `--debug`."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

import prorec
from prorec.cli.demo import demo_denoiser
from tests.cli.shell import Started, run, run_anew

_NUMBERS_AND_WORDS = re.compile(r"[A-Za-z0-9.,%]+")


def test_demo_prints_its_findings_and_writes_a_report(no_data: Path, tmp_path: Path) -> None:
    done = run("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1,000 users, 800 films" in done.stdout
    assert "mistake" in done.stdout
    club = prorec.make_cinema()
    denoiser = demo_denoiser().fit(club.interactions)
    found = int((denoiser.flagged_ & club.is_mistake).sum())
    assert found > 100
    assert f"{found:,}" in done.stdout, "how much of the planted noise was found"
    assert 1 - club.is_mistake[denoiser.flagged_].mean() < denoiser.fdr
    auroc = prorec.detection_metrics(denoiser.noise_probability_, club.is_mistake)["auroc"]
    words = " ".join(done.stdout.replace("│", " ").split())
    assert f"{auroc:.0%} of all cases (AUROC)" in words
    assert f"estimates the noise rate at {denoiser.finder_.noise_rate_}" in words
    parts = prorec.split_by_user(club.interactions, (0.7, 0.3))
    test = parts.test.select(parts.test.columns["origin"] != 2)
    scored = prorec.evaluate(demo_denoiser().fit(parts.train), test, k=10)
    assert f"{scored.mean['ndcg@10']:.4f}" in done.stdout, "and what recommendation gained"
    assert "nan" not in done.stdout
    assert done.stdout.rstrip().endswith("The report is in prorec-demo.html. Open it in a browser.")
    report = tmp_path / "prorec-demo.html"
    assert f"flagged clicks</th><td>{int(denoiser.flagged_.sum()):,}</td>" in report.read_text()
    assert report.stat().st_size < 5e6
    plain = {"PYTHONIOENCODING": "ascii"}
    again = run_anew("demo", "--report", "other.html", cwd=tmp_path, environment=plain)
    assert again.returncode == 0, "a plain terminal gets question marks, not a crash"
    assert again.stdout.isascii()
    assert (tmp_path / "other.html").exists()
    expected = done.stdout.replace("prorec-demo.html", "other.html")
    assert _NUMBERS_AND_WORDS.findall(again.stdout) == _NUMBERS_AND_WORDS.findall(expected), "the same every time"


def test_another_seed_of_the_demo_is_another_club(tmp_path: Path) -> None:
    """The club is described first, so the rest need not run."""
    with Started("demo", "--seed", "1", cwd=tmp_path) as process:
        while " clicks" not in process.output("stdout") and process.poll() is None:
            time.sleep(0.01)
        process.kill(signal.SIGKILL)
        printed = process.output("stdout")
    assert f"{len(prorec.make_cinema(seed=1).interactions):,} clicks" in printed
    assert f"{len(prorec.make_cinema(seed=0).interactions):,} clicks" not in printed


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
    cases: list[tuple[tuple[str, ...], int, str]] = [
        (("datasets", "get", "nope"), 2, "'nope'"),
        (("datasets", "get", "yahoo-r1"), 1, "sign up first"),
        (("nonsense",), 2, "No such command"),
        (("demo", "--seed", "-1"), 2, "seed must be a whole number of at least 0; got -1"),
        (("demo", "--report", "nowhere/report.html"), 2, "the folder nowhere does not exist"),
    ]
    for words, code, message in cases:
        done = run(*words)
        assert done.returncode == code
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    for debugged in (("--debug", "datasets", "get", "nope"), ("datasets", "get", "nope", "--debug")):
        assert "Traceback" in run(*debugged).stderr
    installed = run_anew("datasets", "get", "nope")
    assert (installed.returncode, installed.stderr) == (2, run("datasets", "get", "nope").stderr)
    assert run_anew("--version").stdout == f"prorec {prorec.__version__}\n"
