"""Run the command line in a process of its own, for its output and its exit code."""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

COMMAND = str(Path(sys.executable).with_name("prorec"))
_SERVER = Path(__file__).with_name("warm.py")
_ASK = Path(__file__).with_name("ask.py")

Completed = subprocess.CompletedProcess[str]


def run_anew(
    *words: str, stdin: bytes | None = None, environment: dict[str, str] | None = None, **arguments: Any
) -> Completed:
    """Run the installed command from the start: for pipes, limits, and settings that Python reads when it starts."""
    variables = {**os.environ, "COLUMNS": "160", **(environment or {})}
    done = subprocess.run([COMMAND, *words], capture_output=True, input=stdin, env=variables, check=False, **arguments)
    # As bytes, because a stream may be parquet.
    return Completed(done.args, done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode())


def run(*words: str, cwd: Path | None = None) -> Completed:
    """Run the command in a copy of a process that has imported it already: see `warm.py`."""
    with Started(*words, cwd=cwd) as process:
        code = process.wait()
        return Completed([COMMAND, *words], code, process.output("stdout"), process.output("stderr"))


def run_script(script: str, cwd: Path) -> Completed:
    """Run a script of the shell in which `prorec` is a copy of a process that has imported it already."""
    pipes = _pipes(0)
    numbers = tuple(stream.fileno() for stream in pipes)
    script = f'prorec() {{ "{sys.executable}" -IS "{_ASK}" {numbers[0]} {numbers[1]} "$@"; }}\n{script}'
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=cwd,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        pass_fds=numbers,
    )


class Started:
    """A run that continues while the test does something else; only one at a time for each server."""

    def __init__(self, *words: str, cwd: Path | None = None, server: int = 0) -> None:
        self._folder = tempfile.TemporaryDirectory()
        streams = {name: Path(self._folder.name) / name for name in ("stdout", "stderr")}
        for path in streams.values():
            path.touch()
        request = {
            "words": words,
            "folder": str(cwd or Path.cwd()),
            "environment": {**os.environ, "COLUMNS": "160"},
            "stdin": os.devnull,
            **{name: str(path) for name, path in streams.items()},
        }
        requests, self._answers = _pipes(server)
        requests.write(json.dumps(request).encode() + b"\n")
        requests.flush()
        self.pid = self._read_answer()
        self._code: int | None = None

    def _read_answer(self) -> int:
        return int(self._answers.readline())

    def poll(self) -> int | None:
        """Return the exit code, or None while the run continues."""
        if self._code is None and select.select([self._answers], [], [], 0)[0]:
            self._code = self._read_answer()
        return self._code

    def kill(self, signal: int) -> None:
        """Send a signal, unless the run has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, signal)

    def wait(self) -> int:
        """Wait for the end, and return the exit code."""
        if self._code is None:
            self._code = self._read_answer()
        return self._code

    def output(self, stream: str) -> str:
        """Return the text that the run wrote to a stream."""
        return (Path(self._folder.name) / stream).read_bytes().decode(errors="surrogateescape")

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self._folder.cleanup()


@cache
def _pipes(number: int) -> tuple[IO[bytes], IO[bytes]]:
    """Start a process that is copied for each run; return its pipes of requests and answers.

    Runs beside each other need a process each, of another number.
    """
    # Unbuffered, so that `select` sees every answer.
    server = subprocess.Popen([sys.executable, str(_SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert server.stdin is not None
    assert server.stdout is not None
    pipes = server.stdin, server.stdout

    def end() -> None:
        for stream in pipes:
            stream.close()
        server.wait()

    atexit.register(end)
    return pipes
