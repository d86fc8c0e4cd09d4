"""Conversion between the ids of users or items and positions 0 … n − 1.

Ids are integers or text. They are kept sorted, so that a log gives the same matrix whatever the order of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import issparse

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError, RowError
from prorec.interactions.arrow_types import use_plain_type

Ids = NDArray[Any]
"""Ids: int64, or an object array of str."""
Codes = NDArray[np.int32]
"""Positions of ids."""

_PLAIN_INTEGER = r"^(0|-?[1-9][0-9]{0,18})$"
_LARGEST = str(np.iinfo(np.int64).max)
_MISSING = ("nan", "NaN", "NULL", "null", "None", "<NA>", r"\N")
"""Texts that other tools write for a missing id."""


def encode_ids(column: pa.ChunkedArray, role: str) -> tuple[Ids, Codes]:
    """Number the distinct ids of a column.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Integers, text, categories of these, or whole numbers stored as floats.
    role : {"user", "item"}
        Meaning of the column, for messages.

    Returns
    -------
    ids : ndarray
        The distinct ids, sorted.
    codes : ndarray of int32
        The position of each row's id in `ids`.

    Raises
    ------
    RowError
        If an id is missing, or is a float that is no whole number.
    InputError
        If the column has another type, or integers beyond 64 bits.

    Examples
    --------
    >>> encode_ids(pa.chunked_array([["bob", "ann", "bob"]]), "user")
    (array(['ann', 'bob'], dtype=object), array([1, 0, 1], dtype=int32))
    """
    if column.null_count:
        raise RowError(f"the {role} id is missing", int(pc.index(pc.is_null(column), True).as_py()))
    type_ = column.type
    if pa.types.is_dictionary(type_):
        if type_.value_type == pa.int64() and column.num_chunks == 1 and _has_distinct_categories(column):
            return _encode_used(column.chunk(0))
        if not (_is_text(type_.value_type) and _has_distinct_categories(column)):
            return encode_ids(column.cast(type_.value_type), role)
    if pa.types.is_floating(type_):
        return _encode_integers([_to_integers(column, role)])
    if pa.types.is_integer(type_):
        if type_ == pa.uint64() and len(column) and pc.max(column).as_py() > np.iinfo(np.int64).max:
            raise InputError(f"{role} ids go past the largest 64-bit integer: give them as text")
        return _encode_integers(
            [chunk.to_numpy().astype(np.int64, copy=False) for chunk in column.chunks if len(chunk)]
        )
    if pa.types.is_dictionary(type_) or _is_text(type_):
        return _encode_text(column, role)
    raise InputError(f"{role} ids must be integers or text, got a column of type {type_}")


def check_ids(ids: Any, count: int, role: str) -> Ids:
    """Return the ids of a matrix's rows or columns.

    Parameters
    ----------
    ids : array_like, optional
        All integers or all text, all distinct, in the order of the matrix; None for positions.
    count : int
        Number of rows or columns.
    role : {"user", "item"}
        Their meaning, for messages.

    Returns
    -------
    ndarray

    Raises
    ------
    InputError
        If the ids are not distinct, of another number, or of mixed types.
    """
    if ids is None:
        return np.arange(count, dtype=np.int64)
    column = _to_column(ids, role)
    if not len(column) and not count:
        return np.asarray(ids) if isinstance(ids, np.ndarray) else np.empty(0, dtype=np.int64)
    if len(column) != count:
        raise InputError(f"the matrix has {count} {role}s, but {len(column)} {role} ids were given")
    distinct, codes = encode_ids(column, role)
    if len(distinct) != count:
        raise InputError(f"{role} ids must be distinct: {count - len(distinct)} of {count} repeat another one")
    return distinct[codes]


def find_positions(ids: Ids, wanted: Any, role: str) -> NDArray[np.int64]:
    """Find ids among others.

    Integers and text match if the text is how the integer is written: 7 and "7", but not "07" or "7.0".

    Parameters
    ----------
    ids : ndarray
        The ids to search in.
    wanted : array_like
        The ids to find.
    role : {"user", "item"}
        Their meaning, for messages.

    Returns
    -------
    ndarray of int64
        Position of each wanted id in `ids`; −1 where it is not among them.

    Raises
    ------
    InputError
        If the wanted ids are neither integers nor text, or one is missing.

    Examples
    --------
    >>> find_positions(np.array([7, 8]), ["8", "08", "ann"], "user")
    array([ 1, -1, -1])
    """
    column = _to_column(wanted, role)
    if not len(column) or not len(ids):
        return np.full(len(column), -1, dtype=np.int64)
    if column.null_count or not (_is_text(column.type) or pa.types.is_integer(column.type)):
        raise InputError(f"{role} ids must be integers or text, got {column.type} ({column.null_count} missing)")
    searched = pa.array(ids)
    if _is_text(searched.type) and not _is_text(column.type):
        column = column.cast(searched.type)
    elif _is_text(column.type) and not _is_text(searched.type):
        # Texts that are no plain integers of 64 bits become null, which is not among the ids.
        digits = pc.utf8_ltrim(column, "-")
        is_large = pc.and_(pc.equal(pc.utf8_length(digits), len(_LARGEST)), pc.greater(digits, _LARGEST))
        is_integer = pc.and_(pc.match_substring_regex(column, _PLAIN_INTEGER), pc.invert(is_large))
        column = pc.if_else(is_integer, column, pa.scalar(None, column.type))
    # Both sides get the type of the searched ids, because an int8 that is wanted must not narrow an int64.
    try:
        column = column.cast(searched.type)
    except pa.ArrowInvalid:
        raise InputError(f"{role} ids go past the largest 64-bit integer: give them as text") from None
    positions = pc.index_in(column, value_set=searched)
    return np.asarray(pc.fill_null(positions, -1).to_numpy(), dtype=np.int64)


def is_missing_id(value: Any) -> bool:
    """Return whether a value, or the text of one, stands for a missing id.

    Parameters
    ----------
    value : Any
        The value.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_missing_id(" "), is_missing_id("NULL"), is_missing_id("0")
    (True, True, False)
    """
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and (not value.strip() or value in _MISSING))


def take_ids(ids: Ids, positions: NDArray[Any]) -> pa.Array:
    """Return the ids at some positions as an Arrow column.

    Parameters
    ----------
    ids : ndarray
        All ids.
    positions : ndarray of int
        Positions in `ids`, which may repeat.

    Returns
    -------
    pyarrow.Array
        Integers, or text in the type that holds more than 2 GiB.
    """
    return pa.array(ids, pa.large_string() if ids.dtype == object else pa.int64()).take(pa.array(positions))


def _to_column(ids: Any, role: str) -> pa.ChunkedArray:
    if (
        isinstance(ids, str)
        or issparse(ids)
        or not isinstance(ids, Iterable)
        or (isinstance(ids, np.ndarray) and ids.ndim != 1)
    ):
        raise InputError(f"{role}s must be given as a list of ids, got {safe_repr(ids)}")
    values: Any = ids
    try:
        values = ids if isinstance(ids, (np.ndarray, list)) else list(ids)
        return use_plain_type(pa.chunked_array([pa.array(values)]), role)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        types = ", ".join(sorted({type(value).__name__ for value in values}))
        raise InputError(f"{role} ids must be all integers or all text, got {types}") from error


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _has_distinct_categories(column: pa.ChunkedArray) -> bool:
    """Return whether each chunk lists each of its categories once, and none of them is missing."""
    categories = [chunk.dictionary for chunk in column.chunks]
    return all(not each.null_count and (_is_rising(each) or len(each.unique()) == len(each)) for each in categories)


def _is_rising(distinct: pa.Array) -> bool:
    """Return whether values are sorted and distinct, as prorec's reader of text leaves ids."""
    return bool(pc.all(pc.less(distinct[:-1], distinct[1:]), min_count=0).as_py())


