"""Runs that are stopped at random moments, by SIGKILL, Ctrl-C and SIGTERM, and then continued to their end.

At any moment the output is whole or not there. An interrupt ends in a documented exit and a short message. In the end
the result is the same as without interrupts, byte for byte, and nothing is beside it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import prorec
from prorec.cli.provenance_file import FILE_NAME as PROVENANCE
from tests.attack.cases import Attack, BrokenPromise, Case
from tests.attack.fuzz_options import EXITS, ROOT
from tests.cli.shell import COMMAND, Started, run

_QUIET = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "160"}


@dataclass(frozen=True)
class Job:
    """A command that takes long enough to be stopped."""

    words: tuple[str, ...]
    """Its words, without those that continue it."""
    out: str
    """Its output."""
    again: tuple[str, ...]
    """Words that continue it, or start it again."""
    digest: Callable[[Path], bytes]
    """What must be the same of the output in the end, whatever happened on the way."""


def _file(path: Path) -> bytes:
    return path.read_bytes()


def _page(path: Path) -> bytes:
    """Return a report without its time and the time that it took."""
    varying = rb"time taken</th><td>[^<]*<|\"seconds\": *[0-9.]+|\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)"
    return re.sub(varying, b"", path.read_bytes())


def _model(path: Path) -> bytes:
    """Return what a saved model consists of, without times; the name of its arrays is random."""
    content = json.loads((path / "model.json").read_text("utf-8"))
    prorec.load(path)
    text = json.dumps({key: value for key, value in content.items() if key != "arrays"}, sort_keys=True)
    return re.sub(r'"\w+_seconds": [^,}]+', "", text).encode()


def _results(path: Path) -> bytes:
    """Return the pages of results, and what was computed for them."""
    return b"".join(each.read_bytes() for each in sorted([*path.glob("*.md"), *path.glob("figures/*.svg")]))


_PLAN = ("--noise-method", "plan", "--rounds", "3", "--tolerance", "0", "-m", "wrmf", "-p", "rank=16")
JOBS = {
    "denoise by the plan": Job(("denoise", "clicks.csv", "-o", "out.csv", *_PLAN), "out.csv", ("--resume",), _file),
    "denoise by cross-fitting": Job(
        ("denoise", "clicks.csv", "-o", "out.parquet", "-m", "svd", "-p", "rank=8"), "out.parquet", ("--resume",), _file
    ),
    "train": Job(("train", "clicks.csv", "-o", "model", "--denoise", "-m", "svd"), "model", ("--force",), _model),
    "report": Job(
        ("report", "clicks.csv", "-o", "out.html", "-m", "svd", "-p", "rank=4", *_PLAN[:2]),
        "out.html",
        ("--force",),
        _page,
    ),
}
_REPRODUCTION = Job(
    ("lambda", "--dataset", "cinema", "--seeds", "1", "--quiet", "--out", "results"), "results", (), _results
)


@cache
def expected_result(name: str, parent: Path) -> tuple[bytes, float]:
    """Run a job without interrupts, once for each worker; return its digest, and the seconds that it took."""
    folder = parent / f"expected-{os.getpid()}-{name.replace(' ', '-')}"
    prepare(folder)
    job = JOBS[name]
    run("datasets", "list", cwd=folder)  # starts the process that is copied
    begin = time.monotonic()
    done = run(*job.words, "--quiet", cwd=folder)
    assert done.returncode == 0, done.stderr
    return job.digest(folder / job.out), time.monotonic() - begin


def prepare_jobs(parent: Path) -> None:
    """Run each job without interrupts."""
    for name in JOBS:
        expected_result(name, parent)


def prepare(folder: Path) -> None:
    """Make a folder with a log."""
    folder.mkdir(exist_ok=True)
    prorec.write_interactions(prorec.make_cinema(60, 45, seed=1).interactions, folder / "clicks.csv")


def check_interrupt(code: int, errors: str, sent: signal.Signals, words: Sequence[str]) -> None:
    """Break a promise if a stopped run ended in another way than documented."""
    shown = f"{sent.name} to prorec {' '.join(words)}"
    if "Traceback" in errors or "--debug shows where" in errors:
        raise BrokenPromise("tracebacks", f"{shown}: {errors[-600:]}")
    if code == -sent:  # before the command could take the signal, or SIGKILL
        return
    if code not in EXITS | {128 + sent} or code in (1, 2):
        raise BrokenPromise("exits that are not documented", f"{code} after {shown}: {errors[-300:]}")
    if len([line for line in errors.splitlines() if line.startswith("prorec:") or "nterrupted" in line]) > 3:
        raise BrokenPromise("messages that are not short", f"{shown}: {errors[-600:]}")


def run_case(case: Case) -> str:
    """Stop a job once or more, and run it to its end."""
    name = case.choose(*JOBS)
    job = JOBS[name]
    expected, seconds = expected_result(name, case.folder.parent)
    prepare(case.folder)
    words: tuple[str, ...] = job.words
    for _ in range(int(case.rng.integers(1, 4))):
        sent = case.choose(signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
        code, errors = _stop(case, words, sent, seconds)
        check_interrupt(code, errors, sent, words)
        if code == -signal.SIGKILL:
            case.counts["SIGKILLs"] += 1
        elif code:
            case.counts["interrupts"] += 1
        _check_output(case.folder, job, expected, was_killed=code == -signal.SIGKILL or "--force" in words)
        words = (*job.words, *job.again)
    done = run(*words, "--quiet", cwd=case.folder)
    case.counts["processes"] += 1
    if done.returncode:
        raise BrokenPromise("wrong resumes", f"exit {done.returncode} of {' '.join(words)}: {done.stderr[-400:]}")
    if job.digest(case.folder / job.out) != expected:
        raise BrokenPromise("wrong resumes", f"{job.out} of {' '.join(words)} is not what it is without interrupts")
    left = [each for each in visible_names(case.folder) if each not in ("clicks.csv", job.out)]
    if left and "--resume" in words:
        raise BrokenPromise("half-written files", f"{left} after {' '.join(words)}")
    return f"{name}: same result"


def _stop(case: Case, words: tuple[str, ...], sent: signal.Signals, seconds: float) -> tuple[int, str]:
    """Start a run, and send a signal at a random moment; return the exit code and the messages."""
    case.counts["processes"] += 1
    if case.happens(0.15):  # from the start, imports included
        process = subprocess.Popen(
            [COMMAND, *words],
            cwd=case.folder,
            env=os.environ | _QUIET,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        time.sleep(float(case.rng.uniform(0.3, 2 + seconds)))
        process.send_signal(sent)
        _, errors = process.communicate()
        return process.returncode, errors.decode(errors="replace")
    with Started(*words, cwd=case.folder) as started:
        begin = time.monotonic()
        delay = float(case.rng.uniform(0, 1.1 * seconds))
        # A copied process takes signals like any other only when the command has begun.
        while started.poll() is None and (time.monotonic() < begin + delay or not started.output("stderr")):
            time.sleep(0.001)
        started.kill(sent)
        return started.wait(), started.output("stderr")


def _check_output(folder: Path, job: Job, expected: bytes, *, was_killed: bool) -> None:
    """Break a promise if the output is there, but not whole, or if something else is left."""
    out = folder / job.out
    if out.is_dir() and not (out / "model.json").exists():
        visible = [each for each in visible_names(out) if not each.startswith((".", "arrays-"))]
        if visible:
            raise BrokenPromise("half-written files", f"{visible} in {job.out}")
    elif out.exists() and job.digest(out) != expected:
        raise BrokenPromise("half-written files", f"{job.out} is there, but not whole")
    left = [each for each in visible_names(folder) if each not in ("clicks.csv", job.out)]
    if not was_killed:
        left = [each for each in left if each != f".{job.out}.prorec"]
        work = folder / f".{job.out}.prorec"
        if work.is_dir() and not (any(work.glob("round.npz")) or any(work.glob("fit-*")) or any(work.glob("fold*"))):
            left.append(f"{work.name}, which has nothing to resume")
    else:
        left = [each for each in left if not each.startswith(".")]
    if left:
        raise BrokenPromise("half-written files", f"{left} beside {job.out}")


def visible_names(folder: Path) -> list[str]:
    """Return the names of all files in a folder but those of provenance."""
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(PROVENANCE))


def run_reproduction_case(case: Case) -> str:
    """Stop `python -m reproduction` once or more, and run it to its end."""
    expected, seconds = _expected_results(case.folder.parent)
    for _ in range(int(case.rng.integers(1, 4))):
        sent = case.choose(signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
        process = _start_reproduction(case.folder)
        time.sleep(float(case.rng.uniform(0.1, 1.1 * seconds)))
        process.send_signal(sent)
        _, errors = process.communicate()
        case.counts["processes"] += 1
        case.counts["SIGKILLs" if process.returncode == -signal.SIGKILL else "interrupts"] += 1
        check_interrupt(process.returncode, errors.decode(errors="replace"), sent, ("reproduction",))
        visible = [path.name for path in case.folder.rglob("*") if not path.is_dir() and not path.name.startswith(".")]
        if odd := [each for each in visible if not each.endswith((".json", ".md", ".svg", ".npz", ".png", ".pdf"))]:
            raise BrokenPromise("half-written files", f"{odd}")
        for page in case.folder.glob("results/*.md"):
            if page.read_bytes() not in expected:
                raise BrokenPromise("half-written files", page.name)
    process = _start_reproduction(case.folder)
    _, errors = process.communicate()
    case.counts["processes"] += 1
    if process.returncode or _results(case.folder / "results") != expected:
        raise BrokenPromise("wrong resumes", f"exit {process.returncode} of reproduction: {errors.decode()[-400:]}")
    return "same result"


@cache
def _expected_results(parent: Path) -> tuple[bytes, float]:
    folder = parent / f"expected-{os.getpid()}-reproduction"
    folder.mkdir()
    begin = time.monotonic()
    process = _start_reproduction(folder)
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    return _results(folder / "results"), time.monotonic() - begin


def _start_reproduction(folder: Path) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "-m", "reproduction", *_REPRODUCTION.words],
        cwd=folder,
        env=os.environ | _QUIET | {"PYTHONPATH": path, "PROREC_CACHE": str(folder.parent / "cache")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


ATTACK = Attack("interrupts", run_case, n_cases=260, chunk=4, seconds=600, prepare=prepare_jobs)
REPRODUCTION = Attack("reproduction", run_reproduction_case, n_cases=8, chunk=1, seconds=900, prepare=_expected_results)
