"""`prorec denoise --engine spark`: what is refused before Spark starts, and a driver that is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import prorec
import prorec.cli.denoise  # declares the options that summaries name
from prorec.cli.denoise_summary import describe_summary
from prorec.noise.noise_rate import NoiseRateEstimate
from tests.cli.shell import COMMAND, run, run_anew
from tests.engines.conftest import QUICK_JAVA


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("tables")
    prorec.write_interactions(prorec.make_cinema(150, 100, seed=2).interactions, where / "clicks.parquet")
    return where


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engine", "ray"), "engine must be 'local' or 'spark'; got 'ray'"),
        (("--master", "local[2]"), "--master has no effect without --engine spark"),
        (("--engine", "spark", "--transport", "emd"), "--transport has no effect with --engine spark"),
        (("--engine", "spark", "--items", "items.csv"), "--items has no effect with --engine spark"),
        (("--engine", "spark", "--noise-method", "tarot"), "--noise-method must be 'cross-fit' or 'plan'; got 'tarot'"),
        (("--engine", "spark", "--noise-method", "cross-fit", "--fdr", "0"), "fdr must be above 0 and below 1"),
        (("--engine", "spark", "--report", "page.txt"), "page.txt"),
        (("--engine", "spark", "-p", "depth=3"), "ALS has no parameter 'depth'; it has rank"),
        (("--engine", "spark", "-p", "rank=0"), "rank must be a whole number of at least 1"),
        (("--engine", "spark", "--lam", "2"), "lam must be"),
        (("--engine", "spark", "--master", "cluster"), "master must be like local[4], spark://host:7077"),
    ],
)
def test_refused_before_spark_starts(folder: Path, words: tuple[str, ...], message: str) -> None:
    done = run("denoise", "clicks.parquet", "--out", "out.parquet", *words, cwd=folder)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_an_existing_output_is_refused(folder: Path) -> None:
    (folder / "there.parquet").mkdir(exist_ok=True)
    done = run("denoise", "clicks.parquet", "--out", "there.parquet", "--engine", "spark", cwd=folder)
    assert (done.returncode, "this exists already; pass --force" in done.stderr) == (2, True)


def test_a_master_that_does_not_answer_is_refused_by_name(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("--engine", "spark", "--master", f"spark://127.0.0.1:{port}")
    done = run("denoise", "clicks.parquet", "--out", "out.parquet", *words, cwd=folder)
    assert done.returncode == 2
    assert f"no Spark master answers at 127.0.0.1:{port} within 10 seconds" in " ".join(done.stderr.split())


def test_without_java(folder: Path, tmp_path: Path) -> None:
    words = ("denoise", "clicks.parquet", "--out", "out.parquet", "--engine", "spark")
    done = run_anew(*words, cwd=folder, environment={"JAVA_HOME": str(tmp_path)})
    assert done.returncode == 2
    assert "Spark needs Java 17 or newer, and there is none at JAVA_HOME" in " ".join(done.stderr.split())
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    old = run_anew(*words, cwd=folder, environment={"JAVA_HOME": str(tmp_path)})
    assert "is Java 8" in " ".join(old.stderr.split())


@pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java on this machine")
def test_a_killed_driver_leaves_no_partial_output_and_is_resumed(folder: Path) -> None:
    words = "denoise clicks.parquet --out cleaned.parquet --engine spark --master local[1] -p rank=4 -p sweeps=2"
    words += " --noise-method plan --report page.html --json"
    work = folder / ".cleaned.parquet.prorec"
    quick = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{QUICK_JAVA}' --conf spark.sql.shuffle.partitions=2 "
        "--conf spark.ui.enabled=false pyspark-shell",
    }
    driver = subprocess.Popen(
        [COMMAND, *words.split()],
        cwd=folder,
        env={**os.environ, **quick},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    written = work / "round-1" / "factors-of-items" / "_SUCCESS"
    until = time.monotonic() + 240
    while not written.exists() and time.monotonic() < until and driver.poll() is None:
        time.sleep(0.05)
    os.killpg(driver.pid, signal.SIGKILL)  # Java and all
    driver.wait()
    assert written.exists()
    assert not (folder / "cleaned.parquet").exists()
    factors = sorted((work / "round-1" / "factors-of-users").glob("*.parquet"))
    before = [path.stat().st_mtime_ns for path in factors]
    refused = run_anew(*words.split(), cwd=folder, environment=quick)
    assert (refused.returncode, "Pass --resume" in " ".join(refused.stderr.split())) == (2, True)
    assert [path.stat().st_mtime_ns for path in factors] == before
    done = run_anew(*words.split(), "--resume", cwd=folder, environment=quick)
    assert done.returncode == 0, done.stderr
    given, got = pq.read_table(folder / "clicks.parquet"), pq.read_table(folder / "cleaned.parquet")
    names = [*given.column_names, "prorec_weight", "noise_probability", "flagged"]
    assert got.column_names == names
    assert got.num_rows == given.num_rows
    weights = got["prorec_weight"].to_numpy()
    assert 0.5 <= weights.min() < weights.max() <= 1
    assert not work.exists()
    assert json.loads(done.stdout)["report"] == "page.html"
    page = (folder / "page.html").read_text()
    assert "Which clicks in clicks.parquet are noise?" in page
    assert "This is a sample" not in page, "all of it is there"


def test_summary_in_words() -> None:
    summary: dict[str, Any] = {"rows": 9, "interactions": 8, "users": 3, "items": 4, "flagged_pairs": 2, "out": "o",
                               "seconds": 1.0, "report": None, "noise_rate": None, "fdr": None, "mass_kept": 0.5,
                               "training_column": "weight"}  # fmt: skip
    text = describe_summary(summary)
    assert all(part in text for part in ("9 rows", "8 different", "3 users", "4 items", "2 interactions (25.0%)"))
    assert "--flag-fraction" in text
    rate = NoiseRateEstimate(0.2, 0.1, 0.3)
    summary |= {"noise_rate": asdict(rate), "fdr": 0.25, "report": "page.html"}
    text = describe_summary(summary)
    assert "20.0% (10.0% to 30.0%)" in text
    assert "2 interactions (25.0%) are flagged; at most about 25% " in text
    assert "Train on the column 'weight': the likelier an interaction is noise, the less it counts." in text
    assert "Train on the column 'prorec_weight'" in describe_summary(summary | {"training_column": "prorec_weight"})
    assert "No weight is lowered" in describe_summary(summary | {"mass_kept": 1.0})
    assert "The report is in page.html." in text
    nothing = describe_summary(summary | {"flagged_pairs": 0})
    assert "none of them can be named with at most 25% wrong (--fdr 0.25), so nothing is flagged" in nothing
    unknown = asdict(replace(rate, low=0.0, is_identified=False))
    doubtful = describe_summary(summary | {"flagged_pairs": 0, "noise_rate": unknown})
    assert "cannot tell its noise rate: it is at most 30.0%" in doubtful
    assert "Nothing is flagged." in doubtful
