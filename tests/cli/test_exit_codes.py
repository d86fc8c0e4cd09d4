"""Exit codes, errors as JSON, the log as JSON, and the quality gate."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import prorec
from prorec._core.errors import DownloadError, InputError, MemoryLimitError
from prorec.cli.exit_codes import BadDataError, ExitCode, blame_data, find_exit_code
from prorec.cli.gate import count_noise
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


def test_the_gate_takes_the_upper_bound_and_counts_marks(tmp_path: Path) -> None:
    """Random clicks cannot tell their noise; some of them are known to be noise."""
    clicks = np.argwhere(np.random.default_rng(0).random((400, 300)) < 0.1)
    rows = [f"u{user},i{item},{'yes' if user < 100 else 'no'}\n" for user, item in clicks]
    (tmp_path / "log.csv").write_text("user,item,back\n" + "".join(rows))
    words = ("denoise", "log.csv", "--out", "x.csv", "-p", "rank=2", "--json", "--fail-above", "1", "--force")
    for marks in ((), ("--suspect-col", "back")):
        done = run(*words, *marks, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert not result["noise_rate"]["is_identified"]
        assert result["gate"]["basis"] == "upper bound"
        n, n_suspect = result["interactions"], result["suspect"]
        assert (n_suspect > 1000) == bool(marks)
        expected = (n_suspect + result["noise_rate"]["high"] * (n - n_suspect)) / n
        assert result["gate"]["share"] == pytest.approx(expected)
    refused = run(*words[:-3], "--fail-above", "0.2", "--force", cwd=tmp_path)
    assert (refused.returncode, "This log cannot tell its noise" in refused.stderr) == (ExitCode.FAILED_GATE, True)


def test_the_gate_counts_bots() -> None:
    """All clicks of accounts that walk through the catalogue count as noise."""
    club = prorec.make_cinema(300, 200, seed=1).interactions
    frame = club.to_table("pandas")[["user", "item"]]
    bots = pd.DataFrame([(user, item) for user in (9001, 9002) for item in club.items], columns=["user", "item"])
    denoiser = prorec.ProRec(prorec.models.SVD(rank=4)).fit(pd.concat([frame, bots]))
    rate, n_bots = denoiser.finder_.noise_rate_, len(bots)
    assert denoiser.finder_.issues_.is_extreme.sum() == 2
    share, is_identified = count_noise(denoiser)
    assert is_identified == rate.is_identified
    known = rate.estimate if is_identified else rate.high
    assert share == pytest.approx((n_bots + known * len(frame)) / (n_bots + len(frame)))
