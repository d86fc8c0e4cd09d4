"""Arrays for tasks: columns of Arrow batches as numpy arrays, and arrays that executors read from files."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession
from scipy.sparse import csr_array

from prorec.transport.blocks import Blocks
from prorec.transport.factors import Factors
from prorec.transport.item_blocks import BlockedFactors
from prorec.transport.scores import ScaledFactors, ScaledScores

Batches = Iterable[pa.RecordBatch]
"""Rows of one partition, as `mapInArrow` passes them to a task."""

_MAX_INTERACTIONS = 200_000
"""Interactions that a task handles at a time; cross-fitting takes about 200 bytes for each."""
_BLOCK_BYTES = 64 * 2**20
"""Bytes of item factors that the driver holds at a time."""
_WHOLE_BYTES = 64e6
"""Bytes of item factors that a task multiplies at once. A task makes faster copies of these, three times as large."""
_ARROW_NAMES = {"smallint": "int16", "int": "int32", "long": "int64"}


# ── columns of batches ──────────────────────────────────────────────────────────────────────────────


def split_batches(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Split batches of users so that none has too many interactions.

    Some users have thousands of times as many interactions as others, so a fixed number of users would not bound the
    memory of a task.

    Parameters
    ----------
    batches : iterable of RecordBatch
        One row per user, with a list column `items`.

    Yields
    ------
    RecordBatch
        At least one user; one user's interactions are never separated.
    """
    for batch in batches:
        offsets, row = list_offsets(batch, "items"), 0
        while row < batch.num_rows:
            end = int(np.searchsorted(offsets, offsets[row] + _MAX_INTERACTIONS, side="right")) - 1
            end = max(row + 1, min(end, batch.num_rows))
            yield batch.slice(row, end - row)
            row = end


def list_values(batch: pa.RecordBatch, column: str) -> NDArray[Any]:
    """Return the values of all lists of a column, one list after the other."""
    values: NDArray[Any] = batch.column(column).flatten().to_numpy(zero_copy_only=False)
    return values


def list_offsets(batch: pa.RecordBatch, column: str) -> NDArray[np.int64]:
    """Return the position at which each list of a column starts among all values, and the end of the last list."""
    lengths = batch.column(column).value_lengths().to_numpy(zero_copy_only=False)
    return np.append(0, np.cumsum(lengths)).astype(np.int64)


def read_features(batch: pa.RecordBatch, column: str = "features") -> NDArray[np.float32]:
    """Return a column of lists of one length as a matrix, one row for each row of the batch."""
    return np.asarray(list_values(batch, column).reshape(batch.num_rows, -1), dtype=np.float32)


def read_matrix(batch: pa.RecordBatch, weights: str, n_items: int) -> csr_array:
    """Return the interactions of the batch's users as a sparse matrix.

    Parameters
    ----------
    batch : RecordBatch
        One row per user, with list columns `items` and `weights`.
    weights : str
        Name of the column of weights.
    n_items : int
        Number of columns of the matrix.

    Returns
    -------
    csr_array
        Users of the batch × items.
    """
    entries = list_values(batch, weights), list_values(batch, "items"), list_offsets(batch, "items")
    return csr_array(entries, shape=(batch.num_rows, n_items))


def make_lists(offsets: NDArray[np.integer[Any]], values: NDArray[Any]) -> pa.ListArray:
    """Return a column of lists from the offsets of the lists and all their values."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))


def make_batch(schema: str, columns: Sequence[pa.Array | NDArray[Any]]) -> pa.RecordBatch:
    """Return a batch with the names and types of a schema.

    All batches of a partition must have the same types. Arrays without values often have another type: numpy's
    `bincount` of no numbers is an array of integers, even with weights.

    Parameters
    ----------
    schema : str
        Names and types as Spark writes them, such as `user int, items array<int>`.
    columns : sequence of Array or ndarray
        In the order of the schema.

    Returns
    -------
    RecordBatch
    """
    names, types = zip(*(each.split() for each in schema.split(", ")), strict=True)
    arrays = [pa.array(column).cast(_arrow_type(name)) for column, name in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, list(names))


def _arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type for a Spark type."""
    if name.startswith("array<"):
        return pa.list_(_arrow_type(name.removeprefix("array<").removesuffix(">")))
    return pa.type_for_alias(_ARROW_NAMES.get(name, name))


