"""A Spark session for the command line; what stands in the way of one is said in words, not in a stack of Java's."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from prorec._core.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JAVA = 17
_SECONDS = 10.0


def session(master: str | None) -> SparkSession:
    """The session there is, as under spark-submit; or a new one with this master, on this machine if none is named."""
    if find_spec("pyspark") is None:
        raise InputError("the engine spark needs PySpark: pip install 'prorec[spark]'")
    if "SPARK_ENV_LOADED" not in os.environ:  # spark-submit has Java, or would not be here
        check_java()
    if master is not None:
        check_answers(master)
    # Executors need the interpreter that has prorec; on this machine, that is this one.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("prorec")
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local-cluster"):  # its workers look for Spark here
            import pyspark

            os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("ERROR")
    return started


def check_java() -> None:
    """Refuse to start without a Java that Spark 4 runs on."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"there is none at JAVA_HOME, {home}" if home else "none was found"
        raise InputError(f"Spark needs Java {_JAVA} or newer, and {where}: install it, or set JAVA_HOME")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    if found is None:
        raise InputError(f"Spark needs Java {_JAVA} or newer; {java} does not say which it is")
    version = int(found[2] or 0) if found[1] == "1" else int(found[1])  # Java 8 calls itself 1.8
    if version < _JAVA:
        raise InputError(f"Spark needs Java {_JAVA} or newer; {java} is Java {version}")


def check_answers(master: str, seconds: float = _SECONDS) -> None:
    """Refuse a master at whose address nobody answers: Spark itself would try for minutes."""
    if re.fullmatch(r"local(\[.*\])?|local-cluster\[.*\]|yarn", master):
        return
    found = re.fullmatch(r"(?:spark|k8s)://(?:https?://)?(.+)", master)
    if found is None:
        raise InputError(
            f"master must be like local[4], spark://host:7077, yarn or k8s://https://host:443; got {master!r}"
        )
    for address in found[1].split(","):  # one of several masters is enough
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host or address, int(port) if host else 443), timeout=seconds).close()
        except (OSError, ValueError):
            continue
        return
    raise InputError(f"no Spark master answers at {found[1]} within {seconds:g} seconds")
