"""The command `prorec`: arguments, progress and exit codes; the work is done elsewhere."""

from __future__ import annotations

import io
import re
import sys
import warnings
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from prorec import __version__
from prorec._core.errors import DownloadError, InputError
from prorec.cli.datasets import datasets
from prorec.cli.demo import demo
from prorec.cli.denoise import denoise
from prorec.cli.evaluate import evaluate
from prorec.cli.report import report
from prorec.cli.score import score
from prorec.cli.train import recommend, train

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
for command in (demo, denoise, report, train, recommend, score, evaluate):
    app.command()(command)
app.add_typer(datasets, name="datasets")


def main() -> None:
    """Run a command: exit 0 if it worked, 1 if it failed, 2 if what was typed or given was wrong."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a plain terminal gets question marks, not a crash
    debug = "--debug" in sys.argv
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        app([word for word in sys.argv[1:] if word != "--debug"])  # wherever it stands
    except BrokenPipeError:  # whoever was reading has seen enough
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        if debug:
            raise
        meant_for_people = isinstance(error, (InputError, DownloadError))
        words = _as_typed(str(error)) if meant_for_people else f"{type(error).__name__}: {error} (--debug shows where)"
        Console(stderr=True).print(Text("prorec: ", style="red") + Text(words), soft_wrap=True)
        sys.exit(2 if isinstance(error, InputError) else 1)


def _as_typed(words: str) -> str:
    """A message in the words of the command line, where it has those of Python."""
    for in_python, typed in (
        ("header=False", "--no-header"),
        ("give the separator", "give it with --separator (',' or '\\t', say)"),
    ):
        words = words.replace(in_python, typed)
    options = "user_col|item_col|weight_col|timestamp_col|flag_fraction|warm_start"
    return re.sub(rf"\b({options})\b", lambda found: f"--{found[0].replace('_', '-')}", words)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    Console(stderr=True).print(Text("prorec: ", style="yellow") + Text(str(message)), soft_wrap=True)


def _version(wanted: bool) -> None:
    if wanted:
        Console().print(f"prorec {__version__}")
        raise typer.Exit


@app.callback()
def prorec(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Find the clicks that don't belong, and train recommenders that are not misled by them."""