# ── arrays in files ─────────────────────────────────────────────────────────────────────────────────

# The files stay until this process ends, because executors that join later fetch all of them.
_directories: list[tempfile.TemporaryDirectory[str]] = []


@dataclass(frozen=True)
class ItemFactors:
    """Item factors that every executor has in files.

    Files are mapped into memory rather than read, so tasks on one machine share them.
    """

    files: tuple[str, ...]
    """Names of the files; each holds a block of items, in order."""
    memory: float
    """Bytes of a block of users × items that one task may hold."""
    max_items: int
    """Number of items up to which factors are multiplied at once; more would fill the memory by themselves."""

    def blocks(self, user_factors: NDArray[np.float32], gamma: float = 1.0) -> Blocks:
        """Return the scores of some users with all items, over γ, in blocks for one thread.

        Spark runs one task per core, so a task needs no threads of its own.
        """
        return Blocks(self.scores(user_factors, gamma), self.memory, workers=1)

    def scores(self, user_factors: NDArray[np.float32], gamma: float = 1.0) -> ScaledScores:
        """Return the scores of some users with all items, over γ."""
        parts = [load_array(name) for name in self.files]
        if sum(map(len, parts)) <= self.max_items:
            items = parts[0] if len(parts) == 1 else np.concatenate(parts)
            return ScaledFactors(Factors(user_factors, items), gamma)
        return BlockedFactors(user_factors, parts, gamma)


class ArrayBroadcast:
    """Sends arrays to all executors as files, under names that no other run uses.

    Spark's own broadcast variables would hold each array in Java and in every Python process.

    Parameters
    ----------
    spark : SparkSession
        The session whose executors receive the arrays.
    memory : float
        Bytes of a block of users × items that one task may hold.
    """

    def __init__(self, spark: SparkSession, memory: float) -> None:
        self._spark, self._memory = spark, memory
        self._prefix = f"prorec-{secrets.token_hex(6)}"
        self._directory = tempfile.TemporaryDirectory(prefix="prorec-")
        _directories.append(self._directory)

    def send(self, name: str, array: NDArray[np.generic]) -> str:
        """Send one array and return the name by which `load_array` finds it."""
        unique = f"{self._prefix}-{name}.npy"
        path = Path(self._directory.name) / unique
        np.save(path, array, allow_pickle=False)
        self._spark.sparkContext.addFile(str(path))
        return unique

    def send_factors(self, name: str, items: DataFrame, n_items: int, rank: int) -> ItemFactors:
        """Send item factors block by block, so that the driver never holds all of them.

        Parameters
        ----------
        name : str
            Prefix of the names of the files.
        items : DataFrame
            Columns `item` (position) and `features`. An item without a row gets factors of 0.
        n_items, rank : int
            Number of items and width of the factors.

        Returns
        -------
        ItemFactors
        """
        rows = max(1, _BLOCK_BYTES // (4 * rank))
        files = []
        for start in range(0, n_items, rows):
            part = items.where(f"item >= {start} and item < {start + rows}").toArrow()
            features = part.column("features").combine_chunks().flatten().to_numpy(zero_copy_only=False)
            block = np.zeros((min(rows, n_items - start), rank), dtype=np.float32)
            block[part.column("item").to_numpy() - start] = features.reshape(part.num_rows, rank)
            files.append(self.send(f"{name}-{start}", block))
        return ItemFactors(tuple(files), self._memory, max(1, int(_WHOLE_BYTES / (4 * rank))))


def load_array(name: str) -> NDArray[Any]:
    """Map an array into memory that `ArrayBroadcast` sent to this executor."""
    array: NDArray[Any] = np.load(SparkFiles.get(name), mmap_mode="r", allow_pickle=False)
    return array
