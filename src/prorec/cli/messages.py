"""Messages on standard error: warnings, errors and the log, as text or as one JSON object on each line."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from datetime import UTC, datetime
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from prorec._core.errors import ProrecError
from prorec.cli.command import name_options
from prorec.cli.console import shorten_message
from prorec.cli.exit_codes import ExitCode, UsageError, find_exit_code

LOG_LEVELS = ("debug", "info", "warning", "error")
"""Levels of log messages, the lowest first."""
_ROOT = "prorec"
_log = logging.getLogger(f"{_ROOT}.cli")


class _Form:
    """The form of messages; options set it, on the command line or in a TOML file."""

    is_log_json = False
    is_result_json = False
    is_quiet = False
    level: str | None = None


def start_messages(words: list[str]) -> None:
    """Set the form of messages before the options are parsed, because the parser has messages too.

    Parameters
    ----------
    words : list of str
        Arguments of the command.
    """
    _Form.is_log_json, _Form.is_result_json = "--log-json" in words, "--json" in words
    _Form.level = "debug" if "--debug" in words else None
    _Form.is_quiet = False
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    _set_up_log()


def use_log_json(value: bool) -> bool:
    """Take the option `--log-json`."""
    _Form.is_log_json |= value
    _set_up_log()
    return value


def use_log_level(value: str | None) -> str | None:
    """Take the option `--log-level`."""
    if value is not None:
        if value not in LOG_LEVELS:
            raise typer.BadParameter(f"must be {', '.join(LOG_LEVELS[:-1])} or {LOG_LEVELS[-1]}; got {value!r}")
        _Form.level = value
    _set_up_log()
    return value


def use_quiet(value: bool) -> bool:
    """Take the option `--quiet`, which leaves out warnings; a log keeps them."""
    _Form.is_quiet |= value
    return value


def use_result_json(value: bool) -> bool:
    """Take the option `--json`, which makes errors JSON too."""
    _Form.is_result_json |= value
    return value


def _set_up_log() -> None:
    """Send the log to standard error, in its form and from its level on."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        _JsonFormatter() if _Form.is_log_json else logging.Formatter("%(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(_ROOT).setLevel((_Form.level or ("info" if _Form.is_log_json else "warning")).upper())


class _JsonFormatter(logging.Formatter):
    """A log record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, logger, message, and the fields that the caller gave as `extra`."""
        content: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        content |= getattr(record, "fields", {})
        if record.exc_info:
            content["traceback"] = self.formatException(record.exc_info)
        return json.dumps(content)


class LogProgress:
    """Progress as log messages: one when a task ends. Use it as a context manager, like `prorec.ConsoleProgress`."""

    def __init__(self) -> None:
        self._task, self._started = "", 0.0

    def __enter__(self) -> LogProgress:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave everything as it is."""

    def __call__(self, task: str, done: int, total: int) -> None:
        """Take note of the progress; see `prorec.Progress`."""
        if task != self._task:
            self._task, self._started = task, time.perf_counter()
        seconds = round(time.perf_counter() - self._started, 3)
        is_done = done == total
        _log.log(
            logging.INFO if is_done else logging.DEBUG,
            task,
            extra={"fields": {"done": done, "total": total, "seconds": seconds}},
        )
        if is_done:
            self._task = ""


def report_error(error: BaseException) -> ExitCode:
    """Print why a command failed.

    With `--log-json` it is the last message of the log, at the level error; with `--json` alone it is one JSON object.
    Both have a value `error` with `kind`, `message` and `exit_code`.

    Parameters
    ----------
    error : BaseException
        What the command raised.

    Returns
    -------
    ExitCode
        The exit code of the error.
    """
    code = find_exit_code(error)
    if isinstance(error, UsageError):
        text = error.format_message()
    elif isinstance(error, KeyboardInterrupt):
        text = "interrupted"
    elif isinstance(error, ProrecError):
        text = name_options(str(error))
    else:
        text = f"{type(error).__name__}: {error} (--debug shows where)"
    text = shorten_message(text)
    content = {"kind": code.kind, "message": text, "exit_code": int(code)}
    if _Form.is_log_json:
        _log.error(text, extra={"fields": {"error": content}})
    elif _Form.is_result_json:
        print(json.dumps({"error": content}), file=sys.stderr)
    else:
        _print_message(text, "red")
    return code


def has_json_errors() -> bool:
    """Return whether errors are JSON."""
    return _Form.is_log_json or _Form.is_result_json


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """Show a warning without the line of code that Python shows."""
    text = shorten_message(name_options(str(message)))
    if _Form.is_log_json:
        _log.warning(text, extra={"fields": {"warning": category.__name__}})
    elif not _Form.is_quiet:
        _print_message(text, "yellow")


def _print_message(text: str, style: str) -> None:
    """Print a message to standard error, in one paragraph."""
    Console(stderr=True).print(Text("prorec: ", style=style) + Text(text), soft_wrap=True)
