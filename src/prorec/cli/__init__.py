"""The command `prorec`: options, progress and exit codes. The work is done by the other packages."""

from __future__ import annotations

import io
import logging
import sys
import warnings
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from prorec import __version__
from prorec._core.errors import InputError, MissingExtraError, ProrecError
from prorec.cli.audit import audit
from prorec.cli.check import check
from prorec.cli.command import PlainCommand, PlainGroup, name_options
from prorec.cli.datasets import datasets
from prorec.cli.demo import demo
from prorec.cli.denoise import denoise
from prorec.cli.evaluate import evaluate
from prorec.cli.report import report
from prorec.cli.score import score
from prorec.cli.train import recommend, train

app = typer.Typer(cls=PlainGroup, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
for command in (demo, check, denoise, report, train, recommend, score, evaluate):
    app.command(cls=PlainCommand)(command)
app.add_typer(audit, name="audit")
app.add_typer(datasets, name="datasets")


def main() -> None:
    """Run the command line, and exit.

    The exit code is 0 for success, 2 for input that is refused, 130 for an interrupt, and 1 for any other failure.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode gets question marks, not a crash
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    if "--debug" in sys.argv:
        logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    try:
        app([word for word in sys.argv[1:] if word != "--debug"])  # --debug may stand anywhere
    except BrokenPipeError:  # the reader of a pipe, such as head, has ended
        sys.stderr.close()
        sys.exit(1)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        is_explained = isinstance(error, ProrecError)
        text = name_options(str(error)) if is_explained else f"{type(error).__name__}: {error} (--debug shows where)"
        _print_message(text, "red")
        sys.exit(2 if isinstance(error, (InputError, MissingExtraError)) else 1)


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """Print a warning without the line of code that Python shows."""
    _print_message(name_options(str(message)), "yellow")


def _print_message(text: str, style: str) -> None:
    """Print a message to standard error, in one paragraph."""
    Console(stderr=True).print(Text("prorec: ", style=style) + Text(text), soft_wrap=True)


def _show_version(is_given: bool) -> None:
    """Print the version and exit, if --version is given."""
    if is_given:
        Console().print(f"prorec {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def prorec(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show log messages, and the traceback of an error.", metavar="")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.", metavar="")
    ] = False,
) -> None:
    """Find noisy clicks in interaction logs, and train recommenders that are not misled by them."""
