"""Which column of a table is the user, the item, the weight, the rating and the time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from prorec._core.errors import InputError, RowError

ColumnRef = str | int | None

# Names that are understood without being told, compared without case. The first is prorec's own.
ALIASES = {
    "user": ("user", "user_id", "userid", "uid", "customer_id", "visitor_id", "visitorid"),
    "item": ("item", "item_id", "itemid", "iid", "movie_id", "movieid", "product_id", "productid", "asin"),
    "weight": ("weight",),
    "rating": ("rating",),
    "timestamp": ("timestamp", "time"),
}
_REQUIRED = ("user", "item")


def choose_columns(
    names: Sequence[str],
    wanted: dict[str, ColumnRef],
    *,
    has_header: bool = True,
    roles: Sequence[str] = tuple(ALIASES),
) -> dict[str, int]:
    """Position of the column that plays each of some roles.

    A role that was asked for by name or position must be there; digits that name no column are a position. Otherwise
    the roles are found by their usual names, or, in a table without a header, the user is the first column and the item
    the second.

    >>> choose_columns(["userId", "movieId", "rating"], {})
    {'user': 0, 'item': 1, 'rating': 2}
    """
    chosen: dict[str, int] = {}
    for role in roles:
        aliases, ref = ALIASES[role], wanted.get(role)
        if isinstance(ref, str) and ref.isdecimal() and ref not in names and len(ref) < 10:
            ref = int(ref)
        if ref is None and not has_header and role in _REQUIRED:
            ref = _REQUIRED.index(role)
        if ref is None:
            usual = [at for at, name in enumerate(names) if has_header and name.lower() in aliases]
            if len(usual) > 1:
                raise InputError(
                    f"more than one column could be the {role} ({_listed(names[at] for at in usual)}): "
                    f"name one with {role}_col"
                )
            if usual:
                chosen[role] = usual[0]
            elif role in _REQUIRED:
                raise InputError(
                    f"no column is called {aliases[0]!r} or any other usual name for the {role}: name it with "
                    f"{role}_col. Columns there: {_listed(names)}"
                )
        elif isinstance(ref, str):
            if names.count(ref) != 1:
                problem = "no column is" if ref not in names else "more than one column is"
                raise InputError(f"{problem} called {ref!r} ({role}_col). Columns there: {_listed(names)}")
            chosen[role] = names.index(ref)
        else:
            if not isinstance(ref, Integral) or not 0 <= ref < len(names):
                raise InputError(
                    f"{role}_col is position {ref!r}, but the table has {len(names)} columns "
                    f"(positions from 0): {_listed(names)}"
                )
            chosen[role] = int(ref)
    taken: dict[int, str] = {}
    for role, at in chosen.items():
        if at in taken:
            raise InputError(f"column {names[at]!r} cannot be both the {taken[at]} and the {role}")
        taken[at] = role
    return chosen


def parse_numbers(column: pa.ChunkedArray, name: str, *, negative: bool) -> NDArray[np.float32]:
    """A column of finite numbers as float32; `negative` says whether they may be below zero."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        raise RowError(f"the {name} is missing", int(pc.index(pc.is_null(column), True).as_py()))
    try:
        values = column.to_numpy() if column.type == pa.float32() else _cast(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        for row, value in enumerate(column.to_pylist()):
            if not is_number(value):
                raise RowError(f"the {name} {value!r} is not a number", row) from None
        raise InputError(f"{name} must be numbers, got a column of type {column.type}") from None
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        raise RowError(f"the {name} is {column[row].as_py()}, which is not a finite number", row)
    if not negative and (values < 0).any():
        row = int(np.argmax(values < 0))
        raise RowError(f"the {name} is {column[row].as_py()}; it must not be negative", row)
    return values


def _cast(column: pa.ChunkedArray) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # a number too large for float32 becomes inf, and is refused as such
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float32)


def parse_times(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column of times as they are: whole numbers, floats, dates or datetimes."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        raise RowError("the timestamp is missing", int(pc.index(pc.is_null(column), True).as_py()))
    kind = column.type
    if pa.types.is_integer(kind):
        if kind == pa.uint64() and pc.max(column).as_py() > np.iinfo(np.int64).max:
            raise InputError("timestamps go past the largest 64-bit integer")
        return np.asarray(column.to_numpy(), dtype=np.int64)
    if pa.types.is_floating(kind):
        values = np.asarray(column.to_numpy(), dtype=np.float64)
        if not np.isfinite(values).all():
            raise RowError("the timestamp is not a finite number", int(np.argmin(np.isfinite(values))))
        return values
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return np.asarray(column.to_numpy())
    for zone in (None, "UTC"):  # text such as 2024-05-01 12:00, or 2024-05-01T12:00:00Z
        try:
            return np.asarray(column.cast(pa.timestamp("us", zone)).to_numpy())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    else:
        for row, value in enumerate(column.to_pylist()):
            if not is_number(value) and not _is_date(value):
                raise RowError(f"the timestamp {value!r} is not a number or a date", row) from None
        raise InputError(f"timestamps must be numbers, dates or datetimes, got a column of type {kind}") from None


def is_number(value: Any) -> bool:
    """Whether a value, or the text of one, reads as a number.

    >>> is_number("4.5"), is_number("four")
    (True, False)
    """
    if isinstance(value, str) and ("_" in value or not value.isascii()):
        return False  # float() takes 1_000 and ４, Arrow and other people's tools don't
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _is_date(value: Any) -> bool:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return True


def _listed(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
