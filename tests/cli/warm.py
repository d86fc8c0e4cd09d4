"""A process that has imported the command line and loaded compiled code, and forks for each run.

Both take a second, and there are more than a hundred runs. Each copy is a process like any other: it has its own
streams, folder, environment, signals and exit code. Only settings that Python reads when it starts cannot differ.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from prorec import ProRec, make_cinema
from prorec.cli import COMMANDS, load_command, main
from prorec.models import NCE
from prorec.report import write_report


def serve() -> dict[str, Any]:
    """Answer each request with a process id and, at its end, an exit code; return the request in the copies."""
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        child = os.fork()
        if not child:
            return request
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit()


def take_over(request: dict[str, Any]) -> None:
    """Connect the streams, and set the environment, the folder and the arguments."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        descriptor = os.open(request[name], os.O_RDONLY if name == "stdin" else os.O_WRONLY | os.O_APPEND)
        os.dup2(descriptor, number)
        os.close(descriptor)
    # The old ones may have read ahead, and be for files where these are for pipes.
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = ["prorec", *request["words"]]


if __name__ == "__main__":
    for command in COMMANDS:
        load_command(command)
    with tempfile.TemporaryDirectory() as folder:  # what a run imports and loads when it first needs it
        write_report(ProRec(NCE(rank=4)).fit(make_cinema(60, 50).interactions), Path(folder) / "report.html")
    gc.freeze()  # copies need not touch memory that they share
    take_over(serve())
    main()
