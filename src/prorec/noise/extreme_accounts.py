"""Accounts so active and so unlike people that they must be kept out of a fit.

An active account is extreme if it clicks at regular times or walks through the catalogue. An account that is far more
active than most is also extreme if its items are a draw from the catalogue: as popular as random items, and going
together no more than other items of the same popularity do. People who click very much prefer popular items, items that
go together, or both. In sparse logs some people look like draws, too. So nobody is extreme for that reason unless such
accounts are four times as frequent among far more active users as among the most active others.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prorec.interactions import Interactions
from prorec.noise.history_features import describe_histories
from prorec.noise.issues import MIN_COUNTED_SCORE
from prorec.noise.random_histories import list_histories

Scores = NDArray[np.float64]

EXTREME_SCORE = 0.99
"""Score `random_history` of draws from the catalogue, and smallest noise probability of an extreme account's clicks."""
_MIN_ACTIVITY = 50
_ACTIVITY_FACTOR = 3.0  # times the activity that three quarters of the users do not exceed
_MAX_TESTED = 300  # accounts, the most active first
_MAX_ITEMS = 400  # of a history
_N_DRAWS = 4  # of items of the same popularity, for each history
_RANK_WINDOW = 0.02  # of the catalogue: items of about the same popularity
_MAX_EXCESS_LIFT = 0.3  # in logs of people 0.5 or more, unless they prefer popular items
_MAX_POPULARITY_SHIFT = 0.15  # standard deviations; 0.5 or more for people, unless their items go together
_MIN_ORDINARY_ACTIVITY = 10
_MAX_WRONG_SHARE = 0.25  # of the accounts found, if people look like draws as often as less active users do


def find_extreme_accounts(
    interactions: Interactions, program_score: Scores, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Find accounts that must be kept out of a fit.

    Parameters
    ----------
    interactions : Interactions
        The log.
    program_score : ndarray of float64
        Score of each user for acting like a program: at regular times, or in the order of the catalogue.
    rng : numpy.random.Generator
        Source of the draws that histories are compared with.

    Returns
    -------
    ndarray of bool
        One for each user. An extreme account has at least 50 interactions. Draws are looked for among the accounts that
        have at least three times as many as three quarters of the users.
    """
    activity = interactions.activity
    is_extreme = np.asarray((activity >= _MIN_ACTIVITY) & (program_score > MIN_COUNTED_SCORE))
    by_activity = np.argsort(-activity, kind="stable")
    by_activity = by_activity[activity[by_activity] > 0]
    if not len(by_activity):
        return is_extreme
    limit = max(_MIN_ACTIVITY, _ACTIVITY_FACTOR * float(np.quantile(activity[by_activity], 0.75)))
    is_heavy = activity[by_activity] >= limit
    is_ordinary = ~is_heavy & (activity[by_activity] >= _MIN_ORDINARY_ACTIVITY)
    heavy, others = by_activity[is_heavy][:_MAX_TESTED], by_activity[is_ordinary][:_MAX_TESTED]
    if len(heavy):
        is_draw, is_ordinary_draw = (_are_draws(interactions, users, rng) for users in (heavy, others))
        n_wrong = len(heavy) * is_ordinary_draw.sum() / max(len(others), 1)
        if n_wrong <= _MAX_WRONG_SHARE * is_draw.sum():
            is_extreme[heavy] |= is_draw
    return is_extreme


def _are_draws(interactions: Interactions, users: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return whether the items of each user are like a draw from the catalogue."""
    histories = list_histories(interactions, users)
    popularity = interactions.popularity
    shift = np.abs([_popularity_shift(popularity, own) for own in histories])
    sampling_error = 1 / np.sqrt([len(own) for own in histories])
    is_draw = np.asarray(shift <= np.maximum(_MAX_POPULARITY_SHIFT, 2.5 * sampling_error))
    if is_draw.any():
        chosen = np.flatnonzero(is_draw)
        excess = _excess_lift(interactions, users[chosen], [histories[each] for each in chosen], rng)
        is_draw[chosen] = excess <= _MAX_EXCESS_LIFT
    return is_draw


def _popularity_shift(popularity: NDArray[np.int64], own: NDArray[np.int64]) -> float:
    """Return how much more popular a user's items are than the catalogue, in standard deviations of log popularity.

    The user's own clicks do not count.
    """
    others = popularity.astype(np.float64)
    others[own] -= 1
    logs = np.log1p(others)
    return float((logs[own].mean() - logs.mean()) / max(float(logs.std()), 1e-9))


def _excess_lift(
    interactions: Interactions, users: NDArray[np.intp], histories: list[NDArray[np.int64]], rng: np.random.Generator
) -> Scores:
    """Return the log lift of each history above that of draws of items of about the same popularity."""
    matrix, n_items = interactions.matrix, interactions.n_items
    by_popularity = np.argsort(-interactions.popularity, kind="stable")
    rank = np.empty(n_items, dtype=np.int64)
    rank[by_popularity] = np.arange(n_items)
    width = max(10, int(_RANK_WINDOW * n_items))
    draws = []
    for own in histories:
        for _ in range(_N_DRAWS):
            near = rank[own] + rng.integers(-width, width + 1, size=len(own))
            draws.append(np.unique(by_popularity[np.clip(near, 0, n_items - 1)]))
    lift = describe_histories(matrix, histories, users, rng, _MAX_ITEMS)[0][:, 0]
    draw_lift = describe_histories(matrix, draws, np.full(len(draws), -1), rng, _MAX_ITEMS)[0][:, 0]
    return np.asarray(lift - draw_lift.reshape(-1, _N_DRAWS).mean(axis=1))
