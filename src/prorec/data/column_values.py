"""Values that columns of weights, ratings and times may have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError
from prorec.interactions.column_names import find_named, has_plain_name
from prorec.interactions.columns import ColumnRef, convert_distinct, is_number, is_time

_MIN_FITTING = 0.5
"""Share of the first values that must fit for a column to be taken without being named by the user."""


class Log(Protocol):
    """A file with rows and columns."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""

    def sample(self, position: int) -> list[Any]:
        """Return values of a column in the first rows."""


def fits_role(values: Sequence[Any], role: str, time_format: str | None = None) -> bool:
    """Find out whether values can be those of a role.

    Parameters
    ----------
    values : sequence
        Values of some rows, such as texts; empty ones do not count.
    role : {"weight", "rating", "timestamp"}
        The role.
    time_format : str, optional
        Format of times, as in `datetime.strptime`.

    Returns
    -------
    bool
        Whether at least half of the values fit: weights are numbers from 0 to 1, ratings are numbers, and times are
        numbers, ISO times or of the given format.

    Examples
    --------
    >>> fits_role(["0.5", "1"], "weight"), fits_role(["12.4", "3.1"], "weight")
    (True, False)
    """
    values = [each for each in values if each is not None and str(each).strip()]
    is_good: Callable[[Any], bool] = is_finite_number
    if role == "weight":
        is_good = lambda value: is_finite_number(value) and 0 <= to_number(value) <= 1  # noqa: E731
    elif role == "timestamp":
        is_good = time_check("any", time_format)
    return bool(values) and sum(map(is_good, values)) >= _MIN_FITTING * len(values)


def time_kind(values: Sequence[Any]) -> str:
    """Return the kind of times that most values are.

    Parameters
    ----------
    values : sequence
        Values of some rows.

    Returns
    -------
    {"number", "date"}
    """
    n_numbers = sum(is_finite_number(each) for each in values)
    return "number" if n_numbers > sum(is_time(each) and not is_number(each) for each in values) else "date"


def time_check(kind: str, time_format: str | None = None) -> Callable[[Any], bool]:
    """Return a function that tells whether a value is a time.

    Parameters
    ----------
    kind : {"number", "date", "any"}
        Kind of times that is expected, if there is no format.
    time_format : str, optional
        Format of times, as in `datetime.strptime`.

    Returns
    -------
    callable
    """

    def check(value: Any) -> bool:
        if not isinstance(value, str):  # parquet has types
            return not isinstance(value, (int, float)) or is_finite_number(value)
        if time_format is not None:
            return _has_format(value, time_format)
        if is_number(value):
            return kind != "date" and is_finite_number(value)
        return kind != "number" and is_time(value)

    return check


def parse_with_format(column: pa.ChunkedArray, time_format: str) -> pa.ChunkedArray:
    """Convert text to times by a format.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Text.
    time_format : str
        Format, as in `datetime.strptime`.

    Returns
    -------
    pyarrow.ChunkedArray of timestamp

    Raises
    ------
    RowError
        If a text is missing or does not have the format.
    InputError
        If the column is no text, because a type has no format.
    """
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise InputError(f"time_format is for text; these times have the type {column.type}: leave it out")
    filled = column.fill_null("")
    return convert_distinct(
        filled, lambda text: datetime.strptime(text.strip(), time_format), f"a time of the form {time_format}"
    )


def choose_by_values(
    log: Log,
    chosen: Mapping[str, int],
    requested: Mapping[str, ColumnRef],
    roles: Iterable[str],
    time_format: str | None = None,
) -> dict[str, int]:
    """Find columns of ratings and times by names and values together.

    Parameters
    ----------
    log : Log
        The file.
    chosen : mapping of str to int
        Position of the column of each role that was found by its name alone.
    requested : mapping of str to str, int or None
        Columns that the user named.
    roles : iterable of str
        Roles to find.
    time_format : str, optional
        Format of times.

    Returns
    -------
    dict of str to int
        The chosen columns, and those of other roles for which one column only has a fitting name and fitting values.
    """
    result = dict(chosen)
    for role in roles:
        if role not in ("rating", "timestamp") or role in chosen or requested.get(role) is not None:
            continue
        plain = [at for at, name in enumerate(log.names) if has_plain_name(name, role)]
        candidates = [at for at in find_candidates(log, role, time_format) if not plain or at in plain]
        free = [at for at in candidates if at not in result.values()]
        if len(free) > 1 and plain:
            listed = ", ".join(safe_repr(log.names[at]) for at in free)
            raise InputError(f"more than one column could be the {role} ({listed}): name one with {role}_col")
        if len(free) == 1:
            result[role] = free[0]
    return result


def without_ambiguous(names: Sequence[str], requested: Mapping[str, ColumnRef], roles: Iterable[str]) -> list[str]:
    """Return the roles without those of which several columns have the plain name, between which values decide.

    Parameters
    ----------
    names : sequence of str
        Names of the columns.
    requested : mapping of str to str, int or None
        Columns that the user named.
    roles : iterable of str
        Roles to find.

    Returns
    -------
    list of str
    """
    return [
        role
        for role in roles
        if role not in ("rating", "timestamp")
        or requested.get(role) is not None
        or sum(has_plain_name(name, role) for name in names) < 2
    ]


def find_candidates(log: Log, role: str, time_format: str | None = None) -> list[int]:
    """Find the columns of ratings or times whose names and values fit.

    Parameters
    ----------
    log : Log
        The file.
    role : {"rating", "timestamp"}
        The role.
    time_format : str, optional
        Format of times.

    Returns
    -------
    list of int
        Positions of the columns.
    """
    named = [at for group in find_named(log.names, role) for at in group]
    return [at for at in named if fits_role(log.sample(at), role, time_format)]


def is_finite_number(value: Any) -> bool:
    """Return whether a value, or the text of one, is a number that a float32 can hold.

    Parameters
    ----------
    value : Any
        The value.

    Returns
    -------
    bool
    """
    return is_number(value) and math.isfinite(to_number(value)) and abs(to_number(value)) < _LARGEST


def to_number(value: Any) -> float:
    """Return a number, or the number that a text stands for.

    Parameters
    ----------
    value : Any
        A number or its text.

    Returns
    -------
    float
    """
    return float(value)


_LARGEST = 3.4028235677973366e38
"""From here on a number is infinite as float32."""


def check_time_format(time_format: str | None) -> None:
    """Refuse a format of times that cannot be one.

    Parameters
    ----------
    time_format : str or None
        The format.

    Raises
    ------
    InputError
        If it has no directive, or one that Python does not know.
    """
    if time_format is None:
        return
    try:
        datetime.strptime(datetime(2024, 12, 31, 23, 59).strftime(time_format), time_format)
        is_format = "%" in time_format
    except (ValueError, TypeError):
        is_format = False
    if not is_format:
        raise InputError(f"time_format must be a format such as '%d.%m.%Y %H:%M'; got {safe_repr(time_format)}")


def _has_format(text: str, time_format: str) -> bool:
    try:
        datetime.strptime(text.strip(), time_format)
    except ValueError:
        return False
    return True
