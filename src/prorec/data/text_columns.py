"""Conversion of columns of text to numbers, only where the text can be had back from them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_INTEGER_OR_EMPTY = r"^(|0|-?[1-9][0-9]{0,18})$"
"""Integers without leading zeros, which would be lost."""
_DECIMAL_OR_EMPTY = r"^(|-?(0|[1-9][0-9]{0,7})(\.[0-9]{1,7})?)$"
"""Numbers of at most fifteen digits, which a float64 holds exactly, without leading zeros or an exponent."""


def infer_integers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert text to integers if every value is a plain integer.

    Parameters
    ----------
    column : pyarrow.ChunkedArray of string
        Text; empty text is a missing value.

    Returns
    -------
    pyarrow.ChunkedArray
        Of int64, or the column itself if a value has leading zeros, a sign that is not needed, or too many digits.

    Examples
    --------
    >>> infer_integers(pa.chunked_array([["7", "12"]])).to_pylist()
    [7, 12]
    >>> infer_integers(pa.chunked_array([["007", "12"]])).to_pylist()
    ['007', '12']
    """
    for part in (column.slice(0, 1000), column):  # the first rows usually decide
        if not pc.all(pc.match_substring_regex(part, _INTEGER_OR_EMPTY), min_count=0).as_py():
            return column
    try:
        return empty_to_null(column).cast(pa.int64())
    except pa.ArrowInvalid:  # too large for 64 bits
        return column


def infer_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert text to integers or floats if every value is a plain number.

    Parameters
    ----------
    column : pyarrow.ChunkedArray of string
        Text; empty text is a missing value.

    Returns
    -------
    pyarrow.ChunkedArray
        Of int64 or float64, or the column itself if a value is no such number or if all are empty.
    """
    if not pc.any(pc.not_equal(column, ""), min_count=0).as_py():
        return column
    integers = infer_integers(column)
    if pa.types.is_integer(integers.type):
        return integers
    if not pc.all(pc.match_substring_regex(column, _DECIMAL_OR_EMPTY)).as_py():
        return column
    return empty_to_null(column).cast(pa.float64())


def parse_floats(column: pa.ChunkedArray, decimal_commas: bool = False) -> pa.ChunkedArray:
    """Convert text to float32 as Arrow's csv reader does.

    Parameters
    ----------
    column : pyarrow.ChunkedArray of string
        Text; empty text is a missing value.
    decimal_commas : bool, default False
        Whether numbers look like 4,5.

    Returns
    -------
    pyarrow.ChunkedArray
        Of float32, or text if a value is no number; the caller finds and names the value then.
    """
    column = empty_to_null(pc.replace_substring(column, ",", ".") if decimal_commas else column)
    try:
        return pc.utf8_trim(column, " \t").cast(pa.float32())
    except pa.ArrowInvalid:
        return column


def empty_to_null(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return text with null in place of empty text.

    Parameters
    ----------
    column : pyarrow.ChunkedArray of string
        Text.

    Returns
    -------
    pyarrow.ChunkedArray of string
    """
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
