"""Values and paths of any length: one short message, and the exit code of a refusal."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array

import prorec
from prorec.cli import main
from prorec.cli.exit_codes import ExitCode

LONG = "x" * 100_000
NUL = "a\0b"


@pytest.mark.parametrize(
    "words",
    [
        (LONG,),
        ("denoise", LONG, "-o", "out.csv"),
        ("denoise", "log.csv", "-o", LONG),
        ("denoise", "log.csv", "-o", f"{LONG}.csv", "--resume"),
        ("denoise", "log.csv", "-o", "out.csv", LONG),
        ("denoise", "log.csv", "-o", "out.csv", f"--{LONG}"),
        ("denoise", "log.csv", "-o", "out.csv", "--fdr", LONG),
        ("denoise", "log.csv", "-o", "out.csv", "--rounds", "9" * 10_000),
        ("denoise", "log.csv", "-o", "out.csv", "--user-col", LONG),
        ("denoise", "log.csv", "-o", "out.csv", "--no-header", "--user-col", "9" * 5_000),
        ("denoise", "log.csv", "-o", "out.csv", "--config", LONG),
        ("denoise", "log.csv", "-o", "out.csv", "-p", f"{LONG}=1"),
        ("report", "log.csv", "-o", f"{LONG}.html"),
        ("report", "log.csv", "-o", "out.html", "--compare", LONG),
        ("train", "log.csv", "-o", LONG),
        ("recommend", LONG),
        ("audit", "read", LONG, "log.csv", f"--{LONG}"),
        ("datasets", "get", LONG),
        ("denoise", NUL, "-o", "out.csv"),
        ("denoise", "log.csv", "-o", NUL),
        ("denoise", "log.csv", "-o", "out.csv", "--config", NUL),
        ("report", "log.csv", "-o", "out.html", "--compare", NUL),
        ("train", "log.csv", "-o", NUL),
        ("recommend", NUL),
        ("audit", "read", NUL, "log.csv"),
        ("datasets", "get", "cinema", "-o", NUL),
        ("demo", "--report", f"{NUL}.html"),
    ],
    ids=lambda words: " ".join(words)[:40].replace("\0", "NUL"),
)
def test_one_short_message(
    words: tuple[str, ...],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path_factory.mktemp("long")
    monkeypatch.chdir(folder)
    (folder / "log.csv").write_text("user,item\n1,1\n1,2\n2,1\n2,3\n")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(sys, "argv", ["prorec", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    stderr = capsys.readouterr().err
    assert stop.value.code in (ExitCode.USAGE, ExitCode.BAD_DATA), stderr[:1000]
    assert len(stderr) < 1500
    assert len(stderr.splitlines()) <= 8
    assert [path.name for path in folder.iterdir()] == ["log.csv"]


@pytest.mark.parametrize("name", [NUL, LONG])
def test_paths_in_python(name: str) -> None:
    clicks = prorec.Interactions.from_matrix(csr_array(np.eye(3) + np.eye(3)[::-1] > 0))
    model = prorec.models.Popularity().fit(clicks)
    for call in (
        lambda: prorec.read_interactions(f"{name}.csv"),
        lambda: prorec.write_interactions(clicks, f"{name}.csv"),
        lambda: prorec.load(name),
        lambda: model.save(name),
        lambda: prorec.ProRec("svd").fit(clicks, checkpoint=name),
    ):
        with pytest.raises(prorec.InputError, match=r"NUL|too long"):
            call()
