"""The runner of all attacks: some minutes in some processes, and a table of cases and outcomes.

Each case is made from its seed, so a failure can be repeated:
`python -m tests.attack --only logs --first-seed 4711 --cases 1`.
A run with `--out` can be stopped and started again: cases that the file counts are not run twice.
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
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from prorec._core.files import atomic_write
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
    parser.add_argument("--out", type=Path, help="JSON file of counts and failures; continued if it exists")
    options = parser.parse_args()
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    begin = time.monotonic()
    planned = {name: options.cases or ATTACKS[name].n_cases for name in options.only}
    journal = Journal(options.out, _commit())
    run_attacks(journal, planned, options.first_seed, 60 * options.minutes, options.processes)
    seconds, found = time.monotonic() - begin, journal.found
    print(f"Commit {', '.join(journal.commits)}, {options.processes} processes, {seconds / 60:.1f} minutes.\n")
    print(describe(found, planned))
    failures = [text for outcomes in found.values() for text in outcomes.failures]
    for text in failures[:50]:
        print(f"\n{text}")
    sys.exit(1 if failures else 0)


class Journal:
    """What has been done, in a file if there is one, so that a run can be stopped and continued.

    Parameters
    ----------
    path : Path, optional
        The file; a run that it holds is continued.
    commit : str
        The commit of the working tree.
    """

    def __init__(self, path: Path | None, commit: str) -> None:
        self._path = path
        content = json.loads(path.read_text("utf-8")) if path is not None and path.exists() else {}
        self.commits: list[str] = content.get("commits", [])
        self.commits += [commit] if commit not in self.commits else []
        self.found: dict[str, Outcomes] = {}
        self._done: dict[str, list[list[int]]] = content.get("done", {})
        for name, each in content.get("found", {}).items():
            counters = {key: Counter(each[key]) for key in ("counts", "work", "broken")}
            self.found[name] = Outcomes(**each | counters)

    def has(self, name: str, seeds: range) -> bool:
        """Return whether the cases of these seeds were run."""
        return [seeds.start, seeds.stop] in self._done.get(name, [])

    def add(self, name: str, seeds: range, outcomes: Outcomes) -> None:
        """Add the outcomes of some seeds."""
        self.found.setdefault(name, Outcomes()).add(outcomes)
        self._done.setdefault(name, []).append([seeds.start, seeds.stop])
        if self._path is not None:
            found = {name: vars(each) for name, each in self.found.items()}
            with atomic_write(self._path) as temporary:
                temporary.write_text(json.dumps({"commits": self.commits, "done": self._done, "found": found}), "utf-8")


def run_attacks(journal: Journal, planned: dict[str, int], first_seed: int, seconds: float, n_processes: int) -> None:
    """Run cases of attacks in some processes, all attacks side by side, until all are done or the time is over."""
    end = time.monotonic() + seconds
    chunks = [chunk for chunk in _deal(planned, first_seed) if not journal.has(*chunk)]
    with tempfile.TemporaryDirectory() as folder:
        while chunks and time.monotonic() < end:
            running: dict[Future[Outcomes], tuple[str, range]] = {}
            with ProcessPoolExecutor(n_processes, multiprocessing.get_context("spawn")) as pool:
                try:
                    _run_chunks(pool, n_processes, chunks, running, journal, end, folder)
                except BrokenProcessPool:  # compiled code crashed
                    for name, seeds in running.values():
                        died = Outcomes(broken=Counter(tracebacks=1))
                        died.failures.append(f"{name}, one of {seeds}: the process died")
                        journal.add(name, seeds, died)


def _run_chunks(
    pool: ProcessPoolExecutor,
    n_processes: int,
    chunks: list[tuple[str, range]],
    running: dict[Future[Outcomes], tuple[str, range]],
    journal: Journal,
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
            journal.add(*running.pop(future), outcomes)
        if time.monotonic() > shown + 60:
            shown = time.monotonic()
            counts = ", ".join(f"{name} {outcomes.n_cases:,}" for name, outcomes in journal.found.items())
            n_failures = sum(len(each.failures) for each in journal.found.values())
            print(f"{counts}; {n_failures} failures", flush=True)


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
    lines = [
        "| attack | cases | planned | processes | SIGKILLs | CPU minutes | outcomes |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    total = Outcomes()
    for name in planned:
        outcomes = found.get(name, Outcomes())
        total.add(outcomes)
        lines.append(_describe_row(name, outcomes, planned[name]))
    total.counts, total.work = Counter(), Counter({name: total.work[name] for name in _COLUMNS})
    lines.append(_describe_row("together", total, sum(planned.values())))
    lines += ["", "| broken promise | cases |", "| --- | ---: |"]
    lines += [f"| {promise} | {total.broken[promise]:,} |" for promise in PROMISES]
    return "\n".join(lines)


_COLUMNS = ("processes", "SIGKILLs")


def _describe_row(name: str, outcomes: Outcomes, n_planned: int) -> str:
    listed = [f"{count:,} {outcome}" for outcome, count in outcomes.counts.most_common()]
    listed += [f"{count:,} {thing}" for thing, count in outcomes.work.items() if thing not in _COLUMNS]
    cells = [name, f"{outcomes.n_cases:,}", f"{n_planned:,}", *(f"{outcomes.work[each]:,}" for each in _COLUMNS)]
    return f"| {' | '.join([*cells, f'{outcomes.cpu_seconds / 60:.1f}', '; '.join(listed)])} |"


def _commit() -> str:
    """Return the commit of the working tree, with a mark if files were changed."""
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
