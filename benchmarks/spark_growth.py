"""Growth of denoising on Spark with the log: time, executor memory, and the time of one machine.

    python -m benchmarks.spark_growth --millions 1,2,4,8 --plot

Spark has two worker processes with one core and a gigabyte each, on this machine. Users grow with the log and have
fifty interactions each; the number of items is fixed. Spark and one machine use the same factors, so that passes are
compared and not models.
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

from benchmarks.figure import make_axes, save_svg
from prorec import Interactions, transport
from prorec.transport.factors import Factors
from prorec.transport.gamma import estimate_gamma

N_ITEMS, RANK, CLICKS_PER_USER = 2_000, 32, 50
EXECUTOR_SETTINGS = {  # leave half of a worker's memory to Python
    "spark.executor.memory": "480m",  # Java's heap, which fills up to this limit whatever the work needs
    # Other garbage collectors keep tables of about 60 MB, and the second compiler takes as much.
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def main() -> None:
    """Print a table with one row per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", default="1,2,4,8", help="millions of interactions, comma-separated")
    parser.add_argument("--plot", action="store_true", help="also draw docs/figures/spark_growth.svg")
    arguments = parser.parse_args()
    sizes = [float(size) for size in arguments.millions.split(",")]
    spark = start_spark()
    print(
        "| interactions | users | Spark | relative to linear | an executor, with Python | one machine | Spark / one |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    rows: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        run(spark, Path(folder), 0.05)  # imports and warms up; not measured
        for millions in sizes:
            n_users, seconds, memory, single_seconds = run(spark, Path(folder), millions)
            growth = f"{(seconds / rows[-1][1]) / (millions / rows[-1][0]):.2f}" if rows else ""
            print(
                f"| {millions:g} M | {n_users:,} | {seconds:.0f} s | {growth} | {memory.peak / 2**20:,.0f} MiB, "
                f"{memory.java / 2**20:,.0f} in Java | {single_seconds:.1f} s | {seconds / single_seconds:.1f} |",
                flush=True,
            )
            rows.append((millions, seconds, memory.peak))
    spark.stop()
    if arguments.plot:
        plot(rows)


def plot(rows: list[tuple[float, float, float]]) -> None:
    """Draw time and memory by size, with linear growth and the memory of a worker for comparison."""
    sizes, seconds, peaks = zip(*rows, strict=True)
    figure, ((seconds_axis, memory_axis),) = make_axes(1, 2, (9, 3.4))
    seconds_axis.plot(sizes, seconds, "o-", color="#1b6ca8", label="measured")
    linear = [seconds[0] * size / sizes[0] for size in sizes]
    seconds_axis.plot(sizes, linear, "--", color="#888888", label="linear, from the first")
    seconds_axis.set(ylabel="seconds", title="From table to table, 2 workers")
    memory_axis.plot(sizes, [peak / 2**20 for peak in peaks], "o-", color="#d1495b", label="peak of Java and Python")
    memory_axis.axhline(1024, ls="--", color="#888888", label="limit of a worker, 1,024 MiB")
    memory_axis.set(ylabel="MiB", title="One executor", ylim=(0, 1200))
    for axis in (seconds_axis, memory_axis):
        axis.set(xlabel="million interactions", xticks=sizes)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=8, loc="best")
    save_svg(figure, "spark_growth")


