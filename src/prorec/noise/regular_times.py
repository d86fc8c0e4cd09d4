"""Accounts that click at regular times, as programs do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc

from prorec.interactions import Interactions
from prorec.noise.click_times import click_times

_MIN_GAPS = 5
_TOLERANCE = 0.01  # of a gap; a person who comes every week comes at another hour
_MIN_CHANCE = 0.05  # of a person's gap to be so near the median gap; 0.007 if clicks come at random
_CHANCE_FACTOR = 2.0


def score_regular_times(interactions: Interactions) -> NDArray[np.float64]:
    """Score users by how many of the gaps between their times are nearly equal.

    A gap is near the user's median gap if it differs by at most 1%. Of n gaps other than the median itself, k are near
    it. The p-value is the probability of k or more such gaps in n, if each is near the median with the probability q:
    twice the mean share k / n of the log's users, and at least 0.05. So nearly all gaps of a short history must be
    equal, but only half of a long one. A click that is missing makes one other gap, and hides nothing.

    Parameters
    ----------
    interactions : Interactions
        The log.

    Returns
    -------
    ndarray of float64
        For each user 1 − N·p, at least 0, where N·p is the number of accounts that are as regular by chance, among the
        N users with six interactions or more; 0 for the others, in logs without times, and where q is 1 because times
        are numbers of rows or whole days; and 0 if fewer than half of the gaps are near.
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
    by_size = gaps[np.lexsort((gaps, owner))]
    median = np.zeros(interactions.n_users)
    has_gaps = count > 0
    median[has_gaps] = by_size[(np.cumsum(count) - count + count // 2)[has_gaps]]
    is_scored = (count >= _MIN_GAPS) & (median > 0)
    if not is_scored.any():
        return scores
    is_near = np.abs(gaps - median[owner]) <= _TOLERANCE * median[owner]
    near = (np.bincount(owner, is_near, interactions.n_users) - 1)[is_scored]  # the median is near itself
    others = count[is_scored] - 1
    chance = min(max(_MIN_CHANCE, _CHANCE_FACTOR * float((near / others).mean())), 1.0)
    # Habits of people are beyond chance, too, but most of their gaps differ.
    p_value = np.where(2 * near >= others, bdtrc(near - 1, others, chance), 1.0)
    scores[is_scored] = np.maximum(1 - len(p_value) * p_value, 0.0)
    return scores
