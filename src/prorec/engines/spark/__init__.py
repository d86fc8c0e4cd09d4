"""Denoising on Apache Spark: for logs that outgrow one machine (`pip install 'prorec[spark]'`, Java 17 or newer).

Nothing here does the arithmetic a second time: partitions of users are handed to the functions that one machine uses.
"""

from prorec.engines.spark.als import ALS
from prorec.engines.spark.cross_fit import CrossFit
from prorec.engines.spark.spark_denoiser import SparkProRec, denoise
from prorec.engines.spark.spark_result import SparkResult

__all__ = ["ALS", "CrossFit", "SparkProRec", "SparkResult", "denoise"]
