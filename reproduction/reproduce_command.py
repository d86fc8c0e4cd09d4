"""`prorec reproduce`: the paper's results, made again and laid beside the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from prorec import ConsoleProgress
from prorec._core.checks import check_choice, check_int
from prorec._core.errors import InputError
from prorec._core.files import atomic_write, prefix_errors
from prorec.cli.output_files import check_writable
from prorec.report.theme import require_matplotlib


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="datasets (Table 1), overall (2), ablation (3), noise (Fig. 2a), lambda, gamma (2b, 2c), beta, zeta, "
            "case (Fig. 3), or all, on one page; yahoo-times, the times of Table 3 at the size of Yahoo! R1."
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
    scale: Annotated[
        float | None, typer.Option(help="For yahoo-times: this share of the users, items and clicks; 1.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(help="For yahoo-times: runs to take the median of, after one that does not count; 3.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="On the cinema, 2 trials, 2 splits, 3 epochs (yahoo-times: scale .01, once): to see that all works.",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Make a result of the paper again, with the controls it lacks. What was run before is not run again."""
    from reproduction.overall_results import MODELS
    from reproduction.paper_results import TITLES, Reproduction, checked_models, usual_dataset

    check_choice("name", name, (*TITLES, "yahoo-times", "all"))
    if name == "yahoo-times":
        others = {"--dataset": dataset, "--models": models, "--trials": trials, "--seeds": seeds}
        if unwanted := [option for option, given in others.items() if given is not None]:
            raise InputError(
                f"yahoo-times has its own data and model, and tunes nothing: leave {' and '.join(unwanted)} out"
            )
        _yahoo_times(out, scale, repeats, quick=quick, quiet=quiet)
        return
    if scale is not None or repeats is not None:
        raise InputError(f"--scale and --repeats are for yahoo-times; {name} has neither")
    if quick and (dataset is not None or trials is not None or seeds is not None):
        raise InputError("--quick is for the cinema, 2 trials and 2 splits: leave --dataset, --trials and --seeds out")
    if name in ("all", "datasets") and dataset is not None:
        raise InputError(f"{name} goes over the paper's data sets; --dataset is for one of the others")
    if name not in ("all", "overall") and models is not None:
        raise InputError(f"--models is for overall and all; {name} has its own")
    trials = (2 if quick else 24) if trials is None else check_int("trials", trials, 1)
    seeds = (2 if quick else 5) if seeds is None else check_int("seeds", seeds, 1)
    dataset = "cinema" if quick else dataset
    wanted = [each.strip() for each in models.split(",")] if models is not None else list(MODELS)
    chosen = checked_models(wanted) if name in ("overall", "all") else {}
    if name not in ("datasets", "overall", "ablation"):
        require_matplotlib()
    dataset = dataset or usual_dataset(name)
    _make_folder(out)
    with ConsoleProgress(quiet=quiet) as report:
        made = Reproduction(out, trials=trials, n_seeds=seeds, models=chosen, quick=quick, progress=report)
        if name == "all":
            page = made.everything(_typed(models, trials, seeds, quick=quick))
        else:
            page = made.section(name, dataset)
    path = out / ("results.md" if name == "all" else f"{name}.md" if name == "datasets" else f"{name}-{dataset}.md")
    _write(page, path, quiet=quiet)


def _yahoo_times(out: Path, scale: float | None, repeats: int | None, *, quick: bool, quiet: bool) -> None:
    """The times of Table 3; always measured anew, since seconds are of this machine and this moment."""
    from reproduction.yahoo_shape import counts_at, make_yahoo_shape
    from reproduction.yahoo_times import measure, times_page

    if quick and (scale is not None or repeats is not None):
        raise InputError("--quick is for a scale of .01 and one run: leave --scale and --repeats out")
    scale = (0.01 if quick else 1.0) if scale is None else scale
    repeats = (1 if quick else 3) if repeats is None else check_int("repeats", repeats, 1)
    counts_at(scale)  # refused before anything is written
    _make_folder(out)
    with ConsoleProgress(quiet=quiet) as report:
        report("making the clicks", 0, 1)
        clicks = make_yahoo_shape(scale).interactions
        report("making the clicks", 1, 1)
        times = measure(clicks, repeats, report)
    words = ["prorec reproduce yahoo-times"]
    words += [f"--scale {scale:g}"] * (scale != 1) + [f"--repeats {repeats}"] * (repeats != 3)
    page = times_page(times, " ".join([*words, "--out results/"]), scale, repeats)
    _write(page, out / ("yahoo-times.md" if scale == 1 else f"yahoo-times-{scale:g}.md"), quiet=quiet)


def _make_folder(out: Path) -> None:
    with prefix_errors(out):
        if out.exists() and not out.is_dir():
            raise InputError("this is a file; a folder was expected")
        check_writable(out if out.is_dir() else out.parent)
        out.mkdir(exist_ok=True)


def _write(page: str, path: Path, *, quiet: bool) -> None:
    """Into the file, and on the screen for whoever wants to see it."""
    with prefix_errors(path), atomic_write(path) as temporary:
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
