"""Between Arrow and numpy: rows of a partition, each with the lists of one user."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

Batches = Iterable[pa.RecordBatch]


def values_in(batch: pa.RecordBatch, column: str) -> NDArray[Any]:
    """All values of a column of lists, one list after the other."""
    values: NDArray[Any] = batch.column(column).flatten().to_numpy(zero_copy_only=False)
    return values


def begins_in(batch: pa.RecordBatch, column: str) -> NDArray[np.int64]:
    """Where each list begins among all values, and where the last ends."""
    lengths = batch.column(column).value_lengths().to_numpy(zero_copy_only=False)
    return np.append(0, np.cumsum(lengths)).astype(np.int64)


def features_in(batch: pa.RecordBatch, column: str = "features") -> NDArray[np.float32]:
    """Factors of the users, one row for each."""
    return np.asarray(values_in(batch, column).reshape(batch.num_rows, -1), dtype=np.float32)


def observed_in(batch: pa.RecordBatch, weights: str, n_items: int) -> csr_array:
    """The interactions of these users; lists of users who have none are empty."""
    entries = values_in(batch, weights), values_in(batch, "items"), begins_in(batch, "items")
    return csr_array(entries, shape=(batch.num_rows, n_items))


def lists(begins: NDArray[np.int64], values: NDArray[Any]) -> pa.ListArray:
    """A column of lists."""
    return pa.ListArray.from_arrays(pa.array(begins.astype(np.int32)), pa.array(values))


def batch_of(schema: str, columns: Sequence[Any]) -> pa.RecordBatch:
    """Columns, under the names of a schema."""
    names = [each.split()[0] for each in schema.split(", ")]
    return pa.RecordBatch.from_arrays(list(columns), names)
