"""Times of Spark's tasks on a skewed log, by step and stage, to see whether one partition delays all others.

    python -m benchmarks.spark_skew                  # with given factors
    python -m benchmarks.spark_skew --als            # with factors learned by ALS

One user has half of all interactions, every user has clicked one item, and ten thousand users have no other click.
Spark has two worker processes with one core each, on this machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.spark_growth import start_spark, write_factors

CLICKS_PER_USER, N_SINGLE_CLICK_USERS, RANK = 40, 10_000, 16
# Spark broadcasts small tables and merges small partitions into one task per core, and of two tasks none can take more
# than twice the median. These limits make Spark treat the log as one that is a hundred times as large.
LARGE_LOG_SETTINGS = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "640k",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "2560k",
    "spark.sql.files.openCostInBytes": "128m",  # a task for each file
}
SHORT = 0.2  # seconds: shorter tasks are mostly the time to start them


def main() -> None:
    """Print a table with one row per stage."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--half", type=int, default=500_000, help="interactions of the largest user, and of all others together"
    )
    parser.add_argument("--repeats", type=int, default=4, help="rows per interaction")
    parser.add_argument("--als", action="store_true", help="learn the factors by ALS")
    parser.add_argument("--partitions", type=int, default=16)
    arguments = parser.parse_args()
    spark = start_spark(
        {**LARGE_LOG_SETTINGS, "spark.ui.enabled": "true", "spark.sql.shuffle.partitions": str(arguments.partitions)}
    )
    with tempfile.TemporaryDirectory() as folder:
        # The second run counts, because Java compiles during the first.
        run(spark, Path(folder), arguments.half, arguments.repeats, arguments.partitions, als=arguments.als)
        last_stage = max(stage for _, stage, _ in read_tasks(spark))
        seconds = run(spark, Path(folder), arguments.half, arguments.repeats, arguments.partitions, als=arguments.als)
        print(
            f"{2 * arguments.half * arguments.repeats:,} rows, {2 * arguments.half:,} interactions, {seconds:.0f} s\n"
        )
        print("| step | stage | tasks | median | largest | ratio | first tasks | ratio of bytes | over twice |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
        n_short = 0
        for step, stage, tasks in read_tasks(spark):
            if stage <= last_stage:
                continue
            median_size = median(task.size for task in tasks)
            # The first task of an executor in a stage also waits until the stage's code is compiled and loaded. It does
            # not count, unless it reads more than others.
            first = [task for task in tasks if task.is_first and task.size <= 2 * median_size]
            rest = [task.seconds for task in tasks if task not in first]
            typical, largest = median(rest), max(rest)
            if largest < SHORT:
                n_short += 1
                continue
            print(
                f"| {step} | {stage} | {len(tasks)} | {typical:.2f} s | {largest:.2f} s | "
                f"{largest / max(typical, 1e-3):.1f} | {max((task.seconds for task in first), default=0):.2f} s | "
                f"{max(task.size for task in tasks) / max(median_size, 1):.1f} | "
                f"{'**yes**' if largest > 2 * typical else ''} |"
            )
        print(f"\nAnd {n_short} stages with no task of {SHORT} s or more.")
    spark.stop()


def make_log(half: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return user and item of each interaction of a log without repeated pairs.

    User 0 has half of the interactions, every user has clicked item 0, and ten thousand users have no other click.
    """
    rng = np.random.default_rng(seed)
    n_others = (half - N_SINGLE_CLICK_USERS) // CLICKS_PER_USER
    items = np.arange(1, half)
    # Steps of seven on a circle of items give each user distinct items; starts near 0 make some items popular.
    start = ((half - 1) * rng.random(n_others) ** 3).astype(np.int64)
    other_items = 1 + (start[:, None] + 7 * np.arange(CLICKS_PER_USER - 1)) % (half - 1)
    users = np.concatenate(
        [
            np.zeros(half, np.int64),
            np.repeat(np.arange(1, n_others + 1), CLICKS_PER_USER),
            np.arange(n_others + 1, n_others + 1 + N_SINGLE_CLICK_USERS),
        ]
    )
    items_of_others = np.concatenate([np.zeros((n_others, 1), np.int64), other_items], axis=1).ravel()
    return users, np.concatenate([[0], items, items_of_others, np.zeros(N_SINGLE_CLICK_USERS, np.int64)])


def run(spark: Any, folder: Path, half: int, repeats: int, partitions: int, *, als: bool) -> float:
    """Return the seconds from reading the table to writing the result."""
    from prorec.engines.spark import ALS, SparkProRec

    users, items = make_log(half)
    order = np.random.default_rng(1).permutation(repeats * len(users)) % len(users)
    (folder / "clicks").mkdir(exist_ok=True)
    for number, rows in enumerate(np.array_split(order, partitions)):
        pq.write_table(pa.table({"user": users[rows], "item": items[rows]}), folder / "clicks" / f"{number}.parquet")
    factors = None
    if not als:
        rng = np.random.default_rng(2)
        for name, codes in (("user", users), ("item", items)):
            features = rng.normal(size=(codes.max() + 1, RANK)) / np.sqrt(RANK)
            write_factors(folder / name, name, features.astype(np.float32))
        factors = spark.read.parquet(str(folder / "user")), spark.read.parquet(str(folder / "item"))
    start = time.perf_counter()
    denoiser = SparkProRec(ALS(rank=RANK, sweeps=2), partitions=partitions, noise_method="plan")
    result = denoiser.fit(spark.read.parquet(str(folder / "clicks")), factors=factors, work_dir=str(folder / "work"))
    result.frame.write.mode("overwrite").parquet(str(folder / "out"))
    return time.perf_counter() - start


class Task(NamedTuple):
    """One task of a stage."""

    number: int
    seconds: float
    size: float
    """Bytes read, from files and shuffles."""
    is_first: bool
    """Whether it is the first task of its stage in its executor."""


def read_tasks(spark: Any) -> Iterator[tuple[str, int, list[Task]]]:
    """Yield step, number and tasks of each stage with more tasks than executors."""
    url = _application_url(spark)
    steps = {stage: job.get("description", "") for job in _read_json(f"{url}/jobs") for stage in job["stageIds"]}
    for stage in read_stages(spark):
        task_url = f"{url}/stages/{stage['stageId']}/{stage['attemptId']}/taskList?length=100000&status=success"
        tasks, executors = [], set()
        for task in sorted(_read_json(task_url), key=lambda task: task["launchTime"]):
            metrics, executor = task["taskMetrics"], task["executorId"]
            shuffled = metrics["shuffleReadMetrics"]
            size = metrics["inputMetrics"]["bytesRead"] + shuffled["localBytesRead"] + shuffled["remoteBytesRead"]
            tasks.append(Task(task["index"], metrics["executorRunTime"] / 1000, size, executor not in executors))
            executors.add(executor)
        if len(tasks) > len(executors):
            yield steps.get(stage["stageId"], "").removeprefix("prorec: "), stage["stageId"], tasks


def read_stages(spark: Any) -> list[dict[str, Any]]:
    """Return Spark's descriptions of completed stages, in order."""
    return sorted(
        _read_json(f"{_application_url(spark)}/stages?status=complete"), key=lambda stage: int(stage["stageId"])
    )


def _application_url(spark: Any) -> str:
    context = spark.sparkContext
    return f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"


def _read_json(address: str) -> Any:
    with urllib.request.urlopen(address) as response:
        return json.load(response)


if __name__ == "__main__":
    main()
