"""Evaluation of a recommender on test interactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec._core.checks import check_int, safe_repr
from prorec._core.errors import InputError
from prorec.evaluation.metrics import Family, Values, coverage
from prorec.evaluation.ranking import check_list_lengths, ranking_metrics
from prorec.evaluation.significance import bootstrap_interval
from prorec.interactions import Interactions
from prorec.interactions.interactions import check_interactions
from prorec.interactions.tables import FrameType, to_frame
from prorec.models.recommendations import Recommender


@dataclass(frozen=True)
class Stratum:
    """Users of similar activity, and the metrics of a recommender on them."""

    min_activity: int
    """Smallest number of training interactions of these users."""
    max_activity: int
    """Largest number of training interactions of these users."""
    n_users: int
    """Number of users."""
    mean: Mapping[str, float]
    """Mean of each metric over these users."""


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Metrics of a recommender, for each user and on average."""

    users: NDArray[Any]
    """Ids of the users with test interactions."""
    per_user: Mapping[str, Values]
    """Values by metric, such as `ndcg@5`: one for each of `users`."""
    mean: Mapping[str, float]
    """Mean of each metric over users; also `coverage@k`, which belongs to all lists together."""
    family: Family
    """Family of metric definitions, `standard` or `paper`."""
    frame_type: FrameType = "pyarrow"
    """Library of the table that `to_table` returns by default."""

    def interval(self, metric: str, *, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
        """Return a bootstrap interval of a metric's mean over users.

        Parameters
        ----------
        metric : str
            Name of the metric, such as `ndcg@5`.
        level : float, default 0.95
            Confidence level.
        seed : int, default 0
            Seed of the bootstrap.

        Returns
        -------
        tuple of float
            Lower and upper end.
        """
        return bootstrap_interval(self.values(metric), level=level, seed=seed)

    def by_activity(self, train: Interactions, n_strata: int = 4) -> list[Stratum]:
        """Return means over users of similar activity.

        Parameters
        ----------
        train : Interactions
            Training interactions, which define the activity of each user.
        n_strata : int, default 4
            Number of strata, of about equal size. Ties in activity may leave fewer.

        Returns
        -------
        list of Stratum
            Least active users first.

        Raises
        ------
        InputError
            If a user is not in the training data.
        """
        n_strata = min(check_int("n_strata", n_strata, 1), len(self.users))
        rows = train.user_positions(self.users)
        if (rows < 0).any():
            raise InputError(
                f"train must have all users of the evaluation; {self.users[int(np.argmax(rows < 0))]!r} is missing"
            )
        activity = train.activity[rows]
        edges = np.unique(np.quantile(activity, np.linspace(0, 1, n_strata + 1)[1:-1], method="higher"))
        stratum = np.searchsorted(edges, activity, side="right")
        strata = []
        for number in np.unique(stratum):
            is_inside = stratum == number
            means = {name: float(values[is_inside].mean()) for name, values in self.per_user.items()}
            inside = activity[is_inside]
            strata.append(Stratum(int(inside.min()), int(inside.max()), len(inside), means))
        return strata

    def to_table(self, frame: FrameType | None = None) -> Any:
        """Return a table with one row per metric.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Library of the table; by default that of the test part, or else pyarrow.

        Returns
        -------
        table
            Columns `metric`, `mean`, and the ends `low` and `high` of the 95% interval, empty for coverage.
        """
        intervals = {name: self.interval(name) for name in self.per_user}
        columns = {
            "metric": list(self.mean),
            "mean": list(self.mean.values()),
            "low": [intervals.get(name, (None, None))[0] for name in self.mean],
            "high": [intervals.get(name, (None, None))[1] for name in self.mean],
        }
        return to_frame(pa.table(columns), frame, self.frame_type)

    def values(self, metric: str) -> Values:
        """Return the values of a metric, one for each of `users`.

        Parameters
        ----------
        metric : str
            Name of the metric, such as `ndcg@5`.

        Returns
        -------
        array of float

        Raises
        ------
        InputError
            If the metric has no values per user.
        """
        if metric not in self.per_user:
            raise InputError(f"metric must be one of {', '.join(self.per_user)}; got {safe_repr(metric)}")
        return self.per_user[metric]

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {value:.4f}" for name, value in self.mean.items())
        return f"Evaluation({len(self.users):,} users, {self.family}: {means})"


def evaluate(
    model: Recommender, test: Interactions, *, k: int | Iterable[int] = (5, 10), metrics: Family = "standard"
) -> Evaluation:
    """Recommend items to every user with test interactions, and compute metrics.

    Users without test interactions are left out. Items that a user interacted with in training are not recommended.

    Parameters
    ----------
    model : Recommender
        A model that was fitted on a part with the same users and items as `test`.
    test : Interactions
        The test part.
    k : int or iterable of int, default (5, 10)
        List lengths.
    metrics : {"standard", "paper"}, default "standard"
        Family of metric definitions: they differ in NDCG and MAP, see `prorec.evaluation.metrics`.

    Returns
    -------
    Evaluation

    Raises
    ------
    InputError
        If there are no test interactions, or if the model has other items than `test`.

    Examples
    --------
    >>> import prorec
    >>> parts = prorec.split_by_user(prorec.load_dataset("cinema"), (0.7, 0.3))
    >>> result = prorec.evaluate(prorec.models.Popularity().fit(parts.train), parts.test, k=10)
    >>> f"{len(result.users)} users, recall@10 {result.mean['recall@10']:.3f}"
    '1000 users, recall@10 0.134'
    """
    check_interactions("test", test)
    if not callable(getattr(model, "recommend", None)) or isinstance(model, type):
        raise InputError(f"model must be a fitted recommender; got {safe_repr(model)}")
    lengths = check_list_lengths(k, test.n_items)
    rows = np.flatnonzero(test.activity)
    if not len(rows):
        raise InputError("test must have interactions to evaluate on; it has none")
    users = test.users[rows]
    recommended = model.recommend(users, k=lengths[-1])
    if recommended.items is not test.items and not np.array_equal(recommended.items, test.items):
        raise InputError(
            "test must have the items that the model was fitted on, in the same order; it has others. "
            "Call test.align(train) first"
        )
    per_user = ranking_metrics(recommended.item_positions, test.matrix[rows], lengths, metrics)
    mean = {name: float(values.mean()) for name, values in per_user.items()}
    for length in lengths:
        mean[f"coverage@{length}"] = coverage(recommended.item_positions[:, :length], test.n_items)
    return Evaluation(users, per_user, mean, metrics, test.frame_type)
