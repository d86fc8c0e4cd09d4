"""The history of benchmark runs: comparison with earlier runs, and the page, on made-up records."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as command
from benchmarks import history
from benchmarks.history import Record, append_record, find_regressions, format_page, read_records, recent_medians
from benchmarks.ratio import Ratio


def make_record(value: float, machine: str = "A, 2 cores", name: str = "reading / Arrow", limit: float = 2.0) -> Record:
    return Record("2026-01-02T03:04:05+00:00", "abc", False, machine, 0.5, "3.11", "2.0", [Ratio(name, value, limit)])


def test_records_survive_a_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    assert read_records(path) == []
    records = [make_record(1.5), make_record(1.25, name="β × γ / POT")]
    for record in records:
        append_record(record, path)
    assert read_records(path) == records
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("line", ["", "{", "[]", '{"ratios": []}', '{"ratios": [{"name": "x"}]}'])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "history.jsonl"
    append_record(make_record(1.5), path)
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=r"Line 2 of .*history\.jsonl"):
        read_records(path)


def test_the_median_is_of_the_last_five_runs_on_the_same_machine() -> None:
    records = [make_record(value) for value in (9, 9, 9, 5, 1, 2, 4, 3)] + [make_record(100, machine="B, 2 cores")]
    assert recent_medians(records, "A, 2 cores") == {"reading / Arrow": 3}
    assert recent_medians(records, "B, 2 cores") == {"reading / Arrow": 100}
    assert recent_medians(records, "C, 2 cores") == {}


def test_a_partial_run_does_not_push_other_ratios_out() -> None:
    records = [make_record(2)] + [make_record(1, name="SVD / scipy")] * 7
    assert recent_medians(records, "A, 2 cores") == {"reading / Arrow": 2, "SVD / scipy": 1}


@pytest.mark.parametrize(
    ("value", "is_regression"), [(1.0, False), (3.0, False), (3.001, True), (math.inf, True), (math.nan, True)]
)
def test_a_ratio_beyond_the_factor_is_a_regression(value: float, is_regression: bool) -> None:
    ratio = Ratio("reading / Arrow", value, 2.0)
    assert find_regressions([ratio], {"reading / Arrow": 2.0}, 1.5) == [ratio] * is_regression


def test_a_ratio_without_earlier_runs_is_no_regression() -> None:
    assert find_regressions([Ratio("new / old", 100, 1)], {"reading / Arrow": 2.0}, 1.5) == []


def test_the_page_has_latest_best_median_and_limit() -> None:
    records = [make_record(9, machine="B"), *(make_record(value) for value in (0.5, 3, 4, 1, 2, 6))]
    page = format_page([*records, make_record(5, limit=7)])
    assert "| reading / Arrow | 5.000 | 0.500 | 4.000 | 7 |" in page
    assert "number of runs: 7." in page


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., list[Record]]:
    """Return a function that runs the command with one made-up benchmark and returns the history."""
    path = tmp_path / "history.jsonl"
    monkeypatch.setattr(command, "describe_run", lambda: make_record(0))
    monkeypatch.setattr(command, "read_records", lambda: read_records(path))
    monkeypatch.setattr(command, "append_record", lambda record: append_record(record, path))

    def run(value: float, *options: str) -> list[Record]:
        benchmark = SimpleNamespace(measure=lambda: iter([Ratio("reading / Arrow", value, 2.0)]))
        monkeypatch.setattr(command, "BENCHMARKS", {"reading": benchmark})
        monkeypatch.setattr(sys, "argv", ["benchmarks", *options])
        command.main()
        return read_records(path)

    return run


def test_the_command_appends_and_the_check_fails_on_a_regression(
    run_command: Callable[..., list[Record]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(8.0, "--check") == []
    assert "has 0 of the 3 runs on this machine (A, 2 cores)" in capsys.readouterr().out
    assert [record.ratios[0].value for record in run_command(1.0)] == [1.0]
    assert len(run_command(1.4, "--check")) == 1
    with pytest.raises(SystemExit) as error:
        run_command(1.6, "--check")
    assert error.value.code == 1
    assert "Regression: reading / Arrow is 1.600" in capsys.readouterr().out
    assert len(run_command(1.6, "--check", "--factor", "2")) == 1
    assert "has 1 of the 3 runs" in capsys.readouterr().out
    for _ in range(2):
        run_command(1.0)
    capsys.readouterr()
    assert len(run_command(1.4, "--check")) == 3
    assert "of the 3 runs" not in capsys.readouterr().out
    for wrong in (["--factor", "0.5"], ["--factor", "nan"], ["--only", "writing"]):
        with pytest.raises(SystemExit) as error:
            run_command(1.0, *wrong)
        assert error.value.code == 2


def test_describe_run_names_commit_and_machine() -> None:
    record = history.describe_run()
    assert len(record.commit) == 10 or record.commit == "unknown"
    assert "cores" in record.machine
    assert record.ratios == ()
