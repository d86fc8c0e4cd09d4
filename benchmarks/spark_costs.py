"""What one pair, one interaction and one user cost on Spark: numbers to work out larger logs with, on paper.

    python -m benchmarks.spark_costs --only passes
    python -m benchmarks.spark_costs --only als
    python -m benchmarks.spark_costs --only tables

Seconds are those that a core worked, not those on the clock, so that other programs on the machine don't count. Factors
are 64 wide.
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

from benchmarks.spark_growth import started, write_factors
from benchmarks.spark_skew import stages_of
from prorec.noise.plan_ranks import Pairs, rank_in_blocks
from prorec.transport.backend import CpuBackend
from prorec.transport.blocks import Blocks
from prorec.transport.factors import Factors
from prorec.transport.gamma import estimate_gamma
from prorec.transport.item_blocks import BlockedFactors
from prorec.transport.scores import ScaledFactors, ScaledScores

RANK = 64
SHAPES = (  # users, items, bytes for a block of both
    (600, 2_000, 128e6),  # this one compiles, and does not count
    (40_000, 2_000, 128e6),
    (8_000, 20_000, 128e6),
    (800, 200_000, 128e6),
    (800, 300_000, 128e6),
    (400, 1_000_000, 128e6),
    (400, 1_000_000, 512e6),
)
BLOCK = 262_144  # items: as many as are shipped in one file
SWEEPS = 1, 4  # what is left of the difference is the cost of one


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=("passes", "als", "tables"), required=True)
    kind = parser.parse_args().only
    if kind == "passes":
        passes()
        return
    spark = started({"spark.ui.enabled": "true", "spark.executor.memory": "1g"})
    with tempfile.TemporaryDirectory() as folder:
        (als if kind == "als" else tables)(spark, Path(folder))
    spark.stop()


def passes() -> None:
    """Nanoseconds for each pair, of both passes and of judging a fold, as a task does them: by one core."""
    print("| items | users at a time | factors of items | first pass, ns a pair | second | judging a fifth of clicks |")
    print("| ---: | ---: | --- | ---: | ---: | ---: |")
    rng = np.random.default_rng(0)
    for n_users, n_items, memory in SHAPES:
        users = rng.normal(size=(n_users, RANK)).astype(np.float32) / np.sqrt(RANK)
        items = rng.normal(size=(n_items, RANK)).astype(np.float32)
        clicks = drawn(n_users, n_items, 25, rng)
        gamma = estimate_gamma(Factors(users, items), clicks)
        blocks = [items[begin : begin + BLOCK] for begin in range(0, n_items, BLOCK)]
        scores: ScaledScores = ScaledFactors(Factors(users, items), gamma)
        if len(blocks) > 1:
            scores = BlockedFactors(users, blocks, gamma)
        with threadpool_limits(1):
            work = CpuBackend(Blocks(scores, memory, workers=1))
            first, (by_user, by_item) = worked(work.log_sums)
            second, _ = worked(work.match, -by_user, -by_item, 0, clicks)
            rows = np.repeat(np.arange(n_users, dtype=np.int32), np.diff(clicks.indptr))
            fold = Pairs(rows[::5], clicks.indices[::5].astype(np.int32))
            third, _ = worked(rank_in_blocks, work.blocks, None, clicks, fold)
        if n_users == 600:
            continue
        pairs = n_users * n_items
        how = f"in {len(blocks)} blocks" if isinstance(scores, BlockedFactors) else "at once"
        at_a_time = max(map(len, work.blocks.rows))
        costs = " | ".join(f"{1e9 * seconds / pairs:.2f}" for seconds in (first, second, third))
        print(f"| {n_items:,} | {at_a_time} | {how} | {costs} |", flush=True)


def als(spark: Any, folder: Path) -> None:
    """Microseconds of a sweep for each interaction and for each user or item, and bytes shuffled."""
    from prorec.engines.spark import ALS

    sizes = (4_000, 2_000, 50), (4_000, 2_000, 200), (24_000, 2_000, 10)
    found = []
    for n_users, n_items, each in [(200, 100, 5), *sizes]:  # the first one does not count
        path = str(folder / f"{n_users}-{each}")
        write_clicks(path, drawn(n_users, n_items, each, np.random.default_rng(0)))
        rows = spark.read.parquet(path).selectExpr("user", "item", "1f as weight").repartition(4).cache()
        n_pairs = rows.count()
        costs = []
        for sweeps in SWEEPS:
            before = last_stage(spark)
            for factors in ALS(rank=RANK, sweeps=sweeps).fit(rows, 4):
                factors.count()
            costs.append(cost_since(spark, before))
        once = costs[0]
        for_one = (costs[1] - once) / (SWEEPS[1] - SWEEPS[0])
        print(
            f"{n_pairs:,} interactions, {n_users + n_items:,} users and items: a sweep {for_one[0]:.2f} core seconds, "
            f"{for_one[1] / 1e6:.1f} MB shuffled; before the first {once[0] - for_one[0]:.2f} core seconds, "
            f"{(once[1] - for_one[1]) / 1e6:.1f} MB",
            flush=True,
        )
        found.append((n_pairs, n_users + n_items, *for_one))
    table = np.array(found[1:])
    for name, column, unit in (("core µs", 2, 1e6), ("bytes shuffled", 3, 1)):
        by_pair, by_row = np.linalg.lstsq(table[:, :2], unit * table[:, column], rcond=None)[0]
        print(f"a sweep: {by_pair:.2f} {name} for an interaction, {by_row:.0f} {name} for a user or an item")


def tables(spark: Any, folder: Path) -> None:
    """What everything but ALS and the passes costs Java, and how many bytes it moves."""
    from prorec.engines.spark import SparkProRec

    rng, found = np.random.default_rng(0), []
    for n_users, n_items, each in ((500, 100, 5), (20_000, 1_000, 20), (20_000, 1_000, 80)):
        name = folder / f"{n_users}-{each}"
        name.mkdir()
        clicks = drawn(n_users, n_items, each, rng)
        write_clicks(str(name / "clicks"), clicks)
        for kind, rows in (("user", n_users), ("item", n_items)):
            write_factors(name / kind, kind, (rng.normal(size=(rows, RANK)) / 8).astype(np.float32))
        before = last_stage(spark)
        given = spark.read.parquet(str(name / "user")), spark.read.parquet(str(name / "item"))
        denoised = SparkProRec(partitions=8).fit(
            spark.read.parquet(str(name / "clicks")), factors=given, work_dir=str(name / "work")
        )
        denoised.frame.write.parquet(str(name / "out"))
        costs = cost_since(spark, before)
        print(
            f"{clicks.nnz:,} interactions, {n_users:,} users: {costs[0]:.1f} core seconds, {costs[1] / 1e6:.1f} MB "
            f"shuffled, {costs[2] / 1e6:.1f} MB written, {costs[3] / 1e6:.1f} MB read",
            flush=True,
        )
        found.append((clicks.nnz, n_users, *costs))
    small, large = found[1:]
    for what, column, unit in (
        ("core µs", 2, 1e6),
        ("bytes shuffled", 3, 1),
        ("bytes written", 4, 1),
        ("bytes read", 5, 1),
    ):
        by_pair = unit * (large[column] - small[column]) / (large[0] - small[0])
        by_user = (unit * small[column] - by_pair * small[0]) / small[1]
        print(f"{by_pair:.1f} {what} for an interaction, {by_user:.0f} for a user, with what a run takes at any size")


def worked(function: Any, *arguments: Any) -> tuple[float, Any]:
    """Seconds that this process worked, and what came out."""
    begin = time.process_time()
    found = function(*arguments)
    return time.process_time() - begin, found


def drawn(n_users: int, n_items: int, each: int, rng: np.random.Generator) -> csr_array:
    """As many interactions for each user, none twice: a window over the items, from anywhere."""
    begin = (n_items * rng.random(n_users) ** 2).astype(np.int64)
    columns = np.sort((begin[:, None] + 7 * np.arange(each)) % n_items, axis=1)
    indptr = np.arange(0, columns.size + 1, each)
    return csr_array((np.ones(columns.size, np.float32), columns.ravel(), indptr), (n_users, n_items))


def write_clicks(path: str, clicks: csr_array) -> None:
    """One row for each interaction."""
    users: NDArray[np.intp] = np.repeat(np.arange(clicks.shape[0]), np.diff(clicks.indptr))
    order = np.random.default_rng(1).permutation(len(users))
    pq.write_table(pa.table({"user": users[order], "item": clicks.indices[order].astype(np.int64)}), path)


def last_stage(spark: Any) -> int:
    """The number of the last stage there was."""
    return max((int(stage["stageId"]) for stage in stages_of(spark)), default=-1)


def cost_since(spark: Any, before: int) -> NDArray[np.float64]:
    """Seconds that Java's cores worked, and bytes shuffled, written and read, in all stages after one."""
    kinds = "executorCpuTime", "shuffleWriteBytes", "outputBytes", "inputBytes"
    stages = [stage for stage in stages_of(spark) if int(stage["stageId"]) > before]
    return np.array([sum(stage[kind] for stage in stages) for kind in kinds]) * [1e-9, 1, 1, 1]


if __name__ == "__main__":
    main()
