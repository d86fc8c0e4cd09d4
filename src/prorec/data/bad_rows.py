"""Rows that cannot be used: found all at once, counted by reason, with examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self, TypeVar

import pyarrow as pa

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError, RowError
from prorec.data.column_values import Log, is_finite_number, time_check, time_kind, to_number
from prorec.interactions.columns import is_number
from prorec.interactions.ids import is_missing_id

_N_EXAMPLES = 3
_MAX_KEPT = 1_000_000
_MAX_SKIPPED = 0.5
"""Share of the rows that may be skipped; beyond it, the file is rather read in a wrong way."""


@dataclass(frozen=True)
class BadRow:
    """One row that cannot be used."""

    position: int
    """Position among the rows, from 0."""
    place: int
    """Number of the line on which it starts, of the row in a parquet file, or its position in a data frame."""
    reason: str
    """Reason in words, the same for all rows with the same fault."""
    value: Any
    """The bad value; None if it is missing."""
    fields: Sequence[Any]
    """All values of the row."""

    @property
    def message(self) -> str:
        """The reason with the value."""
        return self.reason if self.value is None else self.reason.replace(" is ", f" {safe_repr(self.value)} is ", 1)


@dataclass
class BadRows:
    """All rows of a file that cannot be used."""

    unit: Literal["line", "row", "position"]
    """Meaning of a row's `place`."""
    names: list[str]
    """Names of the file's columns."""
    n_rows: int = 0
    """Number of all rows of the file."""
    counts: dict[str, int] = field(default_factory=dict)
    """Number of bad rows by reason."""
    examples: dict[str, list[BadRow]] = field(default_factory=dict)
    """The first bad rows by reason."""
    rows: list[BadRow] = field(default_factory=list)
    """The bad rows in their order, if they are to be skipped."""

    @property
    def n_bad(self) -> int:
        """Number of bad rows."""
        return sum(self.counts.values())

    @property
    def are_most(self) -> bool:
        """Whether more rows are bad than good."""
        return self.n_bad > _MAX_SKIPPED * self.n_rows

    def add(self, row: BadRow, *, keep: bool) -> None:
        """Count a row.

        Parameters
        ----------
        row : BadRow
            The row.
        keep : bool
            Whether to keep it for skipping. No more than a million rows are kept while most rows are bad, because
            they are refused then anyway.
        """
        self.counts[row.reason] = self.counts.get(row.reason, 0) + 1
        examples = self.examples.setdefault(row.reason, [])
        if len(examples) < _N_EXAMPLES:
            examples.append(row)
        if keep and not (len(self.rows) >= _MAX_KEPT and self.are_most):
            self.rows.append(row)

    def reasons(self) -> list[str]:
        """Return the reasons, the most frequent first."""
        return sorted(self.counts, key=lambda reason: -self.counts[reason])

    def describe(self) -> list[str]:
        """Return one line for each reason: the count, the reason, and examples.

        Returns
        -------
        list of str
        """
        width = max((len(f"{count:,}") for count in self.counts.values()), default=0)
        lines = []
        for reason in self.reasons():
            count, examples = self.counts[reason], self.examples[reason]
            more = ", …" if count > len(examples) else ""
            if examples[0].value is not None:
                listed = ", ".join(f"{self.unit} {row.place:,}: {safe_repr(row.value)}" for row in examples)
            else:
                unit = self.unit if count == 1 else f"{self.unit}s"
                listed = f"{unit} {', '.join(f'{row.place:,}' for row in examples)}"
            lines.append(f"{count:>{width},}  {reason} ({listed}{more})")
        return lines

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the count of each reason with examples, as plain values.

        Returns
        -------
        list of dict
            With `reason`, `count`, `unit`, `places` and `values`.
        """
        return [
            {
                "reason": reason,
                "count": self.counts[reason],
                "unit": self.unit,
                "places": [row.place for row in self.examples[reason]],
                "values": [None if row.value is None else str(row.value) for row in self.examples[reason]],
            }
            for reason in self.reasons()
        ]

    def to_error(self, *, can_skip: bool = True) -> InputError:
        """Return an error that counts all of the rows.

        Parameters
        ----------
        can_skip : bool, default True
            Whether the caller can leave such rows out.

        Returns
        -------
        InputError
        """
        remedy = "Correct {}, or pass skip_bad_rows=True to leave {} out." if can_skip else "Correct or remove {}."
        if self.are_most:
            remedy = "Most rows should be usable. Are these the right columns, and is the separator right?"
        if any(reason.startswith("the weight") for reason in self.counts):
            remedy += " If the column is no weight, pass weight_col='none'."
        if any(reason.startswith("the timestamp") for reason in self.counts):
            remedy += " Dates of another form need time_format, such as '%d.%m.%Y %H:%M'."
        if self.n_bad == 1:
            ((row,),) = self.examples.values()
            return InputError(f"{self.unit} {row.place}: {row.message}. {remedy.format('the row', 'it')}")
        listed = "\n".join(f"  {line}" for line in self.describe())
        return InputError(
            f"{self.n_bad:,} of {self.n_rows:,} rows cannot be used:\n{listed}\n{remedy.format('these rows', 'them')}"
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
    def unit(self) -> Literal["line", "row", "position"]:
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
    can_skip: bool = True,
    max_weight: float | None = None,
    time_format: str | None = None,
) -> tuple[_Result, BadRows | None]:
    """Read a file; if a row cannot be used, find all such rows, and refuse or skip them.

    Parameters
    ----------
    file : TextFile, ParquetFile or DataFrameLog
        The log.
    chosen : mapping of str to int
        Position of the column of each role that is read.
    read : callable
        Function that reads the file. A `RowError` from it means that there are bad rows.
    skip : bool, default False
        Leave out bad rows.
    can_skip : bool, default True
        Whether the message may advise to leave them out.
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
        bad = find_bad_rows(file, chosen, keep=skip, max_weight=max_weight, time_format=time_format)
        if not bad.n_bad:
            raise
        if not skip or bad.are_most:
            raise bad.to_error(can_skip=can_skip) from None
    return read(file.without(frozenset(row.position for row in bad.rows))), bad


def find_bad_rows(
    file: RowSource,
    chosen: Mapping[str, int],
    *,
    keep: bool = False,
    max_weight: float | None = None,
    time_format: str | None = None,
) -> BadRows:
    """Find all rows that cannot be used.

    Parameters
    ----------
    file : TextFile, ParquetFile or DataFrameLog
        The log.
    chosen : mapping of str to int
        Position of the column of each role.
    keep : bool, default False
        Keep the rows, to skip them.
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
    bad = BadRows(file.unit, names)
    for place, fields in file.rows():
        bad.n_rows += 1
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
            bad.add(BadRow(bad.n_rows - 1, place, *fault, fields), keep=keep)
    return bad


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
