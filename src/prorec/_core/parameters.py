"""Parameters of a dataclass: name, type, default and help text, each read from the one place that declares it.

A field's help text is the string below it:

    @dataclass
    class Settings:
        rounds: int = 1
        \"\"\"Maximum number of relabel-and-refit rounds.\"\"\"

The command line makes its options from these parameters, so a new field needs no second declaration.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import MISSING, dataclass, fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from prorec._core.errors import InputError
from prorec._core.quoting import safe_repr


@dataclass(frozen=True)
class Parameter:
    """One field of a dataclass, as a parameter that a user can set by text."""

    name: str
    """Name of the field."""
    types: tuple[Any, ...]
    """The field's type, or the members of its union; without None, and without the choices."""
    choices: tuple[str, ...]
    """Texts that the field's Literal types allow; empty if it has none."""
    default: Any
    """Default value; `dataclasses.MISSING` for a required field."""
    help: str
    """The string below the field, as one paragraph; empty if there is none."""
    metadata: dict[str, Any]
    """The field's own metadata."""

    @property
    def is_flag(self) -> bool:
        """Whether the field is True or False."""
        return self.types == (bool,)

    @property
    def is_list(self) -> bool:
        """Whether the field takes several texts."""
        return any(get_origin(each) in (tuple, list) for each in self.types)

    @property
    def expected(self) -> str:
        """The values that the field takes, in words.

        >>> parameters_of(Parameter)[0].expected
        'text'
        """
        words = {int: "a whole number", float: "a number", Path: "a path", str: "text"}
        listed = [*(repr(each) for each in self.choices), *(words[each] for each in self.types if each in words)]
        return f"{', '.join(listed[:-1])} or {listed[-1]}" if len(listed) > 1 else "".join(listed)

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for.

        Parameters
        ----------
        text : str
            What the user typed.

        Returns
        -------
        Any
            The text itself if it is one of the choices, else the first of int, float, Path and str that the field's
            type allows and that can read the text.

        Raises
        ------
        InputError
            If no type of the field can read the text.

        Examples
        --------
        >>> threshold = Parameter("threshold", (int,), ("personal", "none"), "personal", "", {})
        >>> threshold.parse("10"), threshold.parse("none")
        (10, 'none')
        >>> threshold.parse("high")
        Traceback (most recent call last):
        prorec._core.errors.InputError: threshold must be 'personal', 'none' or a whole number; got 'high'
        """
        if text in self.choices:
            return text
        for reader in (int, float, Path, str):
            if reader in self.types or (reader is str and Any in self.types):
                try:
                    return reader(text)
                except ValueError:
                    continue
        raise InputError(f"{self.name} must be {self.expected}; got {safe_repr(text)}")


@cache
def parameters_of(cls: type) -> tuple[Parameter, ...]:
    """Return the parameters that a dataclass declares, in the order of its fields.

    Parameters
    ----------
    cls : type
        A dataclass. Fields of its bases are included; fields with `init=False` are not.

    Returns
    -------
    tuple of Parameter

    Examples
    --------
    >>> [each.name for each in parameters_of(Parameter)][:2]
    ['name', 'types']
    >>> parameters_of(Parameter)[0].help
    'Name of the field.'
    """
    hints, texts = get_type_hints(cls), _field_docstrings(cls)
    return tuple(
        Parameter(
            name=each.name,
            types=_members(hints[each.name]),
            choices=_choices(hints[each.name]),
            default=each.default if each.default_factory is MISSING else each.default_factory(),
            help=texts.get(each.name, ""),
            metadata=dict(each.metadata),
        )
        for each in fields(cls)
        if each.init
    )


def _union(hint: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the type itself."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(member for each in get_args(hint) for member in _union(each))
    return (hint,)


def _members(hint: Any) -> tuple[Any, ...]:
    return tuple(each for each in _union(hint) if each is not NoneType and get_origin(each) is not Literal)


def _choices(hint: Any) -> tuple[str, ...]:
    literals = (get_args(each) for each in _union(hint) if get_origin(each) is Literal)
    return tuple(choice for each in literals for choice in each)


def _field_docstrings(cls: type) -> dict[str, str]:
    """Return the string below each field of a class and its bases, as one paragraph."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):  # built in, or installed without its source
            continue
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for statement, following in pairwise(body):
            match statement, following:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    texts[name] = " ".join(text.split())
    return texts
