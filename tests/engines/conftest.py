"""A real cluster on this machine: two worker processes with one core and a gigabyte each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prorec._core.errors import InputError
from prorec.engines.spark.session import check_java

# Java that lives for a minute does better without its second compiler, and without verifying Spark's classes.
QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed")
    try:
        check_java()
    except InputError as error:
        pytest.skip(str(error))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-java-options '{QUICK_JAVA}' pyspark-shell"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("prorec tests")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "1",
        "spark.sql.ansi.enabled": "true",
        "spark.executor.extraJavaOptions": QUICK_JAVA,
        # Executors are killed on purpose here, more often than a cluster would put up with.
        "spark.task.maxFailures": "50",
        "spark.stage.maxConsecutiveAttempts": "50",
        "spark.deploy.maxExecutorRetries": "-1",
    }.items():
        builder = builder.config(name, value)
    if "PYTHONPATH" in os.environ:
        builder = builder.config("spark.executorEnv.PYTHONPATH", os.environ["PYTHONPATH"])
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("OFF")
    with pytest.MonkeyPatch.context() as patch:
        # Otherwise the driver would fit ALS on the few rows of these tests, and not MLlib.
        patch.setattr("prorec.engines.spark.spark_result._PAIRS_PER_BLOCK", 500)
        yield started
    started.stop()
