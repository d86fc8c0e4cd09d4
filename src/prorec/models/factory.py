"""Models made from a name and from parameters as text, for the command line."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Container, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError
from prorec.models.model import Model


def make_model(name: str, parameters: Mapping[str, Any] | None = None) -> Model:
    """Return a model by its class name.

    Parameters
    ----------
    name : str
        Class name in any case, such as "nce".
    parameters : mapping, optional
        Constructor parameters by name.

    Returns
    -------
    Model
        Not fitted.

    Raises
    ------
    InputError
        If there is no such model or no such parameter; the message names the closest match.

    Examples
    --------
    >>> make_model("svd", {"rank": 20})
    SVD(rank=20, activity_power=0.0, weight_meaning='probability', seed=0)
    """
    classes = {each.lower(): model_class for each, model_class in Model.registry.items()}
    if name.lower() not in classes:
        raise InputError(f"there is no model called {safe_repr(name)}{_suggest(name.lower(), classes)}")
    model_class = classes[name.lower()]
    allowed = [each.name for each in fields(model_class) if each.init]  # type: ignore[arg-type]
    for parameter in parameters or {}:
        if parameter not in allowed:
            raise InputError(
                f"{model_class.__name__} has no parameter called {safe_repr(parameter)}{_suggest(parameter, allowed)}"
            )
    return model_class(**parameters or {})


def cap_rank(model: Model, shape: tuple[int, int], set_by_user: Container[str] = ()) -> Model:
    """Return the model with a rank of at most a quarter of the smaller side of the matrix.

    With as many factors as users or items, a model memorizes every click.

    Parameters
    ----------
    model : Model
        Model whose rank is capped, if it has one.
    shape : (int, int)
        Number of users and number of items.
    set_by_user : container of str, optional
        Names of parameters that the user set; a rank among them is kept.

    Returns
    -------
    Model
        The model itself if its rank is small enough, else a copy.

    Examples
    --------
    >>> cap_rank(make_model("svd"), (40, 1000))
    SVD(rank=10, activity_power=0.0, weight_meaning='probability', seed=0)
    """
    max_rank = max(1, min(shape) // 4)
    if "rank" in set_by_user or getattr(model, "rank", 0) <= max_rank:
        return model
    return replace(model, rank=max_rank)  # type: ignore[type-var]


def parse_parameters(assignments: Iterable[str]) -> dict[str, Any]:
    """Return parameters from texts like `rank=20`.

    Parameters
    ----------
    assignments : iterable of str
        Texts of the form `name=value`.

    Returns
    -------
    dict
        Values by name. Numbers, True, False and None are read as such; anything else is text.

    Raises
    ------
    InputError
        If a text has another form.

    Examples
    --------
    >>> parse_parameters(["rank=20", "loss=t-ce"])
    {'rank': 20, 'loss': 't-ce'}
    """
    parameters: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise InputError(f"a parameter must be given as name=value; got {safe_repr(text)}")
        try:
            parameters[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            parameters[name] = value
    return parameters


def _suggest(word: str, allowed: Iterable[str]) -> str:
    """Return the end of an error message: the closest match, and all allowed words."""
    close = difflib.get_close_matches(word, list(allowed), 1, 0.5)
    guess = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{guess} There are {', '.join(sorted(allowed))}"
