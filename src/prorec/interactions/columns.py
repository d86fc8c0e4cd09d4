"""The columns of a table of interactions: which column is the user, the item, the weight, the rating and the time."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError, RowError
from prorec.interactions.column_names import ROLES, find_named, has_plain_name

ColumnRef = str | int | None
"""Name or position of a column; None to find it by its usual names."""

NOT_USED = "none"
"""In place of the name of a column: no column has the role."""
_REQUIRED = ("user", "item")
_N_SHOWN = 20


def choose_columns(
    names: Sequence[str],
    requested: Mapping[str, ColumnRef],
    *,
    has_header: bool = True,
    roles: Sequence[str] = ROLES,
) -> dict[str, int]:
    """Find the column of each role.

    Parameters
    ----------
    names : sequence of str
        Names of the table's columns.
    requested : mapping of str to str, int or None
        Column of each role by name or position, as the caller gave it. Digits that name no column are a position, and
        "none" means that no column has the role.
    has_header : bool, default True
        Whether the names are the table's own. If not, the user is column 0 and the item column 1 unless requested
        otherwise, and other roles are found only if requested.
    roles : sequence of str, optional
        Roles to find; all by default.

    Returns
    -------
    dict of str to int
        Position of the column of each role that the table has.

    Raises
    ------
    InputError
        If a requested column, the user or the item is not found, if several columns fit, or if one has two roles.

    Examples
    --------
    >>> choose_columns(["userId", "movieId", "rating"], {})
    {'user': 0, 'item': 1, 'rating': 2}
    """
    chosen: dict[str, int] = {}
    for role in roles:
        column = requested.get(role)
        if isinstance(column, bool) or not isinstance(column, str | Integral | None):
            raise InputError(f"{role}_col must be the name or the position of a column; got {safe_repr(column)}")
        if column == NOT_USED and NOT_USED not in names:
            if role in _REQUIRED:
                raise InputError(
                    f"the {role} is required: {role}_col must be the name of a column; got {safe_repr(column)}"
                )
            continue
        if column is None and not has_header and role in _REQUIRED:
            column = _REQUIRED.index(role)
        position = _find_usual(names, role, has_header) if column is None else _find_requested(names, column, role)
        if position is None:
            continue
        for other, taken in chosen.items():
            if taken == position:
                raise InputError(f"column {safe_repr(names[position])} cannot be both the {other} and the {role}")
        chosen[role] = position
    return chosen


def _find_requested(names: Sequence[str], column: str | int, role: str) -> int:
    if isinstance(column, str) and column.isdecimal() and column not in names and len(column) < 10:
        column = int(column)
    if isinstance(column, str):
        if names.count(column) != 1:
            problem = "no column is" if column not in names else "more than one column is"
            hint = _suggest(column, names) if column not in names else ""
            raise InputError(
                f"{problem} called {safe_repr(column)} ({role}_col).{hint} The columns are {_quote(names)}"
            )
        return names.index(column)
    if not isinstance(column, Integral) or not 0 <= column < len(names):
        raise InputError(
            f"{role}_col is position {safe_repr(column)}, but the table has {len(names)} columns "
            f"(positions from 0): {_quote(names)}"
        )
    return int(column)


def _suggest(column: str, names: Sequence[str]) -> str:
    """Return a question that names the column which a wrong name may mean; nothing if none is close."""
    by_lower = {name.lower(): name for name in reversed(names)}
    close = [
        name for lower, name in by_lower.items() if lower and (column.lower().startswith(lower) or lower == column)
    ]
    close += [by_lower[each] for each in difflib.get_close_matches(column.lower(), by_lower, 1, 0.7)]
    return f" Did you mean {safe_repr(close[0])}?" if close else ""


def _find_usual(names: Sequence[str], role: str, has_header: bool) -> int | None:
    groups = find_named(names, role) if has_header else []
    own = f"prorec_{role}"
    if role == "weight" and has_header and names.count(own) == 1:  # from prorec denoise, beside another Weight
        return names.index(own)
    # Many columns look like dates or opinions, so without being told only those with the plain name are taken.
    if role not in _REQUIRED:
        groups = [[at for at in group if has_plain_name(names[at], role)] for group in groups[:1]]
    matches = groups[0] if groups else []
    if len(matches) > 1:
        listed = _quote(names[at] for at in matches)
        raise InputError(f"more than one column could be the {role} ({listed}): name one with {role}_col")
    if not matches and role in _REQUIRED:
        raise InputError(
            f"no column is called {role!r} or any other usual name for the {role}: name it with "
            f"{role}_col. The columns are {_quote(names)}"
        )
    return matches[0] if matches else None


def parse_numbers(column: pa.ChunkedArray, name: str, *, allow_negative: bool) -> NDArray[np.float32]:
    """Return a column of finite numbers as float32.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Numbers, or text of numbers.
    name : str
        Name of the column, for messages.
    allow_negative : bool
        Whether numbers may be below zero.

    Returns
    -------
    ndarray of float32

    Raises
    ------
    RowError
        If a value is missing, no number, not finite, or negative where that is not allowed.
    """
    column = _without_missing(column, name)
    try:
        values = column.to_numpy() if column.type == pa.float32() else _to_float32(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        for row, value in enumerate(column.to_pylist()):
            if not is_number(value):
                raise RowError(f"the {name} {safe_repr(value)} is not a number", row) from None
        raise InputError(f"the {name} must be a column of numbers; got type {column.type}") from None
    is_infinite, is_negative = ~np.isfinite(values), values < 0
    if is_infinite.any():
        row = int(np.argmax(is_infinite))
        raise RowError(f"the {name} is {column[row].as_py()}, which is not a finite number", row)
    if not allow_negative and is_negative.any():
        row = int(np.argmax(is_negative))
        raise RowError(f"the {name} is {column[row].as_py()}; it must not be negative", row)
    return values


def parse_times(column: pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of times, in the type that it has.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Whole numbers, floats, dates, datetimes, or text of numbers or of ISO times such as 2024-05-01 12:00. If only
        some times have a zone (2024-05-01T12:00:00Z), the others count as UTC.

    Returns
    -------
    ndarray of int64, float64 or datetime64
        Times with a zone are in UTC.

    Raises
    ------
    RowError
        If a value is missing, not finite, or neither a number nor a date.
    """
    column = _without_missing(column, "timestamp")
    type_ = column.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return _parse_time_texts(column)
    if pa.types.is_integer(type_):
        if type_ == pa.uint64() and pc.max(column).as_py() > np.iinfo(np.int64).max:
            raise InputError("timestamps go past the largest 64-bit integer: use a smaller unit of time")
        return np.asarray(column.to_numpy(), dtype=np.int64)
    if pa.types.is_floating(type_):
        values = np.asarray(column.to_numpy(), dtype=np.float64)
        if not np.isfinite(values).all():
            raise RowError("the timestamp is not a finite number", int(np.argmin(np.isfinite(values))))
        return values
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return np.asarray(column.to_numpy())
    for row, value in enumerate(column.to_pylist()):
        if not is_number(value) and not is_time(value):
            raise RowError(f"the timestamp {safe_repr(value)} is not a number or a date", row)
    raise InputError(f"timestamps must be all numbers, all dates or all datetimes; got a column of type {type_}")


