"""A Spark session for the command line, with plain messages for what commonly stands in its way."""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from prorec._core.errors import InputError

_JAVA_VERSION = 17
_TIMEOUT = 10.0
"""Seconds to wait for a master to answer."""


def start_session(master: str | None) -> SparkSession:
    """Return the session that spark-submit has started, or start one.

    Parameters
    ----------
    master : str or None
        Address of the Spark master, such as `local[4]` or `spark://host:7077`; None for that of spark-submit, or
        this machine.

    Returns
    -------
    SparkSession

    Raises
    ------
    InputError
        If Java is missing or too old, or no master answers.
    """
    if "SPARK_ENV_LOADED" not in os.environ:  # spark-submit sets this, and runs on Java itself
        check_java()
    if master is not None:
        check_master(master)
    # Executors on this machine must use the interpreter that has prorec.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("prorec")
    if master is not None:
        builder = builder.master(master)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")  # a failure is told in one sentence
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    return session


def check_java() -> None:
    """Raise `InputError` unless this machine has a Java that Spark 4 runs on."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    needed = f"Spark needs Java {_JAVA_VERSION} or newer"
    remedy = "install it, or set JAVA_HOME"
    if java is None or not Path(java).exists():
        problem = f"there is none at JAVA_HOME, {home}" if home else "none was found"
        raise InputError(f"{needed}, and {problem}: {remedy}")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    if match is None:
        raise InputError(f"{needed}; {java} does not tell its version: {remedy}")
    version = int(match[2] or 0) if match[1] == "1" else int(match[1])  # Java 8 calls itself 1.8
    if version < _JAVA_VERSION:
        raise InputError(f"{needed}; {java} is Java {version}: {remedy}")


def check_master(master: str, timeout: float = _TIMEOUT) -> None:
    """Check that a Spark master answers; Spark itself would try for minutes.

    Parameters
    ----------
    master : str
        Address of the master; one of several, separated by commas, is enough.
    timeout : float, default 10
        Seconds to wait for an answer.

    Raises
    ------
    InputError
        If the address has no known form, or nothing answers there.
    """
    if re.fullmatch(r"local(\[.*\])?|yarn", master):
        return
    match = re.fullmatch(r"(?:spark|k8s)://(?:https?://)?(.+)", master)
    if match is None:
        raise InputError(
            f"master must be like local[4], spark://host:7077, yarn or k8s://https://host:443; got {master!r}"
        )
    for address in match[1].split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host or address, int(port) if host else 443), timeout=timeout).close()
        except (OSError, ValueError):
            continue
        return
    raise InputError(
        f"no Spark master answers at {match[1]} within {timeout:g} seconds; check the address, or start the master"
    )
