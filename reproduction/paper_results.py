"""The paper's results by name, each as a section in Markdown, and all of them on one page."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from prorec._core.errors import DownloadError, InputError
from prorec._core.progress import Progress
from prorec.data.cinema import make_cinema
from prorec.data.registry import DATASETS, find_files, load_dataset
from prorec.evaluation.tuning import PAPER_GRIDS
from prorec.interactions import Interactions
from prorec.models import Model
from reproduction import result_pages
from reproduction.ablation import ablation_rows, run_ablation
from reproduction.case_study import study_case
from reproduction.injected_noise import KINDS, LEVELS, run_injected_noise
from reproduction.introduction import HOW, HOW_CURVES, NO_YAHOO, introduction
from reproduction.overall_results import MODELS, add_denoiser, make_rows, run_overall
from reproduction.paper_tables import TABLE_1
from reproduction.parameter_curves import run_curve
from reproduction.protocol import Protocol, Row
from reproduction.run_cache import ExperimentCache

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES: Mapping[str, str] = {
    "datasets": "Table 1: the data sets",
    "noise": "Figure 2a: is noise found, and does it help? (RQ1)",
    "overall": "Table 2: all models (RQ2)",
    "ablation": "Table 3: the parts of ProRec (RQ3)",
    "lambda": "Figure 2b: λ",
    "gamma": "Figure 2c: γ",
    "beta": "β, which the paper says has little effect",
    "zeta": "ζ, which the paper says has little effect",
    "case": "Figure 3: one user (RQ4)",
}
_DEEP = ("CDAE", "VAE")
_PAPERS_DATA: Mapping[str, tuple[str, ...]] = {
    "noise": ("ml-100k",),
    "overall": ("amusic", "atoy", "ml-100k"),
    "case": ("ml-100k",),
}
"""Data sets on which `all` runs each result; amusic for results that are not listed."""


def default_dataset(name: str) -> str:
    """Return the data set for which the paper has a result."""
    return _PAPERS_DATA.get(name, ("amusic",))[0]


class Reproduction:
    """The paper's experiments, with their results in one folder.

    Parameters
    ----------
    folder : Path
        Output folder for cached runs and figures.
    n_trials : int
        Maximum number of parameter settings for each row and split.
    n_seeds : int
        Number of splits.
    models : mapping of str to Model
        Models of Table 2.
    quick : bool, default False
        Use a small cinema, few epochs and few noise levels, as a check that everything works.
    progress : Progress, optional
        Receives the task, the number of finished steps and their total.
    """

    def __init__(
        self,
        folder: Path,
        *,
        n_trials: int,
        n_seeds: int,
        models: Mapping[str, Model],
        quick: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._folder, self._n_trials, self._n_seeds, self._progress = folder, n_trials, n_seeds, progress
        self._quick, self._cache = quick, ExperimentCache(folder)
        self._models = {name: _shorten_training(model) if quick else model for name, model in models.items()}

    def make_section(self, name: str, dataset: str) -> str:
        """Return one result in Markdown; its figure, if it has one, is written to the folder `figures`."""
        if name == "datasets":
            return result_pages.datasets_page(*_load_datasets(download=not self._quick))
        clicks = make_cinema(300, 250).interactions if self._quick else load_dataset(dataset)
        sections: Mapping[str, Callable[[Interactions, str], str]] = {
            "overall": self._overall,
            "noise": self._noise,
            "ablation": self._ablation,
            "case": self._case,
        }
        page = sections[name](clicks, dataset) if name in sections else self._curve(clicks, dataset, name)
        return f"{HOW.get(name, HOW_CURVES)}\n\n{page}"

    def make_page(self, command: str) -> str:
        """Return all results on one page, which names the command that made it."""
        parts = [introduction(command, self._n_trials, self._n_seeds, quick=self._quick)]
        for name, title in TITLES.items():
            parts.append(f"## {title}\n")
            datasets = ("cinema",) if self._quick else _PAPERS_DATA.get(name, ("amusic",))
            for dataset in datasets:
                if len(datasets) > 1:
                    parts.append(f"### {dataset}\n")
                parts.append(self.make_section(name, dataset))
            if name == "overall" and not self._quick:
                parts.append(NO_YAHOO)
        parts.append("## Machines\n")
        machines = self._cache.runs.machines.most_common()
        parts.extend(f"- {machine}: {count:,} evaluated fits" for machine, count in machines)
        return "\n".join([*parts, ""])

    def _protocol(self, clicks: Interactions, dataset: str) -> Protocol:
        return Protocol(clicks, dataset, self._cache, n_trials=self._n_trials, n_seeds=self._n_seeds)

    def _overall(self, clicks: Interactions, dataset: str) -> str:
        rows = make_rows(self._models)
        return result_pages.overall_page(
            dataset, rows, run_overall(self._protocol(clicks, dataset), rows, self._progress)
        )

    def _ablation(self, clicks: Interactions, dataset: str) -> str:
        rows = ablation_rows(MODELS["NCE"])
        return result_pages.ablation_page(
            dataset, rows, run_ablation(self._protocol(clicks, dataset), rows, self._progress)
        )

    def _noise(self, clicks: Interactions, dataset: str) -> str:
        results = run_injected_noise(
            clicks,
            dataset,
            self._cache,
            MODELS["NCE"],
            n_trials=self._n_trials,
            n_seeds=self._n_seeds,
            levels=(LEVELS[0], LEVELS[-1]) if self._quick else LEVELS,
            kinds=KINDS,
            progress=self._progress,
        )
        from reproduction.figures import draw_noise

        link = self._save_figure(f"noise-{dataset}", draw_noise(results, dataset, "NCE"), "Noise found, and Recall@5")
        return f"{link}\n{result_pages.noise_page(dataset, 'NCE', results)}"

    def _curve(self, clicks: Interactions, dataset: str, parameter: str) -> str:
        result = run_curve(self._protocol(clicks, dataset), parameter, self._progress)
        from reproduction.figures import draw_curve

        link = self._save_figure(f"{parameter}-{dataset}", draw_curve(result, dataset), f"Effect of {parameter}")
        return f"{link}\n{result_pages.curve_page(dataset, result)}"

    def _case(self, clicks: Interactions, dataset: str) -> str:
        """Study one user, with the parameters chosen on the first split."""
        if clicks.item_categories is None:
            raise InputError(
                f"the case study needs items with categories, such as genres; {dataset} has none. Use ml-100k or cinema"
            )
        protocol = self._protocol(clicks, dataset)
        row = Row("NCE", MODELS["NCE"], PAPER_GRIDS["NCE"])
        (plain, _), (denoiser, _) = (protocol.tune(each, 0) for each in (row, add_denoiser(row)))
        case = study_case(clicks, plain, denoiser)
        from reproduction.figures import draw_case

        link = self._save_figure(f"case-{dataset}", draw_case(case), "Clicks before and after")
        return f"{link}\n{result_pages.case_page(case)}"

    def _save_figure(self, name: str, figure: Figure, caption: str) -> str:
        from reproduction.figures import save_figure

        save_figure(figure, self._folder / "figures" / f"{name}.svg")
        return f"![{caption}](figures/{name}.svg)\n"


def select_models(names: list[str]) -> dict[str, Model]:
    """Return models of Table 2 by name, or refuse names that are unknown or need a missing package."""
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        raise InputError(f"models must be among {', '.join(MODELS)}; got {', '.join(unknown)}")
    deep = [name for name in names if name in _DEEP]
    if deep and importlib.util.find_spec("torch") is None:
        raise InputError(
            f"{' and '.join(deep)} need PyTorch; install it with pip install '.[torch]', or omit them with "
            "--models SVD,NCE,WRMF"
        )
    return {name: MODELS[name] for name in names}


def _shorten_training(model: Model) -> Model:
    return replace(model, epochs=3) if hasattr(model, "epochs") else model  # type: ignore[type-var]


def _load_datasets(*, download: bool) -> tuple[dict[str, Interactions], dict[str, str]]:
    """Return the paper's data sets that are available, and the reason why each of the others is not."""
    loaded, missing = {}, {}
    for name in TABLE_1:
        if not download and find_files(DATASETS[name]) is None:
            missing[name] = "not downloaded"
            continue
        try:
            loaded[name] = load_dataset(name)
        except DownloadError:
            missing[name] = f"`prorec datasets get {name}` says where it comes from"
    return loaded, missing
