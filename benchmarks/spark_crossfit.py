"""Quality of cross-fitted noise probabilities on Spark and on one machine, for the same noisy log.

    python -m benchmarks.spark_crossfit --dataset ml-100k

Spark has two worker processes with one core each, on this machine. A fifth as many noisy clicks are added as there are
clicks, sampled uniformly or by popularity. The base model is ALS on Spark and the default four on one machine; the
number of folds is the same.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pyarrow as pa

import prorec
from benchmarks.spark_growth import start_spark
from prorec.engines.spark import CrossFit, SparkProRec
from prorec.evaluation import detection_metrics


def main() -> None:
    """Print a table with two rows per kind of noise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="ml-100k")
    clicks = prorec.load_dataset(parser.parse_args().dataset)
    spark = start_spark()
    print("| noise | engine | AUROC | AP | calibration error | noise rate, estimated | true | seconds |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind in ("uniform", "popularity"):
        noisy = prorec.inject_noise(clicks, 0.2, kind, seed=0)
        log = noisy.interactions
        start = time.perf_counter()
        finder = prorec.NoiseFinder(folds=CrossFit().folds).fit(log)
        seconds = time.perf_counter() - start
        print_row(kind, "one machine", finder.noise_probability_, finder.noise_rate_, noisy.is_noise, seconds)
        ids = {"user": log.users[log.user_codes], "item": log.items[log.item_codes]}
        start = time.perf_counter()
        result = SparkProRec(noise_method="cross-fit", partitions=4).fit(spark.createDataFrame(pa.table(ids)))
        rows = result.noise_table().toArrow()
        seconds = time.perf_counter() - start
        users, items = (rows[name].to_pylist() for name in ("user", "item"))
        probability = np.empty(len(log), dtype=np.float32)
        positions = log.pair_positions(log.user_positions(users), log.item_positions(items))
        probability[positions] = rows["noise_probability"].to_numpy()
        print_row(kind, "Spark", probability, result.noise_rate, noisy.is_noise, seconds)
    spark.stop()


def print_row(kind: str, engine: str, probability: Any, noise_rate: Any, is_noise: Any, seconds: float) -> None:
    """Print one row of the table."""
    metrics = detection_metrics(probability, is_noise)
    print(
        f"| {kind} | {engine} | {metrics['auroc']:.3f} | {metrics['ap']:.3f} | {metrics['calibration_error']:.3f} | "
        f"{noise_rate} | {is_noise.mean():.1%} | {seconds:.0f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
