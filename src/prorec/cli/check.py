"""`prorec check`: look at a log, say everything about it at once, and print the command to run next."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from prorec._core.provenance import digest_file
from prorec.cli.check_summary import print_check
from prorec.cli.command import as_command, name_options, refuse
from prorec.cli.exit_codes import BadDataError, blame_data
from prorec.cli.options import ConsoleOptions, LogOptions, TimeOptions
from prorec.data.column_values import check_time_format
from prorec.data.formats import format_suffix
from prorec.data.log_check import LogCheck, check_log
from prorec.noise import Issues, find_issues
from prorec.noise.issue_sentences import describe_item, describe_user, most_suspicious

_N_SHOWN = 8


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
        "users": _suspicious(issues, "users"),
        "items": _suspicious(issues, "items"),
    }


def _suspicious(issues: Issues | None, kind: str) -> list[dict[str, Any]]:
    """Return the accounts or items that stand out, with the reason in words."""
    if issues is None:
        return []
    log = issues.interactions
    ids, n_clicks = (log.users, log.activity) if kind == "users" else (log.items, log.popularity)
    describe = describe_user if kind == "users" else describe_item
    return [
        {"id": ids[at].item() if hasattr(ids[at], "item") else ids[at], "clicks": int(n_clicks[at]), "score": score}
        | {"reason": describe(issues, at)}
        for at, score in most_suspicious(issues, kind, _N_SHOWN)
    ]


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
    name = "clicks" if log.log == "-" else Path(log.log).name.removesuffix(".gz")
    suffix = ".parquet" if format_suffix(Path(log.log)) in (".parquet", ".pq") else ".csv"
    words = ["prorec", "denoise", log.log, "--out", _free_name(f"{Path(name).stem}.denoised", suffix)]
    if find_spec("jinja2") is not None:
        words += ["--report", _free_name(f"{Path(name).stem}.report", ".html")]
    words += given
    if not found.layout.get("header", True) and not log.no_header:
        words.append("--no-header")
    if len(found.time_positions) == 1:
        words += ["--timestamp-col", str(found.time_positions[0])]
    for role in found.misfits:
        words += [f"--{role}-col", "none"]
    if found.bad is not None:
        words.append("--skip-bad-rows")
    return [shlex.join(words)]


def _given_words(log: CheckOptions) -> list[str]:
    """Return the options that the user gave, to give them again."""
    words = []
    for name in log.given:
        value = getattr(log, name)
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return words


def _free_name(stem: str, suffix: str) -> str:
    """Return the name of a file in this folder that does not exist."""
    names = (f"{stem}{number}{suffix}" for number in ("", *(f"-{each}" for each in range(2, 1000))))
    return next(name for name in names if not Path(name).exists())
