"""A job of Spark Structured Streaming that scores new clicks as they arrive.

`spark-submit examples/spark_streaming.py clicks/ model/ scored/ checkpoint/` reads csv files with the columns user and
item that appear in `clicks/`, and appends parquet files to `scored/`. `model/` is from `prorec train --denoise`.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession

from prorec.engines.spark import score


def start_scoring(
    spark: SparkSession, clicks: str, model: str, scored: str, checkpoint: str, *, schema: str, **trigger: Any
) -> Any:
    """Start the job.

    Parameters
    ----------
    spark : SparkSession
        The session.
    clicks : str
        Folder of csv files with a header.
    model : str
        Folder of the denoiser.
    scored : str
        Folder to append to.
    checkpoint : str
        Folder in which Spark remembers what has been scored, so that every click is scored once.
    schema : str
        Columns and types of the csv files, such as "user BIGINT, item BIGINT".
    **trigger
        When to look for new files, such as `processingTime="10 seconds"`, or `availableNow=True` to end after those
        that are there.

    Returns
    -------
    StreamingQuery
    """
    new = spark.readStream.csv(clicks, schema=schema, header=True)
    writer = score(new, model).writeStream.format("parquet").option("checkpointLocation", checkpoint)
    return writer.trigger(**trigger).start(scored)


if __name__ == "__main__":
    session = SparkSession.builder.appName("score clicks").getOrCreate()
    start_scoring(
        session, *sys.argv[1:5], schema="user BIGINT, item BIGINT", processingTime="10 seconds"
    ).awaitTermination()
