"""How long denoising takes on Spark as the log grows, what executors hold, and what one machine takes for the same.

    python -m benchmarks.spark_growth --millions 1,2,4,8 --plot

Two worker processes of one core and a gigabyte each, on this machine. Users grow with the log, fifty interactions each;
items stay as many. The same factors are used everywhere, so that passes are compared and not models.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from prorec import Interactions, transport
from prorec.transport.factors import Factors
from prorec.transport.gamma import estimate_gamma

FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "spark_growth.svg"
ITEMS, RANK, EACH = 2_000, 32, 50
HALF_FOR_PYTHON = {
    "spark.executor.memory": "480m",  # Java's heap: it takes all it may have, whether it needs it or not
    # With one core: other collectors keep tables of some 60 MB, and the second compiler takes as much.
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def main() -> None:
    """Print a table, one row for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", default="1,2,4,8")
    parser.add_argument("--plot", action="store_true", help=f"draw {FIGURE.name} of the manual, too")
    given = parser.parse_args()
    sizes = [float(each) for each in given.millions.split(",")]
    spark = started()
    print("| interactions | users | Spark, 2 workers | rise | an executor, with Python | one machine | Spark / one |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        run(spark, Path(folder), 0.05)  # the first one pays for imports, and does not count
        for millions in sizes:
            users, seconds, watch, alone = run(spark, Path(folder), millions)
            rise = f"{(seconds / rows[-1][1]) / (millions / rows[-1][0]):.2f} × linear" if rows else ""
            print(
                f"| {millions:g} M | {users:,} | {seconds:.0f} s | {rise} | {watch.peak / 2**20:,.0f} MiB, "
                f"{watch.java / 2**20:,.0f} of it Java's | {alone:.1f} s | {seconds / alone:.1f} |",
                flush=True,
            )
            rows.append((millions, seconds, watch.peak))
    spark.stop()
    if given.plot:
        plot(rows)


def plot(rows: list[tuple[float, float, float]]) -> None:
    """Time and memory by size, beside what would be linear, and what one executor may have."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "prorec"
    from matplotlib import pyplot

    sizes, seconds, peaks = zip(*rows, strict=True)
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    axes[0].plot(sizes, seconds, "o-", color="#1b6ca8", label="measured")
    linear = [seconds[0] * size / sizes[0] for size in sizes]
    axes[0].plot(sizes, linear, "--", color="#888888", label="linear, from the first")
    axes[0].set(ylabel="seconds", title="From table to table, 2 workers")
    axes[1].plot(sizes, [peak / 2**20 for peak in peaks], "o-", color="#d1495b", label="Java and Python, at most")
    axes[1].axhline(1024, ls="--", color="#888888", label="what a worker has, 1,024 MiB")
    axes[1].set(ylabel="MiB", title="One executor", ylim=(0, 1200))
    for axis in axes:
        axis.set(xlabel="million interactions", xticks=sizes)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=8, loc="best")
    figure.savefig(FIGURE, metadata={"Date": None, "Creator": None})


def started(more: dict[str, str] | None = None) -> Any:
    """A cluster of two worker processes, each of which is to stay inside a gigabyte: Java and Python together."""
    import pyspark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "16",
        **HALF_FOR_PYTHON,
        **(more or {}),
    }
    if "PYTHONPATH" in os.environ:
        settings["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    for name, value in settings.items():
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


def run(spark: Any, folder: Path, millions: float) -> tuple[int, float, Watch, float]:
    """Users, seconds on Spark, what executors had in memory, and seconds on one machine."""
    from prorec.engines.spark import SparkProRec

    clicks, factors = made(millions)
    paths = {name: str(folder / f"{name}-{millions}.parquet") for name in ("clicks", "users", "items")}
    table = {"user": clicks.user_codes, "item": clicks.item_codes}
    pq.write_table(pa.table(table), paths["clicks"], row_group_size=500_000)
    for name, array in (("users", factors.users), ("items", factors.items)):
        write_factors(paths[name], name[:-1], array)

    begin = time.perf_counter()
    gamma = estimate_gamma(factors, clicks.matrix)
    plan = transport.relaxed(factors, transport.Marginals.popularity(clicks.matrix), gamma, device="cpu")
    transport.relabel(clicks.matrix, plan.match(clicks.matrix), 20.0, 0.5)
    alone = time.perf_counter() - begin

    watch = Watch()
    frames = {name: spark.read.parquet(path) for name, path in paths.items()}
    begin = time.perf_counter()
    with watch:
        found = SparkProRec(partitions=16).fit(
            frames["clicks"], factors=(frames["users"], frames["items"]), work_dir=str(folder / f"work-{millions}")
        )
        found.frame.write.mode("overwrite").parquet(str(folder / "out.parquet"))
    return clicks.n_users, time.perf_counter() - begin, watch, alone


def write_factors(path: str | Path, name: str, array: NDArray[np.float32]) -> None:
    """A table as Spark takes it: ids 0, 1, … and an array of numbers for each."""
    features = pa.FixedSizeListArray.from_arrays(pa.array(array.ravel()), array.shape[1]).cast(pa.list_(pa.float32()))
    pq.write_table(pa.table({name: np.arange(len(array)), "features": features}), path)


class Watch:
    """The most memory that one executor and the Python processes below it have had at once."""

    def __init__(self) -> None:
        self.peak = self.java = self.python = 0.0
        self._stop = threading.Event()

    def __enter__(self) -> Watch:
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            parents, executors = {}, []
            for entry in Path("/proc").iterdir():
                if not entry.name.isdecimal():
                    continue
                try:
                    parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    if b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                        executors.append(int(entry.name))
                except (OSError, IndexError):
                    continue
            ours = _below(os.getpid(), parents)  # somebody else's cluster may be on this machine
            for executor in ours.intersection(executors):
                java, python = _own_share(executor), sum(map(_own_share, _below(executor, parents)))
                if java + python > self.peak:
                    self.peak, self.java, self.python = java + python, java, python


def _below(process: int, parents: dict[int, int]) -> set[int]:
    """All processes that a process has started, and those that they have."""
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in found | {process}} - found:
        found |= more
    return found


def _own_share(process: int) -> float:
    """Bytes of memory that a process has, with its share of those that it has in common with others (Linux's PSS)."""
    try:
        told = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:  # it has ended
        return 0.0
    found = re.search(r"^Pss:\s+(\d+) kB", told, re.MULTILINE)
    return 1024.0 * int(found[1]) if found else 0.0


if __name__ == "__main__":
    main()