def start_spark(settings: dict[str, str] | None = None) -> Any:
    """Start a cluster of two worker processes with a gigabyte each for Java and Python together."""
    import pyspark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    all_settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "16",
        **EXECUTOR_SETTINGS,
        **(settings or {}),
    }
    if "PYTHONPATH" in os.environ:
        all_settings["spark.executorEnv.PYTHONPATH"] = os.environ["PYTHONPATH"]
    for name, value in all_settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def make_problem(millions: float) -> tuple[Interactions, Factors]:
    """Make a log with this many million interactions, and factors for its users and items."""
    rng = np.random.default_rng(0)
    n_users = int(millions * 1e6 / CLICKS_PER_USER)
    users = rng.normal(size=(n_users, RANK)).astype(np.float32) / np.sqrt(RANK)
    items = rng.normal(size=(N_ITEMS, RANK)).astype(np.float32)
    # Steps of seven on a circle of items give each user distinct items; starts near 0 make some items popular.
    start = (N_ITEMS * rng.random(n_users) ** 2).astype(np.int64)
    columns = (start[:, None] + 7 * np.arange(CLICKS_PER_USER)) % N_ITEMS
    from scipy.sparse import csr_array

    indptr = np.arange(0, n_users * CLICKS_PER_USER + 1, CLICKS_PER_USER)
    matrix = csr_array(
        (np.ones(columns.size, np.float32), np.sort(columns, axis=1).ravel(), indptr), (n_users, N_ITEMS)
    )
    return Interactions.from_matrix(matrix), Factors(users, items)


def run(spark: Any, folder: Path, millions: float) -> tuple[int, float, ExecutorMemory, float]:
    """Return the number of users, seconds on Spark, memory of executors, and seconds on one machine."""
    from prorec.engines.spark import SparkProRec

    clicks, factors = make_problem(millions)
    paths = {name: str(folder / f"{name}-{millions}.parquet") for name in ("clicks", "users", "items")}
    table = {"user": clicks.user_codes, "item": clicks.item_codes}
    pq.write_table(pa.table(table), paths["clicks"], row_group_size=500_000)
    for name, array in (("users", factors.users), ("items", factors.items)):
        write_factors(paths[name], name[:-1], array)

    start = time.perf_counter()
    gamma = estimate_gamma(factors, clicks.matrix)
    plan = transport.relaxed(factors, transport.Marginals.popularity(clicks.matrix), gamma, device="cpu")
    transport.relabel(clicks.matrix, plan.match(clicks.matrix), 20.0, 0.5)
    single_seconds = time.perf_counter() - start

    memory = ExecutorMemory()
    frames = {name: spark.read.parquet(path) for name, path in paths.items()}
    start = time.perf_counter()
    with memory:
        result = SparkProRec(partitions=16, noise_method="plan").fit(
            frames["clicks"], factors=(frames["users"], frames["items"]), work_dir=str(folder / f"work-{millions}")
        )
        result.frame.write.mode("overwrite").parquet(str(folder / "out.parquet"))
    return clicks.n_users, time.perf_counter() - start, memory, single_seconds


def write_factors(path: str | Path, name: str, array: NDArray[np.float32]) -> None:
    """Write factors as a table that Spark reads: ids 0, 1, … and an array of numbers for each."""
    features = pa.FixedSizeListArray.from_arrays(pa.array(array.ravel()), array.shape[1]).cast(pa.list_(pa.float32()))
    pq.write_table(pa.table({name: np.arange(len(array)), "features": features}), path)


class ExecutorMemory:
    """Peak memory of one executor with the Python processes below it, sampled while the context is open."""

    def __init__(self) -> None:
        self.peak = self.java = self.python = 0.0
        self._stop = threading.Event()

    def __enter__(self) -> ExecutorMemory:
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
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
            ours = _descendants(os.getpid(), parents)  # other clusters may run on this machine
            for executor in ours.intersection(executors):
                java, python = _read_pss(executor), sum(map(_read_pss, _descendants(executor, parents)))
                if java + python > self.peak:
                    self.peak, self.java, self.python = java + python, java, python


def _descendants(process: int, parents: dict[int, int]) -> set[int]:
    """Return all processes that a process has started, directly or not."""
    descendants: set[int] = set()
    while new := {child for child, parent in parents.items() if parent in descendants | {process}} - descendants:
        descendants |= new
    return descendants


def _read_pss(process: int) -> float:
    """Return the bytes of a process, with its part of pages shared with others (Linux's PSS)."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:  # the process has ended
        return 0.0
    match = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return 1024.0 * int(match[1]) if match else 0.0


if __name__ == "__main__":
    main()
