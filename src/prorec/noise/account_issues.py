"""Issues of accounts and items: bots, test accounts, cloned histories and pushed items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec._core.errors import InputError
from prorec._core.random import make_generator
from prorec.interactions import Interactions
from prorec.interactions.ids import take_ids
from prorec.interactions.tables import FrameType, to_frame
from prorec.noise.history_features import describe_histories

Scores = NDArray[np.float64]

_FLAGGED = 0.9  # scores above are counted
_MAX_SYNTHETIC = 2_000
_MIN_SYNTHETIC = 600
_MIN_AUC = 0.75  # of users against synthetic accounts, below which histories say nothing
_MIN_LOG_LIFT = 0.1  # of users above synthetic accounts, in the median
_MIN_GAPS = 5
_MIN_PUSHERS = 4


@dataclass(frozen=True, eq=False)
class Issues:
    """Issues of the users and items of a log, each with a score from 0 to 1."""

    interactions: Interactions
    """The log."""
    user_scores: dict[str, Scores]
    """Score of each user by issue: `account` (all issues together), `random_history`, `regular_times`,
    `cloned_history`."""
    item_scores: dict[str, Scores]
    """Score of each item by issue: `pushed`."""
    can_tell: bool
    """Whether the users' histories differ from random ones, without which `random_history` and `pushed` are 0."""

    def users(self, frame: FrameType = "pyarrow") -> Any:
        """Return a table of all users, the most suspicious account first.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, default "pyarrow"
            Type of the table.

        Returns
        -------
        table
            With the columns user, activity and one score for each issue.
        """
        order = np.argsort(-self.user_scores["account"], kind="stable")
        columns = {"activity": self.interactions.activity, **self.user_scores}
        return _make_table("user", self.interactions.users, columns, order, frame)

    def items(self, frame: FrameType = "pyarrow") -> Any:
        """Return a table of all items, the most suspicious first.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, default "pyarrow"
            Type of the table.

        Returns
        -------
        table
            With the columns item, popularity and one score for each issue.
        """
        order = np.argsort(-self.item_scores["pushed"], kind="stable")
        columns = {"popularity": self.interactions.popularity, **self.item_scores}
        return _make_table("item", self.interactions.items, columns, order, frame)

    def summary(self, frame: FrameType = "pyarrow") -> Any:
        """Return a table of the issues.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, default "pyarrow"
            Type of the table.

        Returns
        -------
        table
            With the columns issue, count (users or items with a score above 0.9) and sentence.
        """
        scores = {**self.user_scores, **self.item_scores}
        counts = [int(np.count_nonzero(each > _FLAGGED)) for each in scores.values()]
        sentences = [_SENTENCES[name].format(count) for name, count in zip(scores, counts, strict=True)]
        if not self.can_tell:
            unknown = "Users' histories cannot be told from random ones on this log, so this is not known."
            names = ("random_history", "pushed")
            sentences = [unknown if name in names else text for name, text in zip(scores, sentences, strict=True)]
        return to_frame(pa.table({"issue": list(scores), "count": counts, "sentence": sentences}), frame)


_SENTENCES = {
    "account": "{:,} accounts have at least one of these issues.",
    "random_history": "{:,} accounts clicked items that go together no more than random items do.",
    "regular_times": "{:,} accounts clicked at regular times.",
    "cloned_history": "{:,} accounts share nearly all of their items with another account.",
    "pushed": "{:,} items have their clicks mostly from suspicious accounts.",
}


