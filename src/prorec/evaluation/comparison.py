"""Comparison of several recommenders on several random splits of one log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prorec._core.checks import check_int
from prorec._core.errors import InputError
from prorec._core.estimator import Estimator
from prorec._core.progress import Progress, check_progress
from prorec._core.sharing import share_results
from prorec.data.splits import split_by_user
from prorec.evaluation import Evaluation, evaluate
from prorec.evaluation.comparison_table import Comparison, Comparisons
from prorec.evaluation.metrics import Family
from prorec.evaluation.significance import compare, holm
from prorec.interactions import Interactions
from prorec.models.model import as_interactions
from prorec.models.wrap import wrap

TESTED_METRICS = ("ndcg", "recall", "map")
"""The metrics that are tested for significance, as in the paper."""


@dataclass(frozen=True, eq=False, repr=False)
class SplitComparison:
    """Metrics of each recommender, averaged over splits, and their differences from the baselines."""

    results: Mapping[str, Evaluation]
    """Evaluation of each recommender; a user's values are means over the splits."""
    comparisons: Comparisons
    """Comparison of each recommender with its baseline, for each tested metric."""
    n_seeds: int
    """Number of splits."""

    @property
    def n_users(self) -> int:
        """Number of users with test interactions."""
        return len(next(iter(self.results.values())).users)

    def __repr__(self) -> str:
        return f"SplitComparison({', '.join(self.results)}: {self.n_users:,} users, {self.n_seeds} splits)"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one entry per recommender, ready for JSON.

        Returns
        -------
        list of dict
            `model` is the name and `mean` has the mean of each metric. `difference` has, for each tested metric, the
            `absolute` and `relative` difference from the baseline, the ends `low` and `high` of its interval, and `p`
            of the t-test after Holm's correction.
        """
        differences: dict[str, dict[str, Any]] = {name: {} for name in self.results}
        for each in self.comparisons:
            differences[each.model][each.metric] = {
                "absolute": each.difference,
                "relative": each.difference / each.baseline_mean if each.baseline_mean else None,
                "low": each.low,
                "high": each.high,
                "p": each.p_t_holm,
            }
        return [
            {"model": name, "mean": dict(result.mean), "difference": differences[name]}
            for name, result in self.results.items()
        ]


def compare_on_splits(
    models: Mapping[str, Any],
    interactions: Interactions,
    *,
    n_seeds: int = 5,
    k: int = 5,
    metrics: Family = "standard",
    baselines: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> SplitComparison:
    """Fit each model on 70% of every user's interactions and evaluate it on the other 30%, on several splits.

    All models use the same splits, with seeds 0, 1, …. A user's values are averaged over splits before the tests, so
    the tests are over users.

    Parameters
    ----------
    models : mapping
        Models by name.
    interactions : Interactions
        The whole log.
    n_seeds : int, default 5
        Number of random splits.
    k : int, default 5
        Length of the recommended lists.
    metrics : {"standard", "paper"}, default "standard"
        Family of metric definitions.
    baselines : mapping, optional
        Name of the baseline of a model, by the model's name. The default baseline is the first model.
    progress : callable, optional
        Called before and after each fit with the task, 0 or 1, and 1.

    Returns
    -------
    SplitComparison

    Raises
    ------
    InputError
        If an argument is invalid.
    """
    check_int("n_seeds", n_seeds, 1)
    if not isinstance(models, Mapping) or not models or not all(isinstance(name, str) for name in models):
        raise InputError("models must be a mapping from names to at least one model")
    models = {name: model if isinstance(model, Estimator) else wrap(model) for name, model in models.items()}
    interactions = as_interactions(interactions)
    check_progress(progress)
    report = progress or (lambda *_: None)
    check_int("k", k, 1, interactions.n_items, "the number of items")
    for model in models.values():
        model.check_parameters(interactions.matrix.shape)
    evaluations: dict[str, list[Evaluation]] = {name: [] for name in models}
    for seed in range(n_seeds):
        parts = split_by_user(interactions, (0.7, 0.3), seed=seed)
        train, test = parts.train, parts.test
        with share_results():  # a denoiser and its controls find noise once
            for name, model in models.items():
                task = f"{name}, split {seed + 1} of {n_seeds}"
                report(task, 0, 1)
                evaluations[name].append(evaluate(model.fit(train), test, k=k, metrics=metrics))
                report(task, 1, 1)
    results = {name: _average(each) for name, each in evaluations.items()}
    tested = [f"{name}@{k}" for name in TESTED_METRICS]
    return SplitComparison(results, _compare_with_baselines(results, baselines or {}, tested), n_seeds)


def _compare_with_baselines(
    results: Mapping[str, Evaluation], baselines: Mapping[str, str], metrics: list[str]
) -> Comparisons:
    """Compare each model with its baseline, with Holm's correction over all comparisons."""
    first = next(iter(results))
    rows: list[Comparison] = []
    for name, result in results.items():
        base = baselines.get(name, first)
        base = base if base in results and base != name else first
        if base != name:
            rows += compare({base: results[base], name: result}, baseline=base, metrics=metrics)
    p_t, p_wilcoxon = holm([row.p_t for row in rows]), holm([row.p_wilcoxon for row in rows])
    return Comparisons(
        replace(row, p_t_holm=p, p_wilcoxon_holm=p_w) for row, p, p_w in zip(rows, p_t, p_wilcoxon, strict=True)
    )


def _average(evaluations: list[Evaluation]) -> Evaluation:
    """Average evaluations over splits, which all test the same users."""
    first = evaluations[0]
    per_user = {name: np.mean([each.per_user[name] for each in evaluations], axis=0) for name in first.per_user}
    mean = {name: float(np.mean([each.mean[name] for each in evaluations])) for name in first.mean}
    return replace(first, per_user=per_user, mean=mean)
