"""The protocol by which every row of a table is tuned and evaluated. Each split is an experiment of its own.

Parameters are chosen on the split's validation part. The model is then fitted to the train and validation parts and
evaluated once on the test part, so nothing that a row is evaluated on has influenced its parameters. All rows have the
same number of trials, more than coordinate search needs. A row that derives from another, such as a model with ProRec,
starts from the parameters chosen for that one.

With few validation items per user, the best of many trials is often the luckiest. So the best three are evaluated again
on three more divisions of the train and validation parts, and the best on average wins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

import prorec
from prorec._core.digest import digest
from prorec._core.progress import Progress
from prorec.denoise import ProRec
from prorec.evaluation.parameter_search import Grid
from prorec.evaluation.significance import paired_t
from prorec.evaluation.tuning import tune, with_parameters
from prorec.interactions import Interactions
from reproduction.run_cache import ExperimentCache

METRICS = ("ndcg@5", "map@5", "recall@5")
_TUNING_METRIC = "ndcg@5"
_N_FINALISTS = 3
_N_DIVISIONS = 3


@dataclass(frozen=True)
class Row:
    """A row of a table: a model and the grid over which it is tuned."""

    name: str
    model: Any
    """A model of `prorec.models`, or a `ProRec`."""
    grid: Grid
    base: Row | None = None
    """The row that this one derives from and is compared with."""


class Parts(NamedTuple):
    """The parts of one split."""

    train: Interactions
    valid: Interactions
    train_and_valid: Interactions
    """Interactions that the final model learns from."""
    test: Interactions


def split_50_20_30(clicks: Interactions, seed: int) -> Parts:
    """Divide each user's interactions: 50% train, 20% validate, 30% test."""
    split = prorec.split_by_user(clicks, (0.5, 0.2, 0.3), seed=seed)
    return Parts(split.train, split.valid, split.train_and_valid, split.test)


