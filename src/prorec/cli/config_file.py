"""Options of a command from a TOML file: the option `--config`."""

from __future__ import annotations

import difflib
import tomllib
from typing import Any

import typer

from prorec._core.errors import InputError
from prorec._core.files import as_path
from prorec._core.quoting import safe_repr


def read_config(ctx: typer.Context, path: str | None) -> str | None:
    """Take the options in a TOML file as defaults; options that are typed take precedence.

    Parameters
    ----------
    ctx : typer.Context
        Context of the command.
    path : str or None
        The file. Its table named like the command has the options, such as `rounds = 2`.

    Returns
    -------
    str or None
        The path itself.

    Raises
    ------
    InputError
        If the file cannot be read, or has an option that the command does not have.
    """
    if path is None:
        return None
    try:
        tables = tomllib.loads(as_path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: this is not valid TOML: {error}") from None
    command = str(ctx.info_name)
    table = tables.get(command)
    if not isinstance(table, dict):
        raise InputError(f"{path}: options of this command must be in a table [{command}], which is missing")
    options = {flag.lstrip("-"): each for each in ctx.command.params for flag in each.opts if flag.startswith("-")}
    del options["config"]
    defaults: dict[str, Any] = {}
    for name, value in table.items():
        option = options.get(name.replace("_", "-"))
        if option is None:
            close = difflib.get_close_matches(name, options, 1, 0.5)
            guess = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(f"{path}: prorec {command} has no option {safe_repr(name)}{guess}")
        is_flag = bool(getattr(option, "is_flag", False))
        if isinstance(value, bool) != is_flag:
            raise InputError(f"{path}: {name} must {'' if is_flag else 'not '}be true or false; got {safe_repr(value)}")
        if isinstance(value, dict):  # param = {rank = 20} is -p rank=20
            value = [f"{key}={each if isinstance(each, str) else repr(each)}" for key, each in value.items()]
        if getattr(option, "multiple", False) and not isinstance(value, list):
            value = [value]
        defaults[str(option.name)] = [str(each) for each in value] if isinstance(value, list) else value
    ctx.default_map = {**(ctx.default_map or {}), **defaults}
    return path
