"""How a row of a table is tuned and judged. Each split is an experiment of its own.

Parameters are chosen on a split's own validation part, the row learns from train and validation parts together with
what was chosen, and is judged once by the split's test part. So nothing that a row is judged by has had a say in its
parameters, and luck in choosing is averaged over splits like any other. All rows have the same number of trials, more
than it takes until no change of one parameter helps; one that is made from another, such as a model with ProRec, begins
with what was chosen for that one.

With few validation items for each user, the best of many trials is often the luckiest. So the best three are tried
again on three more divisions of the training and validation parts, and the best on average is taken.
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
from prorec.models import Model
from reproduction.run_cache import Store

METRICS = ("ndcg@5", "map@5", "recall@5")
_CHOSEN_BY = "ndcg@5"
_N_FINALISTS = 3
_N_AGAIN = 3


@dataclass(frozen=True)
class Row:
    """A line of a table: a model, what is tuned of it, and what it is held against."""

    name: str
    model: Model
    grid: Grid
    base: Row | None = None


class Parts(NamedTuple):
    """What one split has to offer."""

    train: Interactions
    valid: Interactions
    known: Interactions
    """What the final model learns from: both of them."""
    test: Interactions


def five_two_three(clicks: Interactions, seed: int) -> Parts:
    """Half of each user's interactions train, two tenths validate, three tenths test."""
    split = prorec.split_by_user(clicks, (0.5, 0.2, 0.3), seed=seed)
    return Parts(split.train, split.valid, split.train_and_valid, split.test)


