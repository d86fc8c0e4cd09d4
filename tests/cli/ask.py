"""Run a command in a copy of the process of `warm.py`, with the streams, folder and environment of this one.

It imports next to nothing, so shell scripts with many commands take less time. The first two arguments are the file
descriptors of requests and answers.
"""

from __future__ import annotations

import json
import os
import sys


def ask(requests: int, answers: int, words: list[str]) -> int:
    """Send a request, and return the exit code."""
    streams = {name: f"/proc/{os.getpid()}/fd/{number}" for number, name in enumerate(("stdin", "stdout", "stderr"))}
    request = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ), **streams}  # noqa: PTH109
    os.write(requests, json.dumps(request).encode() + b"\n")
    read = b""
    while read.count(b"\n") < 2:  # a process id, and at its end an exit code
        read += os.read(answers, 1)
    return int(read.split()[1])


if __name__ == "__main__":
    sys.exit(ask(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
