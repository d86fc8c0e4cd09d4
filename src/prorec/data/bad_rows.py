"""Rows that cannot be used: found all at once, counted by reason, with examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeVar

import pyarrow as pa

from prorec._core.errors import InputError, RowError
from prorec.data.column_values import Log, is_finite_number, time_check, time_kind, to_number
from prorec.interactions.columns import is_number
from prorec.interactions.ids import is_missing_id

_N_EXAMPLES = 3
_MAX_SKIPPED = 0.5
"""Share of the rows that may be skipped; beyond it, the file is rather read in a wrong way."""


@dataclass(frozen=True)
class BadRow:
    """One row that cannot be used."""

    position: int
    """Position among the rows, from 0."""
    place: int
    """Number of the line on which it starts, or of the row in a parquet file."""
    reason: str
    """Reason in words, the same for all rows with the same fault."""
    value: Any
    """The bad value; None if it is missing."""
    fields: Sequence[Any]
    """All values of the row."""

    @property
    def message(self) -> str:
        """The reason with the value."""
        return self.reason if self.value is None else self.reason.replace(" is ", f" {self.value!r} is ", 1)


@dataclass(frozen=True)
class BadRows:
    """All rows of a file that cannot be used."""

    rows: list[BadRow]
    """The rows, in their order."""
    n_rows: int
    """Number of all rows of the file."""
    unit: Literal["line", "row"]
    """Meaning of a row's `place`."""
    names: list[str]
    """Names of the file's columns."""

    def by_reason(self) -> dict[str, list[BadRow]]:
        """Return the rows by reason, the most frequent first."""
        groups: dict[str, list[BadRow]] = {}
        for row in self.rows:
            groups.setdefault(row.reason, []).append(row)
        return dict(sorted(groups.items(), key=lambda group: -len(group[1])))

    def describe(self) -> list[str]:
        """Return one line for each reason: the count, the reason, and examples.

        Returns
        -------
        list of str
        """
        width = max((len(f"{len(group):,}") for group in self.by_reason().values()), default=0)
        lines = []
        for reason, group in self.by_reason().items():
            more = ", …" if len(group) > _N_EXAMPLES else ""
            if any(row.value is not None for row in group):
                examples = ", ".join(f"{self.unit} {row.place:,}: {row.value!r}" for row in group[:_N_EXAMPLES])
            else:
                unit = self.unit if len(group) == 1 else f"{self.unit}s"
                examples = f"{unit} {', '.join(f'{row.place:,}' for row in group[:_N_EXAMPLES])}"
            lines.append(f"{len(group):>{width},}  {reason} ({examples}{more})")
        return lines

    def by_example(self) -> list[dict[str, Any]]:
        """Return the count of each reason with examples, as plain values.

        Returns
        -------
        list of dict
            With `reason`, `count`, `unit`, `places` and `values`.
        """
        return [
            {
                "reason": reason,
                "count": len(group),
                "unit": self.unit,
                "places": [row.place for row in group[:_N_EXAMPLES]],
                "values": [None if row.value is None else str(row.value) for row in group[:_N_EXAMPLES]],
            }
            for reason, group in self.by_reason().items()
        ]

    def to_error(self) -> InputError:
        """Return an error that counts all of the rows.

        Returns
        -------
        InputError
        """
        remedy = "Correct {}, or pass skip_bad_rows=True to leave {} out."
        if len(self.rows) > _MAX_SKIPPED * self.n_rows:
            remedy = "Most rows should be usable. Are these the right columns, and is the separator right?"
        if any(reason.startswith("the weight") for reason in self.by_reason()):
            remedy += " If the column is no weight, pass weight_col='none'."
        if any(reason.startswith("the timestamp") for reason in self.by_reason()):
            remedy += " Dates of another form need time_format, such as '%d.%m.%Y %H:%M'."
        if len(self.rows) == 1:
            (row,) = self.rows
            return InputError(f"{self.unit} {row.place}: {row.message}. {remedy.format('the row', 'it')}")
        listed = "\n".join(f"  {line}" for line in self.describe())
        return InputError(
            f"{len(self.rows):,} of {self.n_rows:,} rows cannot be used:\n{listed}\n"
            f"{remedy.format('these rows', 'them')}"
        )

    def to_table(self) -> pa.Table:
        """Return the rows as a table, with the place and the reason before the columns of the file.

        Returns
        -------
        pyarrow.Table
            Text. Of a row that is too long, the last column has all fields that are left, with commas between.
        """
        width = len(self.names)
        fields = [_to_width(["" if each is None else str(each) for each in row.fields], width) for row in self.rows]
        columns = [pa.array([row.place for row in self.rows]), pa.array([row.message for row in self.rows])]
        columns += [pa.array([each[at] for each in fields], pa.string()) for at in range(width)]
        return pa.table(columns, names=[self.unit, "reason", *self.names])


