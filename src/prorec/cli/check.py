"""`prorec check`: look at a log, say everything about it at once, and print the command to run next."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from prorec._core.provenance import digest_file
from prorec.cli.check_summary import print_check
from prorec.cli.command import as_command, name_options, refuse
from prorec.cli.commands_to_copy import find_free_name, write_cleaning_command, write_options
from prorec.cli.exit_codes import BadDataError, blame_data
from prorec.cli.options import ConsoleOptions, LogOptions, TimeOptions
from prorec.data.column_values import check_time_format
from prorec.data.log_check import LogCheck, check_log
from prorec.noise import Issues, find_issues
from prorec.noise.account_groups import group_accounts
from prorec.noise.issue_sentences import describe_item, describe_user, list_items, list_users


@dataclass(frozen=True, kw_only=True)
class CheckOptions(LogOptions, TimeOptions):
    """The log, and what is known about it."""


@as_command
def check(log: CheckOptions, console: ConsoleOptions) -> None:
    """Look at a log before using it: its columns, its bad rows, and the accounts that stand out.

    Ends with the command to run next. Nothing is written.

    Parameters
    ----------
    log : CheckOptions
        The log.
    console : ConsoleOptions
        Output on the console.

    Raises
    ------
    BadDataError
        If the log cannot be used as it is; what could be found out is printed before.
    """
    refuse((name for name in log.given if name == "skip_bad_rows"), "here, because check always counts bad rows")
    log.check_format()
    check_time_format(log.time_format)
    arguments = log.reader_arguments() | {"timestamp_col": log.timestamp_col, "time_format": log.time_format}
    del arguments["skip_bad_rows"]
    with console.progress() as progress, blame_data(), log.open() as path:
        found = check_log(path, **arguments, progress=progress)
        name = "standard input" if log.log == "-" else Path(log.log).name
        progress("Taking the digest of the log", 0, 1)
        provenance = console.provenance(log={"name": name, "sha256": digest_file(path)})
        progress("Taking the digest of the log", 1, 1)
        issues = None
        if found.source is not None:
            progress("Finding accounts that stand out", 0, 1)
            issues = find_issues(found.source.interactions)
            progress("Finding accounts that stand out", 1, 1)
    result = describe_check(found, issues) | {"log": log.log, "next": _next_commands(found, log)}
    suspicious = [row["id"] for row in result["suspicious_accounts"]]
    result["cleaning_command"] = None
    if suspicious and found.problem is None:
        result["cleaning_command"] = write_cleaning_command(log.log, _next_options(found, log), suspicious)
    result["provenance"] = provenance
    if console.json:
        console.print_result(result, "")
    elif not console.quiet:
        print_check(result, Console())
    if found.problem is not None:
        name = "standard input" if log.log == "-" else log.log
        raise BadDataError(f"{name}: {found.problem}")


def describe_check(found: LogCheck, issues: Issues | None) -> dict[str, Any]:
    """Return the findings about a log as plain values.

    Parameters
    ----------
    found : LogCheck
        The log.
    issues : Issues or None
        Issues of its accounts and items; None if the log cannot be used.

    Returns
    -------
    dict
        Values for JSON, and for `print_check`.
    """
    times = found.times()
    bad = found.bad
    return {
        "file": found.layout,
        "columns": [vars(column) for column in found.columns],
        "problem": None if found.problem is None else name_options(found.problem),
        "candidates": found.candidates,
        "counts": found.counts(),
        "first_time": None if times is None else times[0],
        "last_time": None if times is None else times[1],
        "bad_rows": [] if bad is None else bad.to_rows(),
        **_list_suspects(issues),
    }


def _list_suspects(issues: Issues | None) -> dict[str, list[dict[str, Any]]]:
    """Return the accounts of each group and the items that stand out, with the reason in words."""
    if issues is None:
        return {"extreme_accounts": [], "suspicious_accounts": [], "suspicious_items": []}
    log, groups = issues.interactions, group_accounts(issues)

    def describe(ids: NDArray[Any], n_clicks: NDArray[np.int64], at: int, reason: str) -> dict[str, Any]:
        value = ids[at].item() if hasattr(ids[at], "item") else ids[at]
        return {"id": value, "clicks": int(n_clicks[at]), "reason": reason}

    accounts = {
        name: [describe(log.users, log.activity, at, describe_user(issues, at)) for at in list_users(issues, group)]
        for name, group in (("extreme_accounts", groups.extreme), ("suspicious_accounts", groups.suspicious))
    }
    items = [describe(log.items, log.popularity, at, describe_item(issues, at)) for at in list_items(issues)]
    return accounts | {"suspicious_items": items}


def _next_commands(found: LogCheck, log: CheckOptions) -> list[str]:
    """Return the command that finds the noise; or, if columns must be named first, a check for each candidate."""
    given = _given_words(log)
    if found.problem is not None:
        commands = []
        for option, names in found.candidates.items():
            others = {each: fitting for each, fitting in found.candidates.items() if each != option}
            rest = [word for each, fitting in others.items() for word in (each, fitting[0] if fitting else "NAME")]
            if option == next(iter(found.candidates)):
                commands = [["prorec", "check", log.log, option, name, *rest, *given] for name in names or ["NAME"]]
        return [shlex.join(words) for words in commands]
    words = ["prorec", "denoise", log.log, "--out", find_free_name(log.log, "denoised")]
    if find_spec("jinja2") is not None:
        words += ["--report", find_free_name(log.log, "report", ".html")]
    return [shlex.join([*words, *_next_options(found, log)])]


def _next_options(found: LogCheck, log: CheckOptions) -> list[str]:
    """Return the options by which a command reads the log as check did."""
    words = _given_words(log)
    if not found.layout.get("header", True) and not log.no_header:
        words.append("--no-header")
    if len(found.time_positions) == 1:
        words += ["--timestamp-col", str(found.time_positions[0])]
    for role in found.misfits:
        words += [f"--{role}-col", "none"]
    if found.bad is not None:
        words.append("--skip-bad-rows")
    return words


def _given_words(log: CheckOptions) -> list[str]:
    """Return the options that the user gave, to give them again."""
    return write_options({name: getattr(log, name) for name in log.given})
