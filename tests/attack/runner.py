"""The runner of all attacks: some minutes in some processes, and a table of cases and outcomes.

Each case is made from its seed, so a failure can be repeated:
`python -m tests.attack --only logs --first-seed 4711 --cases 1`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from tests.attack import (
    full_disks,
    fuzz_calls,
    fuzz_logs,
    fuzz_model_folders,
    fuzz_options,
    interrupts,
    races,
)
from tests.attack.cases import PROMISES, Outcomes, run_cases

MODULES = (fuzz_logs, fuzz_options, fuzz_calls, fuzz_model_folders, interrupts, races, full_disks)
ATTACKS = {each.name: each for each in (*(module.ATTACK for module in MODULES), interrupts.REPRODUCTION)}


def main() -> None:
    """Run the attacks, and exit with 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="no new cases are started after this time")
    parser.add_argument("--only", nargs="*", choices=ATTACKS, default=[*ATTACKS], help="names of attacks")
    parser.add_argument("--cases", type=int, help="number of cases of each attack; by default that of a full run")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="file for the counts and all failures, as JSON")
    options = parser.parse_args()
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    begin = time.monotonic()
    planned = {name: options.cases or ATTACKS[name].n_cases for name in options.only}
    found = run_attacks(planned, options.first_seed, 60 * options.minutes, options.processes)
    seconds = time.monotonic() - begin
    print(f"Commit {_commit()}, {options.processes} processes, {seconds / 60:.1f} minutes.\n")
    print(describe(found, planned))
    failures = [text for outcomes in found.values() for text in outcomes.failures]
    for text in failures[:50]:
        print(f"\n{text}")
    if options.out is not None:
        content = {name: vars(outcomes) for name, outcomes in found.items()}
        options.out.write_text(json.dumps({"commit": _commit(), "seconds": seconds} | content, indent=1))
    sys.exit(1 if failures else 0)


def run_attacks(planned: dict[str, int], first_seed: int, seconds: float, n_processes: int) -> dict[str, Outcomes]:
    """Run cases of attacks in some processes, all attacks side by side, until all are done or the time is over."""
    found = {name: Outcomes() for name in planned}
    end = time.monotonic() + seconds
    chunks = list(_deal(planned, first_seed))
    with tempfile.TemporaryDirectory() as folder:
        while chunks and time.monotonic() < end:
            running: dict[Future[Outcomes], tuple[str, range]] = {}
            with ProcessPoolExecutor(n_processes, multiprocessing.get_context("spawn")) as pool:
                try:
                    _run_chunks(pool, n_processes, chunks, running, found, end, folder)
                except BrokenProcessPool:  # compiled code crashed
                    for name, seeds in running.values():
                        found[name].broken["tracebacks"] += 1
                        found[name].failures.append(f"{name}, one of {seeds}: the process died")
    return found


def _run_chunks(
    pool: ProcessPoolExecutor,
    n_processes: int,
    chunks: list[tuple[str, range]],
    running: dict[Future[Outcomes], tuple[str, range]],
    found: dict[str, Outcomes],
    end: float,
    folder: str,
) -> None:
    """Give chunks to the processes of a pool, and add up their outcomes."""
    shown = time.monotonic()
    while running or (chunks and time.monotonic() < end):
        while chunks and len(running) < n_processes and time.monotonic() < end:
            chunk = chunks.pop(0)
            running[pool.submit(_run_chunk, *chunk, folder)] = chunk
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            outcomes = future.result()
            found[running.pop(future)[0]].add(outcomes)
        if time.monotonic() > shown + 60:
            shown = time.monotonic()
            counts = ", ".join(f"{name} {outcomes.n_cases:,}" for name, outcomes in found.items())
            print(f"{counts}; {sum(len(each.failures) for each in found.values())} failures", flush=True)


def _deal(planned: dict[str, int], first_seed: int) -> Iterator[tuple[str, range]]:
    """Yield the seeds of all attacks in chunks, so that each is as far as the others at any time."""
    chunks = []
    for name, n_cases in planned.items():
        size = ATTACKS[name].chunk
        for begin in range(0, n_cases, size):
            seeds = range(first_seed + begin, first_seed + min(begin + size, n_cases))
            chunks.append(((begin + size / 2) / n_cases, name, seeds))
    for _, name, seeds in sorted(chunks, key=lambda chunk: chunk[0]):
        yield name, seeds


def _run_chunk(name: str, seeds: range, folder: str) -> Outcomes:
    """Run some cases in a process of the pool."""
    own = Path(folder) / f"{os.getpid()}-{name}"  # what the cases of a process share is kept
    own.mkdir(exist_ok=True)
    return run_cases(ATTACKS[name], seeds, own)


def describe(found: dict[str, Outcomes], planned: dict[str, int]) -> str:
    """Return tables of what was done and of what came of it."""
    lines = ["| attack | cases | planned | what became of them |", "| --- | ---: | ---: | --- |"]
    for name, outcomes in found.items():
        listed = [f"{count:,} {outcome}" for outcome, count in outcomes.counts.most_common()]
        listed += [f"{count:,} {thing}" for thing, count in outcomes.work.items()]
        lines.append(f"| {name} | {outcomes.n_cases:,} | {planned[name]:,} | {'; '.join(listed)} |")
    total = Outcomes()
    for outcomes in found.values():
        total.add(outcomes)
    lines += ["", "| broken promise | cases |", "| --- | ---: |"]
    lines += [f"| {promise} | {total.broken[promise]:,} |" for promise in PROMISES]
    return "\n".join(lines)


def _commit() -> str:
    """Return the commit of the working tree, with a mark if files were changed."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
