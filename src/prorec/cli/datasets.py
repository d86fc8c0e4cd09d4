"""`prorec datasets`: list and fetch the data sets that prorec knows by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prorec._core.errors import InputError
from prorec.cli.command import PlainCommand, PlainGroup, as_command
from prorec.cli.console import make_table, print_plain
from prorec.cli.options import ForceOptions
from prorec.cli.output_files import check_distinct, check_output
from prorec.data.item_info import write_item_info
from prorec.data.registry import DATASETS, fetch_files, find_files, load_dataset
from prorec.data.writers import write_interactions

datasets = typer.Typer(cls=PlainGroup, no_args_is_help=True, help="List and fetch data sets.")


@datasets.command("list", cls=PlainCommand)
def list_datasets() -> None:
    """List the data sets with their sizes, and whether they are on this machine."""
    table = make_table("name", "description", "users", "items", "interactions", "here", left=2)
    for entry in DATASETS.values():
        here = "made" if not entry.files else "yes" if find_files(entry) else "no"
        table.add_row(entry.name, entry.title, *(f"{count:,}" for count in entry.counts), here)
    Console().print(table)


@dataclass(frozen=True, kw_only=True)
class GetOptions(ForceOptions):
    """A data set, and files to write."""

    name: str = field(metadata={"positional": True})
    """Name of the data set."""
    out: Path | None = field(default=None, metadata={"short": "-o"})
    """File to write the interactions to: .csv, .tsv, .inter or .parquet, also with .gz."""
    items: Path | None = None
    """File to write the names and categories of items to."""


@datasets.command("get", cls=PlainCommand)
@as_command
def get_dataset(options: GetOptions) -> None:
    """Fetch a data set unless it is here already, and show its size, licence and citation.

    Parameters
    ----------
    options : GetOptions
        The data set and the files.

    Raises
    ------
    InputError
        If there is no such data set, or a file cannot be written.
    DownloadError
        If the data set is not here and cannot be downloaded.
    """
    check_distinct({"--out": options.out, "--items": options.items}, {})
    for path in (options.out, options.items):
        if path is not None:
            check_output(path, force=options.force)
    interactions = load_dataset(options.name)
    if options.items is not None and interactions.item_names is None and interactions.item_categories is None:
        raise InputError(f"{options.name} has no names or categories of items; leave out --items")
    console = Console()
    print_plain(console, str(interactions))
    entry = DATASETS[options.name]
    details = Table.grid(padding=(0, 2))
    details.add_row("files", Text(str(fetch_files(entry)) if entry.files else "none"))
    details.add_row("licence", Text(entry.license))
    details.add_row("please cite", Text(entry.citation))
    console.print(details)
    if options.out is not None:
        write_interactions(interactions, options.out, overwrite=options.force)
        print_plain(console, f"Interactions written to {options.out}.")
    if options.items is not None:
        write_item_info(interactions, options.items, overwrite=options.force)
        print_plain(console, f"Items written to {options.items}.")
