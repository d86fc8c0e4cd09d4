"""Every result of the paper by its name, and all of them on one page."""

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
from prorec.models import NCE, Model
from reproduction import result_pages
from reproduction.ablation import ablation, ablation_rows
from reproduction.case_study import study_case
from reproduction.injected_noise import KINDS, LEVELS, noise_experiment
from reproduction.introduction import HOW, HOW_CURVES, NO_YAHOO, introduction
from reproduction.overall_results import MODELS, denoised, overall, rows_of
from reproduction.paper_tables import TABLE_1
from reproduction.parameter_curves import curve
from reproduction.protocol import Protocol, Row
from reproduction.run_cache import Store

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
"""What `all` runs each of them on; amusic, where nothing else is said."""


def usual_dataset(name: str) -> str:
    """What the paper has a result for."""
    return _PAPERS_DATA.get(name, ("amusic",))[0]


class Reproduction:
    """The paper's experiments, with their results in one folder.

    Parameters
    ----------
    folder : where results, pages and figures go
    trials : how many choices of parameters may be tried for a row, on each split
    n_seeds : how many splits
    models : those of Table 2, by name
    quick : on a small cinema, few epochs and levels, to see that all works
    progress : called with what is being done, how much of it is done, and how much there is
    """

    def __init__(
        self,
        folder: Path,
        *,
        trials: int,
        n_seeds: int,
        models: Mapping[str, Model],
        quick: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self._folder, self._trials, self._n_seeds, self._progress = folder, trials, n_seeds, progress
        self._quick, self._store = quick, Store(folder)
        self._models = {name: _hurried(model) if quick else model for name, model in models.items()}

    def section(self, name: str, dataset: str) -> str:
        """One result in Markdown; its figure, if it has one, lies in the folder `figures`."""
        if name == "datasets":
            return result_pages.datasets_page(*_loaded(download=not self._quick))
        clicks = make_cinema(300, 250).interactions if self._quick else load_dataset(dataset)
        made: Mapping[str, Callable[[Interactions, str], str]] = {
            "overall": self._overall,
            "noise": self._noise,
            "ablation": self._ablation,
            "case": self._case,
        }
        page = made[name](clicks, dataset) if name in made else self._curve(clicks, dataset, name)
        return f"{HOW.get(name, HOW_CURVES)}\n\n{page}"

    def everything(self, command: str) -> str:
        """All results on one page, made by a command."""
        parts = [introduction(command, self._trials, self._n_seeds, quick=self._quick)]
        for name, title in TITLES.items():
            parts.append(f"## {title}\n")
            datasets = ("cinema",) if self._quick else _PAPERS_DATA.get(name, ("amusic",))
            for dataset in datasets:
                if len(datasets) > 1:
                    parts.append(f"### {dataset}\n")
                parts.append(self.section(name, dataset))
            if name == "overall" and not self._quick:
                parts.append(NO_YAHOO)
        parts.append("## What this was run on\n")
        machines = self._store.runs.machines.most_common()
        parts.extend(f"- {machine}: {count:,} of the fits that were judged" for machine, count in machines)
        return "\n".join([*parts, ""])

    def _protocol(self, clicks: Interactions, dataset: str) -> Protocol:
        return Protocol(clicks, dataset, self._store, trials=self._trials, n_seeds=self._n_seeds)

    def _overall(self, clicks: Interactions, dataset: str) -> str:
        rows = rows_of(self._models)
        return result_pages.overall_page(dataset, rows, overall(self._protocol(clicks, dataset), rows, self._progress))

    def _ablation(self, clicks: Interactions, dataset: str) -> str:
        rows = ablation_rows(NCE())
        return result_pages.ablation_page(
            dataset, rows, ablation(self._protocol(clicks, dataset), rows, self._progress)
        )

    def _noise(self, clicks: Interactions, dataset: str) -> str:
        results = noise_experiment(
            clicks,
            dataset,
            self._store,
            NCE(),
            trials=self._trials,
            n_seeds=self._n_seeds,
            levels=(LEVELS[0], LEVELS[-1]) if self._quick else LEVELS,
            kinds=KINDS,
            progress=self._progress,
        )
        from reproduction.figures import noise_figure

        link = self._drawn(f"noise-{dataset}", noise_figure(results, dataset, "NCE"), "Noise found, and Recall@5")
        return f"{link}\n{result_pages.noise_page(dataset, 'NCE', results)}"

    def _curve(self, clicks: Interactions, dataset: str, parameter: str) -> str:
        found = curve(self._protocol(clicks, dataset), parameter, self._progress)
        from reproduction.figures import curve_figure

        link = self._drawn(f"{parameter}-{dataset}", curve_figure(found, dataset), f"What {parameter} does")
        return f"{link}\n{result_pages.curve_page(dataset, found)}"

    def _case(self, clicks: Interactions, dataset: str) -> str:
        """With the parameters chosen on the first split."""
        if clicks.item_categories is None:
            raise InputError(
                f"the case study needs items with categories, such as films with genres; {dataset} has none"
            )
        protocol = self._protocol(clicks, dataset)
        row = Row("NCE", NCE(), PAPER_GRIDS["NCE"])
        (plain, _), (denoiser, _) = (protocol.tuned(each, 0) for each in (row, denoised(row)))
        case = study_case(clicks, plain, denoiser)
        from reproduction.figures import case_figure

        link = self._drawn(f"case-{dataset}", case_figure(case), "Clicks before and after")
        return f"{link}\n{result_pages.case_page(case)}"

    def _drawn(self, name: str, figure: Figure, caption: str) -> str:
        from reproduction.figures import save

        (self._folder / "figures").mkdir(exist_ok=True)
        save(figure, self._folder / "figures" / f"{name}.svg")
        return f"![{caption}](figures/{name}.svg)\n"


def checked_models(names: list[str]) -> dict[str, Model]:
    """Some of the models of Table 2, by name; refused before anything is run where one of them cannot be."""
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        raise InputError(f"models must be among {', '.join(MODELS)}; got {', '.join(unknown)}")
    deep = [name for name in names if name in _DEEP]
    if deep and importlib.util.find_spec("torch") is None:
        raise InputError(
            f"{' and '.join(deep)} need PyTorch, which is not installed: pip install 'prorec[torch]', "
            "or leave them out with --models SVD,NCE,WRMF"
        )
    return {name: MODELS[name] for name in names}


def _hurried(model: Model) -> Model:
    return replace(model, epochs=3) if hasattr(model, "epochs") else model  # type: ignore[type-var]


def _loaded(*, download: bool) -> tuple[dict[str, Interactions], dict[str, str]]:
    """The paper's data sets that are to be had, and what is in the way of the others."""
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
