"""Progress callbacks and their console version."""

from __future__ import annotations

import pytest

from prorec import ConsoleProgress, InputError
from prorec._core.progress import check_progress


def test_off_a_terminal_each_finished_task_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with ConsoleProgress() as progress:
        for task in ("fitting", "matching"):
            for done in range(4):
                progress(task, done, 3)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["fitting", "matching"]


def test_a_long_task_prints_a_line_each_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    with ConsoleProgress() as progress:
        for done in range(5):
            progress("matching", done, 1_000)
            now[0] += 31
    assert capsys.readouterr().err.splitlines() == ["matching: 2 of 1,000", "matching: 4 of 1,000"]


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with ConsoleProgress(quiet=True) as progress:
        progress("fitting", 1, 1)
    assert capsys.readouterr() == ("", "")


def test_progress_must_be_callable() -> None:
    check_progress(None)
    check_progress(print)
    with pytest.raises(InputError, match=r"progress .* got int"):
        check_progress(5)


def test_square_brackets_in_a_task_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    with ConsoleProgress() as progress:
        progress("Fitting [red]NCE[/red]", 1, 1)
    assert capsys.readouterr().err.startswith("Fitting [red]NCE[/red]: ")
