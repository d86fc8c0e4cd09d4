"""Every result of the paper by its name, and all of them on one page."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from prorec import __version__
from prorec.data.registry import load_dataset
from prorec.denoise.algorithm import Progress
from prorec.errors import DownloadError, InputError
from prorec.experiments import pages
from prorec.experiments.ablation import ablation, ablation_rows
from prorec.experiments.case import study_case
from prorec.experiments.curves import curve
from prorec.experiments.noise import KINDS, LEVELS, noise_experiment
from prorec.experiments.overall import MODELS, denoised, overall, rows_of
from prorec.experiments.paper import TABLE_1
from prorec.experiments.protocol import Protocol, Row
from prorec.experiments.runs import Runs
from prorec.interactions import Interactions
from prorec.models import NCE, Model
from prorec.tuning import PAPER_GRIDS

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
    quick : few epochs and levels, to see that all works
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
        self._quick = quick
        self._models = {name: _hurried(model) if quick else model for name, model in models.items()}

    def section(self, name: str, dataset: str) -> str:
        """One result in Markdown; its figure, if it has one, lies in the folder `figures`."""
        if name == "datasets":
            return pages.datasets_page(_loaded())
        clicks = load_dataset(dataset)
        made: Mapping[str, Callable[[Interactions, str], str]] = {
            "overall": self._overall,
            "noise": self._noise,
            "ablation": self._ablation,
            "case": self._case,
        }
        return made[name](clicks, dataset) if name in made else self._curve(clicks, dataset, name)

    def everything(self) -> str:
        """All results on one page."""
        parts = [_introduction(self._trials, self._n_seeds)]
        for name, title in TITLES.items():
            parts.append(f"## {title}\n")
            datasets = ("cinema",) if self._quick else _PAPERS_DATA.get(name, ("amusic",))
            for dataset in datasets:
                if len(datasets) > 1:
                    parts.append(f"### {dataset}\n")
                parts.append(self.section(name, dataset))
            if name == "overall" and not self._quick:
                parts.append(_NO_YAHOO)
        machines = Runs(self._folder / "runs").machines()
        parts.append("## What this was run on\n")
        parts.extend(
            f"- {machine}: {count:,} fits that were judged on a test part" for machine, count in machines.items()
        )
        return "\n".join([*parts, ""])

    def _protocol(self, clicks: Interactions, dataset: str) -> Protocol:
        return Protocol(clicks, dataset, self._folder, trials=self._trials, n_seeds=self._n_seeds)

    def _overall(self, clicks: Interactions, dataset: str) -> str:
        rows = rows_of(self._models)
        return pages.overall_page(dataset, rows, overall(self._protocol(clicks, dataset), rows, self._progress))

    def _ablation(self, clicks: Interactions, dataset: str) -> str:
        rows = ablation_rows(NCE())
        return pages.ablation_page(dataset, rows, ablation(self._protocol(clicks, dataset), rows, self._progress))

    def _noise(self, clicks: Interactions, dataset: str) -> str:
        results = noise_experiment(
            clicks,
            dataset,
            self._folder,
            NCE(),
            trials=self._trials,
            n_seeds=self._n_seeds,
            levels=(LEVELS[0], LEVELS[-1]) if self._quick else LEVELS,
            kinds=KINDS,
            progress=self._progress,
        )
        from prorec.experiments.figures import noise_figure

        link = self._drawn(f"noise-{dataset}", noise_figure(results, dataset, "NCE"), "Noise found, and Recall@5")
        return f"{link}\n{pages.noise_page(dataset, 'NCE', results)}"

    def _curve(self, clicks: Interactions, dataset: str, parameter: str) -> str:
        found = curve(self._protocol(clicks, dataset), parameter, self._progress)
        from prorec.experiments.figures import curve_figure

        link = self._drawn(f"{parameter}-{dataset}", curve_figure(found, dataset), f"What {parameter} does")
        return f"{link}\n{pages.curve_page(dataset, found)}"

    def _case(self, clicks: Interactions, dataset: str) -> str:
        """With the parameters chosen on the first split."""
        protocol = self._protocol(clicks, dataset)
        row = Row("NCE", NCE(), PAPER_GRIDS["NCE"])
        (plain, _), (denoiser, _) = (protocol.tuned(each, 0) for each in (row, denoised(row)))
        case = study_case(clicks, plain, denoiser)
        from prorec.experiments.figures import case_figure

        link = self._drawn(f"case-{dataset}", case_figure(case), "Clicks before and after")
        return f"{link}\n{pages.case_page(case)}"

    def _drawn(self, name: str, figure: Figure, caption: str) -> str:
        from prorec.experiments.figures import save

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


def _loaded() -> dict[str, Interactions]:
    loaded = {}
    for name in TABLE_1:
        try:
            loaded[name] = load_dataset(name)
        except DownloadError:
            continue  # the page says why it is not there
    return loaded


_NO_YAHOO = """### yahoo-r1

Empty: Yahoo! R1 may not be redistributed, so there is nothing to run this on.
"""


def _introduction(trials: int, n_seeds: int) -> str:
    return f"""# The paper, reproduced

Every table and figure of "Partial Relaxed Optimal Transport for Denoised Recommendation", made again by one command:

```
prorec reproduce all --out results/
```

prorec {__version__}{_commit()}. This page is what that command wrote, word for word.

**How.** Of each user's interactions 50% train, 20% validate, 30% test, at random; {n_seeds} splits. On each split,
every row, baselines included, chooses its parameters on the validation part, by NDCG@50: from the paper's grids, one
parameter after the other, from the defaults on or from what was chosen for the row it is made from, {trials} trials at
most. It then learns from the 70% and is judged once by the 30%. NDCG, MAP and Recall are the paper's (NDCG's ideal over
all test items, MAP the mean of precision at 1 to 5). ± is half a 95% interval over splits; percentages are of the mean
of the model without ProRec; * is p < .01 in a paired t-test over the users of all splits, in either direction, not
corrected for the number of tests.

The paper's figures are close to what comes out when only the 50% are learned from, so levels differ: compare gains.

**Controls.** Relabelling also makes all weights smaller, which by itself is a stronger regulariser. So each row with
ProRec has four rivals with the same parameters: all weights as large as ProRec's mean, ProRec's weights shuffled among
the interactions, ProRec's weights given to the most popular items first, and no weights but twice the regulariser. A
gain that a control has too is not denoising.
"""


def _commit() -> str:
    """The commit of the code, where it is in a repository."""
    here = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return f", commit {found.stdout.strip()}"
