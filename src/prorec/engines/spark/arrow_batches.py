"""Between Arrow and numpy: rows of a partition, each with the lists of one user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

Batches = Iterable[pa.RecordBatch]

_MOST = 200_000  # interactions at a time: judging them takes some 200 bytes each
_TYPES = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
}


def in_pieces(batches: Batches) -> Iterator[pa.RecordBatch]:
    """The same rows in batches that have not too many interactions: some users have thousands of times those of others.

    One user's are never parted; and nothing empty comes.
    """
    for batch in batches:
        begins, row = begins_in(batch, "items"), 0
        while row < batch.num_rows:
            end = int(np.searchsorted(begins, begins[row] + _MOST, side="right")) - 1
            end = max(row + 1, min(end, batch.num_rows))
            yield batch.slice(row, end - row)
            row = end


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


def batch_of(schema: str, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    """Columns, under the names and with the types of a schema.

    All batches of a partition must have the same types, and arrays of nothing often have others: numpy's `bincount` of
    nothing is whole numbers, weights or not.
    """
    names, kinds = zip(*(each.split() for each in schema.split(", ")), strict=True)
    given = [column.cast(_type_of(kind)) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(given, list(names))


def _type_of(kind: str) -> pa.DataType:
    """Arrow's name for what Spark calls a type."""
    if kind.startswith("array<"):
        return pa.list_(_type_of(kind.removeprefix("array<").removesuffix(">")))
    return _TYPES[kind]
