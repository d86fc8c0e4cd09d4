"""Commands that the output of a command prints for the user to copy."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prorec.cli.mark_options import name_users
from prorec.data.formats import format_suffix

_NOT_REPEATED = frozenset(["command", "drop", "suspect_users"])


def write_options(settings: Mapping[str, Any]) -> list[str]:
    """Return options as words of a command.

    Parameters
    ----------
    settings : mapping
        Values by name, as `Options.settings` has them.

    Returns
    -------
    list of str

    Examples
    --------
    >>> write_options({"weight_col": "none", "skip_bad_rows": True, "param": ("rank=8",)})
    ['--weight-col', 'none', '--skip-bad-rows', '--param', 'rank=8']
    """
    words = []
    for name, value in settings.items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words += [option] if value else []
        else:
            for each in value if isinstance(value, tuple | list) else [value]:
                words += [option, f"{each:g}" if isinstance(each, float) else str(each)]
    return words


def find_free_name(log: str, ending: str, suffix: str | None = None) -> str:
    """Return the name of a new file in this folder for the output of a command.

    Parameters
    ----------
    log : str
        The log, or - for standard input.
    ending : str
        What the file is, such as "denoised".
    suffix : str, optional
        Suffix of the file; by default .parquet for a log in parquet, and else .csv.

    Returns
    -------
    str
        Such as orders.denoised.csv.
    """
    stem = "clicks" if log == "-" else Path(Path(log).name.removesuffix(".gz")).stem
    if suffix is None:
        suffix = ".parquet" if format_suffix(Path(log)) in (".parquet", ".pq") else ".csv"
    names = (f"{stem}.{ending}{number}{suffix}" for number in ("", *(f"-{each}" for each in range(2, 1000))))
    return next(name for name in names if not Path(name).exists())


def write_cleaning_command(log: str, options: Sequence[str], users: Iterable[Any]) -> str:
    """Return the command that writes a log without flagged rows and without some users.

    Parameters
    ----------
    log : str
        The log, or - for standard input.
    options : sequence of str
        Options for `prorec denoise`, as words.
    users : iterable
        Ids of the users.

    Returns
    -------
    str
    """
    words = ["prorec", "denoise", log, "--out", find_free_name(log, "cleaned"), *options]
    ids = list(users)
    return shlex.join([*words, *(["--suspect-users", name_users(ids)] if ids else []), "--drop"])


def repeat_cleaning(
    log: str, settings: Mapping[str, Any], marked: Sequence[str], summary: Mapping[str, Any]
) -> str | None:
    """Return the command that removes the flagged rows and the suspicious accounts of a summary.

    Parameters
    ----------
    log : str
        The log, or - for standard input.
    settings : mapping
        Options of the command that found the accounts.
    marked : sequence of str
        Users that were marked as suspect already.
    summary : mapping
        From `summarize_noise`.

    Returns
    -------
    str or None
        None if there is nothing to remove, or it was removed.
    """
    users = [row["user"] for row in summary["suspicious_accounts"]]
    if not users and (settings.get("drop") or not summary["flagged_pairs"]):
        return None
    options = {name: value for name, value in settings.items() if name not in _NOT_REPEATED}
    return write_cleaning_command(log, write_options(options), [*marked, *users])


def describe_cleaning(command: str | None) -> str:
    """Return the sentence that leads to a command that removes rows, and the command.

    Parameters
    ----------
    command : str or None
        From `repeat_cleaning`.

    Returns
    -------
    str
        Two lines, or nothing without a command.
    """
    if command is None:
        return ""
    if "--suspect-users" not in command:
        return f"This writes the log without the flagged rows:\n  {command}\n"
    file = " (write the ids into suspicious-users.txt, one on each line)" if "@suspicious-users.txt" in command else ""
    return (
        "This writes the log without flagged rows and without the suspicious accounts; take out of it whoever is a "
        f"person{file}:\n"
        f"  {command}\n"
    )