class RowSource(Log, Protocol):
    """A file whose rows can be read one after the other, and left out."""

    @property
    def unit(self) -> Literal["line", "row"]:
        """Meaning of the places of rows."""

    def rows(self) -> Iterator[tuple[int, Sequence[Any]]]:
        """Yield the place and the fields of each row."""

    def has_decimal_commas(self, position: int) -> bool:
        """Return whether a column has numbers such as 4,5."""

    def without(self, positions: frozenset[int]) -> Self:
        """Return the file without some of its rows."""


_Source = TypeVar("_Source", bound=RowSource)
_Result = TypeVar("_Result")


def read_usable(
    file: _Source,
    chosen: Mapping[str, int],
    read: Callable[[_Source], _Result],
    *,
    skip: bool = False,
    max_weight: float | None = None,
    time_format: str | None = None,
) -> tuple[_Result, BadRows | None]:
    """Read a file; if a row cannot be used, find all such rows, and refuse or skip them.

    Parameters
    ----------
    file : TextFile or ParquetFile
        The file.
    chosen : mapping of str to int
        Position of the column of each role that is read.
    read : callable
        Function that reads the file. A `RowError` from it means that there are bad rows.
    skip : bool, default False
        Leave out bad rows.
    max_weight : float, optional
        Largest weight that is allowed.
    time_format : str, optional
        Format of times.

    Returns
    -------
    result : object
        What `read` returns.
    bad : BadRows or None
        The rows that were left out, if any.

    Raises
    ------
    InputError
        If rows cannot be used and are not to be skipped, or if they are more than half of all rows.
    """
    try:
        return read(file), None
    except RowError:
        bad = find_bad_rows(file, chosen, max_weight=max_weight, time_format=time_format)
        if not bad.rows:
            raise
        if not skip or len(bad.rows) > _MAX_SKIPPED * bad.n_rows:
            raise bad.to_error() from None
    return read(file.without(frozenset(row.position for row in bad.rows))), bad


def find_bad_rows(
    file: RowSource,
    chosen: Mapping[str, int],
    *,
    max_weight: float | None = None,
    time_format: str | None = None,
) -> BadRows:
    """Find all rows that cannot be used.

    Parameters
    ----------
    file : TextFile or ParquetFile
        The file.
    chosen : mapping of str to int
        Position of the column of each role.
    max_weight : float, optional
        Largest weight that is allowed.
    time_format : str, optional
        Format of times.

    Returns
    -------
    BadRows
    """
    names = file.names
    is_time = time_check("any")
    if "timestamp" in chosen:
        is_time = time_check(time_kind(file.sample(chosen["timestamp"])), time_format)
    expected = "a number or a date" if time_format is None else f"a time of the form {time_format}"
    with_commas = {at for at in chosen.values() if file.has_decimal_commas(at)}
    bad: list[BadRow] = []
    n_rows = 0
    for n_rows, (place, fields) in enumerate(file.rows(), start=1):
        fault = (f"{len(fields)} columns instead of {len(names)}", None) if len(fields) != len(names) else None
        for role, position in chosen.items() if fault is None else ():
            value = fields[position]
            if role in ("user", "item"):
                fault = (f"the {role} id is missing", None) if is_missing_id(value) else None
            elif value is None or value == "":
                fault = f"the {role} is missing", None
            elif role == "timestamp":
                fault = None if is_time(value) else (f"the timestamp is not {expected}", value)
            else:
                fault = _number_fault(role, value, max_weight, decimal_commas=position in with_commas)
            if fault is not None:
                break
        if fault is not None:
            bad.append(BadRow(n_rows - 1, place, *fault, fields))
    return BadRows(bad, n_rows, file.unit, names)


def _number_fault(role: str, value: Any, max_weight: float | None, *, decimal_commas: bool) -> tuple[str, Any] | None:
    number = value.replace(",", ".") if decimal_commas else value
    if not is_number(number):
        return f"the {role} is not a number", value
    if not is_finite_number(number):
        return f"the {role} is not a finite number", value
    if role == "weight" and to_number(number) < 0:
        return f"the {role} is negative", value
    if role == "weight" and max_weight is not None and to_number(number) > max_weight:
        return f"the {role} is not from 0 to {max_weight:g}", value
    return None


def _to_width(fields: list[str], width: int) -> list[str]:
    fields = fields + [""] * (width - len(fields))
    return fields if len(fields) == width else [*fields[: width - 1], ",".join(fields[width - 1 :])]
