"""`python -m reproduction`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from prorec import InputError
from prorec.models import NCE
from reproduction.__main__ import main
from reproduction.paper_results import select_models

Run = Callable[..., tuple[int, str, str]]
SMALL = ("overall", "--dataset", "cinema", "--models", "SVD", "--trials", "1", "--seeds", "1")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process; return its exit code, output and error output."""

    def run_command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["reproduction", *arguments])
        monkeypatch.setenv("COLUMNS", "160")
        with pytest.raises(SystemExit) as end:
            main()
        output = capsys.readouterr()
        return int(end.value.code or 0), output.out, output.err

    return run_command


def test_all_results_quickly(run: Run, tmp_path: Path, no_data: Path) -> None:
    code, printed, errors = run("all", "--quick", "--out", str(tmp_path / "out"))
    assert code == 0, errors
    page = (tmp_path / "out" / "results.md").read_text()
    assert page in printed
    assert "python -m reproduction all --quick --out results/" in page
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
def test_the_data_sets_are_those_of_the_paper(run: Run, tmp_path: Path) -> None:
    code, _, errors = run("datasets", "--out", str(tmp_path / "out"))
    assert code == 0, errors
    assert (tmp_path / "out" / "datasets.md").read_text().count("the same") == 3


def test_one_table(run: Run, tmp_path: Path, no_data: Path) -> None:
    code, printed, errors = run(*SMALL, "--out", str(tmp_path / "out"), "--quiet")
    assert code == 0, errors
    assert printed == ""
    assert "| SVD + ProRec |" in (tmp_path / "out" / "overall-cinema.md").read_text()


def test_times_at_a_fraction_of_yahoos_size(run: Run, tmp_path: Path, no_data: Path) -> None:
    arguments = ("yahoo-times", "--scale", "0.005", "--repeats", "1", "--out")
    code, printed, errors = run(*arguments, str(tmp_path / "out"))
    assert code == 0, errors
    assert "warn" not in errors.lower()
    page = (tmp_path / "out" / "yahoo-times-0.005.md").read_text()
    assert page in printed
    assert f"python -m reproduction {' '.join(arguments)} results/" in page, "the command that makes it"
    assert "9,744 users × 231 items, 244,088 interactions: synthetic, not Yahoo's data" in page
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["yahoo-times-0.005.md"]


def test_an_interrupted_run_continues(run: Run, tmp_path: Path, no_data: Path) -> None:
    out = tmp_path / "out"
    arguments = ("lambda", "--dataset", "cinema", "--seeds", "2", "--quiet", "--out", str(out))
    root = Path(__file__).parent.parent.parent
    with subprocess.Popen([sys.executable, "-m", "reproduction", *arguments], cwd=root, env=os.environ) as process:
        deadline = time.monotonic() + 120
        while len(list(out.glob("runs/*.json"))) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*.json")}
    assert len(before) >= 3
    assert not (out / "lambda-cinema.md").exists()
    code, _, errors = run(*arguments)
    assert code == 0, errors
    assert {path: path.stat().st_mtime_ns for path in before} == before
    code, _, errors = run(*arguments[:-1], str(tmp_path / "other"))
    assert code == 0, errors
    page = "lambda-cinema.md"
    assert (out / page).read_bytes() == (tmp_path / "other" / page).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("everything",), "everything"),
        ((*SMALL[:-1], "0"), "seeds must be"),
        ((*SMALL[:3], "--models", "nce"), "SVD, NCE, CDAE, WRMF, VAE; got nce"),
        (("overall", "--dataset", "nope"), "'nope'"),
        (("all", "--dataset", "amusic"), "--dataset"),
        (("all", "--quick", "--seeds", "3"), "--seeds"),
        (("noise", "--models", "NCE"), "--models"),
        (("overall", "--scale", "0.1"), "--scale"),
        (("yahoo-times", "--dataset", "amusic"), "--dataset"),
        (("yahoo-times", "--quick", "--scale", "0.1"), "--scale"),
        (("yahoo-times", "--scale", "0.001"), "0.005 to 10; got 0.001"),
        (("yahoo-times", "--repeats", "0"), "repeats must be"),
        (("noise-benchmark", "--kinds", "white"), "'white'"),
        (("noise-benchmark", "--levels", "2"), "levels must be from 0 to 1; got 2"),
        (("noise-benchmark", "--levels", "some"), "'some'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_bad_input_is_refused(
    run: Run, arguments: tuple[str, ...], problem: str, tmp_path: Path, no_data: Path
) -> None:
    code, _, errors = run(*arguments, "--out", str(tmp_path / "x"))
    assert code == 2, errors
    assert problem in errors
    assert "Traceback" not in errors
    assert "yahoo-times" not in arguments or not (tmp_path / "x").exists()


def test_an_output_that_cannot_be_written_is_refused(run: Run, tmp_path: Path) -> None:
    code, _, errors = run("overall", "--out", "/proc/x")
    assert code == 2
    assert "/proc" in errors
    (tmp_path / "file").write_text("")
    code, _, errors = run("datasets", "--out", str(tmp_path / "file"))
    assert code == 2
    assert "this is a file" in errors


def test_deep_models_are_refused_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert select_models(["NCE"]) == {"NCE": NCE(weight_meaning="value")}
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert select_models(["NCE"]) == {"NCE": NCE(weight_meaning="value")}
    with pytest.raises(InputError, match=r"VAE need PyTorch.*--models SVD,NCE,WRMF"):
        select_models(["NCE", "VAE"])