@dataclass(frozen=True)
class Result:
    """What a row scored."""

    parameters: tuple[Mapping[str, Any], ...]
    """What was chosen on each split."""
    per_user: Mapping[str, NDArray[np.float64]]
    """For each metric, splits × users."""
    seconds: float
    """To fit, on average."""

    @classmethod
    def of(cls, parameters: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> Result:
        """From what was kept of each split."""
        per_user = {metric: np.array([run[metric] for run in runs]) for metric in METRICS}
        return cls(tuple(parameters), per_user, float(np.mean([run["seconds"] for run in runs])))

    def mean(self, metric: str) -> float:
        """Over users and splits."""
        return float(self.per_user[metric].mean())

    def half_interval(self, metric: str) -> float:
        """Half the width of the 95% interval of the mean over splits; NaN of a single one."""
        return half_interval(self.per_user[metric].mean(axis=1))

    def gain(self, base: Result, metric: str) -> float:
        """By what share of the base's mean this one is higher; NaN where that is 0."""
        before = base.mean(metric)
        return self.mean(metric) / before - 1 if before else float("nan")

    def p_against(self, other: Result, metric: str) -> float:
        """Of a paired t-test over users, each with the mean over splits: the same user's splits are not independent."""
        return paired_t((self.per_user[metric] - other.per_user[metric]).mean(axis=0))


def half_interval(values: NDArray[np.float64]) -> float:
    """Half the width of the 95% interval of a mean by Student's t; NaN of a single value.

    >>> round(half_interval(np.array([1.0, 2.0, 3.0])), 3)
    2.484
    """
    if len(values) < 2:
        return float("nan")
    return float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def _content(parts: Parts) -> str:
    """What tells these parts from any others."""
    matrices = (parts.known.matrix, parts.valid.matrix, parts.test.matrix)
    return digest(*(array for each in matrices for array in (each.indptr, each.indices, each.data)))


class Steps:
    """How much of an experiment is done.

    Parameters
    ----------
    progress : called with what is being done, how much of it is done, and how much there is
    what : the experiment
    total : how many steps it has
    """

    def __init__(self, progress: Progress | None, what: str, total: int) -> None:
        self._progress, self._what, self._total, self._done = progress or (lambda *_: None), what, total, 0
        self._progress(what, 0, total)

    def step(self) -> None:
        """One more is done."""
        self._done += 1
        self._progress(self._what, self._done, self._total)


class Protocol:
    """Tuning and judging on the splits of one data set; nothing is done twice.

    Parameters
    ----------
    clicks : the data set
    dataset : what it is called, for the results that are kept
    store : where results are kept
    trials : how many choices of parameters may be tried for a row, on each split
    n_seeds : how many splits
    parts_of : how it is split, by seed
    """

    def __init__(
        self,
        clicks: Interactions,
        dataset: str,
        store: Store,
        *,
        trials: int,
        n_seeds: int,
        parts_of: Callable[[Interactions, int], Parts] = five_two_three,
    ) -> None:
        self.dataset, self.trials, self.n_seeds = dataset, trials, n_seeds
        self.store = store
        self.parts = lru_cache(maxsize=2)(lambda seed: parts_of(clicks, seed))
        self.content = lru_cache(maxsize=2)(lambda seed: _content(self.parts(seed)))

    def tuned(self, row: Row, seed: int) -> tuple[Any, Mapping[str, Any]]:
        """The row's model with the parameters that were best on a split's validation part, and these parameters."""
        parts = self.parts(seed)
        model: Any = row.model
        if row.base is not None:
            base, _ = self.tuned(row.base, seed)
            begun = {name: getattr(base, name) for name in row.base.grid}
            model = replace(model, **({"model": base} if isinstance(model, ProRec) else begun))
        tuned = tune(
            model,
            parts.train,
            parts.valid,
            row.grid,
            search="coordinate",
            trials=self.trials,
            metric=_CHOSEN_BY,
            metrics="paper",
            folder=self.store.trials,
        )
        fitted = [(trial["value"], trial) for trial in tuned.trials if trial["value"] is not None]
        finalists = [trial for _, trial in sorted(fitted, key=lambda each: -each[0])[:_N_FINALISTS]]
        if len(finalists) == 1:
            return with_parameters(model, finalists[0]["parameters"]), finalists[0]["parameters"]
        means = [self._tried_again(model, each, seed) for each in finalists]
        best = finalists[int(np.argmax(means))]["parameters"]
        return with_parameters(model, best), best

    def _tried_again(self, model: Any, trial: Mapping[str, Any], seed: int) -> float:
        """What a trial scores on average, with more divisions of the same interactions."""
        candidate, parts = with_parameters(model, trial["parameters"]), self.parts(seed)
        share = len(parts.valid) / len(parts.known)
        values = [trial["value"]]
        for again in range(_N_AGAIN):
            of = {"dataset": self.dataset, "split": self.content(seed), "model": repr(candidate), "again": again}

            def work(again: int = again) -> Mapping[str, Any]:
                inner = prorec.split_by_user(parts.known, (1 - share, share), seed=_N_AGAIN * seed + again)
                scored = prorec.evaluate(candidate.fit(inner.train), inner.test, k=5, metrics="paper")
                return {"value": scored.mean[_CHOSEN_BY]}

            values.append(self.store.tried_again.get(of, work)["value"])
        return float(np.mean(values))

    def judged(
        self,
        what: str,
        seed: int,
        model: Any,
        fit: Callable[[Interactions], Any],
        also: Callable[[Any], Mapping[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Each user's scores on a split's test part, the seconds it took to fit, and what else is asked of the model.

        Parameters
        ----------
        what : what tells this from other things that are done to the same model
        seed : of the split
        model : what is fitted, with all its parameters
        fit : how
        also : more to be kept of the fitted model
        """
        of = {"what": what, "dataset": self.dataset, "split": self.content(seed), "model": repr(model)}

        def work() -> Mapping[str, Any]:
            parts = self.parts(seed)
            begin = time.perf_counter()
            fitted = fit(parts.known)
            seconds = time.perf_counter() - begin
            scored = prorec.evaluate(fitted, parts.test, k=5, metrics="paper")
            kept = {metric: scored.per_user[metric].tolist() for metric in METRICS}
            return {"seconds": seconds, **kept, **(also(fitted) if also else {})}

        return self.store.runs.get(of, work)
