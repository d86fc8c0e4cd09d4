"""Failures of Spark: executors that cannot run the tasks, and runs that Spark cannot finish."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import prorec
from prorec import EngineError, InputError

pytest.importorskip("pyspark", reason="PySpark is not installed")

from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from prorec.engines.spark.executor_check import check_executors, find_environment_problem
from prorec.engines.spark.failures import explain_failures

# PySpark leaves it to the garbage collector to close its sockets.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
_OTHER_PYTHON = """
import sys
class Version(tuple):
    major, minor, micro, releaselevel, serial = 3, 9, 1, "final", 0
sys.version_info = Version((3, 9, 1, "final", 0))
"""


@pytest.mark.parametrize(
    ("prorec_code", "site_code", "message"),
    [
        ("__version__ = '0.0.1'", "", "has prorec 0.0.1"),
        ("raise ModuleNotFoundError(name='prorec')", "", "has no prorec"),
        (f"__version__ = '{prorec.__version__}'", "", "lacks a package: No module named 'prorec.engines'"),
        ("", _OTHER_PYTHON, "one runs Python 3.9"),
        ("", "raise SystemExit(3)", "must have a Python that runs PySpark"),
    ],
    ids=["version", "missing", "package", "python", "broken"],
)
def test_executors_are_asked_before_any_work(
    prorec_code: str, site_code: str, message: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executors' Python is one that finds another prorec, and says it is another Python."""
    if prorec_code:
        (tmp_path / "prorec.py").write_text(prorec_code)
    if site_code:
        (tmp_path / "sitecustomize.py").write_text(site_code)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    check_executors(spark)
    # Here, tasks are tried fifty times, because other tests kill executors.
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    with pytest.raises(InputError, match=message) as error:
        check_executors(spark)
    assert "Set spark.pyspark.python" in str(error.value)
    assert len(str(error.value).splitlines()) == 1


PAGES = {
    "a disk is full": "org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 4.0 failed 4 "
    "times\n\tat org.apache…\nCaused by: java.io.IOException: No space left on device\n\tat java.base/java.io…",
    "ran out of memory": "Job aborted\nCaused by: java.lang.OutOfMemoryError: Java heap space",
    "executors were lost": "Job aborted due to stage failure: ExecutorLostFailure (executor 3 exited caused by one of "
    "the running tasks) Reason: Executor heartbeat timed out",
    "Spark was stopped": "Job 7 cancelled because SparkContext was shut down\n\tat org.apache…",
    "IllegalStateException: odd things": "org.apache.spark.SparkException: Job aborted\n\tat a.b\nCaused by: "
    "java.lang.IllegalStateException: odd things\n\tat c.d",
}


@pytest.mark.parametrize("sentence", PAGES)
def test_a_failure_is_told_in_one_sentence(sentence: str) -> None:
    with pytest.raises(EngineError, match=sentence) as error, explain_failures(lambda: "All is kept"):
        raise PySparkException(PAGES[sentence])
    assert str(error.value).endswith(". All is kept")
    assert len(str(error.value).splitlines()) == 1
    assert error.value.__suppress_context__


def test_a_lost_driver_is_told_in_one_sentence() -> None:
    for lost in (Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "Connection refused")):
        with (
            pytest.raises(EngineError, match=r"its driver process has ended\. A"),
            explain_failures(lambda: "All is kept"),
        ):
            raise lost


def test_other_errors_pass() -> None:
    with pytest.raises(InputError, match="mine"), explain_failures(lambda: "All is kept"):
        raise InputError("mine")
    assert find_environment_problem("Job aborted") is None
    assert "cannot start" in str(find_environment_problem('java.io.IOException: Cannot run program "python9": error=2'))
