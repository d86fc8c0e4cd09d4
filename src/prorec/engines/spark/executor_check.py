"""A question to all executors before any work: which Python they run, and whether they have prorec."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql import SparkSession

from prorec import __version__
from prorec._core.errors import InputError
from prorec._core.quoting import shorten

_ANSWER = "executor string, problem string"
_TASKS_FOR_EACH = 2
_MAX_WAVES = 3


def check_executors(spark: SparkSession) -> None:
    """Refuse a session whose executors cannot run the tasks.

    Parameters
    ----------
    spark : SparkSession
        The session.

    Raises
    ------
    InputError
        If an executor runs another version of Python or prorec, or lacks prorec or a package that the tasks need.
    """
    context = spark.sparkContext
    n_executors = max(1, int(context._jsc.sc().statusTracker().getExecutorInfos().__len__()) - 1)
    n_tasks = _TASKS_FOR_EACH * max(context.defaultParallelism, n_executors)
    asked: set[str] = set()
    context.setJobGroup("prorec", "prorec: check of the executors")
    for _ in range(_MAX_WAVES):  # Spark need not give a task to each executor
        try:
            question = spark.range(0, n_tasks, 1, n_tasks).mapInArrow(_make_question(__version__), _ANSWER)
            answers = question.collect()
        except Exception as error:
            if problem := find_environment_problem(str(error)):
                raise InputError(problem) from None
            raise
        for executor, problem in answers:
            asked.add(executor)
            if problem:
                raise InputError(
                    f"executors must have prorec {__version__}; the one on {executor} {problem}. {_remedy()}"
                )
        if len(asked) >= n_executors:
            return


def find_environment_problem(text: str) -> str | None:
    """Return a sentence about the Python of the executors, if a failure of Spark was due to it.

    Parameters
    ----------
    text : str
        Message of the exception, which may be long.

    Returns
    -------
    str or None
    """
    _, mismatch, found = text.partition("Python in worker has different version")
    if mismatch:
        version = "".join(each for each in found[:40] if each.isdigit() or each == ".").strip(".")[:4]
        return (
            f"executors must run Python {_python()}, as this process does; one runs Python "
            f"{version or 'of another version'}. "
            f"{_remedy()}"
        )
    if "pyspark.daemon" in text or "No module named 'pyarrow'" in text or "No module named 'pyspark" in text:
        return f"executors must have a Python that runs PySpark and pyarrow; one does not. {_remedy()}"
    if "Cannot run program" in text:
        program = text.partition("Cannot run program")[2].partition('"')[2].partition('"')[0]
        return f"executors must have a Python; one cannot start {shorten(program)!r}. {_remedy()}"
    return None


def _remedy() -> str:
    return (
        f"Set spark.pyspark.python (or PYSPARK_PYTHON) to a Python {_python()} with prorec[spark] {__version__} in it"
    )


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])


def _make_question(version: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a task that names its executor, and what is wrong there; it imports prorec only when it runs there."""

    def ask(_: Iterable[Any]) -> Iterator[Any]:
        import importlib
        import os
        import socket

        import pyarrow as pa

        executor, problem = f"{socket.gethostname()} (process {os.getppid()})", ""
        try:
            found = importlib.import_module("prorec").__version__
            if found != version:
                problem = f"has prorec {found}"
            else:
                for name in ("block_tasks", "cross_fit_tasks"):
                    importlib.import_module(f"prorec.engines.spark.{name}")
        except ImportError as error:
            problem = "has no prorec" if error.name == "prorec" else f"lacks a package: {str(error)[:150]}"
        yield pa.RecordBatch.from_pydict({"executor": [executor], "problem": [problem]})

    ask.__module__ = "__main__"  # so that it is sent as a whole, and not as the name of a function of prorec
    return ask
