"""Bad input on the command line: bad rows, files that would be overwritten, and advice that can be followed."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow.csv as pacsv
import pytest
from rich.console import Console

import prorec
from prorec.cli.command import name_options
from prorec.cli.console import print_plain
from tests.cli.shell import run


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with weights in kilograms and two bad rows."""
    club = prorec.make_cinema(80, 60, seed=1).interactions
    rows = [
        f"{club.users[user]},{club.items[item]},{3 + user % 9}"
        for user, item in zip(club.user_codes, club.item_codes, strict=True)
    ]
    rows[4] = ",17,3"
    rows[9] = "5,17,3,4"
    path = tmp_path_factory.mktemp("log") / "clicks.csv"
    path.write_text("\n".join(["user,item,Weight", *rows]) + "\n")
    return path


def copy(log: Path, folder: Path) -> int:
    """Copy the log into a folder, and return the number of its rows."""
    (folder / "clicks.csv").write_bytes(log.read_bytes())
    return len(log.read_text().splitlines()) - 1


def test_every_command_counts_the_bad_rows_and_can_skip_them(log: Path, tmp_path: Path) -> None:
    n_rows = copy(log, tmp_path)
    options = ("--weight-col", "none", "-p", "rank=4")
    for command in (
        ("denoise", "clicks.csv", "-o", "out.csv", *options),
        ("report", "clicks.csv", "-o", "out.html", "--noise-method", "plan", *options),
        ("train", "clicks.csv", "-o", "model", *options),
    ):
        refused = run(*command, cwd=tmp_path)
        assert refused.returncode == 3
        assert f"clicks.csv: 2 of {n_rows} rows cannot be used" in refused.stderr
        assert "the user id is missing (line 6)" in refused.stderr
        assert "4 columns instead of 3 (line 11)" in refused.stderr
        assert "pass --skip-bad-rows to leave them out" in refused.stderr
        done = run(*command, "--skip-bad-rows", "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        out = "model" if command[0] == "train" else "out"
        assert (result["rows_skipped"], result["rejected"]) == (2, f"{out}.rejected.csv")
        rejected = pacsv.read_csv(tmp_path / f"{out}.rejected.csv").to_pylist()
        assert [(row["line"], row["reason"]) for row in rejected] == [
            (6, "the user id is missing"),
            (11, "4 columns instead of 3"),
        ]
        for left in tmp_path.glob("*.rejected.csv"):
            left.unlink()
    (tmp_path / "new.rejected.csv").write_text("precious")
    taken = run("denoise", "clicks.csv", "-o", "new.csv", "--skip-bad-rows", *options, cwd=tmp_path)
    assert taken.returncode == 2
    assert "new.rejected.csv: this file exists already" in taken.stderr
    (tmp_path / "new.rejected.csv").unlink()
    told = run("train", "clicks.csv", "-o", "told", "--skip-bad-rows", *options, cwd=tmp_path)
    assert "2 rows of the log were left out, and written to told.rejected.csv with the reason." in told.stdout
    assert f"2 of {n_rows} rows cannot be used and are left out:" in told.stderr
    assert "the user id is missing (line 6)" in told.stderr
    (tmp_path / "told.rejected.csv").unlink()
    streamed = run("denoise", "clicks.csv", "-o", "-", "--skip-bad-rows", *options, cwd=tmp_path)
    assert len(streamed.stdout.splitlines()) == n_rows - 2 + 1
    evaluated = run("evaluate", "clicks.csv", "--models", "popularity", "--seeds", "1", "--skip-bad-rows", cwd=tmp_path)
    assert evaluated.returncode == 0, evaluated.stderr
    assert "2 of" in evaluated.stderr
    assert not list(tmp_path.glob("*.rejected.csv"))


def test_a_column_of_other_weights_is_no_dead_end(log: Path, tmp_path: Path) -> None:
    copy(log, tmp_path)
    found = run("denoise", "clicks.csv", "-o", "found.csv", "--skip-bad-rows", "-p", "rank=4", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "the column 'Weight' is not used as weight" in found.stderr
    assert "Pass --weight-col none" in found.stderr
    told = run(
        "denoise",
        "clicks.csv",
        "-o",
        "told.csv",
        "--skip-bad-rows",
        "-p",
        "rank=4",
        "--weight-col",
        "none",
        cwd=tmp_path,
    )
    assert "Weight" not in told.stderr
    assert (tmp_path / "told.csv").read_bytes() == (tmp_path / "found.csv").read_bytes()
    refused = run("denoise", "clicks.csv", "-o", "x.csv", "--weight-col", "Weight", cwd=tmp_path)
    assert refused.returncode == 3
    assert "the weight is not from 0 to 1" in refused.stderr
    assert "--weight-col none" in refused.stderr


def test_errors_of_the_work_do_not_name_the_hidden_folder(tmp_path: Path) -> None:
    (tmp_path / "alone.csv").write_text("user,item\n1,5\n2,6\n3,5\n")
    refused = run("denoise", "alone.csv", "-o", "out.csv", cwd=tmp_path)
    assert refused.returncode == 3
    assert "every user has one interaction only" in refused.stderr
    assert ".prorec" not in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["alone.csv"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("denoise", "clicks.csv", "--out", "clicks.csv"), "--out must be another file than the log"),
        (("denoise", "clicks.csv", "--out", "./sub/../clicks.csv"), "--out must be another file than the log"),
        (
            ("denoise", "clicks.csv", "--out", "x.csv", "--report", "clicks.csv"),
            "--report must be another file than the",
        ),
        (("denoise", "clicks.csv", "--out", "x.csv", "--report", "x.csv"), "--report must be another file than --out"),
        (
            ("denoise", "clicks.csv", "--out", "i.csv", "--items", "i.csv", "--report", "r.html"),
            "other file than --items",
        ),
        (("report", "clicks.csv", "--out", "clicks.csv"), "--out must be another file than the log"),
        (("score", "model", "clicks.csv", "--out", "clicks.csv"), "--out must be another file than the log"),
        (
            ("datasets", "get", "cinema", "--out", "s.csv", "--items", "s.csv"),
            "--items must be another file than --out",
        ),
    ],
)
def test_no_output_overwrites_an_input_or_another_output(
    log: Path, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    copy(log, tmp_path)
    (tmp_path / "sub").mkdir()
    refused = run(*words, "--force", cwd=tmp_path)
    assert refused.returncode == 2
    assert problem in refused.stderr
    assert (tmp_path / "clicks.csv").read_bytes() == log.read_bytes()
    assert not (tmp_path / "s.csv").exists()


def test_a_link_to_the_log_is_the_log(log: Path, tmp_path: Path) -> None:
    copy(log, tmp_path)
    (tmp_path / "link.csv").symlink_to("clicks.csv")
    refused = run("denoise", "clicks.csv", "--out", "link.csv", "--force", cwd=tmp_path)
    assert "--out must be another file than the log" in refused.stderr


def test_advice_is_for_the_command_line() -> None:
    python = "user 9 is not among the users; pass the items of a new user to recommend_new"
    assert "recommend_new" not in name_options(python)
    assert name_options("pass skip_bad_rows=True") == "pass --skip-bad-rows"
    assert name_options("give header=False") == "give --no-header"


def test_square_brackets_are_no_markup() -> None:
    console = Console(file=io.StringIO())
    print_plain(console, "pip install 'prorec[report]'")
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "pip install 'prorec[report]'\n"


def test_help_shows_no_type_for_flags() -> None:
    for command in ((), ("denoise",), ("check",), ("datasets",), ("datasets", "get")):
        text = run(*command, "--help").stdout
        flags = [line for line in text.splitlines() if "--help" in line or "--quiet" in line or "--force" in line]
        assert flags
        assert not [line for line in flags if "<bool>" in line or "BOOL" in line]


def test_recommend_gives_advice_that_can_be_followed(tmp_path: Path) -> None:
    prorec.write_interactions(prorec.make_cinema(60, 50, seed=1).interactions, tmp_path / "clicks.csv")
    assert run("train", "clicks.csv", "-o", "model", "-p", "rank=4", cwd=tmp_path).returncode == 0
    refused = run("recommend", "model", "--user", "99999", cwd=tmp_path)
    assert refused.returncode == 2
    assert "recommend_new" not in refused.stderr
    assert "train the model again on a log with this user" in refused.stderr
