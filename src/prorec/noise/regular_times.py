"""Accounts that click at regular times, as programs do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prorec.interactions import Interactions
from prorec.noise.click_times import click_times
from prorec.noise.issues import MIN_COUNTED_SCORE

_MIN_GAPS = 5
_MAX_SHARE = 0.3  # of users with regular times, above which times are numbers of rows rather than times


def score_regular_times(interactions: Interactions) -> NDArray[np.float64]:
    """Score users by how equal the gaps between their times are.

    Parameters
    ----------
    interactions : Interactions
        The log.

    Returns
    -------
    ndarray of float64
        For each user exp(−10·c²), where c is the deviation of the gaps divided by their mean; 0 for users with fewer
        than six interactions, in logs without times, and in logs in which three in ten users have regular times.
    """
    numbers = click_times(interactions)
    scores = np.zeros(interactions.n_users)
    if numbers is None:
        return scores
    users = interactions.user_codes
    order = np.lexsort((numbers, users))
    gaps, is_same = np.diff(numbers[order]), np.diff(users[order]) == 0
    owner, gaps = users[order][1:][is_same], gaps[is_same]
    count = np.bincount(owner, minlength=interactions.n_users)
    mean = np.bincount(owner, gaps, interactions.n_users) / np.maximum(count, 1)
    square = np.bincount(owner, gaps**2, interactions.n_users) / np.maximum(count, 1)
    spread = np.sqrt(np.maximum(square - mean**2, 0)) / np.where(mean > 0, mean, 1)
    is_scored = (count >= _MIN_GAPS) & (mean > 0)
    scores[is_scored] = np.exp(-10 * spread[is_scored] ** 2)
    if is_scored.any() and (scores[is_scored] > MIN_COUNTED_SCORE).mean() > _MAX_SHARE:
        return np.zeros(interactions.n_users)
    return scores
