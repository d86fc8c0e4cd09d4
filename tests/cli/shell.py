"""Running the command as a person does: a process of its own, its words and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = str(Path(sys.executable).with_name("prorec"))


def run(
    *words: str, stdin: bytes | None = None, cwd: Path | None = None, **how: Any
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "160", **how.pop("environment", {})}
    done = subprocess.run(
        [COMMAND, *words], capture_output=True, input=stdin, cwd=cwd, env=environment, check=False, **how
    )
    # Bytes, because what goes through a stream may be parquet.
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(errors="surrogateescape"), done.stderr.decode()
    )
