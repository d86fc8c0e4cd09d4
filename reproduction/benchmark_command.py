"""The command of the noise benchmark."""

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
from prorec._core.errors import InputError, MissingExtraError
from reproduction.output import create_folder, write_page

if TYPE_CHECKING:
    from reproduction.noise_benchmark import DetectionResults, Setting

_KINDS = ("uniform", "popularity", "swap", "disliked")
_NEED_TORCH = ("T-CE loss", "R-CE loss", "PLD")


def noise_benchmark(
    dataset: Annotated[str, typer.Option(help="ml-100k, ml-1m, amusic, atoy, gowalla or cinema.")] = "ml-100k",
    kinds: Annotated[str, typer.Option(help="Kinds of noise, separated by commas.")] = "uniform,popularity",
    levels: Annotated[
        str, typer.Option(help="Added noise as a fraction of the true clicks, separated by commas; 0 for none.")
    ] = "0.05,0.1,0.2",
    models: Annotated[
        str, typer.Option(help="Recommenders to retrain: NCE, WRMF, VAE, separated by commas; or none.")
    ] = "NCE,WRMF",
    seeds: Annotated[int, typer.Option(help="Number of splits.")] = 5,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for the page and cached runs.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing unless something goes wrong.")] = False,
) -> None:
    """Compare NoiseFinder with baselines on injected noise."""
    from prorec.data.registry import DATASETS
    from reproduction.baselines import SCORERS
    from reproduction.noise_benchmark import RECOMMENDERS, NoiseBenchmark, Setting, load_clean_dataset
    from reproduction.noise_benchmark_page import make_benchmark_page
    from reproduction.run_cache import ExperimentCache

    check_choice("dataset", dataset, tuple(DATASETS))
    noise_kinds, noise_levels = _parse_kinds(kinds), _parse_levels(levels)
    pairs = [(kind if level else noise_kinds[0], level) for kind in noise_kinds for level in noise_levels]
    settings = list(dict.fromkeys(Setting(kind, level) for kind, level in pairs))  # type: ignore[arg-type]
    recommenders = [] if models.strip().lower() == "none" else [each.strip().upper() for each in models.split(",")]
    for name in recommenders:
        check_choice("models", name, tuple(RECOMMENDERS))
    scorers = list(SCORERS)
    if importlib.util.find_spec("torch") is None:
        if "VAE" in recommenders:
            raise MissingExtraError("VAE needs PyTorch; install it with pip install '.[torch]', or omit VAE")
        scorers = [name for name in scorers if name not in _NEED_TORCH]
        Console(stderr=True, quiet=quiet).print(Text(f"PyTorch is missing: {', '.join(_NEED_TORCH)} are skipped"))
    check_int("seeds", seeds, 1)
    if out is not None:
        create_folder(out)
    with tempfile.TemporaryDirectory() as temporary:
        with ConsoleProgress(quiet=quiet) as progress:
            benchmark = NoiseBenchmark(
                load_clean_dataset(dataset),
                dataset,
                ExperimentCache(Path(temporary) if out is None else out),
                n_seeds=seeds,
                scorers=scorers,
                models={name: RECOMMENDERS[name] for name in recommenders},
            )
            results = benchmark.run(settings, progress)
        page = make_benchmark_page(dataset, results)
    if out is not None:
        write_page(page + _save_reliability(results, dataset, out), out / f"noise-{dataset}.md", quiet=quiet)
    elif not quiet:
        Console().print(Text(page), soft_wrap=True)


def _save_reliability(results: dict[Setting, DetectionResults], dataset: str, out: Path) -> str:
    """Draw the reliability diagram if matplotlib is installed; return the Markdown that shows it."""
    if importlib.util.find_spec("matplotlib") is None:
        return ""
    from reproduction.figures import draw_reliability, save_figure

    save_figure(draw_reliability(results, dataset), out / "figures" / f"reliability-{dataset}.svg")
    return f"\n![Noise rate of clicks, by noise probability](figures/reliability-{dataset}.svg)\n"


def _parse_kinds(text: str) -> list[str]:
    kinds = [each.strip() for each in text.split(",")]
    for kind in kinds:
        check_choice("kinds", kind, _KINDS)
    return kinds


def _parse_levels(text: str) -> list[float]:
    try:
        levels = [float(each) for each in text.split(",")]
    except ValueError:
        raise InputError(f"levels must be numbers separated by commas; got {text!r}") from None
    for level in levels:
        if not 0 <= level <= 1:
            raise InputError(f"levels must be from 0 to 1; got {level:g}")
    return levels