def find_issues(interactions: Interactions, *, seed: int = 0) -> Issues:
    """Score accounts that behave like bots or tests, cloned histories, and items pushed by few accounts.

    Synthetic accounts with items drawn at random (with equal probability, by popularity, or the most popular items and
    random ones) are made, and a logistic regression separates them from the log's users by features of whole
    histories. Regular times and cloned histories have scores of their own.

    Parameters
    ----------
    interactions : Interactions
        The log; with a column `timestamp`, times are scored too.
    seed : int, default 0
        Seed of the synthetic accounts.

    Returns
    -------
    Issues

    Raises
    ------
    InputError
        If there is no interaction.

    Examples
    --------
    >>> import prorec
    >>> noisy = prorec.inject_noise(prorec.load_dataset("cinema"), 0.01, "bots")
    >>> find_issues(noisy.interactions).users().column_names
    ['user', 'activity', 'account', 'random_history', 'regular_times', 'cloned_history']
    """
    if not len(interactions):
        raise InputError("there is no interaction; finding issues needs at least one")
    rng = make_generator(seed)
    logit, clones, can_tell = _score_histories(interactions, rng)
    pushed, boost = _score_pushed(interactions, logit)
    # The odds of 1 to 19 say that few accounts of a log are no people.
    random_history = _sigmoid(logit + boost - np.log(19.0)) * (1.0 if can_tell else 0.0)
    pushed = pushed if can_tell else np.zeros_like(pushed)
    regular = _score_regular_times(interactions)
    account = 1 - (1 - random_history) * (1 - regular) * (1 - clones)
    users = {
        "account": account,
        "random_history": random_history,
        "regular_times": regular,
        "cloned_history": clones,
    }
    return Issues(interactions, users, {"pushed": pushed}, can_tell)


def extreme_accounts(interactions: Interactions, *, seed: int = 0, issues: Issues | None = None) -> NDArray[np.bool_]:
    """Return accounts that must be kept out of a fit: very active, and with a random history or regular times.

    Parameters
    ----------
    interactions : Interactions
        The log.
    seed : int, default 0
        Seed of `find_issues`.
    issues : Issues, optional
        Issues of the log, if they are known already.

    Returns
    -------
    ndarray of bool
        One for each user. An extreme account has more than three times the activity of three quarters of the users,
        and at least 20 interactions.

    Examples
    --------
    >>> import prorec
    >>> int(extreme_accounts(prorec.load_dataset("cinema")).sum())
    0
    """
    issues = issues or find_issues(interactions, seed=seed)
    activity = interactions.activity
    is_heavy = activity >= max(20.0, 3 * np.quantile(activity[activity > 0], 0.75))
    scores = issues.user_scores
    return np.asarray(is_heavy & (np.maximum(scores["random_history"], scores["regular_times"]) > _FLAGGED))


def _score_histories(interactions: Interactions, rng: np.random.Generator) -> tuple[Scores, Scores, bool]:
    """Return the log-odds of synthetic against real for each user, the score of clones, and whether both differ."""
    matrix, n_users = interactions.matrix, interactions.n_users
    own = [interactions.item_codes[matrix.indptr[u] : matrix.indptr[u + 1]].astype(np.int64) for u in range(n_users)]
    features, nearest = describe_histories(matrix, own, np.arange(n_users), rng)
    synthetic = _make_histories(interactions, rng)
    false_features, _ = describe_histories(matrix, synthetic, np.full(len(synthetic), -1), rng)
    is_active = interactions.activity > 0
    logit = np.zeros(n_users)
    both = np.concatenate([features[is_active], false_features])
    is_synthetic = np.repeat([False, True], [int(is_active.sum()), len(synthetic)])
    fitted = _fit_log_odds(both, is_synthetic)
    logit[is_active] = fitted[~is_synthetic]
    ranks = np.argsort(np.argsort(fitted))[is_synthetic]
    n_true, n_false = int(is_active.sum()), len(synthetic)
    auc = (ranks.sum() - n_false * (n_false - 1) / 2) / (n_true * n_false)
    clones = np.clip((nearest - 0.5) / 0.4, 0.0, 1.0)
    lift = np.median(features[is_active, 0]) - np.median(false_features[:, 0])
    return logit, clones, bool(n_true >= 20 and auc >= _MIN_AUC and lift >= _MIN_LOG_LIFT)


