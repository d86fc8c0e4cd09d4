"""Reading 10 million rows of csv, against Arrow's own reader, which parses the file for prorec, too."""

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
from benchmarks.ratio import Ratio, time_ratio

N_ROWS = 10_000_000

_MEASURE_PEAK = """
import sys
import prorec
from benchmarks.ratio import peak_memory
before = peak_memory()
prorec.read_interactions(sys.argv[1])
print(peak_memory() - before)
"""


def measure() -> Iterator[Ratio]:
    """Measure time and peak memory for integer and for text ids, and time for a log that is sorted by user."""
    with tempfile.TemporaryDirectory() as folder:
        for id_type in ("integer", "text"):
            path = Path(folder) / f"{id_type}.csv"
            write_log(path, as_text=id_type == "text")
            value = time_ratio(partial(prorec.read_interactions, path), partial(pacsv.read_csv, path))
            yield Ratio(f"read 10 M rows of csv, {id_type} ids / pyarrow.csv.read_csv", value, 2.0)
            command = [sys.executable, "-c", _MEASURE_PEAK, str(path)]
            peak = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            assert peak > 0, "reading must raise the process's peak memory; use a larger N_ROWS"
            yield Ratio(f"peak memory of reading it, {id_type} ids / size of the file", peak / path.stat().st_size, 3.0)
            if id_type == "text":
                pacsv.write_csv(pacsv.read_csv(path).sort_by("user"), path)
                value = time_ratio(partial(prorec.read_interactions, path), partial(pacsv.read_csv, path))
                yield Ratio("read 10 M rows of csv, text ids sorted by user / pyarrow.csv.read_csv", value, 2.0)
            path.unlink()


def write_log(path: Path, *, as_text: bool) -> None:
    """Write a log of distinct pairs in random order: user, item, rating, timestamp."""
    rng = np.random.default_rng(0)
    n_users, n_items = 200_000, 50_000
    users = (n_users * rng.random(int(1.1 * N_ROWS)) ** 1.5).astype(np.int64)
    items = (n_items * rng.random(len(users)) ** 2.5).astype(np.int64)
    pairs = rng.permutation(np.unique(users * n_items + items))[:N_ROWS]
    ids = {"user": pa.array(pairs // n_items), "item": pa.array(pairs % n_items)}
    if as_text:
        ids = {name: pc.binary_join_element_wise(name, ids[name].cast(pa.string()), "-") for name in ids}
    rating, timestamp = rng.integers(1, 6, len(pairs)), rng.integers(9e8, 1e9, len(pairs))  # type: ignore[call-overload]
    pacsv.write_csv(pa.table({**ids, "rating": rating, "timestamp": timestamp}), path)
