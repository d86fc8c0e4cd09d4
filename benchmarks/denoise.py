"""The whole denoiser against the fits inside it, and the command against two fits, on AMusic and Gowalla."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import prorec
from benchmarks.models import data
from benchmarks.ratio import Ratio
from prorec.models import NCE

RUNS = 9


def measure() -> Iterator[Ratio]:
    """One round on the training half of AMusic; `prorec denoise` on a million interactions."""
    music, name = data("amusic", 1_776, 12_929)
    train = prorec.split_by_user(music, (0.5, 0.2, 0.3), seed=0).train
    shares = [whole_over_fits(train) for _ in range(RUNS)]
    yield Ratio(f"ProRec, one round, NCE rank 200, {name} / the two fits inside it", float(np.median(shares)), 1.25)
    yield from command(*data("gowalla", 29_858, 40_981))


def whole_over_fits(train: prorec.Interactions) -> float:
    """The time of one run over that of the two fits in it."""
    begin = time.perf_counter()
    denoiser = prorec.ProRec(NCE(rank=200), gamma=0.1).fit(train)
    seconds = time.perf_counter() - begin
    return seconds / sum(each.fit_seconds for each in denoiser.history_)


def command(clicks: prorec.Interactions, name: str) -> Iterator[Ratio]:
    """The command in a process of its own, from start to end, against two fits in this one."""
    prorec_command = str(Path(sys.executable).with_name("prorec"))
    ours, theirs, memory = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        log, out = Path(folder) / "clicks.csv", Path(folder) / "out.parquet"
        prorec.write_interactions(clicks, log)
        for _ in range(4):
            begin = time.perf_counter()
            done = subprocess.run(
                [prorec_command, "denoise", str(log), "--out", str(out), "--force", "--json"],
                check=True,
                capture_output=True,
            )
            ours.append(time.perf_counter() - begin)
            memory.append(json.loads(done.stdout)["peak_memory_mb"])
            begin = time.perf_counter()
            for _ in range(2):
                NCE().fit(clicks)
            theirs.append(time.perf_counter() - begin)
    yield Ratio(f"prorec denoise, {name}, {len(clicks):,} rows of csv / two fits of NCE", min(ours) / min(theirs), 3.0)
    yield Ratio(f"peak memory of that, {name} / 2 GB", max(memory) / 2000, 1.0)