def _parse_time_texts(column: pa.ChunkedArray) -> NDArray[Any]:
    for type_ in (pa.int64(), pa.float64(), pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            values = column.cast(type_)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
        return np.asarray(values.to_numpy()) if pa.types.is_timestamp(type_) else parse_times(values)
    return np.asarray(convert_distinct(column, _parse_iso, "a number or a date").to_numpy())


def convert_distinct(column: pa.ChunkedArray, parse: Callable[[str], datetime], expected: str) -> pa.ChunkedArray:
    """Convert text to times, each distinct text of a chunk once.

    Parameters
    ----------
    column : pyarrow.ChunkedArray of string
        Text without missing values.
    parse : callable
        Function that returns the time that a text stands for, or raises ValueError.
    expected : str
        What the text should be, for messages.

    Returns
    -------
    pyarrow.ChunkedArray of timestamp
        In UTC and without a zone.

    Raises
    ------
    RowError
        If a text is no time.
    """
    chunks, start = [], 0
    for chunk in column.chunks:  # one after the other, so that few times are Python objects at once
        encoded, times = chunk.dictionary_encode(), []
        for code, text in enumerate(encoded.dictionary.to_pylist()):
            try:
                time = parse(text)
            except ValueError:
                row = start + int(pc.index(encoded.indices, code).as_py())
                raise RowError(f"the timestamp {safe_repr(text)} is not {expected}", row) from None
            times.append(time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time)
        chunks.append(pa.array(times, pa.timestamp("us")).take(encoded.indices))
        start += len(chunk)
    return pa.chunked_array(chunks, pa.timestamp("us"))


def _parse_iso(text: str) -> datetime:
    if is_number(text):
        raise ValueError("a number among dates")
    return datetime.fromisoformat(text.strip())


def is_number(value: Any) -> bool:
    """Return whether a value, or the text of one, is a number for Arrow.

    Parameters
    ----------
    value : Any
        The value.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_number("4.5"), is_number("four")
    (True, False)
    """
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return False  # Python reads 1_000 and ４ as numbers, Arrow does not
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def is_time(value: Any) -> bool:
    """Return whether a text is an ISO date or time.

    Parameters
    ----------
    value : Any
        The text.

    Returns
    -------
    bool

    Examples
    --------
    >>> is_time("2024-05-01T12:00:00Z"), is_time("01.05.2024")
    (True, False)
    """
    if not isinstance(value, str):
        return False
    try:
        datetime.fromisoformat(value.strip())
    except ValueError:
        return False
    return True


def _without_missing(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return the column with its categories replaced by their values, or raise if a value is missing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        raise RowError(f"the {name} is missing", int(pc.index(pc.is_null(column), True).as_py()))
    return column


def _to_float32(column: pa.ChunkedArray) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # too large a number becomes infinite, which the caller refuses
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float32)


def _quote(names: Iterable[str]) -> str:
    listed = list(names)
    more = f", … ({len(listed)} columns)" if len(listed) > _N_SHOWN else ""
    return ", ".join(map(safe_repr, listed[:_N_SHOWN])) + more
