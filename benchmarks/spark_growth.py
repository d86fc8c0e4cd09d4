"""How long denoising takes on Spark as the log grows, what executors hold, and what one machine takes for the same.

    python -m benchmarks.spark_growth --millions 1,2,4,8

Two worker processes of one core and a gigabyte each, on this machine. Users grow with the log, fifty interactions each;
items stay as many. The same factors are used everywhere, so that passes are compared and not models.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from prorec import Interactions, transport
from prorec.denoise.gamma import automatic_gamma
from prorec.factors import Factors

ITEMS, RANK, EACH = 2_000, 32, 50


def main() -> None:
    """Print a table, one row for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", default="1,2,4,8")
    sizes = [float(each) for each in parser.parse_args().millions.split(",")]
    spark = started()
    print("| interactions | users | Spark, 2 workers | rise | an executor, with Python | one machine | Spark / one |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        run(spark, Path(folder), 0.05)  # the first one pays for imports, and does not count
        before = None
        for millions in sizes:
            users, seconds, peak, alone = run(spark, Path(folder), millions)
            rise = "" if before is None else f"{(seconds / before[1]) / (millions / before[0]):.2f} × linear"
            print(
                f"| {millions:g} M | {users:,} | {seconds:.0f} s | {rise} | {peak / 1e6:,.0f} MB | {alone:.1f} s | "
                f"{seconds / alone:.1f} |",
                flush=True,
            )
            before = millions, seconds
    spark.stop()


def started():
    """A cluster of two worker processes."""
    import pyspark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "16",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def made(millions: float) -> tuple[Interactions, Factors]:
    """A log of so many interactions, and factors that go with it."""
    rng = np.random.default_rng(0)
    n_users = int(millions * 1e6 / EACH)
    users = rng.normal(size=(n_users, RANK)).astype(np.float32) / np.sqrt(RANK)
    items = rng.normal(size=(ITEMS, RANK)).astype(np.float32)
    # Items by popularity, the same number for everybody, none twice: a window over a shuffled circle.
    start = (ITEMS * rng.random(n_users) ** 2).astype(np.int64)
    columns = (start[:, None] + 7 * np.arange(EACH)) % ITEMS
    from scipy.sparse import csr_array

    indptr = np.arange(0, n_users * EACH + 1, EACH)
    matrix = csr_array((np.ones(columns.size, np.float32), np.sort(columns, axis=1).ravel(), indptr), (n_users, ITEMS))
    return Interactions.from_matrix(matrix), Factors(users, items)


def run(spark, folder: Path, millions: float) -> tuple[int, float, float, float]:
    """Users, seconds on Spark, the most memory of an executor with its Python workers, and seconds on one machine."""
    from prorec.engines.spark import SparkProRec

    clicks, factors = made(millions)
    paths = {name: str(folder / f"{name}-{millions}.parquet") for name in ("clicks", "users", "items")}
    table = {"user": clicks.user_codes, "item": clicks.item_codes}
    pq.write_table(pa.table(table), paths["clicks"], row_group_size=500_000)
    for name, array in (("users", factors.users), ("items", factors.items)):
        features = pa.FixedSizeListArray.from_arrays(pa.array(array.ravel()), RANK).cast(pa.list_(pa.float32()))
        pq.write_table(pa.table({name[:-1]: np.arange(len(array)), "features": features}), paths[name])

    begin = time.perf_counter()
    gamma = automatic_gamma(factors, clicks.matrix)
    plan = transport.relaxed(factors, transport.Marginals.popularity(clicks.matrix), gamma, device="cpu")
    transport.relabel(clicks.matrix, plan.match(clicks.matrix), 20.0, 0.5)
    alone = time.perf_counter() - begin

    watch = Watch()
    frames = {name: spark.read.parquet(path) for name, path in paths.items()}
    begin = time.perf_counter()
    with watch:
        found = SparkProRec(partitions=16).fit(
            frames["clicks"], factors=(frames["users"], frames["items"]), work=str(folder / f"work-{millions}")
        )
        found.frame.write.mode("overwrite").parquet(str(folder / "out.parquet"))
    return clicks.n_users, time.perf_counter() - begin, watch.peak, alone


class Watch:
    """The most memory that one executor and the Python processes below it have had at once."""

    def __init__(self) -> None:
        self.peak, self._stop = 0.0, threading.Event()

    def __enter__(self) -> Watch:
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            parents, sizes, executors = {}, {}, []
            for entry in Path("/proc").iterdir():
                if not entry.name.isdecimal():
                    continue
                try:
                    fields = (entry / "stat").read_text().rpartition(")")[2].split()
                    parents[int(entry.name)], sizes[int(entry.name)] = int(fields[1]), int(fields[21]) * 4096
                    if b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                        executors.append(int(entry.name))
                except (OSError, IndexError):
                    continue
            for executor in executors:
                below = {executor}
                while more := {child for child, parent in parents.items() if parent in below} - below:
                    below |= more
                self.peak = max(self.peak, sum(sizes[each] for each in below))


if __name__ == "__main__":
    main()
