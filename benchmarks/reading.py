"""Reading 10 million rows of csv, against Arrow's own reader, which does the parsing for us."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

import prorec
from benchmarks.ratio import Ratio, side_by_side

ROWS = 10_000_000

_PEAK = """
import pathlib, re, sys
import prorec
def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
begin = peak()
prorec.read_interactions(sys.argv[1])
print(peak() - begin)
"""


def measure() -> Iterator[Ratio]:
    """Time for integer and for text ids, and peak memory for both."""
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("integer", "text"):
            path = Path(folder) / f"{kind}.csv"
            _write(path, as_text=kind == "text")
            ratio = side_by_side(
                partial(prorec.read_interactions, path),
                partial(pacsv.read_csv, path),
            )
            yield Ratio(f"read 10 M rows of csv, {kind} ids / pyarrow.csv.read_csv", ratio, 2.0)
            command = [sys.executable, "-c", _PEAK, str(path)]
            peak = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            size = path.stat().st_size
            assert peak > 0, "the peak before reading was higher than that of reading"
            yield Ratio(f"peak memory of reading it, {kind} ids / size of the file", peak / size, 5.0)
            path.unlink()


def _write(path: Path, *, as_text: bool) -> None:
    """A log of distinct pairs in random order: user, item, rating, timestamp."""
    rng = np.random.default_rng(0)
    n_users, n_items = 200_000, 50_000
    users = (n_users * rng.random(int(1.1 * ROWS)) ** 1.5).astype(np.int64)
    items = (n_items * rng.random(len(users)) ** 2.5).astype(np.int64)
    pairs = rng.permutation(np.unique(users * n_items + items))[:ROWS]
    ids = {"user": pa.array(pairs // n_items), "item": pa.array(pairs % n_items)}
    if as_text:
        ids = {name: pc.binary_join_element_wise(name, ids[name].cast(pa.string()), "-") for name in ids}
    rating, timestamp = rng.integers(1, 6, len(pairs)), rng.integers(9e8, 1e9, len(pairs))  # type: ignore[call-overload]
    pacsv.write_csv(pa.table({**ids, "rating": rating, "timestamp": timestamp}), path)
