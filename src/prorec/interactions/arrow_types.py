"""Arrow columns in types that all of Arrow's functions take: newer types, such as string_view, still lack many."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from prorec._core.checks import safe_repr, shorten
from prorec._core.errors import InputError


def use_plain_type(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return the column with plain values in place of views and run-end encoded ones.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Column of any type.
    name : str
        Name of the column, for messages.

    Returns
    -------
    pyarrow.ChunkedArray
        The column itself if its type is plain already.

    Raises
    ------
    InputError
        If Arrow cannot convert it.

    Examples
    --------
    >>> use_plain_type(pa.chunked_array([pa.array(["tea"], pa.string_view())]), "item").type
    DataType(large_string)
    """
    try:
        if pa.types.is_run_end_encoded(column.type):
            chunks = [pc.run_end_decode(chunk) for chunk in column.chunks]
            return use_plain_type(pa.chunked_array(chunks, column.type.value_type), name)
        plain = _plain_type(column.type)
        if plain == column.type:
            return column
        if pa.types.is_dictionary(column.type):
            values = [chunk.dictionary.cast(plain.value_type) for chunk in column.chunks]
            chunks = [
                pa.DictionaryArray.from_arrays(chunk.indices, each, ordered=plain.ordered)
                for chunk, each in zip(column.chunks, values, strict=True)
            ]
            return pa.chunked_array(chunks, plain)
        return column.cast(plain)
    except pa.ArrowException as error:
        raise InputError(
            f"column {safe_repr(name)} is of type {shorten(str(column.type))}, which Arrow cannot convert "
            f"({shorten(str(error))}); convert it first"
        ) from None


def _plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the type with large strings and large binaries in place of views, at any depth."""
    if pa.types.is_string_view(type_):
        return pa.large_string()
    if pa.types.is_binary_view(type_):
        return pa.large_binary()
    if pa.types.is_dictionary(type_):
        return pa.dictionary(type_.index_type, _plain_type(type_.value_type), type_.ordered)
    if pa.types.is_struct(type_):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in type_.fields])
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_plain_type(type_.value_type)))
    if pa.types.is_large_list(type_):
        return pa.large_list(type_.value_field.with_type(_plain_type(type_.value_type)))
    if pa.types.is_fixed_size_list(type_):
        return pa.list_(type_.value_field.with_type(_plain_type(type_.value_type)), type_.list_size)
    if pa.types.is_map(type_):
        return pa.map_(_plain_type(type_.key_type), _plain_type(type_.item_type), type_.keys_sorted)
    return type_
