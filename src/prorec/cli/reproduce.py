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
from prorec.errors import InputError, one_of, whole


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="datasets (Table 1), overall (2), ablation (3), noise (Fig. 2a), lambda, gamma (2b, 2c), beta, zeta, "
            "case (Fig. 3), or all, on one page."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for pages, figures and all that was run.")],
    dataset: Annotated[
        str | None, typer.Option(help="ml-100k, amusic, atoy, gowalla or cinema; by default the paper's.")
    ] = None,
    models: Annotated[
        str | None, typer.Option(help="For overall and all: which models, between commas. CDAE and VAE want a GPU.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(help="Choices of parameters tried for each row on each split, at most: 24.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="How many splits: 5.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="On the cinema, 2 trials, 2 splits, 3 epochs: to see that all works.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Make a result of the paper again, with the controls it lacks. What was run before is not run again."""
    from prorec.experiments.overall import MODELS
    from prorec.experiments.reproduction import TITLES, Reproduction, checked_models, usual_dataset

    one_of("name", name, (*TITLES, "all"))
    if quick and (dataset is not None or trials is not None or seeds is not None):
        raise InputError("--quick is for the cinema, 2 trials and 2 splits: leave --dataset, --trials and --seeds out")
    if name in ("all", "datasets") and dataset is not None:
        raise InputError(f"{name} goes over the paper's data sets; --dataset is for one of the others")
    if name not in ("all", "overall") and models is not None:
        raise InputError(f"--models is for overall and all; {name} has its own")
    trials = (2 if quick else 24) if trials is None else whole("trials", trials, 1)
    seeds = (2 if quick else 5) if seeds is None else whole("seeds", seeds, 1)
    dataset = "cinema" if quick else dataset
    wanted = [each.strip() for each in models.split(",")] if models is not None else list(MODELS)
    chosen = checked_models(wanted) if name in ("overall", "all") else {}
    if name not in ("datasets", "overall", "ablation"):
        _need_matplotlib()
    dataset = dataset or usual_dataset(name)
    with naming(out):
        if out.exists() and not out.is_dir():
            raise InputError("this is a file; a folder was expected")
        check_writable(out if out.is_dir() else out.parent)
        out.mkdir(exist_ok=True)
    with Reporter(quiet=quiet) as report:
        made = Reproduction(out, trials=trials, n_seeds=seeds, models=chosen, quick=quick, progress=report)
        if name == "all":
            page = made.everything(_typed(models, trials, seeds, quick=quick))
        else:
            page = made.section(name, dataset)
    path = out / ("results.md" if name == "all" else f"{name}.md" if name == "datasets" else f"{name}-{dataset}.md")
    with naming(path), replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    if not quiet:
        Console().print(Text(page), soft_wrap=True)
        Console().print(Text(f"written to {path}"))


def _typed(models: str | None, trials: int, seeds: int, *, quick: bool) -> str:
    """The command that makes the same page."""
    words = ["prorec reproduce all"]
    if quick:
        words.append("--quick")
    elif (trials, seeds) != (24, 5):
        words.append(f"--trials {trials} --seeds {seeds}")
    if models is not None:
        words.append(f"--models {models}")
    return " ".join([*words, "--out results/"])


def _need_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise InputError("the figures need Matplotlib, which is not installed: pip install 'prorec[report]'") from None
