"""Table 2 (RQ2): every model, and every model with ProRec, tuned alike and judged alike, with the controls.

Per user 50% train, 20% validate, 30% test. Parameters are chosen on the validation part of the first split, with the
same number of trials for every row, drawn from the paper's grids; then each row learns from the 70% and is judged by
the 30% of five splits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

import prorec
from prorec.data.splits import Split
from prorec.denoise import ProRec
from prorec.denoise.algorithm import Progress
from prorec.denoise.control import Change, alike, reweighted
from prorec.errors import InputError
from prorec.evaluation.significance import paired_t
from prorec.experiments.runs import Runs
from prorec.interactions import Interactions
from prorec.models import CDAE, NCE, SVD, VAE, WRMF, Model
from prorec.tuning import PAPER_GRIDS, Grid, tune

METRICS = ("ndcg@5", "map@5", "recall@5")
_GAMMAS = (*PAPER_GRIDS["ProRec"]["gamma"], "auto")


@dataclass(frozen=True)
class Row:
    """A line of the table: a model, what is tuned of it, and what it is held against."""

    name: str
    model: Model
    grid: Grid
    base: str | None = None


def rows_of(models: Mapping[str, Model], losses: tuple[str, ...] = ("t-ce", "r-ce")) -> list[Row]:
    """Each model, CDAE with the denoising losses, and each model with ProRec."""
    rows = [Row(name, model, PAPER_GRIDS[type(model).__name__]) for name, model in models.items()]
    if "CDAE" in models:
        cdae: Any = models["CDAE"]
        rows += [
            Row(f"CDAE + {loss.upper()}", replace(cdae, loss=loss), PAPER_GRIDS["CDAE"], "CDAE") for loss in losses
        ]
    for name, model in models.items():
        inside = {f"model.{each}": values for each, values in PAPER_GRIDS[type(model).__name__].items()}
        grid = {**inside, "lam": (0.25, 0.5, 0.75), "gamma": _GAMMAS}
        rows.append(Row(f"{name} + ProRec", ProRec(model), grid, name))
    return rows


MODELS: Mapping[str, Model] = {
    "SVD": SVD(),
    "NCE": NCE(),
    "CDAE": CDAE(device="auto"),
    "WRMF": WRMF(),
    "VAE": VAE(hidden=None, device="auto"),
}


@dataclass(frozen=True)
class Result:
    """What a row scored."""

    parameters: Mapping[str, Any]
    """What was chosen for it, or for the row that it is a control of."""
    per_user: Mapping[str, NDArray[np.float64]]
    """For each metric, splits × users."""
    seconds: float
    """To fit, on average."""

    def mean(self, metric: str) -> float:
        """Over users and splits."""
        return float(self.per_user[metric].mean())

    def half_interval(self, metric: str) -> float:
        """Half the width of the 95% interval of the mean over splits."""
        by_split = self.per_user[metric].mean(axis=1)
        if len(by_split) < 2:
            return float("nan")
        return float(t.ppf(0.975, len(by_split) - 1) * by_split.std(ddof=1) / np.sqrt(len(by_split)))

    def p_against(self, other: Result, metric: str) -> float:
        """Of a paired t-test over all users of all splits."""
        return paired_t((self.per_user[metric] - other.per_user[metric]).ravel())


class Overall:
    """The table for one data set.

    Parameters
    ----------
    clicks : the data set
    name : what it is called, for the results that are kept
    folder : where results are kept
    trials : how many choices of parameters are tried for each row
    n_seeds : how many splits
    progress : called with what is being done, how much of it is done, and how much there is
    """

    def __init__(
        self,
        clicks: Interactions,
        name: str,
        folder: Path,
        *,
        trials: int = 24,
        n_seeds: int = 5,
        progress: Progress | None = None,
    ) -> None:
        self.clicks, self.name, self.folder = clicks, name, folder
        self.trials, self.n_seeds = trials, n_seeds
        self.runs = Runs(folder / "runs")
        self.report = progress or (lambda *_: None)
        self.parts = cache(self._parts)

    def _parts(self, seed: int) -> Split:
        return prorec.split_by_user(self.clicks, (0.5, 0.2, 0.3), seed=seed)

    def table(self, rows: list[Row]) -> dict[str, Result]:
        """All rows, and the controls of those with ProRec."""
        results: dict[str, Result] = {}
        for row in rows:
            best, chosen = self._tuned(row)
            results[row.name] = self._judged(row.name, chosen, best, best.fit)
            if isinstance(best, ProRec):
                for control, fit in controls(best).items():
                    name = f"{row.name}, control: {control}"
                    results[name] = self._judged(name, chosen, best, fit)
        return results

    def _tuned(self, row: Row) -> tuple[Any, Mapping[str, Any]]:
        self.report(f"{self.name}: tuning {row.name}", 0, 1)
        parts = self.parts(0)
        tuned = tune(
            row.model,
            parts.train,
            parts.valid,
            row.grid,
            search="random",
            trials=self.trials,
            metric="ndcg@5",
            metrics="paper",
            folder=self.folder / "tuning",
        )
        self.report(f"{self.name}: tuning {row.name}", 1, 1)
        best = max((trial for trial in tuned.trials if trial["value"] is not None), key=lambda trial: trial["value"])
        return tuned.best, best["parameters"]

    def _judged(self, name: str, chosen: Mapping[str, Any], model: Any, fit: Callable[[Interactions], Any]) -> Result:
        found = []
        for seed in range(self.n_seeds):
            self.report(f"{self.name}: {name}", seed, self.n_seeds)
            of = {"what": "overall", "dataset": self.name, "row": name, "model": repr(model), "seed": seed}

            def work(seed: int = seed) -> Mapping[str, Any]:
                parts = self.parts(seed)
                begin = time.perf_counter()
                fitted = fit(parts.train_and_valid)
                seconds = time.perf_counter() - begin
                scored = prorec.evaluate(fitted, parts.test, k=5, metrics="paper")
                return {"seconds": seconds} | {metric: scored.per_user[metric].tolist() for metric in METRICS}

            found.append(self.runs.get(of, work))
        self.report(f"{self.name}: {name}", self.n_seeds, self.n_seeds)
        per_user = {metric: np.array([each[metric] for each in found]) for metric in METRICS}
        return Result(dict(chosen), per_user, float(np.mean([each["seconds"] for each in found])))


def controls(denoiser: ProRec) -> dict[str, Callable[[Interactions], Model]]:
    """What a denoiser's gain has to be held against: other weights of the same size, and another regulariser."""
    changes: dict[str, Change] = {
        "weights scaled": alike,
        "weights shuffled": lambda weights, _: np.random.default_rng(0).permutation(weights),
        "weights by popularity": _by_popularity,
    }
    found: dict[str, Callable[[Interactions], Model]] = {
        name: reweighted(denoiser, change).fit for name, change in changes.items()
    }
    if hasattr(denoiser.model, "regularization"):
        found["regulariser doubled"] = replace(denoiser.model, regularization=2 * denoiser.model.regularization).fit
    return found


def _by_popularity(weights: NDArray[np.float32], train: Interactions) -> NDArray[np.float32]:
    """The same weights, the largest for the most popular items."""
    order = np.argsort(train.popularity[train.item_codes], kind="stable")
    given = np.empty_like(weights)
    given[order] = np.sort(weights)
    return given


def checked_models(names: list[str]) -> dict[str, Model]:
    """Some of the models of the table, by name."""
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        raise InputError(f"models must be among {', '.join(MODELS)}; got {', '.join(unknown)}")
    return {name: MODELS[name] for name in names}
