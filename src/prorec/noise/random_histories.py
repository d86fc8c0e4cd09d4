"""A classifier that separates users from synthetic accounts with random histories."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prorec._core.parallel import single_blas_thread
from prorec.interactions import Interactions
from prorec.noise.history_features import describe_histories

Scores = NDArray[np.float64]

_MAX_SYNTHETIC = 2_000
_MIN_SYNTHETIC = 600
_MIN_USERS = 20
_MIN_AUC = 0.75  # of users against synthetic accounts, below which histories say nothing
_MIN_LOG_LIFT = 0.1  # of users above synthetic accounts, in the median


class HistoryScores(NamedTuple):
    """Comparison of each user's history with random ones and with other users'."""

    log_odds: Scores
    """Log-odds of synthetic against real, as if there were as many of both; 0 for users without interactions."""
    overlap: Scores
    """Largest Jaccard similarity with the history of another user."""
    can_tell: bool
    """Whether users differ from synthetic accounts at all."""


def score_histories(
    interactions: Interactions, is_left_out: NDArray[np.bool_], rng: np.random.Generator
) -> HistoryScores:
    """Compare the histories of users with those of synthetic accounts.

    The items of synthetic accounts are drawn with equal probability, by popularity, or are the most popular items and
    random ones. A logistic regression separates them from the users by features of whole histories.

    Parameters
    ----------
    interactions : Interactions
        The log.
    is_left_out : ndarray of bool
        Whether each user is left out of the regression, because it is known to be no person.
    rng : numpy.random.Generator
        Source of the synthetic accounts.

    Returns
    -------
    HistoryScores
    """
    matrix, n_users = interactions.matrix, interactions.n_users
    own = list_histories(interactions, np.arange(n_users))
    features, overlap = describe_histories(matrix, own, np.arange(n_users), rng)
    is_used = (interactions.activity > 0) & ~is_left_out
    log_odds = np.zeros(n_users)
    if not is_used.any():
        return HistoryScores(log_odds, overlap, can_tell=False)
    synthetic = _make_histories(interactions, interactions.activity[is_used], rng)
    false_features, _ = describe_histories(matrix, synthetic, np.full(len(synthetic), -1), rng)
    both = np.concatenate([features[is_used], false_features])
    n_true, n_false = int(is_used.sum()), len(synthetic)
    is_synthetic = np.repeat([False, True], [n_true, n_false])
    fitted = _fit_log_odds(both, is_synthetic)
    log_odds[is_used] = fitted[~is_synthetic]
    ranks = np.argsort(np.argsort(fitted))[is_synthetic]
    auc = (ranks.sum() - n_false * (n_false - 1) / 2) / (n_true * n_false)
    lift = np.median(features[is_used, 0]) - np.median(false_features[:, 0])
    return HistoryScores(log_odds, overlap, bool(n_true >= _MIN_USERS and auc >= _MIN_AUC and lift >= _MIN_LOG_LIFT))


def list_histories(interactions: Interactions, users: NDArray[np.intp]) -> list[NDArray[np.int64]]:
    """Return the items of each of some users."""
    indptr, items = interactions.matrix.indptr, interactions.item_codes
    return [items[indptr[user] : indptr[user + 1]].astype(np.int64) for user in users]


def _make_histories(
    interactions: Interactions, activity: NDArray[np.int64], rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Make synthetic accounts: as active as the users, and a tenth of them up to the whole catalogue."""
    n_items, popularity = interactions.n_items, interactions.popularity
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
    with single_blas_thread():
        for _ in range(30):
            probability = sigmoid(design @ coefficients)
            gradient = design.T @ (weight * (is_synthetic - probability)) - penalty * coefficients
            curvature = (design.T * (weight * np.maximum(probability * (1 - probability), 1e-6))) @ design
            coefficients += np.linalg.solve(curvature + np.diag(penalty), gradient)
        return np.asarray(design @ coefficients)


def sigmoid(values: Scores) -> Scores:
    """Return 1 / (1 + e^(−x)), without overflow."""
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -30, 30))))
