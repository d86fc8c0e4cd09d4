"""Cost of a pair, an interaction and a user on Spark, from which docs/spark-sizing.md estimates larger logs.

    python -m benchmarks.spark_costs --only passes
    python -m benchmarks.spark_costs --only als
    python -m benchmarks.spark_costs --only tables

Seconds are CPU seconds, so that other programs on the machine do not count. Factors have rank 64.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from benchmarks.spark_growth import start_spark, write_factors
from benchmarks.spark_skew import read_stages
from prorec.noise.plan_ranks import Pairs, rank_in_blocks
from prorec.transport.backend import CpuBackend
from prorec.transport.blocks import Blocks
from prorec.transport.factors import Factors
from prorec.transport.gamma import estimate_gamma
from prorec.transport.item_blocks import BlockedFactors
from prorec.transport.scores import ScaledFactors, ScaledScores

RANK = 64
SHAPES = (  # users, items, bytes of a block
    (600, 2_000, 128e6),  # compiles; not reported
    (40_000, 2_000, 128e6),
    (8_000, 20_000, 128e6),
    (800, 200_000, 128e6),
    (800, 300_000, 128e6),
    (400, 1_000_000, 128e6),
    (400, 1_000_000, 512e6),
)
BLOCK = 262_144  # items in one broadcast file
SWEEPS = 1, 4  # the cost of one sweep is a third of the difference


def main() -> None:
    """Print the costs named by --only."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=("passes", "als", "tables"), required=True)
    part = parser.parse_args().only
    if part == "passes":
        measure_passes()
        return
    spark = start_spark({"spark.ui.enabled": "true", "spark.executor.memory": "1g"})
    with tempfile.TemporaryDirectory() as folder:
        (measure_als if part == "als" else measure_tables)(spark, Path(folder))
    spark.stop()


def measure_passes() -> None:
    """Print nanoseconds per pair of both passes and of ranking a fold's clicks, on one core as in a task."""
    print("| items | users at a time | factors of items | first pass, ns a pair | second | ranking a fifth of clicks |")
    print("| ---: | ---: | --- | ---: | ---: | ---: |")
    rng = np.random.default_rng(0)
    for n_users, n_items, memory in SHAPES:
        users = rng.normal(size=(n_users, RANK)).astype(np.float32) / np.sqrt(RANK)
        items = rng.normal(size=(n_items, RANK)).astype(np.float32)
        clicks = make_clicks(n_users, n_items, 25, rng)
        gamma = estimate_gamma(Factors(users, items), clicks)
        blocks = [items[start : start + BLOCK] for start in range(0, n_items, BLOCK)]
        scores: ScaledScores = ScaledFactors(Factors(users, items), gamma)
        if len(blocks) > 1:
            scores = BlockedFactors(users, blocks, gamma)
        with threadpool_limits(1):
            backend = CpuBackend(Blocks(scores, memory, workers=1))
            first, (by_user, by_item) = cpu_seconds(backend.log_sums)
            second, _ = cpu_seconds(backend.match, -by_user, -by_item, 0, clicks)
            rows = np.repeat(np.arange(n_users, dtype=np.int32), np.diff(clicks.indptr))
            fold = Pairs(rows[::5], clicks.indices[::5].astype(np.int32))
            third, _ = cpu_seconds(rank_in_blocks, backend.blocks, None, clicks, fold)
        if n_users == 600:
            continue
        pairs = n_users * n_items
        layout = f"in {len(blocks)} blocks" if isinstance(scores, BlockedFactors) else "at once"
        block_users = max(map(len, backend.blocks.rows))
        costs = " | ".join(f"{1e9 * seconds / pairs:.2f}" for seconds in (first, second, third))
        print(f"| {n_items:,} | {block_users} | {layout} | {costs} |", flush=True)


def measure_als(spark: Any, folder: Path) -> None:
    """Print CPU microseconds and shuffled bytes of a sweep of ALS, per interaction and per user or item."""
    from prorec.engines.spark import ALS

    sizes = (4_000, 2_000, 50), (4_000, 2_000, 200), (24_000, 2_000, 10)
    results = []
    for n_users, n_items, n_each in [(200, 100, 5), *sizes]:  # the first one warms up
        path = str(folder / f"{n_users}-{n_each}")
        write_clicks(path, make_clicks(n_users, n_items, n_each, np.random.default_rng(0)))
        rows = spark.read.parquet(path).selectExpr("user", "item", "1f as weight").repartition(4).cache()
        n_pairs = rows.count()
        costs = []
        for sweeps in SWEEPS:
            before = last_stage(spark)
            for factors in ALS(rank=RANK, sweeps=sweeps).fit(rows, 4):
                factors.count()
            costs.append(cost_since(spark, before))
        first = costs[0]
        sweep = (costs[1] - first) / (SWEEPS[1] - SWEEPS[0])
        print(
            f"{n_pairs:,} interactions, {n_users + n_items:,} users and items: a sweep {sweep[0]:.2f} core seconds, "
            f"{sweep[1] / 1e6:.1f} MB shuffled; before the first {first[0] - sweep[0]:.2f} core seconds, "
            f"{(first[1] - sweep[1]) / 1e6:.1f} MB",
            flush=True,
        )
        results.append((n_pairs, n_users + n_items, *sweep))
    table = np.array(results[1:])
    for name, column, unit in (("core µs", 2, 1e6), ("bytes shuffled", 3, 1)):
        by_pair, by_row = np.linalg.lstsq(table[:, :2], unit * table[:, column], rcond=None)[0]
        print(f"a sweep: {by_pair:.2f} {name} per interaction, {by_row:.0f} {name} per user or item")


