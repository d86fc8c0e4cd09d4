"""Killing workers while they work."""

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


def executors() -> list[int]:
    """The executors that this process has started, and no others'."""
    found = subprocess.run(
        ["pgrep", "-f", "CoarseGrainedExecutorBackend.*--app-id"], capture_output=True, text=True, check=False
    )
    mine = []
    for text in found.stdout.split():
        above, parents = int(text), set()
        while above > 1:
            try:
                above = int(Path(f"/proc/{above}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                break
            parents.add(above)
        if os.getpid() in parents:
            mine.append(int(text))
    return mine


@contextmanager
def killing(steps: tuple[str, ...], after: float) -> Iterator[list[str]]:
    """A worker is killed so many seconds into the first step called like each of these; which ones those were."""
    killed: list[str] = []
    killers: list[threading.Thread] = []
    say, left = WorkDirectory.say, list(steps)

    def kill(step: str) -> None:
        time.sleep(after)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for process in executors()[:1]:
                os.kill(process, signal.SIGKILL)
                killed.append(step)
                return
            time.sleep(0.05)  # the last ones are dead, and the next ones not yet born

    def say_and_kill(folder: WorkDirectory, step: str) -> None:
        say(folder, step)
        named = [each for each in left if each in step]
        if named:
            left.remove(named[0])
            killers.append(threading.Thread(target=kill, args=(step,)))
            killers[-1].start()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkDirectory, "say", say_and_kill)
        yield killed
    for killer in killers:
        killer.join()
