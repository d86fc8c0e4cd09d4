"""Denoising on Apache Spark, for logs that outgrow one machine (the extra `spark`, and Java 17 or newer).

Partitions of users are handed to the functions that one machine uses, so nothing here does the arithmetic again.
"""

from importlib.util import find_spec

from prorec._core.errors import MissingExtraError
from prorec._core.versions import advise_install

if find_spec("pyspark") is None:
    raise MissingExtraError(f"the engine spark needs PySpark, which is not installed: {advise_install('spark')}")

from prorec.engines.spark.cross_fit import CrossFit
from prorec.engines.spark.spark_denoiser import SparkProRec, denoise
from prorec.engines.spark.spark_factors import ALS
from prorec.engines.spark.spark_result import SparkResult
from prorec.engines.spark.spark_score import score

__all__ = ["ALS", "CrossFit", "SparkProRec", "SparkResult", "denoise", "score"]
