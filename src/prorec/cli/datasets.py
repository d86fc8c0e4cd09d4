"""`prorec datasets`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from prorec._core.errors import InputError
from prorec.cli.options import Force
from prorec.cli.streams import check_free
from prorec.data.item_info import write_item_info
from prorec.data.registry import DATASETS, fetch_files, find_files, load_dataset
from prorec.data.writers import write_interactions

datasets = typer.Typer(no_args_is_help=True, help="The data sets that are known by name.")


@datasets.command("list")
def list_datasets() -> None:
    """Show what data sets there are, how large they are, and whether they are on this machine."""
    table = Table("name", "what it is", "users", "items", "interactions", "here", box=None, pad_edge=False)
    for column in table.columns[2:5]:
        column.justify = "right"
    for entry in DATASETS.values():
        here = "made" if not entry.files else "yes" if find_files(entry) else "no"
        table.add_row(entry.name, entry.title, *(f"{count:,}" for count in entry.counts), here)
    Console().print(table)


@datasets.command("get")
def get_dataset(
    name: str,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write it to this file: .csv, .tsv, .inter or .parquet.")
    ] = None,
    items: Annotated[
        Path | None, typer.Option("--items", help="Write names and categories of its items to this file.")
    ] = None,
    force: Force = False,
) -> None:
    """Fetch a data set, if it is not here yet, load it and count what is in it."""
    for path in (out, items):
        if path is not None:
            check_free(path, force=force)
    loaded = load_dataset(name)
    if items is not None and loaded.item_names is None and loaded.item_categories is None:
        raise InputError(f"nothing is known about the items of {name}: --items has nothing to write")
    console = Console()
    console.print(str(loaded), highlight=False)
    entry = DATASETS[name]
    about = Table.grid(padding=(0, 2))
    files = fetch_files(entry) if entry.files else "none"
    for what, words in (("files", files), ("licence", entry.licence), ("please cite", entry.citation)):
        about.add_row(what, str(words))
    console.print(about)
    if out is not None:
        write_interactions(loaded, out)
        console.print(f"written to {out}", highlight=False, soft_wrap=True)
    if items is not None:
        write_item_info(loaded, items)
        console.print(f"items written to {items}", highlight=False, soft_wrap=True)
