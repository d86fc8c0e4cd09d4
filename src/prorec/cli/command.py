"""Commands whose options are the fields of dataclasses.

The parameters of a command are annotated with dataclasses. Each of their fields is an option: the field has its name,
its type and its default, and the string below the field is the help text. The command gets instances that are made from
the options, so a new field needs no second declaration.
"""

from __future__ import annotations

import inspect
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from prorec._core.errors import InputError
from prorec._core.interrupts import interruptible
from prorec._core.parameters import Parameter, parameters_of
from prorec._core.provenance import describe_settings
from prorec.cli.console import shorten_message

_log = logging.getLogger("prorec.cli")
_METAVARS = {int: "INT", float: "FLOAT", Path: "PATH", str: "TEXT"}
_FLAGS = {
    "pass overwrite=True": "pass --force",
    "header=False": "--no-header",
    "skip_bad_rows=True": "--skip-bad-rows",
    "give the separator": "pass --separator",
    "pass the items of a new user to recommend_new": "train the model again on a log with this user",
    "prorec.noise.find_issues(log)": "prorec check",
    "call fit with refit=True": "train it with prorec train --denoise",
}
"""Advice for Python, and the same for the command line."""
_NO_SETTINGS = frozenset(
    "log sample out items report compare force resume json quiet config log_json log_level fail_above".split()
)
"""Options that do not change the content of a table or a model: what is read and written, and messages."""
_option_names: set[str] = set()
"""Names of all fields that are options, for error messages."""


class Options:
    """Base of dataclasses whose fields are options of a command.

    A field's metadata may have `positional` (True for an argument without a name), `short` (such as "-o"), and keyword
    arguments for `typer.Option`. The help shows the fields of a class before those of its bases.
    """

    panel: ClassVar[str | None] = None
    """Title of the group in which the help shows the options; None for the first group."""
    given: tuple[str, ...]
    """Names of the options that the user gave, without those that are required."""
    settings: Mapping[str, Any]
    """The name of the command, and all its options that were given and change the result."""


@dataclass(frozen=True)
class FieldsOf:
    """Options from the fields of a class that the command makes itself, such as an estimator.

    Annotate a parameter of the command as `Annotated[dict[str, Any], FieldsOf(cls, …)]`. It gets the values that the
    user gave, by field name, and none of the defaults.
    """

    cls: type
    """The dataclass."""
    panel: str | None = None
    """Title of the group in which the help shows the options; None for the first group."""
    include: tuple[str, ...] = ()
    """Fields that are options; by default all."""
    exclude: tuple[str, ...] = ()
    """Fields that are no options."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of the command that differ from those of the class."""


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function for `typer.Typer.command` that makes the arguments of `function` from options.

    Parameters
    ----------
    function : callable
        Each parameter is annotated with a subclass of `Options`, or with `FieldsOf`. The help text of the command is
        the docstring, up to its section Parameters.

    Returns
    -------
    callable
        Its signature has one parameter for each option. It raises `InputError` for a value that is not of the field's
        type.
    """
    groups = {name: hint for name, hint in get_type_hints(function, include_extras=True).items() if name != "return"}
    parameters = {name: _parameters_in(hint) for name, hint in groups.items()}

    def run(ctx: typer.Context, **options: Any) -> None:
        started = time.perf_counter()
        arguments: dict[str, Any] = {}
        settings: dict[str, Any] = {"command": function.__name__}
        for name, hint in groups.items():
            given = [each for each in parameters[name] if _is_given(ctx, each.name)]
            values = {each.name: _parse(each, options[each.name]) for each in given}
            settings |= {each: value for each, value in values.items() if each not in _NO_SETTINGS}
            arguments[name] = values if get_args(hint) else hint(**values)
            if not get_args(hint):
                optional = tuple(each.name for each in given if each.default is not MISSING)
                object.__setattr__(arguments[name], "given", optional)  # it is frozen
                object.__setattr__(arguments[name], "settings", settings)
        command = f"prorec {function.__name__}"
        _log.info("%s starts", command, extra={"fields": {"settings": describe_settings(settings)}})
        with interruptible():
            function(**arguments)
        seconds = round(time.perf_counter() - started, 3)
        _log.info("%s ends after %.1f s", command, seconds, extra={"fields": {"seconds": seconds}})

    options = [_option(each, hint) for name, hint in groups.items() for each in parameters[name]]
    options.sort(key=lambda option: option.default is not inspect.Parameter.empty)  # required ones first
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    run.__signature__ = inspect.Signature([context, *options])  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in (context, *options)}
    run.__name__ = function.__name__
    run.__doc__ = (inspect.getdoc(function) or "").partition("\n\nParameters\n")[0].replace("`", "")
    _option_names.update(each.name for each in options)
    return run


class PlainCommand(TyperCommand):
    """A command whose help shows no type for the flag --help, and whose errors are short."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the words of the command line; see `click.Command.parse_args`."""
        with _short_errors():
            return super().parse_args(ctx, args)

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help; see `click.Command.get_help_option`."""
        return _without_type(super().get_help_option(ctx))


class PlainGroup(TyperGroup):
    """A group of commands whose help shows no type for the flag --help, and whose errors are short."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Parse the words of the command line; see `click.Command.parse_args`."""
        with _short_errors():
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command of a word; see `click.Group.resolve_command`."""
        with _short_errors():
            return super().resolve_command(ctx, args)

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help; see `click.Command.get_help_option`."""
        return _without_type(super().get_help_option(ctx))


