"""`prorec benchmark-noise`: how well noise is found, by whom, where it is known."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from prorec import ConsoleProgress
from prorec._core.checks import check_choice, check_int
from prorec._core.errors import InputError
from prorec._core.files import atomic_write, prefix_errors
from prorec.cli.output_files import check_writable

if TYPE_CHECKING:
    from reproduction.noise_benchmark import Found, Setting

_NEED_TORCH = ("T-CE loss", "R-CE loss", "PLD")


def benchmark_noise(
    dataset: Annotated[str, typer.Option(help="ml-100k, ml-1m, amusic, atoy, gowalla or cinema.")] = "ml-100k",
    kinds: Annotated[str, typer.Option(help="Kinds of noise, between commas.")] = "uniform,popularity",
    levels: Annotated[
        str, typer.Option(help="Noise as a share of the true clicks, between commas; 0 for none.")
    ] = "0.05,0.1,0.2",
    models: Annotated[
        str, typer.Option(help="What learns from the rest: NCE, WRMF, VAE, between commas; or none.")
    ] = "NCE,WRMF",
    seeds: Annotated[int, typer.Option(help="How many splits.")] = 5,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A folder for the page and all that was run, to go on from.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Hold everything that tells noise against known noise, and against each other."""
    from prorec.data.registry import DATASETS
    from reproduction.baselines import SCORERS
    from reproduction.noise_benchmark import GAINING, Detection, Setting, clicks_of
    from reproduction.noise_benchmark_page import detection_page
    from reproduction.run_cache import Store

    check_choice("dataset", dataset, tuple(DATASETS))
    of_kinds, of_levels = _kinds(kinds), _levels(levels)
    every = [(kind if level else of_kinds[0], level) for kind in of_kinds for level in of_levels]
    settings = list(dict.fromkeys(Setting(kind, level) for kind, level in every))  # type: ignore[arg-type]
    wanted = [] if models.strip().lower() == "none" else [each.strip().upper() for each in models.split(",")]
    for name in wanted:
        check_choice("models", name, tuple(GAINING))
    scorers = list(SCORERS)
    if importlib.util.find_spec("torch") is None:
        if "VAE" in wanted:
            raise InputError("the VAE needs PyTorch, which is not installed: pip install 'prorec[torch]'")
        scorers = [name for name in scorers if name not in _NEED_TORCH]
        Console(stderr=True, quiet=quiet).print(Text(f"without PyTorch: {', '.join(_NEED_TORCH)} are left out"))
    seeds = check_int("seeds", seeds, 1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if out is None else _checked(out)
        with ConsoleProgress(quiet=quiet) as report:
            bench = Detection(
                clicks_of(dataset),
                dataset,
                Store(folder),
                n_seeds=seeds,
                scorers=scorers,
                models={name: GAINING[name] for name in wanted},
            )
            results = bench.run(settings, report)
            page = detection_page(dataset, results)
    if out is not None:
        page += _drawn(results, dataset, out)
        path = out / f"noise-{dataset}.md"
        with prefix_errors(path), atomic_write(path) as written:
            written.write_text(page, encoding="utf-8")
    if not quiet:
        Console().print(Text(page), soft_wrap=True)
        if out is not None:
            Console().print(Text(f"written to {path}"))


def _drawn(results: dict[Setting, Found], dataset: str, out: Path) -> str:
    """The reliability diagram, where Matplotlib is installed, and the words that show it."""
    if importlib.util.find_spec("matplotlib") is None:
        return ""
    from reproduction.figures import reliability_figure, save

    (out / "figures").mkdir(exist_ok=True)
    save(reliability_figure(results, dataset), out / "figures" / f"reliability-{dataset}.svg")
    return f"\n![Of clicks with some noise probability, how many are noise](figures/reliability-{dataset}.svg)\n"


def _checked(out: Path) -> Path:
    with prefix_errors(out):
        if out.exists() and not out.is_dir():
            raise InputError("this is a file; a folder was expected")
        check_writable(out if out.is_dir() else out.parent)
        out.mkdir(exist_ok=True)
    return out


def _kinds(text: str) -> list[str]:
    kinds = [each.strip() for each in text.split(",")]
    for kind in kinds:
        check_choice("kinds", kind, ("uniform", "popularity", "swap", "disliked"))
    return kinds


def _levels(text: str) -> list[float]:
    try:
        levels = [float(each) for each in text.split(",")]
    except ValueError:
        raise InputError(f"levels must be numbers between commas; got {text!r}") from None
    for level in levels:
        if not 0 <= level <= 1:
            raise InputError(f"levels must be from 0 to 1; got {level:g}")
    return levels