@dataclass(frozen=True)
class Result:
    """Test scores of a row."""

    parameters: tuple[Mapping[str, Any], ...]
    """Parameters chosen on each split."""
    per_user: Mapping[str, NDArray[np.float64]]
    """For each metric, splits × users."""
    seconds: float
    """Mean time of a fit."""

    @classmethod
    def from_runs(cls, parameters: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> Result:
        """Combine the cached runs of all splits."""
        per_user = {metric: np.array([run[metric] for run in runs]) for metric in METRICS}
        return cls(tuple(parameters), per_user, float(np.mean([run["seconds"] for run in runs])))

    def mean(self, metric: str) -> float:
        """Return the mean over users and splits."""
        return float(self.per_user[metric].mean())

    def half_interval(self, metric: str) -> float:
        """Return half the width of the 95% interval of the mean over splits; NaN for a single split."""
        return half_interval(self.per_user[metric].mean(axis=1))

    def gain(self, base: Result, metric: str) -> float:
        """Return the relative difference to the base's mean; NaN if that is 0."""
        before = base.mean(metric)
        return self.mean(metric) / before - 1 if before else float("nan")

    def p_against(self, other: Result, metric: str) -> float:
        """Return p of a paired t-test over users; a user's splits are not independent, so their mean counts."""
        return paired_t((self.per_user[metric] - other.per_user[metric]).mean(axis=0))


def half_interval(values: NDArray[np.float64]) -> float:
    """Return half the width of the 95% interval of a mean by Student's t; NaN for a single value.

    >>> round(half_interval(np.array([1.0, 2.0, 3.0])), 3)
    2.484
    """
    if len(values) < 2:
        return float("nan")
    return float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


class StepProgress:
    """A counter that reports each step of an experiment.

    Parameters
    ----------
    progress : Progress or None
        Receives the task, the number of finished steps and their total.
    task : str
        Name of the experiment.
    total : int
        Number of steps.
    """

    def __init__(self, progress: Progress | None, task: str, total: int) -> None:
        self._progress, self._task, self._total, self._done = progress or (lambda *_: None), task, total, 0
        self._progress(task, 0, total)

    def advance(self) -> None:
        """Report one more finished step."""
        self._done += 1
        self._progress(self._task, self._done, self._total)


class Protocol:
    """Tuning and evaluation on the splits of one data set; every run is cached.

    Parameters
    ----------
    clicks : Interactions
        The data set.
    dataset : str
        Its name, for the cache.
    cache : ExperimentCache
        Where results are stored.
    n_trials : int
        Maximum number of parameter settings for each row and split.
    n_seeds : int
        Number of splits.
    make_parts : callable, default `split_50_20_30`
        Splits the data set, given a seed.
    """

    def __init__(
        self,
        clicks: Interactions,
        dataset: str,
        cache: ExperimentCache,
        *,
        n_trials: int,
        n_seeds: int,
        make_parts: Callable[[Interactions, int], Parts] = split_50_20_30,
    ) -> None:
        self.dataset, self.n_trials, self.n_seeds = dataset, n_trials, n_seeds
        self.cache = cache
        self.parts = lru_cache(maxsize=2)(lambda seed: make_parts(clicks, seed))
        self.parts_digest = lru_cache(maxsize=2)(lambda seed: _digest_parts(self.parts(seed)))

    def tune(self, row: Row, seed: int) -> tuple[Any, Mapping[str, Any]]:
        """Return the row's model with the parameters chosen on a split's validation part, and these parameters."""
        parts = self.parts(seed)
        model = row.model
        if row.base is not None:
            base, _ = self.tune(row.base, seed)
            inherited = {name: getattr(base, name) for name in row.base.grid}
            model = replace(model, **({"model": base} if isinstance(model, ProRec) else inherited))
        result = tune(
            model,
            parts.train,
            parts.valid,
            row.grid,
            search="coordinate",
            trials=self.n_trials,
            metric=_TUNING_METRIC,
            metrics="paper",
            folder=self.cache.trials,
        )
        fitted = [(trial["value"], trial) for trial in result.trials if trial["value"] is not None]
        finalists = [trial for _, trial in sorted(fitted, key=lambda each: -each[0])[:_N_FINALISTS]]
        if len(finalists) == 1:
            return with_parameters(model, finalists[0]["parameters"]), finalists[0]["parameters"]
        means = [self._mean_over_divisions(model, each, seed) for each in finalists]
        best = finalists[int(np.argmax(means))]["parameters"]
        return with_parameters(model, best), best

    def _mean_over_divisions(self, model: Any, trial: Mapping[str, Any], seed: int) -> float:
        """Return a trial's mean score over its validation part and more divisions of the same interactions."""
        candidate, parts = with_parameters(model, trial["parameters"]), self.parts(seed)
        valid_fraction = len(parts.valid) / len(parts.train_and_valid)
        values = [trial["value"]]
        for division in range(_N_DIVISIONS):
            configuration = {
                "dataset": self.dataset,
                "split": self.parts_digest(seed),
                "model": repr(candidate),
                "division": division,
            }

            def compute(division: int = division) -> Mapping[str, Any]:
                fractions = (1 - valid_fraction, valid_fraction)
                inner = prorec.split_by_user(parts.train_and_valid, fractions, seed=_N_DIVISIONS * seed + division)
                result = prorec.evaluate(candidate.fit(inner.train), inner.test, k=5, metrics="paper")
                return {"value": result.mean[_TUNING_METRIC]}

            values.append(self.cache.finalists.get(configuration, compute)["value"])
        return float(np.mean(values))

    def evaluate(
        self,
        experiment: str,
        seed: int,
        model: Any,
        fit: Callable[[Interactions], Any],
        extra: Callable[[Any], Mapping[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Fit a model to a split's train and validation parts, and evaluate it on the test part.

        Parameters
        ----------
        experiment : str
            Distinguishes this run from other runs of the same model in the cache.
        seed : int
            Seed of the split.
        model : Model or ProRec
            The model with all its parameters; its `repr` is part of the cache key.
        fit : callable
            Fits the model to interactions and returns it.
        extra : callable, optional
            Returns more numbers about the fitted model, to be stored with the scores.

        Returns
        -------
        dict
            Each user's scores by metric, the seconds of the fit, and the extra numbers.
        """
        configuration = {
            "experiment": experiment,
            "dataset": self.dataset,
            "split": self.parts_digest(seed),
            "model": repr(model),
        }

        def compute() -> Mapping[str, Any]:
            parts = self.parts(seed)
            begin = time.perf_counter()
            fitted = fit(parts.train_and_valid)
            seconds = time.perf_counter() - begin
            result = prorec.evaluate(fitted, parts.test, k=5, metrics="paper")
            scores = {metric: result.per_user[metric].tolist() for metric in METRICS}
            return {"seconds": seconds, **scores, **(extra(fitted) if extra else {})}

        return self.cache.runs.get(configuration, compute)


def _digest_parts(parts: Parts) -> str:
    matrices = (parts.train_and_valid.matrix, parts.valid.matrix, parts.test.matrix)
    return digest(*(array for each in matrices for array in (each.indptr, each.indices, each.data)))
