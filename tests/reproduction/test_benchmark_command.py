"""`python -m reproduction noise-benchmark`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from prorec import InputError
from reproduction.__main__ import app
from reproduction.baselines import SCORERS


def test_noise_benchmark(tmp_path: Path) -> None:
    words = ["--dataset", "cinema", "--levels", "0.1", "--kinds", "uniform", "--seeds", "1", "--models", "none"]
    command = ["noise-benchmark", *words, "--out", str(tmp_path)]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0
    page = (tmp_path / "noise-cinema.md").read_text()
    assert page in done.stdout
    assert (tmp_path / "figures" / "reliability-cinema.svg").exists()
    for name in SCORERS:
        assert f"| {name} | ." in page
    again = CliRunner().invoke(app, [*command, "--quiet"], catch_exceptions=False)
    assert again.exit_code == 0
    assert (tmp_path / "noise-cinema.md").read_text() == page


@pytest.mark.parametrize(
    "words",
    [("--levels", "x"), ("--levels", "2"), ("--kinds", "odd"), ("--models", "KNN"), ("--dataset", "moon")],
    ids=" ".join,
)
def test_bad_options_are_refused(words: tuple[str, str]) -> None:
    done = CliRunner().invoke(app, ["noise-benchmark", *words])
    assert isinstance(done.exception, InputError)
