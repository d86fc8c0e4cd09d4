"""Ids: from a table's column to positions 0..n-1 and back.

Ids are integers or text. They are kept sorted, so that the same log gives the same matrix whatever the
order of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from prorec._core.errors import InputError, RowError

Ids = NDArray[Any]
Codes = NDArray[np.int32]

# Text that stands for a lost id: what is left when a missing value is written out or cast to text.
_LOST = ("nan", "NaN", "NULL", "null", "None", "<NA>", r"\N")


def encode_ids(column: pa.ChunkedArray, role: str) -> tuple[Ids, Codes]:
    """Sorted distinct ids of a column, and each row's position among them.

    Parameters
    ----------
    column : integers, text, categories of these, or whole numbers stored as floats
    role : "user" or "item", for messages
    """
    if column.null_count:
        raise RowError(f"the {role} id is missing", _first(pc.is_null(column)))
    kind = column.type
    if pa.types.is_dictionary(kind) and not (_is_text(kind.value_type) and _is_proper(column)):
        return encode_ids(column.cast(kind.value_type), role)
    if pa.types.is_floating(kind):
        return _encode_integers([_whole(column, role)])
    if pa.types.is_integer(kind):
        if kind == pa.uint64() and len(column) and pc.max(column).as_py() > np.iinfo(np.int64).max:
            raise InputError(f"{role} ids go past the largest 64-bit integer: give them as text")
        chunks = [chunk.to_numpy().astype(np.int64, copy=False) for chunk in column.chunks if len(chunk)]
        return _encode_integers(chunks)
    if pa.types.is_dictionary(kind) or _is_text(kind):
        return _encode_text(column, role)
    raise InputError(f"{role} ids must be integers or text, got a column of type {kind}")


def check_ids(ids: Any, count: int, role: str) -> Ids:
    """Ids given for the rows or columns of a matrix, in the order given: distinct, and of one kind."""
    if ids is None:
        return np.arange(count, dtype=np.int64)
    column = _column_of(ids, role)
    if not len(column) and not count:
        return np.asarray(ids) if isinstance(ids, np.ndarray) else np.empty(0, dtype=np.int64)
    if len(column) != count:
        raise InputError(f"the matrix has {count} {role}s, but {len(column)} {role} ids were given")
    distinct, codes = encode_ids(column, role)
    if len(distinct) != count:
        raise InputError(f"{role} ids must be distinct: {count - len(distinct)} of {count} repeat another one")
    return distinct[codes]


def find_positions(ids: Ids, wanted: Any, role: str) -> NDArray[np.int64]:
    """Where each wanted id stands in `ids`; −1 where it is not there.

    Ids that differ only in type (7 and "7") are refused: matching none of them silently would look like
    data about strangers.
    """
    column = _column_of(wanted, role)
    if not len(column) or not len(ids):
        return np.full(len(column), -1, dtype=np.int64)
    if column.null_count or not (_is_text(column.type) or pa.types.is_integer(column.type)):
        raise InputError(f"{role} ids must be integers or text, got {column.type} ({column.null_count} missing)")
    known = pa.array(ids)
    if _is_text(known.type) != _is_text(column.type):
        raise InputError(
            f"{role} ids are {_kind(known.type)} on one side (such as {known[0].as_py()!r}) and "
            f"{_kind(column.type)} on the other (such as {column[0].as_py()!r}): "
            "read both with the same type of id"
        )
    # Widened to the type of the known ones: an int8 asked for must not narrow an int64.
    found = pc.index_in(column.cast(known.type), value_set=known)
    return np.asarray(pc.fill_null(found, -1).to_numpy(), dtype=np.int64)


def take_ids(ids: Ids, places: NDArray[Any]) -> pa.Array:
    """The ids at the given places, as an Arrow column; of text there may be more than 2 GiB."""
    return pa.array(ids, pa.large_string() if ids.dtype == object else pa.int64()).take(pa.array(places))


def _kind(kind: pa.DataType) -> str:
    return "text" if _is_text(kind) else "integers"


def _column_of(ids: Any, role: str) -> pa.ChunkedArray:
    if isinstance(ids, str) or not isinstance(ids, Iterable) or (isinstance(ids, np.ndarray) and ids.ndim != 1):
        raise InputError(f"{role}s must be given as a list of ids, got {ids!r}")
    values = ids if isinstance(ids, (np.ndarray, list)) else list(ids)
    try:
        return pa.chunked_array([pa.array(values)])
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        kinds = ", ".join(sorted({type(value).__name__ for value in values}))
        raise InputError(f"{role} ids must be all integers or all text, got {kinds}") from error


def _is_proper(column: pa.ChunkedArray) -> bool:
    """Whether the dictionaries of a column have each value once, and none missing."""
    dictionaries = [chunk.dictionary for chunk in column.chunks]
    return all(not each.null_count and len(each.unique()) == len(each) for each in dictionaries)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _first(mask: pa.ChunkedArray) -> int:
    return int(pc.index(mask, True).as_py())


def _whole(column: pa.ChunkedArray, role: str) -> NDArray[np.int64]:
    """Integers that a missing value once turned into floats, back to integers."""
    values = column.to_numpy()
    lost = np.isnan(values)
    if lost.any():
        raise RowError(f"the {role} id is missing", int(np.argmax(lost)))
    odd = (values != np.floor(values)) | (np.abs(values.astype(np.float64)) > 2**53)
    if odd.any():
        row = int(np.argmax(odd))
        raise RowError(f"the {role} id {values[row]} is not a whole number", row)
    return np.asarray(values, dtype=np.int64)


def _encode_integers(chunks: list[NDArray[np.int64]]) -> tuple[Ids, Codes]:
    rows = sum(len(chunk) for chunk in chunks)
    if not rows:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    low = min(int(chunk.min()) for chunk in chunks)
    high = max(int(chunk.max()) for chunk in chunks)
    if high - low > 4 * rows + 1_000_000:
        coded = pa.chunked_array(chunks).dictionary_encode().combine_chunks()
        return _sorted(coded.dictionary, coded.indices.to_numpy())
    # A range this small fits a table of all its values: no hashing, no sorting.
    code_of = np.zeros(high - low + 1, dtype=np.int32)
    for chunk in chunks:
        _mark(chunk, low, code_of)
    ids = np.flatnonzero(code_of) + low
    np.cumsum(code_of, out=code_of)
    codes = np.empty(rows, dtype=np.int32)
    begin = 0
    for chunk in chunks:
        _look_up(chunk, low, code_of, codes[begin : begin + len(chunk)])
        begin += len(chunk)
    return ids, codes


@njit(cache=True, nogil=True)
def _mark(values: NDArray[np.int64], low: int, seen: NDArray[np.int32]) -> None:
    for value in values:
        seen[value - low] = 1


@njit(cache=True, nogil=True)
def _look_up(values: NDArray[np.int64], low: int, count_up_to: NDArray[np.int32], codes: Codes) -> None:
    for row in range(len(values)):
        codes[row] = count_up_to[values[row] - low] - 1


def _encode_text(column: pa.ChunkedArray, role: str) -> tuple[Ids, Codes]:
    if pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    if pa.types.is_dictionary(column.type):
        try:
            coded = column.unify_dictionaries()
        except pa.ArrowInvalid:  # more values in all chunks together than the index type of one can count
            coded = column.cast(column.type.value_type).dictionary_encode()
    else:
        coded = column.dictionary_encode()  # has one dictionary for all chunks; to unify that again is slow
    coded = coded.combine_chunks()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    used = np.bincount(codes, minlength=len(coded.dictionary)) > 0
    lost = pc.or_(
        pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(coded.dictionary)), 0),
        pc.is_in(coded.dictionary, pa.array(_LOST, coded.dictionary.type)),
    )
    for at in np.flatnonzero(lost.to_numpy(zero_copy_only=False) & used):
        raise RowError(f"the {role} id is missing ({coded.dictionary[at].as_py()!r})", int(np.argmax(codes == at)))
    if used.all():
        return _sorted(coded.dictionary, codes)
    # Categories that no row uses are not users or items.
    compact = np.cumsum(used, dtype=np.int32) - 1
    return _sorted(coded.dictionary.filter(pa.array(used)), compact[codes])


def _sorted(distinct: pa.Array, codes: NDArray[Any]) -> tuple[Ids, Codes]:
    order = pc.array_sort_indices(distinct).to_numpy()
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return distinct.take(pa.array(order)).to_numpy(zero_copy_only=False), rank[codes]
