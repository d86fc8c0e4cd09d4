"""Whether one partition of a skewed log keeps all others waiting: the times of Spark's tasks, by step and stage.

    python -m benchmarks.spark_skew                  # factors that are given
    python -m benchmarks.spark_skew --als            # and ALS's

Half of all interactions are one user's; one item is clicked by everyone; ten thousand users have clicked on nothing
else. On two worker processes of one core each, on this machine.
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

from benchmarks.spark_growth import started, write_factors

EACH, LONELY, RANK = 40, 10_000, 16
# Spark goes by bytes: what is small is sent to everybody, or put together in as many tasks as there are cores, of which
# none is ever beyond twice the median of two. This log stands for one that is a hundred times as large.
AS_IF_LARGE = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "640k",
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": "2560k",
    "spark.sql.files.openCostInBytes": "128m",  # a task for each file
}
SHORT = 0.2  # seconds: a task so short is the time to start it, more than the work in it


def main() -> None:
    """Print a table, one row for each stage."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--half", type=int, default=500_000, help="interactions of the one user, of all others")
    parser.add_argument("--repeats", type=int, default=4, help="rows for each interaction")
    parser.add_argument("--als", action="store_true", help="let ALS learn the factors")
    parser.add_argument("--partitions", type=int, default=16)
    given = parser.parse_args()
    spark = started({**AS_IF_LARGE, "spark.ui.enabled": "true", "spark.sql.shuffle.partitions": str(given.partitions)})
    with tempfile.TemporaryDirectory() as folder:
        # Twice: the first time Java is still compiling.
        run(spark, Path(folder), given.half, given.repeats, given.partitions, als=given.als)
        before = max(stage for _, stage, _ in tasks_of(spark))
        seconds = run(spark, Path(folder), given.half, given.repeats, given.partitions, als=given.als)
        print(f"{2 * given.half * given.repeats:,} rows, {2 * given.half:,} interactions, {seconds:.0f} s\n")
        print("| step | stage | tasks | median | largest | ratio | first tasks | ratio of bytes | over twice |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
        short = 0
        for step, stage, tasks in tasks_of(spark):
            if stage <= before:
                continue
            middle_size = median(task.size for task in tasks)
            # The first task of an executor in a stage waits for the stage's code: compiled, and loaded. That is no
            # partition's fault, unless it has more to do than others.
            first = [task for task in tasks if task.is_first and task.size <= 2 * middle_size]
            rest = [task.seconds for task in tasks if task not in first]
            middle, most = median(rest), max(rest)
            if most < SHORT:
                short += 1
                continue
            print(
                f"| {step} | {stage} | {len(tasks)} | {middle:.2f} s | {most:.2f} s | {most / max(middle, 1e-3):.1f} | "
                f"{max((task.seconds for task in first), default=0):.2f} s | "
                f"{max(task.size for task in tasks) / max(middle_size, 1):.1f} | "
                f"{'**yes**' if most > 2 * middle else ''} |"
            )
        print(f"\nAnd {short} stages with no task of {SHORT} s or more.")
    spark.stop()


def made(half: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Users and items of a log, one of each for every interaction; no pair twice.

    User 0 has clicked on half as many items as there are interactions, item 0 has been clicked on by everyone, and ten
    thousand users by nothing else.
    """
    rng = np.random.default_rng(seed)
    n_others = (half - LONELY) // EACH
    items = np.arange(1, half)
    # Steps of an odd number, from anywhere, come to no item twice; most clicks are on items of small numbers.
    begin = ((half - 1) * rng.random(n_others) ** 3).astype(np.int64)
    theirs = 1 + (begin[:, None] + 7 * np.arange(EACH - 1)) % (half - 1)
    users = np.concatenate(
        [
            np.zeros(half, np.int64),
            np.repeat(np.arange(1, n_others + 1), EACH),
            np.arange(n_others + 1, n_others + 1 + LONELY),
        ]
    )
    of_others = np.concatenate([np.zeros((n_others, 1), np.int64), theirs], axis=1).ravel()
    return users, np.concatenate([[0], items, of_others, np.zeros(LONELY, np.int64)])


def run(spark: Any, folder: Path, half: int, repeats: int, partitions: int, *, als: bool) -> float:
    """Seconds, from table to table."""
    from prorec.engines.spark import ALS, SparkProRec

    users, items = made(half)
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
    begin = time.perf_counter()
    denoiser = SparkProRec(ALS(rank=RANK, sweeps=2), partitions=partitions)
    found = denoiser.fit(spark.read.parquet(str(folder / "clicks")), factors=factors, work_dir=str(folder / "work"))
    found.frame.write.mode("overwrite").parquet(str(folder / "out"))
    return time.perf_counter() - begin


class Task(NamedTuple):
    """One task."""

    number: int
    seconds: float
    size: float
    """Bytes read."""
    is_first: bool
    """Of its stage, in its executor."""


def tasks_of(spark: Any) -> Iterator[tuple[str, int, list[Task]]]:
    """Each stage with more tasks than executors: its step, its number, and its tasks."""
    about = _about(spark)
    steps = {stage: job.get("description", "") for job in _read(f"{about}/jobs") for stage in job["stageIds"]}
    for stage in stages_of(spark):
        at = f"{about}/stages/{stage['stageId']}/{stage['attemptId']}/taskList?length=100000&status=success"
        tasks, begun = [], set()
        for task in sorted(_read(at), key=lambda task: task["launchTime"]):
            metrics, executor = task["taskMetrics"], task["executorId"]
            moved = metrics["shuffleReadMetrics"]
            size = metrics["inputMetrics"]["bytesRead"] + moved["localBytesRead"] + moved["remoteBytesRead"]
            tasks.append(Task(task["index"], metrics["executorRunTime"] / 1000, size, executor not in begun))
            begun.add(executor)
        if len(tasks) > len(begun):
            yield steps.get(stage["stageId"], "").removeprefix("prorec: "), stage["stageId"], tasks


def stages_of(spark: Any) -> list[dict[str, Any]]:
    """What Spark tells of each stage that is done, in order."""
    return sorted(_read(f"{_about(spark)}/stages?status=complete"), key=lambda each: int(each["stageId"]))


def _about(spark: Any) -> str:
    context = spark.sparkContext
    return f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}"


def _read(address: str) -> Any:
    with urllib.request.urlopen(address) as answer:
        return json.load(answer)


if __name__ == "__main__":
    main()
