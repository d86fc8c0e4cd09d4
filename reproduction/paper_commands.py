"""Commands that compute the paper's results: one for each table and figure, one for all, one for Yahoo! R1's size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from prorec import ConsoleProgress
from prorec._core.checks import check_int
from prorec._core.errors import InputError
from reproduction.output import create_folder, write_page
from reproduction.overall_results import MODELS
from reproduction.paper_results import TITLES, Reproduction, default_dataset, select_models

N_TRIALS, N_SEEDS = 24, 5

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder for pages, figures and cached runs.")]
Dataset = Annotated[
    str | None, typer.Option(help="ml-100k, amusic, atoy, gowalla or cinema; by default the paper's data set.")
]
Models = Annotated[str | None, typer.Option(help="Models to run, separated by commas. CDAE and VAE need a GPU.")]
Trials = Annotated[
    int | None, typer.Option(help=f"Maximum number of parameter settings per row and split; {N_TRIALS}.")
]
Seeds = Annotated[int | None, typer.Option(help=f"Number of splits; {N_SEEDS}.")]
Quick = Annotated[bool, typer.Option("--quick", help="A check that everything works: a small cinema, few trials.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing unless something goes wrong.")]


def add_paper_commands(app: typer.Typer) -> None:
    """Add a command for each result of the paper, and `all`, which writes all of them on one page."""
    for name, title in TITLES.items():
        if name not in ("datasets", "overall"):
            app.command(name, help=f"{title}.")(_make_command(name))
    app.command("datasets", help=f"{TITLES['datasets']}.")(_datasets)
    app.command("overall", help=f"{TITLES['overall']}.")(_overall)
    app.command("all", help="All of the paper's tables and figures on one page.")(_all)


def _make_command(name: str) -> Callable[..., None]:
    def command(
        out: Out,
        dataset: Dataset = None,
        trials: Trials = None,
        seeds: Seeds = None,
        quick: Quick = False,
        quiet: Quiet = False,
    ) -> None:
        _run(name, out, dataset, None, trials, seeds, quick=quick, quiet=quiet)

    return command


def _datasets(out: Out, quick: Quick = False, quiet: Quiet = False) -> None:
    _run("datasets", out, None, None, None, None, quick=quick, quiet=quiet)


def _overall(
    out: Out,
    dataset: Dataset = None,
    models: Models = None,
    trials: Trials = None,
    seeds: Seeds = None,
    quick: Quick = False,
    quiet: Quiet = False,
) -> None:
    _run("overall", out, dataset, models, trials, seeds, quick=quick, quiet=quiet)


def _all(
    out: Out,
    models: Models = None,
    trials: Trials = None,
    seeds: Seeds = None,
    quick: Quick = False,
    quiet: Quiet = False,
) -> None:
    _run("all", out, None, models, trials, seeds, quick=quick, quiet=quiet)


def _run(
    name: str,
    out: Path,
    dataset: str | None,
    models: str | None,
    trials: int | None,
    seeds: int | None,
    *,
    quick: bool,
    quiet: bool,
) -> None:
    """Compute one result, or all, and write its page; runs that are cached in the folder are not repeated."""
    if quick and any(each is not None for each in (dataset, trials, seeds)):
        raise InputError("--quick means the cinema, 2 trials and 2 splits: omit --dataset, --trials and --seeds")
    n_trials = (2 if quick else N_TRIALS) if trials is None else check_int("trials", trials, 1)
    n_seeds = (2 if quick else N_SEEDS) if seeds is None else check_int("seeds", seeds, 1)
    names = list(MODELS) if models is None else [each.strip() for each in models.split(",")]
    selected = select_models(names) if name in ("overall", "all") else {}
    dataset = "cinema" if quick else dataset or default_dataset(name)
    create_folder(out)
    with ConsoleProgress(quiet=quiet) as progress:
        reproduction = Reproduction(
            out, n_trials=n_trials, n_seeds=n_seeds, models=selected, quick=quick, progress=progress
        )
        if name == "all":
            page = reproduction.make_page(_command_line(models, n_trials, n_seeds, quick=quick))
        else:
            page = reproduction.make_section(name, dataset)
    stem = "results" if name == "all" else name if name == "datasets" else f"{name}-{dataset}"
    write_page(page, out / f"{stem}.md", quiet=quiet)


def _command_line(models: str | None, n_trials: int, n_seeds: int, *, quick: bool) -> str:
    """Return the command that makes the page of all results."""
    options = ["--quick"] if quick else []
    if not quick and (n_trials, n_seeds) != (N_TRIALS, N_SEEDS):
        options += [f"--trials {n_trials} --seeds {n_seeds}"]
    if models is not None:
        options += [f"--models {models}"]
    return " ".join(["python -m reproduction all", *options, "--out results/"])


def yahoo_times(
    out: Out,
    scale: Annotated[float | None, typer.Option(help="Fraction of the users, items and interactions; 1.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Number of runs, after one that does not count; 3.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A check that everything works: a scale of .01, once.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Times of Table 3 at the size of Yahoo! R1, on synthetic data. They are measured anew every time."""
    from reproduction.yahoo_shape import make_yahoo_shape, scale_counts
    from reproduction.yahoo_times import make_times_page, measure_times

    if quick and (scale is not None or repeats is not None):
        raise InputError("--quick means a scale of .01 and one run: omit --scale and --repeats")
    scale = (0.01 if quick else 1.0) if scale is None else scale
    repeats = (1 if quick else 3) if repeats is None else check_int("repeats", repeats, 1)
    scale_counts(scale)  # refuses a bad scale before anything is written
    create_folder(out)
    with ConsoleProgress(quiet=quiet) as progress:
        progress("Making the interactions", 0, 1)
        clicks = make_yahoo_shape(scale).interactions
        progress("Making the interactions", 1, 1)
        times = measure_times(clicks, repeats, progress)
    options = [f"--scale {scale:g}"] * (scale != 1) + [f"--repeats {repeats}"] * (repeats != 3)
    command = " ".join(["python -m reproduction yahoo-times", *options, "--out results/"])
    page = make_times_page(times, command, scale, repeats)
    write_page(page, out / ("yahoo-times.md" if scale == 1 else f"yahoo-times-{scale:g}.md"), quiet=quiet)
