"""How well noise is found by cross-fitting on Spark, beside one machine's finder, on the same noisy log.

    python -m benchmarks.spark_crossfit --dataset ml-100k

Two worker processes of one core, on this machine. Noise is a fifth as many clicks as there are, drawn evenly and by
popularity. Spark has ALS for models, one machine its own four; the folds are as many for both.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pyarrow as pa

import prorec
from benchmarks.spark_growth import started
from prorec.engines.spark import CrossFit, SparkProRec
from prorec.evaluation import detection_metrics


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="ml-100k")
    clicks = prorec.load_dataset(parser.parse_args().dataset)
    spark = started()
    print("| noise | found by | AUROC | AP | calibration error | share, estimated | truly | seconds |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind in ("uniform", "popularity"):
        noisy = prorec.inject_noise(clicks, 0.2, kind, seed=0)
        log = noisy.interactions
        begin = time.perf_counter()
        finder = prorec.NoiseFinder(folds=CrossFit().folds).fit(log)
        taken = time.perf_counter() - begin
        show(kind, "one machine", finder.noise_probability_, finder.noise_rate_, noisy.is_noise, taken)
        ids = {"user": log.users[log.user_codes], "item": log.items[log.item_codes]}
        begin = time.perf_counter()
        found = SparkProRec(noise_method="cross-fit", partitions=4).fit(spark.createDataFrame(pa.table(ids)))
        rows = found.noise_table().toArrow()
        taken = time.perf_counter() - begin
        users, items = (rows[name].to_pylist() for name in ("user", "item"))
        probability = np.empty(len(log), dtype=np.float32)
        at = log.pair_positions(log.user_positions(users), log.item_positions(items))
        probability[at] = rows["noise_probability"].to_numpy()
        show(kind, "Spark", probability, found.noise_rate, noisy.is_noise, taken)
    spark.stop()


def show(kind: str, who: str, probability: Any, share: Any, is_noise: Any, seconds: float) -> None:
    """One row."""
    found = detection_metrics(probability, is_noise)
    print(
        f"| {kind} | {who} | {found['auroc']:.3f} | {found['ap']:.3f} | {found['calibration_error']:.3f} | {share} | "
        f"{is_noise.mean():.1%} | {seconds:.0f} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
