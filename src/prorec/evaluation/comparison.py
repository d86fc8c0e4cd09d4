"""Several recommenders on several splits of one log: what each scores, and what is luck."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_int
from prorec._core.errors import InputError
from prorec._core.progress import Progress, check_progress
from prorec.data.splits import split_by_user
from prorec.evaluation import Evaluation, evaluate
from prorec.evaluation.metrics import Family
from prorec.evaluation.significance import Comparison, compare, holm
from prorec.interactions import Interactions
from prorec.models.model import Model, as_interactions
from prorec.models.wrap import wrap

JUDGED_BY = ("ndcg", "recall", "map")
"""The metrics that are tested: the paper's."""


@dataclass(frozen=True, eq=False, repr=False)
class SplitComparison:
    """What each recommender scored, averaged over splits for each user."""

    results: Mapping[str, Evaluation]
    comparisons: tuple[Comparison, ...]
    """Of each recommender with the one it is held against, for each metric."""
    n_seeds: int

    @property
    def n_users(self) -> int:
        """How many users had anything to be judged by."""
        return len(next(iter(self.results.values())).users)

    def __repr__(self) -> str:
        return f"OnSplits({', '.join(self.results)}: {self.n_users:,} users, {self.n_seeds} splits)"

    def to_rows(self) -> list[dict[str, Any]]:
        """One entry for each recommender: means, and differences from its baseline with interval and p (Holm)."""
        rows = []
        for name, result in self.results.items():
            own = [each for each in self.comparisons if each.model == name]
            differences = {
                each.metric: {
                    "absolute": each.difference,
                    "relative": each.difference / each.baseline_mean if each.baseline_mean else None,
                    "low": each.low,
                    "high": each.high,
                    "p": each.p_t_holm,
                }
                for each in own
            }
            rows.append({"model": name, "mean": dict(result.mean), "difference": differences})
        return rows


def compare_on_splits(
    models: Mapping[str, Model],
    interactions: Interactions,
    *,
    n_seeds: int = 5,
    k: int = 5,
    metrics: Family = "standard",
    against: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> SplitComparison:
    """Fit each model on 70% of every user's interactions and judge it by the other 30%, for seeds 0, 1, ….

    Every model sees the same splits. A user's values are averaged over splits before anything is tested, so the tests
    are over users.

    Parameters
    ----------
    models : by name
    interactions : the whole log
    n_seeds : how many random splits
    k : length of the lists
    metrics : which definitions
    against : for some models, the name of another that they are compared with; all others are, with the first
    progress : called with what is being done, how much of it is done, and how much there is
    """
    check_int("n_seeds", n_seeds, 1)
    if not isinstance(models, Mapping) or not models or not all(isinstance(name, str) for name in models):
        raise InputError("models must be a mapping from names to at least one model")
    models = {name: wrap(model) for name, model in models.items()}
    interactions = as_interactions(interactions)
    check_progress(progress)
    report = progress or (lambda *_: None)
    check_int("k", k, 1, interactions.n_items, "the number of items")
    for model in models.values():
        model.check_parameters(interactions.matrix.shape)
    found: dict[str, list[Evaluation]] = {name: [] for name in models}
    for seed in range(n_seeds):
        parts = split_by_user(interactions, (0.7, 0.3), seed=seed)
        for name, model in models.items():
            report(f"{name}, split {seed + 1} of {n_seeds}", 0, 1)
            found[name].append(evaluate(model.fit(parts.train), parts.test, k=k, metrics=metrics))
            report(f"{name}, split {seed + 1} of {n_seeds}", 1, 1)
    results = {name: _averaged(each) for name, each in found.items()}
    return SplitComparison(results, _compared(results, against or {}, [f"{name}@{k}" for name in JUDGED_BY]), n_seeds)


def _compared(
    results: Mapping[str, Evaluation], against: Mapping[str, str], metrics: list[str]
) -> tuple[Comparison, ...]:
    """Each with its baseline, and Holm's correction over all of them."""
    first = next(iter(results))
    rows: list[Comparison] = []
    for name, result in results.items():
        base = against.get(name, first)
        base = base if base in results and base != name else first
        if base != name:
            rows += compare({base: results[base], name: result}, baseline=base, metrics=metrics)
    corrected = zip(holm([row.p_t for row in rows]), holm([row.p_wilcoxon for row in rows]), strict=True)
    return tuple(
        replace(row, p_t_holm=p_t, p_wilcoxon_holm=p_w) for row, (p_t, p_w) in zip(rows, corrected, strict=True)
    )


def _averaged(each: list[Evaluation]) -> Evaluation:
    """One evaluation with the means over several; how many of a user's interactions are tested on is not random."""
    first = each[0]
    per_user: dict[str, NDArray[np.float64]] = {
        name: np.mean([one.per_user[name] for one in each], axis=0) for name in first.per_user
    }
    mean = {name: float(np.mean([one.mean[name] for one in each])) for name in first.mean}
    return Evaluation(first.users, per_user, mean, first.family)
