"""Running the command as a person does: a process of its own, its words and its exit code."""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

COMMAND = str(Path(sys.executable).with_name("prorec"))
WARM = Path(__file__).with_name("warm.py")

Done = subprocess.CompletedProcess[str]


def run_anew(*words: str, stdin: bytes | None = None, environment: dict[str, str] | None = None, **how: Any) -> Done:
    """The installed command, from the very beginning: for pipes, limits, and what Python reads when it starts."""
    given = {**os.environ, "COLUMNS": "160", **(environment or {})}
    done = subprocess.run([COMMAND, *words], capture_output=True, input=stdin, env=given, check=False, **how)
    # Bytes, because what goes through a stream may be parquet.
    return Done(done.args, done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode())


def run(*words: str, cwd: Path | None = None) -> Done:
    """The same command in a copy of a process that has imported it already: see `warm.py`."""
    with Started(*words, cwd=cwd) as process:
        code = process.wait()
        return Done([COMMAND, *words], code, process.said("stdout"), process.said("stderr"))


class Started:
    """A run that goes on while the test does something else. Only one can at a time."""

    def __init__(self, *words: str, cwd: Path | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        streams = {name: Path(self._folder.name) / name for name in ("stdout", "stderr")}
        for path in streams.values():
            path.touch()
        about = {
            "words": words,
            "folder": str(cwd or Path.cwd()),
            "environment": {**os.environ, "COLUMNS": "160"},
            "stdin": os.devnull,
            **{name: str(path) for name, path in streams.items()},
        }
        self._server = _server()
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(about).encode() + b"\n")
        self._server.stdin.flush()
        self.pid = self._answer()
        self._code: int | None = None

    def _answer(self) -> int:
        assert self._server.stdout is not None
        return int(self._server.stdout.readline())

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        if self._code is None and select.select([self._server.stdout], [], [], 0)[0]:
            self._code = self._answer()
        return self._code

    def kill(self, signal: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal)

    def wait(self) -> int:
        if self._code is None:
            self._code = self._answer()
        return self._code

    def said(self, stream: str) -> str:
        return (Path(self._folder.name) / stream).read_bytes().decode(errors="surrogateescape")

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
        self._folder.cleanup()


@cache
def _server() -> subprocess.Popen[bytes]:
    # Unbuffered, so that what `select` sees is all there is.
    server = subprocess.Popen([sys.executable, str(WARM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def end() -> None:
        for stream in (server.stdin, server.stdout):
            assert stream is not None
            stream.close()
        server.wait()

    atexit.register(end)
    return server