def measure_tables(spark: Any, folder: Path) -> None:
    """Print the CPU time of Java and the bytes moved by all steps except ALS and the passes."""
    from prorec.engines.spark import SparkProRec

    rng, results = np.random.default_rng(0), []
    for n_users, n_items, n_each in ((500, 100, 5), (20_000, 1_000, 20), (20_000, 1_000, 80)):
        run_folder = folder / f"{n_users}-{n_each}"
        run_folder.mkdir()
        clicks = make_clicks(n_users, n_items, n_each, rng)
        write_clicks(str(run_folder / "clicks"), clicks)
        for side, rows in (("user", n_users), ("item", n_items)):
            write_factors(run_folder / side, side, (rng.normal(size=(rows, RANK)) / 8).astype(np.float32))
        before = last_stage(spark)
        factors = spark.read.parquet(str(run_folder / "user")), spark.read.parquet(str(run_folder / "item"))
        result = SparkProRec(partitions=8, noise_method="plan").fit(
            spark.read.parquet(str(run_folder / "clicks")), factors=factors, work_dir=str(run_folder / "work")
        )
        result.frame.write.parquet(str(run_folder / "out"))
        costs = cost_since(spark, before)
        print(
            f"{clicks.nnz:,} interactions, {n_users:,} users: {costs[0]:.1f} core seconds, {costs[1] / 1e6:.1f} MB "
            f"shuffled, {costs[2] / 1e6:.1f} MB written, {costs[3] / 1e6:.1f} MB read",
            flush=True,
        )
        results.append((clicks.nnz, n_users, *costs))
    small, large = results[1:]
    for label, column, unit in (
        ("core µs", 2, 1e6),
        ("bytes shuffled", 3, 1),
        ("bytes written", 4, 1),
        ("bytes read", 5, 1),
    ):
        by_pair = unit * (large[column] - small[column]) / (large[0] - small[0])
        by_user = (unit * small[column] - by_pair * small[0]) / small[1]
        print(f"{by_pair:.1f} {label} per interaction, {by_user:.0f} per user, including the fixed cost of a run")


def cpu_seconds(function: Any, *arguments: Any) -> tuple[float, Any]:
    """Call a function, and return the CPU seconds of this process and the result."""
    start = time.process_time()
    result = function(*arguments)
    return time.process_time() - start, result


def make_clicks(n_users: int, n_items: int, n_each: int, rng: np.random.Generator) -> csr_array:
    """Make `n_each` interactions with distinct items for each user; starts near 0 make some items popular."""
    start = (n_items * rng.random(n_users) ** 2).astype(np.int64)
    columns = np.sort((start[:, None] + 7 * np.arange(n_each)) % n_items, axis=1)
    indptr = np.arange(0, columns.size + 1, n_each)
    return csr_array((np.ones(columns.size, np.float32), columns.ravel(), indptr), (n_users, n_items))


def write_clicks(path: str, clicks: csr_array) -> None:
    """Write one row per interaction, in random order."""
    users: NDArray[np.intp] = np.repeat(np.arange(clicks.shape[0]), np.diff(clicks.indptr))
    order = np.random.default_rng(1).permutation(len(users))
    pq.write_table(pa.table({"user": users[order], "item": clicks.indices[order].astype(np.int64)}), path)


def last_stage(spark: Any) -> int:
    """Return the number of the last completed stage, or -1."""
    return max((int(stage["stageId"]) for stage in read_stages(spark)), default=-1)


def cost_since(spark: Any, before: int) -> NDArray[np.float64]:
    """Return Java's CPU seconds and the bytes shuffled, written and read, in all stages after one."""
    quantities = "executorCpuTime", "shuffleWriteBytes", "outputBytes", "inputBytes"
    stages = [stage for stage in read_stages(spark) if int(stage["stageId"]) > before]
    return np.array([sum(stage[name] for stage in stages) for name in quantities]) * [1e-9, 1, 1, 1]


if __name__ == "__main__":
    main()
