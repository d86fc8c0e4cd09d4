"""A process that has imported prorec's command and done nothing else, and splits off a copy of itself for each run.

Importing takes a second, and there are more than a hundred runs. A copy is a process as any other: streams, folder,
environment, signals and exit code are its own, and it ends as the interpreter ends. Only what the interpreter looks at
before it starts cannot be different.
"""

from __future__ import annotations

import gc
import json
import os
import sys

from prorec.cli import main


def serve() -> dict[str, object]:
    """Answer each line of JSON with the process id and, when that has ended, its exit code; return in the copies."""
    for line in sys.stdin:
        about: dict[str, object] = json.loads(line)
        child = os.fork()
        if not child:
            return about
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    sys.exit()


def become(about: dict[str, object]) -> None:
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        opened = os.open(str(about[name]), os.O_RDONLY if name == "stdin" else os.O_WRONLY | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0)  # noqa: SIM115 - the old one may have read ahead
    os.environ.clear()
    os.environ.update(about["environment"])  # type: ignore[call-overload]
    os.chdir(str(about["folder"]))
    sys.argv = ["prorec", *about["words"]]  # type: ignore[misc]


if __name__ == "__main__":
    gc.freeze()  # copies need not touch, nor clear away, what they share
    become(serve())
    main()
