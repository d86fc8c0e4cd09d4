"""Races: a file appears while a run works for its name, and two runs write one output."""

from __future__ import annotations

import time
from pathlib import Path

from tests.attack.cases import Attack, BrokenPromise, Case
from tests.attack.fuzz_options import EXITS, check_exit
from tests.attack.interrupts import JOBS, expected_result, prepare, prepare_jobs, visible_names
from tests.cli.shell import Started

_PRECIOUS = "written by somebody else"


def run_case(case: Case) -> str:
    """Run one of the races."""
    prepare(case.folder)
    return _a_file_appears(case) if case.happens(0.6) else _two_runs(case)


def _a_file_appears(case: Case) -> str:
    """Write a file of the output's name while a run works."""
    name = case.choose(*JOBS)
    job = JOBS[name]
    expected, seconds = expected_result(name, case.folder.parent)
    out = case.folder / job.out
    precious = out / "precious.txt" if name == "train" else out
    case.counts["processes"] += 1
    case.counts["races"] += 1
    with Started(*job.words, cwd=case.folder) as started:
        end = time.monotonic() + float(case.rng.uniform(0, 1.1 * seconds))
        while time.monotonic() < end and started.poll() is None:
            time.sleep(0.001)
        is_first = _write_new(precious)
        code, errors = started.wait(), started.output("stderr")
    check_exit(code, errors, list(job.words), EXITS)
    if not is_first:
        if job.digest(out) != expected:
            raise BrokenPromise("half-written files", f"{job.out} is not whole")
        return f"{name}: the run was first"
    if precious.read_text() != _PRECIOUS or (name == "train" and (out / "model.json").exists()):
        raise BrokenPromise("overwritten files", f"{job.out}, which appeared during prorec {name}")
    if code == 0:
        raise BrokenPromise("exits that are not documented", f"0 of prorec {name} without an output")
    return f"{name}: refused"


def _write_new(path: Path) -> bool:
    """Write a file unless there is one; return whether it was written."""
    try:
        if path.parent.name == "model":
            path.parent.mkdir()
        with path.open("x") as file:
            file.write(_PRECIOUS)
    except FileExistsError:
        return False
    return True


def _two_runs(case: Case) -> str:
    """Start a run twice, for one output."""
    name = case.choose(*JOBS)
    job = JOBS[name]
    expected, seconds = expected_result(name, case.folder.parent)
    case.counts["processes"] += 2
    case.counts["races"] += 1
    with Started(*job.words, cwd=case.folder) as first:
        time.sleep(float(case.rng.uniform(0, 0.5 * seconds)))
        with Started(*job.words, cwd=case.folder, server=1) as second:
            codes = second.wait(), first.wait()
            errors = second.output("stderr"), first.output("stderr")
    for code, text in zip(codes, errors, strict=True):
        check_exit(code, text, list(job.words), EXITS)
    if 0 not in codes:
        raise BrokenPromise(
            "exits that are not documented", f"{codes} of two runs of prorec {name}: {errors[0][-300:]}"
        )
    if job.digest(case.folder / job.out) != expected:
        raise BrokenPromise("half-written files", f"{job.out} of two runs is not what it is of one")
    left = [each for each in visible_names(case.folder) if each not in ("clicks.csv", job.out)]
    if left:
        raise BrokenPromise("half-written files", f"{left} after two runs of prorec {name}")
    return f"{name}: two runs, exits {min(codes)} and {max(codes)}"


ATTACK = Attack("races", run_case, n_cases=60, chunk=2, seconds=300, prepare=prepare_jobs)
