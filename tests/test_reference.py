"""Every public name is in the manual's reference."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import prorec
from prorec._core import errors

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
_DIRECTIVE = re.compile(r"^\.\. (?:auto\w+|py:module|py:data):: ([\w.]+)$", re.MULTILINE)
MODULES = [
    "prorec",
    "prorec.interactions",
    "prorec.models",
    "prorec.transport",
    "prorec.evaluation",
    "prorec.noise",
    "prorec.denoise",
    "prorec.report",
    "prorec.engines.spark",
    "prorec.interactions",
]


def found(name: str) -> Any:
    """What a dotted name stands for: the longest part of it that is a module, and attributes of that."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            thing: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[length:]:
            thing = getattr(thing, attribute)
        return thing
    raise AssertionError(name)


def documented() -> list[Any]:
    return [found(name) for page in sorted(REFERENCE.glob("*.md")) for name in _DIRECTIVE.findall(page.read_text())]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    there = documented()
    names = found(module).__all__
    missing = [name for name in names if not any(each is found(f"{module}.{name}") for each in there)]
    assert not missing, f"{module}: {missing} are in no page of docs/reference"


def test_every_error_and_warning_is_in_the_reference() -> None:
    there = documented()
    for name, thing in vars(errors).items():
        if isinstance(thing, type) and issubclass(thing, Exception):
            assert thing in there, name


def test_every_public_package_is_looked_at() -> None:
    public = {each.parent.name for each in Path(prorec.__file__).parent.glob("*/__init__.py")}
    with_names = {name for name in public if getattr(found(f"prorec.{name}"), "__all__", None)}
    assert with_names <= {module.removeprefix("prorec.") for module in MODULES}
