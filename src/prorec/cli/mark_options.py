"""Options that say what people know of a log: columns of marks, and accounts that are no people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError
from prorec._core.files import is_file, prefix_errors
from prorec.cli.command import Options
from prorec.cli.exit_codes import blame_data
from prorec.cli.options import LogOptions
from prorec.data.readers import open_table
from prorec.data.source_table import SourceTable
from prorec.noise.marks import mark_users, parse_yes_no

_MAX_LISTED = 30  # users in a command


@dataclass(frozen=True, kw_only=True)
class MarkOptions(Options):
    """Interactions that people know to be genuine or noise."""

    panel = "Columns of the log"

    suspect_users: str | None = None
    """Users that are no people, such as test01,test02: all of their interactions are noise. @FILE has one id a line."""
    suspect_col: str | None = None
    """Name of a column of yes and no: interactions that are surely noise, such as returns."""
    trusted_col: str | None = None
    """Name of a column of yes and no: interactions that are surely genuine, such as purchases."""

    def check(self, log: LogOptions) -> None:
        """Refuse marks that cannot be read, before the log is read.

        Parameters
        ----------
        log : LogOptions
            The log. Its columns are not looked at if it is standard input.

        Raises
        ------
        InputError
            If there is no such column, or the file of users cannot be read.
        """
        self.list_users()
        if log.log == "-" or not (self.suspect_col or self.trusted_col) or not is_file(log.log):
            return
        arguments = log.reader_arguments()
        requested = {"user": arguments["user_col"], "item": arguments["item_col"]}
        layout = {"header": arguments["header"], "separator": arguments["separator"], "requested": requested}
        with blame_data(), open_table(log.log, **layout) as file:
            for role, name in (("trusted", self.trusted_col), ("suspect", self.suspect_col)):
                if name is not None:
                    _check_column(role, name, file.names)

    def read(self, source: SourceTable) -> dict[str, NDArray[np.bool_] | None]:
        """Return the marks as arguments of `ProRec.fit`.

        Parameters
        ----------
        source : SourceTable
            The log. An interaction is marked if any of its rows is.

        Returns
        -------
        dict
            One boolean for each interaction, or None, for `trusted` and `suspect`.

        Raises
        ------
        InputError
            If there is no such column or user, or a value is neither yes nor no.
        """
        columns = {"trusted": self.trusted_col, "suspect": self.suspect_col}
        marks = {role: None if name is None else _read_marks(role, name, source) for role, name in columns.items()}
        if users := self.list_users():
            is_suspect = mark_users(source.interactions, users)
            marks["suspect"] = is_suspect if marks["suspect"] is None else marks["suspect"] | is_suspect
        return marks

    def list_users(self) -> list[str]:
        """Return the ids of `suspect_users`.

        Returns
        -------
        list of str
            Empty if there are none.

        Raises
        ------
        InputError
            If the option names nobody, or its file cannot be read.
        """
        if self.suspect_users is None:
            return []
        if self.suspect_users.startswith("@"):
            path = Path(self.suspect_users[1:])
            with blame_data(), prefix_errors(path):
                try:
                    ids = path.read_text(encoding="utf-8-sig").splitlines()
                except UnicodeDecodeError:
                    raise InputError("a file of users is text in UTF-8 with one id on each line") from None
        else:
            ids = self.suspect_users.split(",")
        users = [each.strip() for each in ids if each.strip()]
        if not users:
            raise InputError(
                f"suspect_users must name at least one user; got {safe_repr(self.suspect_users)}. "
                "Separate ids by commas, or pass @FILE with one id on each line"
            )
        return users


def name_users(users: Iterable[Any]) -> str:
    """Return the value of `--suspect-users` that names some users.

    Parameters
    ----------
    users : iterable
        Their ids.

    Returns
    -------
    str
        Ids with commas between; the name of a file to be made if they are many, or one cannot stand among commas.

    Examples
    --------
    >>> name_users(["test01", "qa-check"]), name_users(["Smith, Ann"])
    ('test01,qa-check', '@suspicious-users.txt')
    """
    ids = [str(each) for each in users]
    is_plain = all("," not in each and each == each.strip() != "" and not each.startswith("@") for each in ids)
    return ",".join(ids) if is_plain and len(ids) <= _MAX_LISTED else "@suspicious-users.txt"


def _read_marks(role: str, name: str, source: SourceTable) -> NDArray[np.bool_]:
    """Return whether any row of each interaction has yes in a column."""
    _check_column(role, name, source.table.column_names)
    is_marked = np.zeros(len(source.interactions), dtype=bool)
    is_marked[source.positions[parse_yes_no(source.table[name], f"the column {safe_repr(name)}")]] = True
    return is_marked


def _check_column(role: str, name: str, names: list[str]) -> None:
    """Refuse the name of a column that is not there, or there twice."""
    if names.count(name) != 1:
        found = "several columns are" if name in names else "no column is"
        raise InputError(
            f"{role}_col must be the name of one column of the log; {found} called {safe_repr(name)}. "
            f"The columns are: {', '.join(names)}"
        )
