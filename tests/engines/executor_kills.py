"""Killing executors while they work."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from prorec.engines.spark.work_directory import WorkDirectory


def find_executors() -> list[int]:
    """Return the executors that this process has started, and no others'."""
    output = subprocess.run(
        ["pgrep", "-f", "CoarseGrainedExecutorBackend.*--app-id"], capture_output=True, text=True, check=False
    ).stdout
    return [int(text) for text in output.split() if os.getpid() in ancestors(int(text))]


def ancestors(process: int) -> set[int]:
    result: set[int] = set()
    while process > 1:
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
        result.add(process)
    return result


@contextmanager
def killing_executors(steps: tuple[str, ...], delay: float) -> Iterator[list[str]]:
    """Kill an executor so many seconds into the first step that has each of these names; yield the steps hit."""
    killed: list[str] = []
    killers: list[threading.Thread] = []
    start_step, remaining = WorkDirectory.start_step, list(steps)

    def kill(step: str) -> None:
        time.sleep(delay)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for process in find_executors()[:1]:
                os.kill(process, signal.SIGKILL)
                killed.append(step)
                return
            time.sleep(0.05)  # the last executors are dead, and the next have not started yet

    def start_step_and_kill(directory: WorkDirectory, step: str | None) -> None:
        start_step(directory, step)
        matching = [each for each in remaining if step is not None and each in step]
        if step is not None and matching:
            remaining.remove(matching[0])
            killers.append(threading.Thread(target=kill, args=(step,)))
            killers[-1].start()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkDirectory, "start_step", start_step_and_kill)
        yield killed
    for killer in killers:
        killer.join()
