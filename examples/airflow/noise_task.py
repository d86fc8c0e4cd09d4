"""The work of an Airflow task: clean a log with the command line, and tell by its exit code what to do next."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from prorec.cli.exit_codes import ExitCode


class StopPipelineError(Exception):
    """The data must not go on, and another attempt would not help."""


def clean_log(log: str, out: str, report: str, fail_above: float = 0.2) -> dict[str, Any]:
    """Clean a log, and return the summary of the run.

    Parameters
    ----------
    log : str
        Log of interactions.
    out : str
        The cleaned table.
    report : str
        Page for people.
    fail_above : float, default 0.2
        Largest noise rate with which the pipeline goes on.

    Returns
    -------
    dict
        What `prorec denoise --json` prints.

    Raises
    ------
    StopPipelineError
        If the log cannot be used, or is too noisy. The table and the report of a log that is too noisy are written.
    RuntimeError
        If the run failed; another attempt may help.
    """
    words = ["denoise", log, "--out", out, "--report", report, "--fail-above", str(fail_above), "--json", "--force"]
    done = subprocess.run([sys.executable, "-m", "prorec", *words], capture_output=True, text=True, check=False)
    if done.returncode == ExitCode.SUCCESS:
        summary: dict[str, Any] = json.loads(done.stdout)
        return summary
    error = json.loads(done.stderr.splitlines()[-1])["error"]
    if done.returncode in (ExitCode.FAILED_GATE, ExitCode.BAD_DATA, ExitCode.USAGE):
        raise StopPipelineError(f"{error['kind']}: {error['message']}")
    raise RuntimeError(error["message"])
