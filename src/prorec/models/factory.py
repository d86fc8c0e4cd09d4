"""Models by name, with parameters as somebody typed them."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Container, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from prorec._core.errors import InputError
from prorec.models.model import Model


def make_model(name: str, parameters: Mapping[str, Any] | None = None) -> Model:
    """A model by its name, in any case.

    >>> make_model("nce", {"rank": 20})
    NCE(rank=20, regularization=1000.0, popularity_power=1.0, seed=0)
    """
    kinds = {kind.lower(): each for kind, each in Model.registry.items() if kind != "ProRec"}
    if name.lower() not in kinds:
        raise InputError(f"there is no model called {name!r}{_meant(name.lower(), kinds)}")
    kind = kinds[name.lower()]
    given = dict(parameters or {})
    known = [each.name for each in fields(kind) if each.init]  # type: ignore[arg-type]
    for parameter in given:
        if parameter not in known:
            raise InputError(f"{kind.__name__} has no parameter called {parameter!r}{_meant(parameter, known)}")
    return kind(**given)


def cap_rank(model: Model, shape: tuple[int, int], given: Container[str] = ()) -> Model:
    """The model with no more factors than the data can tell apart, unless the rank was `given`.

    A quarter of the smaller side at most: with as many factors as users or items, a model knows every click by heart.

    >>> cap_rank(make_model("nce"), (40, 1000))
    NCE(rank=10, regularization=1000.0, popularity_power=1.0, seed=0)
    """
    most = max(1, min(shape) // 4)
    if "rank" in given or getattr(model, "rank", 0) <= most:
        return model
    return replace(model, rank=most)  # type: ignore[type-var]


def parse_parameters(assignments: Iterable[str]) -> dict[str, Any]:
    """Parameters from texts like `rank=20`: numbers, True, False and None as such, everything else as text.

    >>> parse_parameters(["rank=20", "loss=t-ce"])
    {'rank': 20, 'loss': 't-ce'}
    """
    given: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InputError(f"a parameter must be given as name=value; got {text!r}")
        try:
            given[name.strip()] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            given[name.strip()] = value.strip()
    return given


def _meant(word: str, known: Iterable[str]) -> str:
    """What may have been meant, and what there is."""
    close = difflib.get_close_matches(word, list(known), 1, 0.5)
    guess = f"; did you mean {close[0]!r}?" if close else ";"
    return f"{guess} There are {', '.join(sorted(known))}"
