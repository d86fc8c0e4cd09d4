"""Parameters are read from the fields of a dataclass."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from prorec import InputError
from prorec._core.parameters import Parameter, parameters_of


@dataclass
class Base:
    rounds: int = 1
    """Maximum number
    of rounds."""
    gamma: float | Literal["auto"] = "auto"
    """Spread of the plan."""
    computed: int = field(default=0, init=False)


@dataclass
class Settings(Base):
    name: str | None = None
    """A name."""
    path: Path | None = None
    tags: tuple[str, ...] = ()
    verbose: bool = field(default=False, metadata={"short": "-v"})
    """Show more."""
    model: Any = field(default_factory=list)
    required: int = field(kw_only=True)


def parameter(name: str) -> Parameter:
    return {each.name: each for each in parameters_of(Settings)}[name]


def test_fields_of_the_class_and_its_bases_in_their_order() -> None:
    names = [each.name for each in parameters_of(Settings)]
    assert names == ["rounds", "gamma", "name", "path", "tags", "verbose", "model", "required"]


def test_help_is_the_string_below_the_field_as_one_paragraph() -> None:
    assert parameter("rounds").help == "Maximum number of rounds."
    assert parameter("verbose").help == "Show more."
    assert parameter("path").help == ""


def test_defaults_types_and_choices() -> None:
    assert (parameter("rounds").default, parameter("rounds").types) == (1, (int,))
    assert (parameter("gamma").choices, parameter("gamma").types) == (("auto",), (float,))
    assert parameter("model").default == []
    assert parameter("required").default is MISSING
    assert parameter("verbose").is_flag
    assert parameter("verbose").metadata == {"short": "-v"}
    assert parameter("tags").is_list
    assert not parameter("rounds").is_list


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("rounds", "3", 3),
        ("gamma", "auto", "auto"),
        ("gamma", "1", 1.0),
        ("name", "12", "12"),
        ("path", "a/b", Path("a/b")),
        ("model", "nce", "nce"),
    ],
)
def test_text_becomes_a_value_of_the_field_s_type(name: str, text: str, value: object) -> None:
    parsed = parameter(name).parse(text)
    assert (parsed, type(parsed)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "expected"), [("rounds", "a whole number; got 'x'"), ("gamma", "'auto' or a number; got 'x'")]
)
def test_text_that_no_type_can_read_is_refused(name: str, expected: str) -> None:
    with pytest.raises(InputError, match=f"{name} must be {expected}"):
        parameter(name).parse("x")
