"""Exit codes, errors as JSON, the log as JSON, and the quality gate."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import prorec
from prorec._core.errors import DownloadError, InputError, MemoryLimitError
from prorec.cli.exit_codes import BadDataError, ExitCode, blame_data, find_exit_code
from tests.cli.shell import run

PAGE = Path(__file__).parents[2] / "docs/command-line.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("operations")
    prorec.write_interactions(prorec.make_cinema(150, 100, seed=4).interactions, folder / "clicks.csv")
    return folder


def test_the_manual_has_the_codes() -> None:
    table = PAGE.read_text("utf-8").partition("## Exit codes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", table, re.MULTILINE)
    assert [(int(code), kind) for code, kind in rows] == [(int(code), code.kind) for code in ExitCode]


def test_errors_have_codes() -> None:
    codes = [find_exit_code(error) for error in (InputError("x"), MemoryLimitError("x"), DownloadError("x"), OSError())]
    assert codes == [ExitCode.USAGE, ExitCode.FAILED_RUN, ExitCode.FAILED_RUN, ExitCode.FAILED_RUN]
    with pytest.raises(BadDataError, match="line 3"), blame_data():
        raise InputError("line 3 is bad")
    with pytest.raises(MemoryLimitError), blame_data():
        raise MemoryLimitError("too large")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("denoise", "clicks.csv", "--out", "x.csv", "--lam", "2"), ExitCode.USAGE),
        (("denoise", "clicks.csv", "--out", "x.csv", "--bogus"), ExitCode.USAGE),
        (("denoise", "clicks.csv", "--out", "x.csv", "--fail-above", "1.5"), ExitCode.USAGE),
        (("report", "clicks.csv", "--out", "x.html", "--fail-above", ".2", "--noise-method", "plan"), ExitCode.USAGE),
        (("denoise", "gone.csv", "--out", "x.csv"), ExitCode.BAD_DATA),
        (("check", "gone.csv"), ExitCode.BAD_DATA),
        (("score", "gone", "clicks.csv", "--out", "x.csv"), ExitCode.BAD_DATA),
        (("recommend", "gone"), ExitCode.BAD_DATA),
    ],
)
def test_json_errors(folder: Path, words: tuple[str, ...], code: ExitCode) -> None:
    done = run(*words, "--json", cwd=folder)
    assert done.returncode == code, done.stderr
    error = json.loads(done.stderr.splitlines()[-1])["error"]
    assert (error["kind"], error["exit_code"]) == (code.kind, code)
    assert error["message"]
    plain = run(*words, cwd=folder)
    assert plain.returncode == code
    assert not plain.stderr.lstrip().startswith("{")


def test_the_log_as_json(folder: Path) -> None:
    words = ("train", "clicks.csv", "-p", "rank=4", "--out", "model", "--force")
    done = run(*words, "--log-json", "--quiet", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "")
    records: list[dict[str, Any]] = [json.loads(line) for line in done.stderr.splitlines()]
    assert records[0]["message"] == "prorec train starts"
    assert records[0]["settings"] == {"command": "train", "param": "rank=4"}
    assert "Fitting NCE" in [record["message"] for record in records]
    assert records[-1]["seconds"] > 0
    assert {tuple(record)[:4] for record in records} == {("time", "level", "logger", "message")}
    assert run(*words, "--log-json", "--log-level", "error", "-q", cwd=folder).stderr == ""
    text = run(*words, "--log-level", "info", cwd=folder).stderr
    assert "INFO prorec.cli: prorec train starts" in text
    refused = run("train", "gone.csv", "--out", "other", "--log-json", cwd=folder)
    last = json.loads(refused.stderr.splitlines()[-1])
    assert (last["level"], last["error"]["kind"]) == ("error", "bad_data")
    assert run("train", "gone.csv", "--out", "x", "--log-level", "loud", cwd=folder).returncode == ExitCode.USAGE
    rows = (folder / "clicks.csv").read_text().splitlines()[1:]
    heavy = (f"{','.join(row.split(',')[:2])},7.5\n" for row in rows)
    (folder / "kg.csv").write_text("user,item,weight\n" + "".join(heavy))
    warned = run("train", "kg.csv", "--out", "kg", "-p", "rank=4", "--log-json", cwd=folder)
    levels = {json.loads(line)["level"] for line in warned.stderr.splitlines()}
    assert warned.returncode == 0
    assert levels == {"info", "warning"}


def test_json_in_a_toml_file(folder: Path) -> None:
    (folder / "quiet.toml").write_text("[train]\njson = true\n")
    done = run("train", "gone.csv", "--out", "x", "--config", "quiet.toml", cwd=folder)
    assert json.loads(done.stderr)["error"]["kind"] == "bad_data"


def test_the_gate(folder: Path) -> None:
    words = ("denoise", "clicks.csv", "-p", "rank=4", "--force", "--json")
    done = run(*words, "--out", "a.csv", "--fail-above", "0.9", cwd=folder)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    rate, gate = result["noise_rate"], result["gate"]
    assert gate["passed"]
    assert gate["basis"] == ("estimate" if rate["is_identified"] else "upper bound")
    assert gate["share"] == pytest.approx(rate["estimate" if rate["is_identified"] else "high"])
    failed = run(*words, "--out", "b.csv", "--fail-above", "0", cwd=folder)
    assert failed.returncode == ExitCode.FAILED_GATE
    assert not json.loads(failed.stdout)["gate"]["passed"]
    assert json.loads(failed.stderr)["error"]["kind"] == "failed_gate"
    assert (folder / "b.csv").read_bytes() == (folder / "a.csv").read_bytes(), "everything is written"


def test_the_gate_takes_the_upper_bound_and_counts_bots(tmp_path: Path) -> None:
    """A log whose popularity explains it, and an account that clicks on everything."""
    rows = [f"u{user},i{user % 5}" for user in range(400)] + [f"u{user},i{(user * 7 + 1) % 5}" for user in range(400)]
    rows += [f"u{user},i{5 + user % 40}" for user in range(100)]
    (tmp_path / "log.csv").write_text("\n".join(["user,item", *dict.fromkeys(rows)]) + "\n")
    done = run("denoise", "log.csv", "--out", "x.csv", "-p", "rank=2", "--json", "--fail-above", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert not result["noise_rate"]["is_identified"]
    assert result["gate"]["basis"] == "upper bound"
    assert result["gate"]["share"] == pytest.approx(result["noise_rate"]["high"])
    marked_rows = (f"{row},{'yes' if row.startswith('u1') else 'no'}\n" for row in dict.fromkeys(rows))
    (tmp_path / "marked.csv").write_text("user,item,back\n" + "".join(marked_rows))
    words = ("denoise", "marked.csv", "--out", "y.csv", "-p", "rank=2", "--json", "--suspect-col", "back")
    marked = run(*words, "--fail-above", "1", cwd=tmp_path)
    assert marked.returncode == 0, marked.stderr
    result = json.loads(marked.stdout)
    n, n_suspect = result["interactions"], result["suspect"]
    assert n_suspect > 100
    expected = (n_suspect + result["noise_rate"]["high"] * (n - n_suspect)) / n
    assert result["gate"]["share"] == pytest.approx(expected)
