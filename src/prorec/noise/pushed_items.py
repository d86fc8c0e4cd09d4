"""Items that few suspicious accounts push."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prorec.interactions import Interactions

Scores = NDArray[np.float64]

_MIN_PUSHERS = 4


def score_pushed_items(interactions: Interactions, suspicion: Scores) -> tuple[Scores, Scores]:
    """Score items by the excess of suspicious accounts among their users.

    Parameters
    ----------
    interactions : Interactions
        The log.
    suspicion : ndarray of float64
        Probability that each user is no person, from the user's history.

    Returns
    -------
    pushed : ndarray of float64
        Score of each item. It rises from 0 where the users' mean suspicion is √(2·log N) standard errors above that of
        all interactions, the largest that N items have by chance.
    log_odds : ndarray of float64
        Addition to the log-odds of each user, by the item with the largest excess among the user's items. The user
        itself is not counted for it.
    """
    users, items = interactions.user_codes, interactions.item_codes
    base, deviation = suspicion[users].mean(), max(float(suspicion[users].std()), 0.05)
    popularity = interactions.popularity
    total = np.bincount(items, suspicion[users] - base, interactions.n_items)
    z = total / (deviation * np.sqrt(np.maximum(popularity, 1)))
    largest_by_chance = np.sqrt(2 * np.log(max(interactions.n_items, 2)))
    pushed = np.where(popularity >= _MIN_PUSHERS, 1 - np.exp(-np.maximum(z - largest_by_chance, 0) / 2), 0.0)
    others = np.maximum(popularity[items] - 1, 1)
    z_others = (total[items] - (suspicion[users] - base)) / (deviation * np.sqrt(others))
    largest = np.zeros(interactions.n_users)
    np.maximum.at(largest, users, np.where(others >= _MIN_PUSHERS - 1, z_others - 3, 0.0))
    return pushed, np.minimum(largest, 4.0) * suspicion
