"""`prorec reproduce`: the paper's results, made again and laid beside the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from prorec.cli.options import Quiet
from prorec.cli.progress import Reporter
from prorec.cli.streams import check_writable
from prorec.data._files import naming, replacing
from prorec.data.registry import load_dataset
from prorec.errors import DownloadError, InputError, one_of, whole


def reproduce(
    name: Annotated[str, typer.Argument(help="datasets (Table 1) or overall (Table 2).")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for tables and for all that was run.")],
    dataset: Annotated[str, typer.Option(help="For overall: ml-100k, amusic, atoy, gowalla or cinema.")] = "amusic",
    models: Annotated[str, typer.Option(help="For overall: which models, between commas.")] = "SVD,NCE,WRMF",
    trials: Annotated[int, typer.Option(help="For overall: choices of parameters tried for each row.")] = 24,
    seeds: Annotated[int, typer.Option(help="For overall: how many splits.")] = 5,
    quiet: Quiet = False,
) -> None:
    """Make a result of the paper again, with the controls it lacks. What was run before is not run again."""
    one_of("name", name, ("datasets", "overall"))
    whole("trials", trials, 1)
    whole("seeds", seeds, 1)
    with naming(out):
        if out.exists() and not out.is_dir():
            raise InputError("this is a file; a folder was expected")
        check_writable(out if out.is_dir() else out.parent)
        out.mkdir(exist_ok=True)
    with Reporter(quiet=quiet) as report:
        page = _datasets() if name == "datasets" else _overall(out, dataset, models, trials, seeds, report)
    path = out / (f"{name}.md" if name == "datasets" else f"{name}-{dataset}.md")
    with naming(path), replacing(path) as temporary:
        temporary.write_text(page)
    if not quiet:
        Console().print(Text(page))
        Console().print(Text(f"written to {path}"))


def _datasets() -> str:
    from prorec.experiments.pages import datasets_page

    loaded = {}
    for name in ("ml-100k", "amusic", "atoy", "yahoo-r1"):
        try:
            loaded[name] = load_dataset(name)
        except DownloadError as error:
            Console(stderr=True).print(Text(f"{name}: {error}"), soft_wrap=True)
    return datasets_page(loaded)


def _overall(out: Path, dataset: str, models: str, trials: int, seeds: int, report: Reporter) -> str:
    from prorec.experiments.overall import Overall, checked_models, rows_of
    from prorec.experiments.pages import overall_page

    rows = rows_of(checked_models([name.strip() for name in models.split(",")]))
    clicks = load_dataset(dataset)
    overall = Overall(clicks, dataset, out, trials=trials, n_seeds=seeds, progress=report)
    return overall_page(dataset, rows, overall.table(rows))
