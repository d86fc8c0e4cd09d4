"""Arrays on their way to the executors: as files, so that none is ever held twice, and any number of blocks fits."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BLOCK = 64 * 2**20  # bytes: what of the items passes through the driver at a time


_kept: list[tempfile.TemporaryDirectory[str]] = []
"""What was sent stays until this process ends: executors that join later ask for all of it, whatever they work on."""


class Shipping:
    """Sends arrays to all executors; they go by names that no other run has."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._token = secrets.token_hex(6)
        self._folder = tempfile.TemporaryDirectory(prefix="prorec-")
        _kept.append(self._folder)

    def send(self, name: str, array: NDArray[np.generic]) -> str:
        """Send one array; the name it has there."""
        unique = f"prorec-{self._token}-{name}.npy"
        path = Path(self._folder.name) / unique
        np.save(path, array, allow_pickle=False)
        self._spark.sparkContext.addFile(str(path))
        return unique

    def send_factors(self, name: str, items: DataFrame, n_items: int, rank: int) -> tuple[str, ...]:
        """Send item factors (item, features), block by block: the driver has no more than one at a time."""
        rows = max(1, _BLOCK // (4 * rank))
        names = []
        for begin in range(0, n_items, rows):
            part = items.where(f"item >= {begin} and item < {begin + rows}").toArrow()
            features = part.column("features").combine_chunks().flatten().to_numpy(zero_copy_only=False)
            block = np.zeros((min(rows, n_items - begin), rank), dtype=np.float32)  # of some items nothing was learned
            block[part.column("item").to_numpy() - begin] = features.reshape(part.num_rows, rank)
            names.append(self.send(f"{name}-{begin}", block))
        return tuple(names)
