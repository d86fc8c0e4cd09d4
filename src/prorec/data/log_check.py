"""A look at a log that says everything about it at once, before it is used."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from prorec._core.errors import DataWarning, InputError
from prorec._core.files import as_path
from prorec._core.progress import Progress
from prorec.data.bad_rows import BadRows
from prorec.data.column_values import find_candidates, fits_role, time_kind
from prorec.data.formats import is_gzipped
from prorec.data.parquet_file import ParquetFile
from prorec.data.readers import Header, open_table
from prorec.data.source_table import SourceTable, find_misfits, read_source_table
from prorec.data.text_file import TextFile
from prorec.interactions.column_names import ROLES, find_named
from prorec.interactions.columns import NOT_USED, ColumnRef

_SEPARATOR_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe", " ": "blank"}
_N_EXAMPLES = 3
_EPOCH_UNITS = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"), (1e8, "s"))
"""Numbers above these are taken for times since 1970 in this unit."""


@dataclass(frozen=True)
class ColumnCheck:
    """A column of a log."""

    name: str
    """Its name; without a header, its position."""
    role: str | None
    """Its meaning; None if it is not used."""
    reason: str
    """Why it has this meaning, or what it might be."""
    examples: list[str]
    """Some of its values."""


@dataclass(frozen=True)
class LogCheck:
    """Everything that can be said about a log before it is used."""

    path: Path
    """The file."""
    layout: dict[str, Any]
    """The file's `format`, `compressed`, `bytes`, and for text `encoding`, `separator`, `header`."""
    columns: list[ColumnCheck]
    """Its columns."""
    problem: str | None = None
    """Reason why it cannot be used as it is, with what to do; None if it can."""
    candidates: dict[str, list[str]] = field(default_factory=dict)
    """Columns between which the user must choose, by option."""
    source: SourceTable | None = None
    """The rows that can be used; None if there is a problem."""
    misfits: tuple[str, ...] = ()
    """Roles whose columns are not used because of their values."""
    time_positions: tuple[int, ...] = ()
    """In a file without a header, the positions of columns that look like times."""

    @property
    def bad(self) -> BadRows | None:
        """Rows that cannot be used."""
        return None if self.source is None else self.source.skipped

    def counts(self) -> dict[str, int]:
        """Return the numbers of rows, users and items.

        Returns
        -------
        dict of str to int
            Empty if there is a problem.
        """
        if self.source is None:
            return {}
        clicks, n_usable = self.source.interactions, self.source.table.num_rows
        n_bad = 0 if self.bad is None else self.bad.n_bad
        return {
            "rows": n_usable + n_bad,
            "bad_rows": n_bad,
            "repeated_rows": n_usable - len(clicks),
            "interactions": len(clicks),
            "users": clicks.n_users,
            "items": clicks.n_items,
            "users_with_one_click": int((clicks.activity == 1).sum()),
            "items_with_one_click": int((clicks.popularity == 1).sum()),
        }

    def times(self) -> tuple[str, str] | None:
        """Return the first and the last time, as text.

        Returns
        -------
        tuple of str or None
            None if there are no times.
        """
        times = None if self.source is None else self.source.interactions.columns.get("timestamp")
        return None if times is None else (_show_time(times.min()), _show_time(times.max()))


def check_log(
    path: str | Path,
    *,
    user_col: ColumnRef = None,
    item_col: ColumnRef = None,
    weight_col: ColumnRef = None,
    timestamp_col: ColumnRef = None,
    time_format: str | None = None,
    header: Header = "auto",
    separator: str | None = None,
    ids: Literal["auto", "text"] = "auto",
    progress: Progress | None = None,
) -> LogCheck:
    """Look at a log: its layout, its columns, and the rows that can and cannot be used.

    Parameters
    ----------
    path : str or Path
        The file.
    user_col, item_col, weight_col, timestamp_col, time_format, header, separator, ids
        As in `read_source_table`.
    progress : Progress, optional
        As in `read_source_table`.

    Returns
    -------
    LogCheck

    Raises
    ------
    InputError
        If the file is not a table at all.
    """
    requested = {"user": user_col, "item": item_col, "weight": weight_col, "timestamp": timestamp_col}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the check says the same in its own words
        with open_table(path, header=header, separator=separator, requested=requested) as file:
            layout = _describe_layout(file)
            try:
                chosen = file.choose(requested, time_format=time_format)
            except InputError as error:
                columns, candidates = _describe_candidates(file, requested)
                return LogCheck(as_path(path), layout, columns, str(error), candidates)
            misfits = find_misfits(file, chosen, requested, time_format)
            used = {role: at for role, at in chosen.items() if role not in misfits}
            columns = _describe_columns(file, used, {chosen[role]: role for role in misfits}, requested, time_format)
        try:
            source = read_source_table(
                path,
                user_col=user_col,
                item_col=item_col,
                weight_col=weight_col,
                timestamp_col=timestamp_col,
                time_format=time_format,
                with_times=True,
                header=header,
                separator=separator,
                ids=ids,
                skip_bad_rows=True,
                progress=progress,
            )
        except InputError as error:
            problem = str(error).removeprefix(f"{path}: ")
            return LogCheck(as_path(path), layout, columns, problem, misfits=tuple(misfits))
        time_positions: tuple[int, ...] = ()
        if not layout.get("header", True) and timestamp_col is None:
            free = (at for at in range(len(columns)) if columns[at].role is None)
            time_positions = tuple(at for at in free if _look_like_times(file.sample(at)))
    return LogCheck(as_path(path), layout, columns, None, {}, source, tuple(misfits), time_positions)


