"""Judging a recommender by what its users did later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec._core.checks import check_int
from prorec._core.errors import InputError
from prorec.evaluation.metrics import Family, Values, coverage
from prorec.evaluation.ranking import checked_lengths, ranking_metrics
from prorec.evaluation.significance import bootstrap_interval
from prorec.interactions import Interactions
from prorec.interactions.tables import FrameType, to_frame
from prorec.models.recommendations import Recommender


@dataclass(frozen=True)
class Stratum:
    """Users of like activity, and what a recommender scored on them."""

    least: int
    """The fewest interactions one of them has in the training data."""
    most: int
    """The most one of them has."""
    n_users: int
    mean: Mapping[str, float]
    """For each metric its mean over these users."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """What a recommender scored, for each user and on average."""

    users: NDArray[Any]
    """Ids of the users who had anything to be judged by."""
    per_user: Mapping[str, Values]
    """For each metric, such as `ndcg@5`, a value for each of `users`."""
    mean: Mapping[str, float]
    """For each metric its mean over users; also `coverage@k`, which is of all lists together."""
    family: Family
    """Which definitions were used: `standard` or `paper`."""

    def interval(self, metric: str, *, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
        """Bootstrap interval of a metric's mean over users."""
        return bootstrap_interval(self.values(metric), level=level, seed=seed)

    def by_activity(self, train: Interactions, n_strata: int = 4) -> list[Stratum]:
        """Means over users of like activity in `train`, least active first, in strata of about equal size."""
        n_strata = min(check_int("n_strata", n_strata, 1), len(self.users))
        rows = train.user_positions(self.users)
        if (rows < 0).any():
            raise InputError(f"user {self.users[int(np.argmax(rows < 0))]!r} is not in the training data")
        activity = train.activity[rows]
        edges = np.unique(np.quantile(activity, np.linspace(0, 1, n_strata + 1)[1:-1], method="higher"))
        stratum = np.searchsorted(edges, activity, side="right")
        strata = []
        for number in np.unique(stratum):
            inside = stratum == number
            means = {name: float(values[inside].mean()) for name, values in self.per_user.items()}
            least, most = int(activity[inside].min()), int(activity[inside].max())
            strata.append(Stratum(least, most, int(inside.sum()), means))
        return strata

    def to_table(self, kind: FrameType = "pyarrow") -> Any:
        """One row per metric: its name, its mean, and the ends of its 95% interval (empty for coverage)."""
        intervals = {name: self.interval(name) for name in self.per_user}
        table = pa.table(
            {
                "metric": list(self.mean),
                "mean": list(self.mean.values()),
                "low": [intervals.get(name, (None, None))[0] for name in self.mean],
                "high": [intervals.get(name, (None, None))[1] for name in self.mean],
            }
        )
        return to_frame(table, kind)

    def values(self, metric: str) -> Values:
        """A metric's value for each of `users`."""
        if metric not in self.per_user:
            raise InputError(f"there is no value for each user of {metric!r}; there are {', '.join(self.per_user)}")
        return self.per_user[metric]

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {value:.4f}" for name, value in self.mean.items())
        return f"Evaluation({len(self.users):,} users, {self.family}: {means})"


def evaluate(
    model: Recommender, test: Interactions, *, k: int | Iterable[int] = (5, 10), metrics: Family = "standard"
) -> Evaluation:
    """Recommend to every user who has test interactions, and compare.

    Users without test interactions are left out. What a user has seen in training is not recommended.

    Parameters
    ----------
    model : fitted on a part with the same users and items as `test`
    test : what the users did later
    k : the list lengths to judge at
    metrics : {"standard", "paper"}
        Which definitions of NDCG and MAP: see `prorec.evaluation.metrics`.
    """
    lengths = checked_lengths(k, test.n_items)
    rows = np.flatnonzero(test.activity)
    if not len(rows):
        raise InputError("there are no test interactions to judge by")
    users = test.users[rows]
    recommended = model.recommend(users, k=lengths[-1])
    if recommended.items is not test.items and not np.array_equal(recommended.items, test.items):
        raise InputError(
            "the model and the test data do not have the same items in the same order: bring the test data into "
            "line first, with test.align(train)"
        )
    per_user = ranking_metrics(recommended.item_positions, test.matrix[rows], lengths, metrics)
    mean = {name: float(values.mean()) for name, values in per_user.items()}
    for length in lengths:
        mean[f"coverage@{length}"] = coverage(recommended.item_positions[:, :length], test.n_items)
    return Evaluation(users, per_user, mean, metrics)
