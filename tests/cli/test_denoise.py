"""`prorec denoise`: the main job."""

from __future__ import annotations

import io
import json
import random
import resource
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import prorec
from prorec.cli.exit_codes import ExitCode
from prorec.models import NCE
from tests.cli.shell import COMMAND, Started, run, run_anew


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log as they come: in no order, with repeats, with columns of its own."""
    club = prorec.make_cinema(200, 150, seed=3).interactions
    rng = np.random.default_rng(0)
    rows = rng.permutation(np.concatenate([np.arange(len(club)), rng.integers(len(club), size=200)]))
    path = tmp_path_factory.mktemp("log") / "clicks.csv"
    table = {
        "session": [f"s{number:05}" for number in range(len(rows))],
        "item_id": club.items[club.item_codes[rows]],
        "user_id": club.users[club.user_codes[rows]],
        "note": ["a, b" if number % 7 == 0 else "" for number in range(len(rows))],
    }
    pacsv.write_csv(pa.table(table), path)
    return path


def rows_of(text: str) -> list[str]:
    return text.splitlines()


def test_every_row_comes_back_with_three_more_columns(clicks: Path, tmp_path: Path) -> None:
    out = tmp_path / "cleaned.csv"
    done = run("denoise", str(clicks), "--out", str(out), "-p", "rank=20")
    assert done.returncode == 0, done.stderr
    given, got = pacsv.read_csv(clicks), pacsv.read_csv(out)
    assert got.column_names == [*given.column_names, "weight", "noise_probability", "flagged"]
    assert got.select(given.column_names).equals(given)
    log = prorec.read_interactions(clicks, duplicates="max")
    expected = prorec.ProRec(NCE(rank=20)).fit(log)
    pairs = zip(log.users[log.user_codes], log.items[log.item_codes], strict=True)
    positions = {pair: position for position, pair in enumerate(pairs)}
    at = [positions[pair] for pair in zip(got["user_id"].to_pylist(), got["item_id"].to_pylist(), strict=True)]
    np.testing.assert_allclose(got["weight"].to_numpy(), expected.weights_.data[at], rtol=1e-5)
    np.testing.assert_allclose(got["noise_probability"].to_numpy(), expected.noise_probability_[at], rtol=1e-5)
    np.testing.assert_array_equal(got["flagged"].to_numpy(), expected.flagged_[at])
    # The summary.
    first = expected.noise_table("pandas").iloc[0]
    flagged = int(expected.flagged_[at].sum())
    assert f"{given.num_rows:,} rows read" in done.stdout
    assert flagged == 0, "no group of these few clicks is surely noise"
    assert "none of them can be named with at most 20% wrong (--fdr 0.2)" in " ".join(done.stdout.split())
    assert f"{first.user}" in done.stdout
    assert f"{first.noise_probability:.3f}" in done.stdout
    assert "MB of memory" in done.stdout
    assert "Separating clicks from negatives" in done.stderr, "plain lines where there is no terminal"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cleaned.csv", "cleaned.csv.provenance.json"], (
        "nothing else is left beside it"
    )


def test_drop(clicks: Path, tmp_path: Path) -> None:
    whole, kept = tmp_path / "whole.parquet", tmp_path / "kept.parquet"
    method = ("--noise-method", "plan", "--quiet")
    assert run("denoise", str(clicks), "-o", str(whole), *method).returncode == 0
    done = run("denoise", str(clicks), "-o", str(kept), "--drop", *method)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    everything = pq.read_table(whole)
    assert pq.read_table(kept).equals(everything.filter(pa.compute.invert(everything["flagged"])))
    assert 0 < pq.read_table(kept).num_rows < everything.num_rows


def test_streams(clicks: Path, tmp_path: Path) -> None:
    run("denoise", str(clicks), "-o", str(tmp_path / "file.csv"), "-q")
    done = run_anew("denoise", "-", "-o", "-", stdin=clicks.read_bytes())
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "file.csv").read_text()
    assert "rows read" in done.stderr, "the summary does not go into the data"
    done = run_anew("denoise", "-", "-o", "-", "--format", "parquet", "-q", stdin=b"no parquet")
    assert done.returncode == 3
    assert "standard input" in done.stderr
    words = [COMMAND, "denoise", str(clicks), "-o", "-", "--format", "parquet", "-q"]
    piped = subprocess.run(words, capture_output=True, check=True)
    assert pq.read_table(io.BytesIO(piped.stdout)).num_rows == len(clicks.read_text().splitlines()) - 1


def test_a_log_without_header_or_known_ending(clicks: Path, tmp_path: Path) -> None:
    rows = [line.split(",") for line in clicks.read_text().replace('"a, b"', "").splitlines()[1:]]
    (tmp_path / "u.data").write_text("".join(f"{user}\t{item}\t{session}\n" for session, item, user, *_ in rows))
    done = run("denoise", "u.data", "--no-header", "--format", "tsv", "-o", "out.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = run("train", "out.csv", "-o", "model", cwd=tmp_path)
    assert again.returncode == 0, "what was written can be read"
    found = run("denoise", "u.data", "-o", "found.csv", cwd=tmp_path)
    assert "u.data: there is no header" in found.stderr
    assert "pass --user-col and --item-col" in found.stderr
    assert (tmp_path / "found.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()


def test_json(clicks: Path, tmp_path: Path) -> None:
    done = run("denoise", str(clicks), "-o", str(tmp_path / "out.csv"), "--json")
    summary = json.loads(done.stdout)
    assert done.stderr == ""
    assert summary["rows"] == summary["rows_written"] == len(clicks.read_text().splitlines()) - 1
    assert len(summary["most_suspicious"]) == 10
    quiet = run("denoise", str(clicks), "-o", str(tmp_path / "quiet.csv"), "--json", "--quiet")
    assert json.loads(quiet.stdout)["rows"] == summary["rows"]
    assert set(summary["most_suspicious"][0]) == {"user", "item", "noise_probability", "weight"}


def test_issues_of_accounts_are_printed(tmp_path: Path) -> None:
    log = tmp_path / "bots.csv"
    noisy = prorec.inject_noise(prorec.make_cinema(200, 150, seed=3).interactions, 0.01, "bots", seed=1)
    prorec.write_interactions(noisy.interactions, log)
    words = run("denoise", str(log), "-o", "-").stderr.splitlines()
    bots = noisy.interactions.users[-2:]
    n = int(noisy.interactions.activity[-2:].sum())
    first, second = sorted(bots, key=lambda bot: -noisy.interactions.activity[int(bot == bots[1]) - 2])
    start = "2 extreme accounts act like programs and are left out of the fit; all of their "
    assert f"{start}{n} interactions are flagged: {first} and {second}." in words
    command = next(line for line in words if line.startswith("  prorec denoise "))
    assert command.startswith(f"  prorec denoise {log} --out bots.cleaned")
    assert command.endswith(" --drop")
    summary = json.loads(run("denoise", str(log), "-o", str(tmp_path / "out.csv"), "--json").stdout)
    counts = {row["issue"]: row["count"] for row in summary["issues"]}
    assert counts["extreme"] == len(summary["extreme_accounts"]) == 2
    assert counts.get("suspicious", 0) == len(summary["suspicious_accounts"])
    assert {row["user"] for row in summary["extreme_accounts"]} == set(bots.tolist())
    assert not {row["user"] for row in summary["most_suspicious"]} & set(bots.tolist())
    assert f"  {summary['cleaning_command']}" == command
    plan = ("denoise", str(log), "-o", str(tmp_path / "plan.csv"), "--noise-method", "plan", "--json")
    assert json.loads(run(*plan).stdout)["issues"] == []


def test_columns_of_what_people_know(tmp_path: Path) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "out.csv"
    clicks = prorec.make_cinema(120, 100, seed=3).interactions
    n = len(clicks)
    bought, returned = (["yes" if row % 3 == each else "No" for row in range(n)] for each in (0, 1))
    returned = [value if row < 300 else "no" for row, value in enumerate(returned)]
    ids = {"user": clicks.users[clicks.user_codes], "item": clicks.items[clicks.item_codes]}
    # The first pair has a second row without a mark.
    table = {name: [*values, values[0]] for name, values in ids.items()}
    pacsv.write_csv(pa.table(table | {"bought": [*bought, "no"], "returned": [*returned, "no"]}), log)
    command = ("denoise", str(log), "-o", str(out), "-p", "rank=4")
    columns = ("--trusted-col", "bought", "--suspect-col", "returned")
    done = run(*command, *columns, "--json")
    assert done.returncode == 0, done.stderr
    summary, rows = json.loads(done.stdout), pacsv.read_csv(out).to_pandas()
    assert (summary["trusted"], summary["suspect"]) == (bought.count("yes"), returned.count("yes"))
    is_bought = np.array([*bought, "yes"]) == "yes"
    is_returned = np.array([*returned, "no"]) == "yes"
    assert not rows["noise_probability"][is_bought].any()
    assert not rows["flagged"][is_bought].any()
    assert (rows["noise_probability"][is_returned] == 1).all()
    assert rows["flagged"][is_returned].all()
    assert rows["noise_probability"][~is_bought & ~is_returned].between(0, 1, inclusive="neither").all()
    for options, problem in (
        ((*columns, "--noise-method", "plan"), "--suspect-col has no effect with --noise-method plan"),
        ((*columns, "--engine", "spark"), "--suspect-col has no effect with --engine spark"),
        (("--suspect-col", "back", "--force"), "no column is called 'back'. The columns are: user, item, bought, ret"),
        (("--suspect-col", "item", "--force"), "the column 'item' must be yes or no"),
        (("--suspect-col", "bought", "--force", "--trusted-col", "bought"), "must not be both trusted and suspect"),
    ):
        refused = run(*command, *options)
        assert refused.returncode == (ExitCode.BAD_DATA if "--force" in options else ExitCode.USAGE)
        assert problem in " ".join(refused.stderr.split())


def test_users_that_are_no_people(tmp_path: Path) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "out.csv"
    table = prorec.make_cinema(120, 100, seed=3).interactions.to_table("pandas")[["user", "item"]]
    table["Weight"] = 7.5
    table.to_csv(log, index=False)
    first, second, third = table["user"].unique()[:3].tolist()
    names = tmp_path / "names.txt"
    names.write_text(f"{first}\n\n{third}\n")
    command = ("denoise", str(log), "-o", str(out), "-p", "rank=4", "--weight-col", "none")
    done = run(*command, "--suspect-users", f"{first}, {second}", "--json")
    assert done.returncode == 0, done.stderr
    summary, rows = json.loads(done.stdout), pacsv.read_csv(out).to_pandas()
    is_suspect = rows["user"].isin([first, second])
    assert summary["suspect"] == is_suspect.sum() > 0
    assert rows["flagged"][is_suspect].all()
    assert not rows["prorec_weight"][is_suspect].any(), "ours is not called weight beside Weight"
    assert rows["prorec_weight"][~is_suspect].all()
    assert not {row["user"] for row in summary["suspicious_accounts"]} & {first, second}, "it is known what they are"
    trained = run("train", str(out), "-o", str(tmp_path / "model"), "-p", "rank=4")
    assert trained.returncode == 0, trained.stderr
    assert "prorec_weight" in trained.stdout + trained.stderr
    sampled = run("audit", "draw", str(out), "-o", str(tmp_path / "sample.csv"))
    assert sampled.returncode == 0, sampled.stderr
    dropped = run(*command, "--suspect-users", f"@{names}", "--drop", "--force", "--quiet")
    assert dropped.returncode == 0, dropped.stderr
    assert not {first, third} & set(pacsv.read_csv(out)["user"].to_pylist())
    for value, problem in (
        (f"{first},{second}x", "--suspect-users must be users of the log; 1 of 2 is not: "),
        (f"{second}x", f"Did you mean {second}"),
        (",", "--suspect-users must name at least one user"),
        (f"@{tmp_path / 'gone.txt'}", "gone.txt: No such file"),
    ):
        refused = run(*command, "--suspect-users", value, "--force")
        assert refused.returncode != 0
        assert problem in " ".join(refused.stderr.split())


def test_quiet_prints_no_warning(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    prorec.write_interactions(prorec.make_cinema(60, 50, seed=3).interactions, log)
    log.write_text(log.read_text().replace("\n", "\n,7,1,1,1\n", 1))
    words = ("denoise", str(log), "-o", str(tmp_path / "out.csv"), "--noise-method", "plan", "--skip-bad-rows")
    done = run(*words, "--json", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["rows_skipped"] == 1
    refused = run("denoise", str(log), "-o", str(tmp_path / "x.csv"))
    assert refused.returncode == ExitCode.BAD_DATA
    assert refused.stderr.rstrip().endswith(f"run: prorec check {log}")


def test_options_from_a_file(clicks: Path, tmp_path: Path) -> None:
    config = tmp_path / "prorec.toml"
    settings = (
        'model = "wrmf"',
        "gamma = 0.2",
        'threshold = "5"',
        "warm-start = true",
        "param = {rank = 8}",
    )
    config.write_text("\n".join(["[denoise]", 'noise-method = "plan"', *settings]))
    out = [str(tmp_path / f"{name}.csv") for name in ("file", "typed", "both")]
    typed = "-m wrmf --noise-method plan --gamma 0.2 --threshold 5 --warm-start -p rank=8".split()
    assert run("denoise", str(clicks), "-o", out[0], "-q", "--config", str(config)).returncode == 0
    assert run("denoise", str(clicks), "-o", out[1], "-q", *typed).returncode == 0
    assert run("denoise", str(clicks), "-o", out[2], "-q", "--config", str(config), "--gamma", "0.5").returncode == 0
    texts = [Path(path).read_text() for path in out]
    assert texts[0] == texts[1] != texts[2], "what is typed goes before"
    for text, problem in (
        ("[denoise]\nmodle = 'nce'\n", "no option 'modle'; did you mean 'model'?"),
        ("[train]\nmodel = 'nce'\n", "[denoise]"),
        ("model = ", "TOML"),
        ("[denoise]\ngamma = [1, 2]\n", "gamma must be"),
        ("[denoise]\nrounds = true\n", "rounds must not be true or false; got True"),
        ("[denoise]\ndrop = 1\n", "drop must be true or false; got 1"),
    ):
        config.write_text(text)
        done = run("denoise", str(clicks), "-o", str(tmp_path / "x.csv"), "--config", str(config))
        assert done.returncode == 2, done.stderr
        assert problem in done.stderr
        assert "Traceback" not in done.stderr


# ── bad input ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("nowhere.csv",), "nowhere.csv: there is no such file"),
        (("empty.csv",), "empty.csv: the file is empty"),
        (("headed.csv",), "headed.csv: the file has a header but no rows"),
        (("binary.csv",), "binary.csv: the file is binary"),
        (("broken.parquet",), "not a parquet file that can be read"),
        (("sheet.csv",), "sheet.csv: the file is binary, a spreadsheet or a zip archive"),
        (("alone.csv",), "every user has one interaction only"),
        (("counts.csv",), "counts.csv: line 2: the weight '3' is not from 0 to 1"),
        (("clicks.csv", "--model", "nse"), "there is no model called 'nse'; did you mean 'nce'?"),
        (("clicks.csv", "--modle", "nce"), "No such option: --modle"),
        (("clicks.csv", "-p", "ranks=5"), "NCE has no parameter called 'ranks'; did you mean 'rank'?"),
        (("clicks.csv", "-p", "rank"), "must be given as name=value"),
        (("clicks.csv", "-p", "rank=5000"), "rank must be a whole number from 1 to the smaller side of the matrix"),
        (("clicks.csv", "--lam", "2"), "lam must be a finite number from 0 to 1; got 2.0"),
        (("clicks.csv", "--gamma", "-1"), "gamma must be above 0, or 'auto'"),
        (("clicks.csv", "--gamma", "wide"), "gamma must be"),
        (("clicks.csv", "--beta", "nan"), "beta must be a finite number"),
        (("clicks.csv", "--rounds", "0"), "rounds must be a whole number of at least 1; got 0"),
        (("clicks.csv", "--threshold", "high"), "threshold must be 'personal', 'none' or a whole number; got 'high'"),
        (("clicks.csv", "--transport", "magic"), "transport must be 'relaxed', 'sinkhorn' or 'emd'; got 'magic'"),
        (("clicks.csv", "--user-col", "who"), "no column is called 'who'"),
        (("clicks.csv", "--format", "xml"), "format must be one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_refused_and_nothing_is_written(
    clicks: Path, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    (tmp_path / "clicks.csv").write_bytes(clicks.read_bytes())
    (tmp_path / "sheet.csv").write_bytes(b"PK\x03\x04 and so on")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "headed.csv").write_text("user,item\n")
    (tmp_path / "binary.csv").write_bytes(b"user,item\n\x00\x01\x02")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    (tmp_path / "alone.csv").write_text("user,item\n1,5\n2,6\n3,5\n")
    (tmp_path / "counts.csv").write_text("user,item,weight\n1,5,3\n1,6,1\n2,6,1\n")
    before = sorted(tmp_path.iterdir())
    done = run("denoise", *words, "--out", "out.csv", cwd=tmp_path)
    is_about_the_log = words[0] != "clicks.csv" or "--user-col" in words
    assert done.returncode == (ExitCode.BAD_DATA if is_about_the_log else ExitCode.USAGE), done.stderr
    assert problem in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("out", "problem"),
    [
        ("here.csv", "here.csv: this file exists already; pass --force"),
        ("folder", "cannot tell the format from the name"),
        ("folder.csv", "this is a directory"),
        ("nowhere/out.csv", "the folder nowhere does not exist"),
        ("/proc/out.csv", "the folder /proc is not writable"),
        ("out.xls", "cannot tell the format from the name"),
        ("", "--out must be"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused(clicks: Path, tmp_path: Path, out: str, problem: str) -> None:
    (tmp_path / "here.csv").write_text("old")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.csv").mkdir()
    done = run("denoise", str(clicks), "--out", out, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert problem in done.stderr
    assert "Reading" not in done.stderr, "before any work"
    assert (tmp_path / "here.csv").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "folder.csv", "here.csv"]


def test_columns_that_cannot_be_written_are_refused_before_the_work(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"user": [1, 1, 2], "item": [1, 2, 1], "tags": [["a"], [], None]}), tmp_path / "log.parquet"
    )
    (tmp_path / "log.csv").write_text("user,item,flagged,prorec_flagged\n1,1,0,0\n1,2,0,0\n2,1,0,0\n")
    for log, problem in (("log.parquet", "can be written as text"), ("log.csv", "'flagged' and 'prorec_flagged'")):
        done = run("denoise", log, "-o", "out.csv", cwd=tmp_path)
        assert done.returncode == 3
        assert problem in done.stderr
        assert "itting" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "log.parquet"]


def test_a_closed_pipe_leaves_the_output_whole(clicks: Path, tmp_path: Path) -> None:
    words = f"{COMMAND} denoise {clicks} -o {tmp_path}/out.csv | true"
    subprocess.run(["bash", "-c", words], check=False, capture_output=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.csv.provenance.json"]


def test_force(clicks: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("old")
    assert run("denoise", str(clicks), "--out", str(out), "--force", "-q").returncode == 0
    assert out.read_text().startswith("session,")


@pytest.mark.parametrize("room", [100, 60_000])
def test_a_disk_that_fills_up_leaves_the_old_file(clicks: Path, tmp_path: Path, room: int) -> None:
    """In the middle of the checkpoint, and in the middle of the output."""
    out = tmp_path / "out.csv"
    out.write_text("old")

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    run("denoise", str(clicks), "--out", str(tmp_path / "first.csv"))  # so that numba has nothing to write any more
    done = run_anew("denoise", str(clicks), "--out", str(out), "--force", preexec_fn=limited)
    assert done.returncode == 1, done.stderr
    assert "no space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert out.read_text() == "old"


# ── resuming ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("state", "options"), [("round.npz", ("--noise-method", "plan", "--rounds", "4")), ("fold-scores-3.npz", ())]
)
def test_killed_at_random_moments_and_resumed(state: str, options: tuple[str, ...], tmp_path: Path) -> None:
    """SIGKILL at five moments, and once when there is something to resume from.

    The file is whole or not there at any time, and in the end the same byte for byte.
    """
    prorec.write_interactions(prorec.make_cinema(800, 600, seed=1).interactions, tmp_path / "clicks.csv")
    words = ["denoise", "clicks.csv", "-m", "wrmf", "-p", "rank=64", "--quiet", *options]
    begin = time.monotonic()
    assert run(*words, "--out", "expected.parquet", cwd=tmp_path).returncode == 0
    seconds = time.monotonic() - begin
    expected = (tmp_path / "expected.parquet").read_bytes()
    out, work = tmp_path / "out.parquet", tmp_path / ".out.parquet.prorec"
    draw = random.Random(5)
    for share in [*sorted(draw.uniform(0.1, 1.0) for _ in range(5)), None]:
        with Started(*words, "--out", "out.parquet", cwd=tmp_path) as process:
            deadline = time.monotonic() + (60 if share is None else share * seconds)
            while time.monotonic() < deadline and process.poll() is None:
                assert not out.exists() or out.read_bytes() == expected
                if share is None and (work / state).exists():
                    break
                time.sleep(0.002)
            process.kill(signal.SIGKILL)
        if share is None:
            assert (work / state).exists()
        assert not out.exists() or out.read_bytes() == expected
        assert run(*words, "--out", "out.parquet", "--resume", cwd=tmp_path).returncode == 0
        assert out.read_bytes() == expected
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "clicks.csv",
            *("expected.parquet", "expected.parquet.provenance.json"),
            *("out.parquet", "out.parquet.provenance.json"),
        ]
        out.unlink()


def test_the_state_of_an_interrupted_run_is_not_deleted_by_mistake(clicks: Path, tmp_path: Path) -> None:
    work = tmp_path / ".out.csv.prorec"
    log = prorec.read_interactions(clicks, duplicates="max")
    prorec.ProRec(NCE(rank=20)).fit(log, checkpoint=work)
    for words in ((str(clicks), "-p", "rank=20"), ("nowhere.csv", "--force"), ("nowhere.csv", "--resume")):
        done = run("denoise", *words, "-o", "out.csv", cwd=tmp_path)
        assert done.returncode == (ExitCode.BAD_DATA if words[0] == "nowhere.csv" else ExitCode.USAGE)
        assert (work / "round.npz").exists()
    refused = run("denoise", str(clicks), "-o", "out.csv", cwd=tmp_path).stderr
    assert all(option in refused for option in ("interrupted", "--resume", "--force"))
    # What is only looked at afterwards may be another.
    again = ("-p", "rank=20", "--fdr", "0.4", "--resume")
    assert run("denoise", str(clicks), "-o", "out.csv", *again, cwd=tmp_path).returncode == 0


def test_two_runs_for_one_output(clicks: Path, tmp_path: Path) -> None:
    import fcntl

    work = tmp_path / ".out.csv.prorec"
    work.mkdir()
    with (work / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = run("denoise", str(clicks), "-o", "out.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "another run is writing out.csv" in done.stderr
    assert work.exists()


@pytest.mark.parametrize(
    ("number", "code", "state", "options"),
    [
        # No end of the rounds before the signal.
        (signal.SIGINT, 130, "round.npz", ("--noise-method", "plan", "--rounds", "5000", "--tolerance", "0")),
        (signal.SIGTERM, 143, "fold-scores-0.npz", ()),
    ],
)
def test_a_signal_keeps_the_state(number: int, code: int, state: str, options: tuple[str, ...], tmp_path: Path) -> None:
    prorec.write_interactions(prorec.make_cinema(800, 600, seed=1).interactions, tmp_path / "clicks.csv")
    words = [COMMAND, "denoise", "clicks.csv", "-o", "out.csv", "-q", "-m", "wrmf", "-p", "rank=64", *options]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    work = tmp_path / ".out.csv.prorec"
    while not (work / state).exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.send_signal(number)
    _, stderr = process.communicate()
    assert (process.returncode, stderr) == (code, "prorec: interrupted. Pass --resume to continue from here.\n")
    assert (work / state).exists()


def test_resuming_a_different_run_is_refused(clicks: Path, tmp_path: Path) -> None:
    work = tmp_path / ".out.csv.prorec"
    log = prorec.read_interactions(clicks, duplicates="max")
    prorec.ProRec(NCE(rank=20)).fit(log, checkpoint=work)
    done = run("denoise", str(clicks), "-o", str(tmp_path / "out.csv"), "-p", "rank=19", "--resume")
    assert done.returncode == 3
    assert "checkpoint of other parameters or other interactions" in done.stderr
    assert work.exists(), "it may still be worth something"
    assert run("denoise", str(clicks), "-o", str(tmp_path / "out.csv"), "-p", "rank=20", "--resume").returncode == 0
    assert not work.exists()
    assert run("denoise", str(clicks), "-o", "-", "--resume").returncode == 2
    before = (tmp_path / "out.csv").read_bytes()
    done = run("denoise", str(clicks), "-o", str(tmp_path / "out.csv"), "-p", "rank=20", "--resume")
    assert done.returncode == 0
    assert "no run is left to resume" in done.stderr
    assert (tmp_path / "out.csv").read_bytes() == before


def test_flags_are_counted_as_the_share_that_was_asked_for(tmp_path: Path) -> None:
    club = prorec.make_cinema(100, 80, seed=2).interactions
    rows = np.concatenate([np.arange(len(club)), np.flatnonzero(club.user_codes < 20).repeat(3)])
    table = pa.table({"user": club.users[club.user_codes[rows]], "item": club.items[club.item_codes[rows]]})
    pq.write_table(table, tmp_path / "log.parquet")
    words = ("denoise", str(tmp_path / "log.parquet"), "--flag-fraction", "0.05")
    done = run(*words, "--out", str(tmp_path / "a.parquet"), "--json")
    summary = json.loads(done.stdout)
    flagged = pq.read_table(tmp_path / "a.parquet").to_pandas().query("flagged")
    assert summary["flagged_rows"] == len(flagged)
    assert summary["flagged_pairs"] == len(flagged.drop_duplicates(["user", "item"])) == int(0.05 * len(club))
    assert summary["flagged_pairs"] < summary["flagged_rows"]
    text = run(*words, "--out", str(tmp_path / "b.parquet")).stdout
    assert f"{summary['flagged_pairs']:,} interactions (5.0%) of " in text
    assert f", on {summary['flagged_rows']:,} rows, are flagged, the most suspicious ones" in text
    assert "whose length is --flag-fraction" in text
    assert "Train on the column 'weight': the likelier an interaction is noise, the less it counts." in text


def test_the_summary_names_the_column_to_train_on(clicks: Path, tmp_path: Path) -> None:
    weighted = pacsv.read_csv(clicks).append_column("weight", [[0.5] * (len(clicks.read_text().splitlines()) - 1)])
    pacsv.write_csv(weighted, tmp_path / "log.csv")
    done = run("denoise", str(tmp_path / "log.csv"), "--out", str(tmp_path / "out.csv"))
    assert "Train on the column 'prorec_weight'" in done.stdout
    trained = run("train", str(tmp_path / "out.csv"), "--out", str(tmp_path / "model"), "-p", "rank=4")
    assert "Weights come from the column 'prorec_weight'" in trained.stdout, "nobody needs to be told"
    columns = pacsv.read_csv(tmp_path / "out.csv").column_names
    assert "prorec_weight" in columns
