"""Checks of docstrings: public names follow numpydoc, and first lines are statements."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.test_reference import MODULES

PACKAGE = Path(__file__).parent.parent / "src" / "prorec"
QUESTION = re.compile(r"(What|Who|Whoever|Where|Which|How|Of|The same)\b")


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield public functions and methods once, with their dotted names; the base documents an overridden method."""
    seen: set[int] = set()
    for module_name in (*MODULES, "prorec.report"):
        module = importlib.import_module(module_name)
        for name in module.__all__:
            value = getattr(module, name)
            if id(value) in seen:
                continue
            seen.add(id(value))
            if inspect.isfunction(value):
                yield f"{module_name}.{name}", value
            elif inspect.isclass(value) and value.__module__.startswith("prorec"):
                for attribute, member in vars(value).items():
                    function = getattr(member, "__func__", member)
                    inherits = any(hasattr(base, attribute) for base in value.__bases__)
                    if inspect.isfunction(function) and not attribute.startswith("_") and not inherits:
                        yield f"{module_name}.{name}.{attribute}", function


def section(docstring: str, title: str) -> str:
    """Return the text of one numpydoc section, or an empty text."""
    match = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", docstring, re.MULTILINE | re.DOTALL)
    return match[1] if match else ""


@pytest.mark.parametrize(("name", "function"), [pytest.param(*each, id=each[0]) for each in public_callables()])
def test_public_functions_document_parameters_and_results(name: str, function: Callable[..., Any]) -> None:
    docstring = inspect.getdoc(function) or ""
    assert docstring, f"{name} has no docstring"
    signature = inspect.signature(function)
    arguments = [each for each in signature.parameters if each not in ("self", "cls")]
    described = re.findall(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) :|^(\*{1,2}\w+)$", section(docstring, "Parameters"), re.M)
    listed = {part.strip("* ") for each in described for part in (each[0] or each[1]).split(",")}
    assert not [each for each in arguments if each not in listed], f"{name} does not describe all of its parameters"
    if arguments and signature.return_annotation not in ("None", None, inspect.Signature.empty):
        assert section(docstring, "Returns") or section(docstring, "Yields"), f"{name} has no Returns section"


def test_no_docstring_starts_with_a_question_word() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                line = (ast.get_docstring(node) or "").split("\n")[0]
                if QUESTION.match(line):
                    found.append(f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 1)}: {line}")
    assert not found, "\n".join(found)