def _to_integers(column: pa.ChunkedArray, role: str) -> NDArray[np.int64]:
    """Return whole numbers that are stored as floats, as pandas does where one is missing."""
    values = column.to_numpy()
    is_missing = np.isnan(values)
    if is_missing.any():
        raise RowError(f"the {role} id is missing", int(np.argmax(is_missing)))
    is_inexact = (values != np.floor(values)) | (np.abs(values.astype(np.float64)) > 2**53)
    if is_inexact.any():
        row = int(np.argmax(is_inexact))
        raise RowError(f"the {role} id {values[row]} is not a whole number", row)
    return np.asarray(values, dtype=np.int64)


def _encode_integers(chunks: list[NDArray[np.int64]]) -> tuple[Ids, Codes]:
    chunks = [chunk for chunk in chunks if len(chunk)]
    if not chunks:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    low, high = min(int(chunk.min()) for chunk in chunks), max(int(chunk.max()) for chunk in chunks)
    if high - low > 4 * sum(map(len, chunks)) + 1_000_000:
        encoded = pa.chunked_array(chunks).dictionary_encode().combine_chunks()
        return _sort_ids(encoded.dictionary, encoded.indices.to_numpy())
    # A range this small fits a table of all its values, which is faster than hashing.
    is_used = np.zeros(high - low + 1, dtype=bool)
    for chunk in chunks:
        is_used[chunk - low] = True
    code_of = np.cumsum(is_used, dtype=np.int32) - 1
    return np.flatnonzero(is_used) + low, np.concatenate([code_of.take(chunk - low) for chunk in chunks])