@contextmanager
def _short_errors() -> Iterator[None]:
    """Shorten what an error of the command line quotes."""
    try:
        yield
    except Exception as error:
        if isinstance(message := getattr(error, "message", None), str):
            error.message = shorten_message(message)  # type: ignore[attr-defined]
        raise


def _without_type(option: Any) -> Any:
    if option is not None:
        option.metavar = ""
    return option


def refuse(names: Iterable[str], reason: str) -> None:
    """Refuse options that have no effect.

    Parameters
    ----------
    names : iterable of str
        Names of the options that the user gave.
    reason : str
        Circumstances under which they have no effect, such as "without --report".

    Raises
    ------
    InputError
        If there is any name.
    """
    for name in names:
        raise InputError(f"--{name.replace('_', '-')} has no effect {reason}; leave it out")


def name_options(message: str) -> str:
    """Return an error message with Python's names of parameters replaced by the names of options.

    Parameters
    ----------
    message : str
        Message of an exception.

    Returns
    -------
    str
        Names without an underscore stay as they are unless a value follows, because they may be ordinary words.

    Examples
    --------
    >>> _option_names.update({"user_col", "noise_method", "fdr"})
    >>> name_options("no column is called 'who' (user_col); pass noise_method='cross-fit' and fdr=0.2")
    "no column is called 'who' (--user-col); pass --noise-method cross-fit and --fdr 0.2"
    """
    for python, option in _FLAGS.items():
        message = message.replace(python, option)

    def name_option(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"] or match["number"]
        if name not in _option_names or ("_" not in name and not value):
            return match[0]
        return f"--{name.replace('_', '-')}{f' {value}' if value else ''}"

    value = r"(?:='(?P<value>[^']+)'|=(?P<number>\d+(?:\.\d+)?))?"
    return re.sub(rf"(?<![\w-])(?P<name>[a-z_]+){value}(?![\w=])", name_option, message)


def _parameters_in(hint: Any) -> tuple[Parameter, ...]:
    """Return the parameters of a dataclass, own ones before inherited ones, or those that `FieldsOf` selects."""
    if get_args(hint):
        (source,) = get_args(hint)[1:]
        selected = source.include or tuple(each.name for each in fields(source.cls))
        return tuple(
            each for each in parameters_of(source.cls) if each.name in selected and each.name not in source.exclude
        )
    inherited = {each.name for base in hint.__bases__ if is_dataclass(base) for each in fields(base)}
    own = tuple(each for each in parameters_of(hint) if each.name not in inherited)
    return own + tuple(each for each in parameters_of(hint) if each.name in inherited)


def _is_given(ctx: typer.Context, name: str) -> bool:
    """Return whether an option was typed or is in the TOML file."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _parse(parameter: Parameter, value: Any) -> Any:
    """Return the value of an option: a flag or a list as it is, a text as the field's type."""
    if parameter.is_flag:
        return value
    for text in value if parameter.is_list else [value]:
        if isinstance(text, str) and "\0" in text:
            raise InputError(f"{parameter.name} must not have the character NUL in it; got {text!r}")
    return tuple(value) if parameter.is_list else parameter.parse(value)


def _option(parameter: Parameter, hint: Any) -> inspect.Parameter:
    """Return a parameter as typer reads it from a function's signature; values are texts, which `_parse` parses."""
    default, extra, panel = parameter.default, dict(parameter.metadata), getattr(hint, "panel", None)
    if get_args(hint):
        (source,) = get_args(hint)[1:]
        default, extra, panel = source.defaults.get(parameter.name, default), {}, source.panel
    text = escape(parameter.help.replace("`", ""))
    kind: Any = bool if parameter.is_flag else list[str] if parameter.is_list else str
    if default is MISSING:
        default = inspect.Parameter.empty
    elif default is None or parameter.is_list:
        default, kind = None, kind | None
    elif not parameter.is_flag:
        default = f"{default:g}" if isinstance(default, float) else str(default)
    if extra.pop("positional", False):
        info = typer.Argument(help=text, metavar=parameter.name.upper())
    else:
        flags = [f"--{parameter.name.replace('_', '-')}", *filter(None, [extra.pop("short", None)])]
        values = [*parameter.choices, *(_METAVARS[each] for each in parameter.types if each in _METAVARS)]
        metavar = "" if parameter.is_flag else "|".join(values) or "TEXT"
        info = typer.Option(*flags, help=text, metavar=metavar, rich_help_panel=panel, **extra)
    annotation = Annotated[kind, info]
    return inspect.Parameter(parameter.name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
