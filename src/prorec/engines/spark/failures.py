"""Failures of Spark during a run, in one sentence that says what was lost and what is kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from prorec._core.errors import EngineError, InputError
from prorec._core.quoting import shorten
from prorec.engines.spark.executor_check import find_environment_problem

_CAUSES = (
    (
        r"No space left on device|Disk quota exceeded",
        "a disk is full, of an executor (spark.local.dir) or of the work directory: free space there, or name "
        "another disk",
    ),
    (
        r"OutOfMemoryError|Container killed by YARN|exceeding memory limits|OOMKilled",
        "an executor ran out of memory: give executors more memory or more partitions",
    ),
    (
        r"SparkContext was shut down|stopped SparkContext|SparkContext has been shutdown|cancelled because "
        "SparkContext",
        "Spark was stopped",
    ),
    (
        r"ExecutorLostFailure|Executor heartbeat timed out|FetchFailed|executor.{0,40} (?:lost|exited)|Master "
        "removed our",
        "executors were lost, more often than Spark tries again: they may have been killed or out of memory",
    ),
)


@contextmanager
def explain_failures(describe: Callable[[], str]) -> Iterator[None]:
    """Turn a failure of Spark inside a `with` block into one sentence.

    Parameters
    ----------
    describe : callable
        Returns what is kept, in a sentence.

    Raises
    ------
    EngineError
        For a failure of Spark.
    InputError
        If the executors' Python is why.
    """
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        text = str(error)
        if problem := find_environment_problem(text):
            raise InputError(problem) from None
        raise EngineError(f"Spark could not finish: {_find_cause(error, text)}. {describe()}") from None


def _find_cause(error: Exception, text: str) -> str:
    """Return why Spark failed, in a clause."""
    for pattern, cause in _CAUSES:
        if re.search(pattern, text):
            return cause
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return "its driver process has ended"
    lines = [
        line.strip() for line in text.splitlines() if re.match(r"(Caused by: )?[\w.]*(Error|Exception)\b", line.strip())
    ]
    line = lines[-1] if lines else next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return shorten(re.sub(r"^(Caused by: )?([\w]+\.)+", "", line)).rstrip(".")