def _encode_text(column: pa.ChunkedArray, role: str) -> tuple[Ids, Codes]:
    if pa.types.is_dictionary(column.type) and column.num_chunks > 1:
        try:
            column = column.unify_dictionaries()
        except pa.ArrowInvalid:  # the index type of one chunk is too small for the categories of all
            column = column.cast(column.type.value_type)
    # Encoding gives one dictionary for all chunks, which need not be unified again.
    encoded = (column if pa.types.is_dictionary(column.type) else column.dictionary_encode()).combine_chunks()
    distinct, codes = encoded.dictionary, encoded.indices.to_numpy(zero_copy_only=False)
    is_used = _find_used(codes, len(distinct))
    is_missing = pc.or_(
        pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(distinct)), 0),
        pc.is_in(distinct, pa.array(_MISSING, distinct.type)),
    )
    for code in np.flatnonzero(is_missing.to_numpy(zero_copy_only=False) & is_used):
        raise RowError(f"the {role} id is missing ({safe_repr(distinct[code].as_py())})", int(np.argmax(codes == code)))
    return _sort_used(distinct, codes, is_used)


def _encode_used(column: pa.DictionaryArray) -> tuple[Ids, Codes]:
    """Number the distinct integers of categories."""
    codes = column.indices.to_numpy(zero_copy_only=False)
    return _sort_used(column.dictionary, codes, _find_used(codes, len(column.dictionary)))


def _find_used(codes: NDArray[Any], n_categories: int) -> NDArray[np.bool_]:
    """Return which categories any row has."""
    is_used = np.zeros(n_categories, dtype=bool)
    is_used[codes] = True
    return is_used


def _sort_used(distinct: pa.Array, codes: NDArray[Any], is_used: NDArray[np.bool_]) -> tuple[Ids, Codes]:
    """Sort the categories that any row has; one that no row has is no user or item."""
    if is_used.all():
        return _sort_ids(distinct, codes)
    new_code = np.cumsum(is_used, dtype=np.int32) - 1
    return _sort_ids(distinct.filter(pa.array(is_used)), new_code[codes])


def _sort_ids(distinct: pa.Array, codes: NDArray[Any]) -> tuple[Ids, Codes]:
    if _is_rising(distinct):
        return distinct.to_numpy(zero_copy_only=False), codes
    order = pc.array_sort_indices(distinct).to_numpy()
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return distinct.take(pa.array(order)).to_numpy(zero_copy_only=False), rank[codes]
