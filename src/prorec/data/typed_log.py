"""Logs whose columns have types, as parquet files and data frames have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from prorec._core.checks import safe_repr, shorten
from prorec._core.errors import InputError
from prorec.data.column_values import choose_by_values, parse_with_format, without_ambiguous
from prorec.interactions.column_names import ROLES
from prorec.interactions.columns import ColumnRef, choose_columns


@dataclass(frozen=True)
class TypedLog:
    """Base of logs whose columns have types: how columns are found, and rows are left out."""

    _: KW_ONLY
    skipped: frozenset[int] = frozenset()
    """Positions of rows that are left out, as if they were not in the log."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        raise NotImplementedError

    def sample(self, position: int) -> list[Any]:
        """Return values of a column in the first rows, as `TextFile.sample` does."""
        raise NotImplementedError

    def choose(
        self,
        requested: Mapping[str, ColumnRef],
        roles: Sequence[str] = ROLES,
        *,
        time_format: str | None = None,
    ) -> dict[str, int]:
        """Find the column of each role, as `TextFile.choose` does.

        Parameters
        ----------
        requested : mapping of str to str, int or None
            Column of each role by name or position, as the caller gave it.
        roles : sequence of str, optional
            Roles to find; all by default.
        time_format : str, optional
            Format of times.

        Returns
        -------
        dict of str to int
            Position of the column of each role that the log has.
        """
        names = self.names
        plain = without_ambiguous(names, requested, roles)
        chosen = choose_by_values(self, choose_columns(names, requested, roles=plain), requested, roles, time_format)
        for position in chosen.values():
            if names.count(names[position]) > 1:
                raise InputError(f"more than one column is called {safe_repr(names[position])}: rename one of them")
        return chosen

    def has_decimal_commas(self, position: int) -> bool:
        """Return False: numbers are not text."""
        return False

    def without(self, positions: frozenset[int]) -> Self:
        """Return the log without some of its rows, as `TextFile.without` does.

        Parameters
        ----------
        positions : frozenset of int
            Positions of the rows, from 0.

        Returns
        -------
        Self
        """
        without: Self = replace(self, skipped=positions)
        return without

    def _kept(self, n_rows: int) -> pa.Array:
        """Return whether each row is kept."""
        keep = np.ones(n_rows, dtype=bool)
        keep[list(self.skipped)] = False
        return pa.array(keep)


def convert_columns(
    columns: dict[str, pa.ChunkedArray], ids: str, time_format: str | None
) -> dict[str, pa.ChunkedArray]:
    """Return columns with times that are parsed by a format, and with ids as text if that is asked for.

    Parameters
    ----------
    columns : dict of str to pyarrow.ChunkedArray
        Columns by role.
    ids : {"auto", "text"}
        Whether to keep ids in the type that they have, or to convert them to text.
    time_format : str or None
        Format of times that are text.

    Returns
    -------
    dict of str to pyarrow.ChunkedArray

    Raises
    ------
    InputError
        If ids cannot be read as text, or times do not have the format.
    """
    if time_format is not None and "timestamp" in columns:
        columns["timestamp"] = parse_with_format(columns["timestamp"], time_format)
    if ids == "auto":
        return columns
    try:
        return columns | {role: columns[role].cast(pa.string()) for role in ("user", "item") if role in columns}
    except pa.ArrowException as error:
        raise InputError(f"these ids cannot be read as text: {shorten(str(error))}") from error
