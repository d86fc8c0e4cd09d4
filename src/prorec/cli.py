"""The command `prorec`: arguments, progress and exit codes; the work is done elsewhere."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prorec import __version__
from prorec.data.registry import DATASETS, load_dataset, locate, present
from prorec.demo import run_demo
from prorec.errors import DownloadError, InputError

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
datasets = typer.Typer(no_args_is_help=True, help="The data sets that are known by name.")
app.add_typer(datasets, name="datasets")


def main() -> None:
    """Run a command: exit 0 if it worked, 1 if it failed, 2 if what was typed or given was wrong."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a plain terminal gets question marks, not a crash
    debug = "--debug" in sys.argv
    try:
        app([word for word in sys.argv[1:] if word != "--debug"])  # wherever it stands
    except Exception as error:
        if debug:
            raise
        meant_for_people = isinstance(error, (InputError, DownloadError))
        words = str(error) if meant_for_people else f"{type(error).__name__}: {error} (--debug shows where)"
        Console(stderr=True).print(Text("prorec: ", style="red") + Text(words), soft_wrap=True)
        sys.exit(2 if isinstance(error, InputError) else 1)


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


@app.command()
def demo(seed: Annotated[int, typer.Option(help="Another seed makes another film club.")] = 0) -> None:
    """Show the synthetic film club and a baseline's metrics on it. Nothing is downloaded."""
    run_demo(Console(), seed)


@datasets.command("list")
def list_datasets() -> None:
    """Show what data sets there are, how large they are, and whether they are on this machine."""
    table = Table("name", "what it is", "users", "items", "interactions", "here", box=None, pad_edge=False)
    for column in table.columns[2:5]:
        column.justify = "right"
    for entry in DATASETS.values():
        here = "made" if not entry.files else "yes" if present(entry) else "no"
        table.add_row(entry.name, entry.title, *(f"{count:,}" for count in entry.counts), here)
    Console().print(table)


@datasets.command("get")
def get_dataset(name: str) -> None:
    """Fetch a data set, if it is not here yet, load it and count what is in it."""
    loaded = load_dataset(name)
    console = Console()
    console.print(str(loaded), highlight=False)
    entry = DATASETS[name]
    about = Table.grid(padding=(0, 2))
    files = locate(entry) if entry.files else "none"
    for what, words in (("files", files), ("licence", entry.licence), ("please cite", entry.citation)):
        about.add_row(what, str(words))
    console.print(about)
