"""Options of the commands come from dataclass fields, and each is declared once."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow.csv as pacsv
import pytest
import typer
from typer.testing import CliRunner

import prorec
from prorec import InputError, ProRec
from prorec._core.parameters import parameters_of
from prorec.cli import COMMANDS, app, load_command
from prorec.cli.command import FieldsOf, Options, as_command, name_options, refuse
from prorec.interactions import ids, interactions
from tests.cli.shell import run


@dataclass
class Estimator:
    model: Any
    rounds: int = 1
    """Number of `rounds`."""
    side: Literal["users", "items"] | int = "users"
    """Side of the plan."""


@dataclass(frozen=True, kw_only=True)
class Base(Options):
    force: bool = field(default=False, metadata={"short": "-f"})
    """Replace the output."""


@dataclass(frozen=True, kw_only=True)
class Output(Base):
    panel = "Output"

    log: str = field(metadata={"positional": True})
    """The log."""
    out: Path = field(metadata={"short": "-o"})
    """The output."""
    tag: tuple[str, ...] = ()
    """A tag."""


Settings = Annotated[dict[str, Any], FieldsOf(Estimator, "Algorithm", exclude=("model",), defaults={"rounds": 7})]


def invoke(*words: str) -> tuple[Any, list[tuple[Output, dict[str, Any]]]]:
    """Run a command that keeps its arguments; return typer's result, and these."""
    calls: list[tuple[Output, dict[str, Any]]] = []

    def command(output: Output, settings: Settings) -> None:
        """Do the work.

        Parameters
        ----------
        output : Output
            This is not help.
        """
        calls.append((output, settings))

    app = typer.Typer(add_completion=False)
    # The annotations are names of this module, which a local function does not see by itself.
    command.__annotations__ = {"output": Output, "settings": Settings, "return": None}
    app.command()(as_command(command))
    return CliRunner().invoke(app, words, env={"COLUMNS": "160"}), calls


def test_a_command_gets_dataclasses_and_only_the_settings_that_were_given() -> None:
    result, ((output, settings),) = invoke("log.csv", "-o", "out.csv", "--tag", "a", "--tag", "b", "--side", "3")
    assert result.exit_code == 0
    assert output == Output(log="log.csv", out=Path("out.csv"), tag=("a", "b"))
    assert output.given == ("tag",)
    assert settings == {"side": 3}
    _, ((output, settings),) = invoke("log.csv", "-o", "out.csv", "-f", "--side", "items", "--rounds", "1")
    assert output.force
    assert settings == {"rounds": 1, "side": "items"}


def test_help_shows_groups_texts_choices_and_defaults() -> None:
    text = invoke("--help")[0].stdout
    assert "Do the work." in text
    assert "This is not help" not in text
    assert text.index("Output") < text.index("--out") < text.index("--force") < text.index("Algorithm")
    assert text.index("Algorithm") < text.index("Number of rounds. [default: 7]") < text.index("users|items|INT")
    assert "--model" not in text


@pytest.mark.parametrize(("name", "value"), [("rounds", "two"), ("side", "x")])
def test_a_value_of_another_type_is_refused(name: str, value: str) -> None:
    result, calls = invoke("log.csv", "-o", "out.csv", f"--{name}", value)
    assert isinstance(result.exception, InputError)
    assert name in str(result.exception)
    assert repr(value) in str(result.exception)
    assert not calls


def test_every_parameter_of_the_denoiser_is_an_option_with_its_own_help() -> None:
    shown = " ".join(run("denoise", "--help").stdout.replace("│", " ").split())
    for parameter in parameters_of(ProRec):
        if parameter.name != "model":
            assert f"--{parameter.name.replace('_', '-')} " in shown
            assert parameter.help, parameter.name
            assert " ".join(parameter.help.replace("`", "").split()[:3]) in shown


def test_parameters_that_are_only_declared_in_the_denoiser_reach_it(tmp_path: Path) -> None:
    clicks = prorec.make_cinema(60, 50, seed=1).interactions
    prorec.write_interactions(clicks, tmp_path / "clicks.csv")
    words = "--noise-method cross-fit --weighting both --lam 0.25 --memory 1e8 --device cpu -p rank=4".split()
    done = run("train", "clicks.csv", "--denoise", *words, "--out", "model", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "weighting='both'" in json.loads(done.stdout)["model"]
    loaded = prorec.load(tmp_path / "model")
    assert isinstance(loaded, ProRec)
    assert (loaded.weighting, loaded.lam, loaded.memory) == ("both", 0.25, 1e8)
    words = "--weighting both --noise-method plan".split()
    refused = run("train", "clicks.csv", "--denoise", *words, "--out", "other", cwd=tmp_path)
    assert refused.returncode == 2
    assert "weighting" in refused.stderr
    assert "leave out --noise-method" in refused.stderr


def test_options_without_effect_are_refused_by_name() -> None:
    refuse((), "without --report")
    with pytest.raises(InputError, match=r"--timestamp-col .* without --report"):
        refuse(["timestamp_col"], "without --report")


def test_messages_name_options() -> None:
    load_command("denoise")
    assert name_options("user_col must be a name") == "--user-col must be a name"
    assert name_options("pass noise_method='cross-fit'") == "pass --noise-method cross-fit"
    assert name_options("the model has no_such_name='x'") == "the model has no_such_name='x'"
    assert name_options("If the first line is data, give header=False") == "If the first line is data, give --no-header"


def test_fields_of_options_have_help() -> None:
    for command in COMMANDS:
        load_command(command)  # defines the classes
    classes: list[Any] = [Options]
    for cls in classes:
        classes += cls.__subclasses__()
        if cls is not Options and cls.__module__.startswith("prorec."):
            assert {each.name for each in parameters_of(cls) if each.help} == {each.name for each in fields(cls)}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_all_commands_has_the_first_line_of_each(name: str) -> None:
    command = load_command(name)
    assert " ".join(command.help.partition("\n\n")[0].split()) == COMMANDS[name]


def test_denoise_parses_its_log_once_and_encodes_its_ids_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{row % 400},{row * 7 % 311},some text that fills the line {row}\n" for row in range(40_000)]
    (tmp_path / "clicks.csv").write_text("user,item,note\n" + "".join(rows))
    parsed: list[int] = []
    encoded: list[str] = []

    def read_csv(*arguments: Any) -> Any:
        table = original_read(*arguments)
        parsed.append(table.num_rows)
        return table

    def encode_ids(column: Any, role: str) -> Any:
        encoded.append(role)
        return original_encode(column, role)

    original_read, original_encode = pacsv.read_csv, ids.encode_ids
    monkeypatch.setattr(pacsv, "read_csv", read_csv)
    monkeypatch.setattr(interactions, "encode_ids", encode_ids)
    words = ["denoise", str(tmp_path / "clicks.csv"), "--out", str(tmp_path / "out.csv"), "-p", "rank=4", "--quiet"]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 40_001
    # The first megabyte is parsed before, to recognise columns and types.
    assert [number for number in parsed if number == 40_000] == [40_000], parsed
    assert sorted(encoded) == ["item", "user"]
