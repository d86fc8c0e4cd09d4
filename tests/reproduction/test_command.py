"""`prorec reproduce`."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

from prorec import InputError
from prorec.models import NCE
from reproduction.paper_results import checked_models
from tests.cli.shell import Started, run

SMALL = ("reproduce", "overall", "--dataset", "cinema", "--models", "SVD", "--trials", "1", "--seeds", "1")


def test_everything_quickly(tmp_path: Path, no_data: Path) -> None:
    done = run("reproduce", "all", "--quick", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "results.md").read_text()
    assert page in done.stdout
    for part in ("Table 1", "Figure 2a", "Table 2", "Table 3", "Figure 2b", "Figure 2c", "β", "ζ", "Figure 3"):
        assert f"## {part}" in page
    for row in ("CDAE + T-CE", "CDAE + R-CE", *(f"{name} + ProRec" for name in ("SVD", "NCE", "CDAE", "WRMF", "VAE"))):
        assert f"| {row} |" in page
    assert "nan" not in page.lower()
    figures = re.findall(r"\(figures/(\S+\.svg)\)", page)
    assert len(figures) == 6
    for name in figures:
        assert (tmp_path / "out" / "figures" / name).read_text().startswith("<?xml")


@pytest.mark.real_data("atoy")
def test_the_data_sets_are_those_of_the_paper(tmp_path: Path) -> None:
    done = run("reproduce", "datasets", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "datasets.md").read_text().count("the same") == 3


def test_one_table(tmp_path: Path, no_data: Path) -> None:
    done = run(*SMALL, "--out", str(tmp_path / "out"), "--quiet")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "| SVD + ProRec |" in (tmp_path / "out" / "overall-cinema.md").read_text()


def test_times_at_the_size_of_yahoo_in_small(tmp_path: Path, no_data: Path) -> None:
    words = ("reproduce", "yahoo-times", "--scale", "0.005", "--repeats", "1", "--out")
    done = run(*words, str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr.lower()
    page = (tmp_path / "out" / "yahoo-times-0.005.md").read_text()
    assert page in done.stdout
    assert f"prorec {' '.join(words)} results/" in page, "the command that makes it"
    assert "9,744 users × 231 items, 244,088 interactions: made up, not Yahoo's data" in page
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["yahoo-times-0.005.md"]


def test_a_killed_run_goes_on(tmp_path: Path, no_data: Path) -> None:
    out = tmp_path / "out"
    words = ("reproduce", "lambda", "--dataset", "cinema", "--seeds", "2", "--quiet", "--out", str(out))
    with Started(*words) as process:
        deadline = time.monotonic() + 120
        while len(list(out.glob("runs/*.json"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill(signal.SIGKILL)
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*.json")}
    assert len(before) >= 3
    assert not (out / "lambda-cinema.md").exists()
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    whole = run(*words[:-1], str(tmp_path / "other"))
    assert whole.returncode == 0, whole.stderr
    page = "lambda-cinema.md"
    assert (out / page).read_bytes() == (tmp_path / "other" / page).read_bytes()


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (("reproduce", "everything"), "name must be one of 'datasets', 'noise', 'overall'"),
        ((*SMALL[:-1], "0"), "seeds must be a whole number of at least 1"),
        ((*SMALL[:4], "--models", "nce"), "models must be among SVD, NCE, CDAE, WRMF, VAE; got nce"),
        (("reproduce", "overall", "--dataset", "nope"), "no data set is called 'nope'"),
        (("reproduce", "all", "--dataset", "amusic"), "all goes over the paper's data sets"),
        (("reproduce", "all", "--quick", "--seeds", "3"), "leave --dataset, --trials and --seeds out"),
        (("reproduce", "noise", "--models", "NCE"), "--models is for overall and all"),
        (("reproduce", "overall", "--scale", "0.1"), "--scale and --repeats are for yahoo-times; overall has neither"),
        (("reproduce", "all", "--repeats", "1"), "--scale and --repeats are for yahoo-times; all has neither"),
        (("reproduce", "yahoo-times", "--dataset", "amusic", "--seeds", "1"), "leave --dataset and --seeds out"),
        (("reproduce", "yahoo-times", "--quick", "--scale", "0.1"), "leave --scale and --repeats out"),
        (("reproduce", "yahoo-times", "--scale", "0.001"), "scale must be a finite number from 0.005 to 10; got 0.001"),
        (("reproduce", "yahoo-times", "--repeats", "0"), "repeats must be a whole number of at least 1; got 0"),
    ],
    ids=[
        *("name", "seeds", "models", "dataset", "all", "quick", "models of noise", "scale", "repeats"),
        *("data of its own", "quick and scale", "small scale", "no repeats"),
    ],
)
def test_what_is_refused(wrong: tuple[str, ...], problem: str, tmp_path: Path, no_data: Path) -> None:
    failed = run(*wrong, "--out", str(tmp_path / "x"))
    assert failed.returncode == 2, failed.stderr
    assert problem in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "yahoo-times" not in wrong or not (tmp_path / "x").exists()


def test_where_nothing_can_be_written(tmp_path: Path) -> None:
    assert "nothing can be written into /proc" in run("reproduce", "overall", "--out", "/proc/x").stderr
    (tmp_path / "file").write_text("")
    failed = run("reproduce", "datasets", "--out", str(tmp_path / "file"))
    assert failed.returncode == 2
    assert "this is a file; a folder was expected" in failed.stderr


def test_deep_models_are_refused_at_once_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checked_models(["NCE"]) == {"NCE": NCE()}
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert checked_models(["NCE"]) == {"NCE": NCE()}
    with pytest.raises(InputError, match=r"VAE need PyTorch.*--models SVD,NCE,WRMF"):
        checked_models(["NCE", "VAE"])