def _make_histories(interactions: Interactions, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Make synthetic accounts: as active as the users, and a tenth of them up to the whole catalogue."""
    n_items, popularity = interactions.n_items, interactions.popularity
    activity = interactions.activity[interactions.activity > 0]
    count = int(np.clip(len(activity), _MIN_SYNTHETIC, _MAX_SYNTHETIC))
    sizes = rng.choice(activity, size=count)
    sizes[: count // 10] = np.exp(rng.uniform(np.log(np.median(activity)), np.log(n_items), size=count // 10))
    by_popularity = np.argsort(-popularity, kind="stable")
    histories = []
    for index, size in enumerate(np.clip(sizes, 1, n_items)):
        draws = rng.integers(n_items, size=size)
        if index % 3 == 1:
            draws = interactions.item_codes[rng.integers(len(interactions), size=size)].astype(np.int64)
        elif index % 3 == 2:
            n_popular = int(size * rng.uniform(0.05, 0.6))
            draws = np.concatenate([by_popularity[:n_popular], draws[: size - n_popular]])
        histories.append(np.unique(draws))
    return histories


def _fit_log_odds(features: Scores, is_synthetic: NDArray[np.bool_]) -> Scores:
    """Return the log-odds of a logistic regression on features, squares and products, as if both were as many."""
    unit = np.clip((features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-9), -4, 4)
    left, right = np.triu_indices(unit.shape[1])
    design = np.column_stack([np.ones(len(unit)), unit, unit[:, left] * unit[:, right]])
    weight = np.where(is_synthetic, 0.5 / is_synthetic.mean(), 0.5 / (1 - is_synthetic.mean()))
    penalty = np.full(design.shape[1], 1.0)
    penalty[0] = 1e-6
    coefficients = np.zeros(design.shape[1])
    for _ in range(30):
        probability = _sigmoid(design @ coefficients)
        gradient = design.T @ (weight * (is_synthetic - probability)) - penalty * coefficients
        curvature = (design.T * (weight * np.maximum(probability * (1 - probability), 1e-6))) @ design
        coefficients += np.linalg.solve(curvature + np.diag(penalty), gradient)
    return np.asarray(design @ coefficients)


def _score_pushed(interactions: Interactions, logit: Scores) -> tuple[Scores, Scores]:
    """Score items by the excess of suspicious accounts among their users; return what that adds to users' log-odds."""
    suspicion = _sigmoid(logit)
    users, items = interactions.user_codes, interactions.item_codes
    base, deviation = suspicion[users].mean(), max(float(suspicion[users].std()), 0.05)
    popularity = interactions.popularity
    total = np.bincount(items, suspicion[users] - base, interactions.n_items)
    z = total / (deviation * np.sqrt(np.maximum(popularity, 1)))
    pushed = np.where(popularity >= _MIN_PUSHERS, 1 - np.exp(-np.maximum(z - 3, 0) / 2), 0.0)
    others = np.maximum(popularity[items] - 1, 1)
    z_others = (total[items] - (suspicion[users] - base)) / (deviation * np.sqrt(others))
    largest = np.zeros(interactions.n_users)
    np.maximum.at(largest, users, np.where(others >= _MIN_PUSHERS - 1, z_others - 3, 0.0))
    return pushed, np.minimum(largest, 4.0) * suspicion


def _score_regular_times(interactions: Interactions) -> Scores:
    """Score users by how equal the gaps between their times are."""
    scores = np.zeros(interactions.n_users)
    if "timestamp" not in interactions.columns:
        return scores
    times = interactions.columns["timestamp"]
    numbers = np.asarray(times.astype(np.int64) if times.dtype.kind == "M" else times, dtype=np.float64)
    users = interactions.user_codes
    order = np.lexsort((numbers, users))
    gaps, is_same = np.diff(numbers[order]), np.diff(users[order]) == 0
    owner, gaps = users[order][1:][is_same], gaps[is_same]
    count = np.bincount(owner, minlength=interactions.n_users)
    mean = np.bincount(owner, gaps, interactions.n_users) / np.maximum(count, 1)
    square = np.bincount(owner, gaps**2, interactions.n_users) / np.maximum(count, 1)
    spread = np.sqrt(np.maximum(square - mean**2, 0)) / np.where(mean > 0, mean, 1)
    return np.asarray(np.where((count >= _MIN_GAPS) & (mean > 0), np.exp(-5 * spread**2 / 0.5), 0.0))


def _sigmoid(values: Scores) -> Scores:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -30, 30))))


def _make_table(
    role: str, ids: NDArray[Any], columns: dict[str, NDArray[Any]], order: NDArray[np.int64], frame: FrameType
) -> Any:
    return to_frame(
        pa.table({role: take_ids(ids, order), **{k: pa.array(v[order]) for k, v in columns.items()}}), frame
    )