def _describe_layout(file: TextFile | ParquetFile) -> dict[str, Any]:
    layout: dict[str, Any] = {
        "format": "text" if isinstance(file, TextFile) else "parquet",
        "compressed": is_gzipped(file.path),
        "bytes": file.path.stat().st_size,
    }
    if isinstance(file, TextFile):
        separator = _SEPARATOR_NAMES.get(file.separator, file.separator)
        layout |= {"encoding": file.encoding, "separator": separator, "header": file.header}
    return layout


def _describe_columns(
    file: TextFile | ParquetFile,
    chosen: Mapping[str, int],
    misfits: Mapping[int, str],
    requested: Mapping[str, ColumnRef],
    time_format: str | None,
) -> list[ColumnCheck]:
    """Describe each column, and why it has its role or none."""
    roles = {position: role for role, position in chosen.items()}
    result = []
    for position, name in enumerate(file.names):
        role = roles.get(position)
        values = file.sample(position)
        if role is None:
            reason = _explain_unused(file, position, misfits.get(position), chosen, requested, time_format)
        elif requested.get(role) is not None:
            reason = "you named it"
        elif isinstance(file, TextFile) and not file.header:
            reason = "its position, as there is no header"
        else:
            reason = "its name" if role in ("user", "item") else "its name and its values"
        result.append(ColumnCheck(name, role, reason, _examples(values)))
    return result


def _explain_unused(
    file: TextFile | ParquetFile,
    position: int,
    misfit: str | None,
    chosen: Mapping[str, int],
    requested: Mapping[str, ColumnRef],
    time_format: str | None,
) -> str:
    """Say why a column is not used, or what it might be."""
    values = file.sample(position)
    if misfit == "weight":
        return "no weight: weights are numbers from 0 to 1"
    if misfit == "timestamp":
        return "no times: neither numbers nor ISO times; --time-format reads other forms"
    has_header = not isinstance(file, TextFile) or file.header
    if not has_header:
        is_free = "timestamp" not in chosen and requested.get("timestamp") is None
        return f"looks like times: --timestamp-col {position}" if is_free and _look_like_times(values) else ""
    for role in ROLES:
        named = [at for group in find_named(file.names, role) for at in group]
        if position not in named or requested.get(role) == NOT_USED:
            continue
        if role in ("user", "item"):
            return f"could be the {role}, too: --{role}-col"
        if role == "timestamp" and "timestamp" not in chosen:
            if position in find_candidates(file, role, time_format):
                return "could be the time: --timestamp-col"
            return "its values are no ISO times: --timestamp-col and --time-format read them"
    return ""


def _describe_candidates(
    file: TextFile | ParquetFile, requested: Mapping[str, ColumnRef]
) -> tuple[list[ColumnCheck], dict[str, list[str]]]:
    """Describe the columns of a log whose users or items are not found, and those that could be them."""
    names = file.names
    named = {role: find_named(names, role) for role in ("user", "item") if requested.get(role) is None}
    candidates = {}
    for role, groups in named.items():
        if not groups or len(groups[0]) > 1:
            candidates[f"--{role}-col"] = [names[at] for at in groups[0]] if groups else []
    found = {groups[0][0]: role for role, groups in named.items() if groups and f"--{role}-col" not in candidates}
    columns = []
    for position, name in enumerate(names):
        could_be = [option[2:-4] for option, fitting in candidates.items() if name in fitting]
        reason = f"could be the {' or the '.join(could_be)}" if could_be else "its name" if position in found else ""
        columns.append(ColumnCheck(name, found.get(position), reason, _examples(file.sample(position))))
    return columns, candidates


def _examples(values: list[Any]) -> list[str]:
    """Return the first distinct values, as text."""
    texts = dict.fromkeys(str(each).strip() for each in values if each is not None)
    return [text for text in texts if text][:_N_EXAMPLES]


def _look_like_times(values: list[Any]) -> bool:
    """Return whether values are dates, or numbers large enough for times since 1970."""
    if not fits_role(values, "timestamp"):
        return False
    numbers = [float(each) for each in values if str(each).strip().isdecimal()]
    return time_kind(values) == "date" or (bool(numbers) and min(numbers) > _EPOCH_UNITS[-1][0])


def _show_time(time: Any) -> str:
    """Return a time as text; numbers that look like times since 1970 as dates."""
    if isinstance(time, np.datetime64):
        return str(time.astype("datetime64[s]")).replace("T", " ")
    for limit, unit in _EPOCH_UNITS:
        if limit < time < 100 * limit:
            return _show_time(np.array(int(time)).astype(f"datetime64[{unit}]")[()])
    return f"{time:,}"
