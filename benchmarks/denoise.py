"""Denoising against the model fits inside it: in Python on AMusic and MovieLens-1M, on the command line on Gowalla."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import prorec
from benchmarks.models import load_or_make
from benchmarks.ratio import Ratio
from prorec.models import NCE, WRMF
from prorec.noise.effort import DEFAULT_BASE_MODEL

N_RUNS, N_COMMANDS = 9, 2
_N_FITS = 11  # of 10 folds and of all interactions, as earlier runs had it


def measure() -> Iterator[Ratio]:
    """Measure one round on the training half of AMusic, the noise finder, and `prorec denoise` on a million rows."""
    music, name = load_or_make("amusic", 1_776, 12_929)
    train = prorec.split_by_user(music, (0.5, 0.2, 0.3), seed=0).train
    values = [compare_with_fits(train) for _ in range(N_RUNS)]
    yield Ratio(f"ProRec, one round, NCE rank 200, {name} / the two fits inside it", float(np.median(values)), 1.25)
    yield measure_finder(*load_or_make("ml-1m", 6_040, 3_706))
    yield from measure_command(*load_or_make("gowalla", 29_858, 40_981))


def compare_with_fits(train: prorec.Interactions) -> float:
    """Return the time of one run over that of the two fits in it."""
    start = time.perf_counter()
    denoiser = prorec.ProRec(NCE(rank=200), gamma=0.1, noise_method="plan").fit(train)
    seconds = time.perf_counter() - start
    return seconds / sum(entry.fit_seconds for entry in denoiser.history_)


def measure_finder(clicks: prorec.Interactions, name: str) -> Ratio:
    """Measure the default noise finder against a fit of a model of usual size."""
    finder_seconds, fit_seconds = [], []
    for _ in range(N_COMMANDS):
        finder_seconds.append(measure_seconds(lambda: prorec.NoiseFinder().fit(clicks)))
        fit_seconds.append(measure_seconds(lambda: WRMF(rank=40).fit(clicks)))
    return Ratio(f"NoiseFinder, {name} / one fit of WRMF, rank 40", min(finder_seconds) / min(fit_seconds), 12.0)


def measure_seconds(work: Callable[[], object]) -> float:
    """Return the time that some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure_command(clicks: prorec.Interactions, name: str) -> Iterator[Ratio]:
    """Measure the command from start to exit in its own process, against fits of its base model in this one."""
    prorec_command = str(Path(sys.executable).with_name("prorec"))
    # A process reports at least the peak memory of the one that starts it (Linux), which is a shell and not this one.
    fresh_process = ["sh", "-c", '"$@"; exit $?', "sh"]
    command_seconds, fit_seconds, megabytes = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        log, out = Path(folder) / "clicks.csv", Path(folder) / "out.parquet"
        prorec.write_interactions(clicks, log)
        for _ in range(N_COMMANDS):
            start = time.perf_counter()
            completed = subprocess.run(
                [*fresh_process, prorec_command, "denoise", str(log), "--out", str(out), "--force", "--json"],
                check=True,
                capture_output=True,
            )
            command_seconds.append(time.perf_counter() - start)
            megabytes.append(json.loads(completed.stdout)["peak_memory_mb"])
            fit_seconds.append(measure_seconds(lambda: replace(DEFAULT_BASE_MODEL).fit(clicks)))
    value = min(command_seconds) / (_N_FITS * min(fit_seconds))
    yield Ratio(f"prorec denoise, {name}, {len(clicks):,} rows of csv / {_N_FITS} fits of the base model", value, 5.0)
    yield Ratio(f"peak memory of that, {name} / 2 GB", max(megabytes) / 2000, 1.0)
