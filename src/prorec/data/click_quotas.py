"""Numbers of clicks in the cinema: for each user, and, if their total is given, for each block of users."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_int
from prorec._core.errors import InputError

_LOG_ACTIVITY = (3.70, 0.93)  # mean and deviation, as of MovieLens-100k (docs/figures/cinema_curves.png)
_MIN_ACTIVITY = 5
_MAX_FRACTION = 0.4  # of the films, for the most active user
_HALVINGS = 40

Activity = NDArray[np.int64]
"""Number of clicks of each user."""


@dataclass(frozen=True)
class ClickQuota:
    """Clicks that a block of users must have, so that all blocks together have the requested number."""

    activity: Activity
    """Number of clicks intended for each user; a user with no suitable film left passes clicks on to another."""
    origins: tuple[int, int, int]
    """Number of clicks of each origin."""
    premieres: NDArray[np.int32]
    """Films that must have a click in this block; over all blocks these are all films."""


def sample_activity(n_users: int, n_items: int, rng: np.random.Generator) -> Activity:
    """Draw a number of clicks for each user, with a long tail as in real data.

    Parameters
    ----------
    n_users, n_items : int
        Number of users and of films.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of int64
    """
    return _round_activity(np.exp(rng.normal(*_LOG_ACTIVITY, size=n_users)), n_items)


def allocate_clicks(
    n_clicks: int, rates: tuple[float, float], shape: tuple[int, int], block: int, rng: np.random.Generator
) -> list[ClickQuota]:
    """Divide a number of clicks among blocks of users.

    Parameters
    ----------
    n_clicks : int
        Number of clicks in all.
    rates : tuple of float
        Shares of mistakes and of exploration.
    shape : tuple of int
        Number of users and of films.
    block : int
        Number of users in a block.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    list of ClickQuota
        One for each block. Clicks, mistakes, exploration and films sum to their totals within one click.

    Raises
    ------
    InputError
        If there are too few or too many clicks for these users and films.
    """
    n_users, n_items = shape
    activity = _scale_activity(check_int("n_clicks", n_clicks, 1), n_users, n_items, rng)
    ends = np.append(np.arange(0, n_users, block), n_users)
    clicks_up_to = np.append(0, activity.cumsum())[ends]
    # Running sums are rounded, not the part of each block, so that the totals are right. Exploration is a share of
    # the clicks that mistakes leave, so that there are always enough for it.
    mistakes_up_to = _round(clicks_up_to * rates[0])
    exploration_rate = min(rates[1] / (1 - rates[0]), 1) if rates[0] < 1 else 0
    exploration_up_to = _round((clicks_up_to - mistakes_up_to) * exploration_rate)
    mistakes, exploration = np.diff(mistakes_up_to), np.diff(exploration_up_to)
    taste = np.diff(clicks_up_to) - mistakes - exploration
    film_ends = np.rint(n_items * ends / n_users).astype(np.int32)
    origins = np.stack([taste, exploration, mistakes], axis=1).tolist()
    return [
        ClickQuota(activity[start:end], tuple(counts), np.arange(*films, dtype=np.int32))
        for (start, end), films, counts in zip(pairwise(ends), pairwise(film_ends), origins, strict=True)
    ]


def _scale_activity(n_clicks: int, n_users: int, n_items: int, rng: np.random.Generator) -> Activity:
    """Draw the usual activity, scaled so that it sums to a number of clicks."""
    minimum = max(_MIN_ACTIVITY * n_users, n_items)
    max_activity = int(_round_activity(np.array([np.inf]), n_items)[0])
    if not minimum <= n_clicks <= n_users * max_activity:
        raise InputError(
            f"n_clicks must be from {minimum:,} to {n_users * max_activity:,} for {n_users:,} users and {n_items:,} "
            f"films: at least {_MIN_ACTIVITY} for each user and one for each film, at most {_MAX_FRACTION:.0%} of all "
            f"films for each user; got {n_clicks:,}"
        )
    unscaled = np.exp(rng.normal(0, _LOG_ACTIVITY[1], size=n_users))
    low, high = 0.0, 2.0 * n_items / float(unscaled.min())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _round_activity(unscaled * middle, n_items).sum() <= n_clicks:
            low = middle
        else:
            high = middle
    activity = _round_activity(unscaled * low, n_items)
    extendable = rng.permutation(np.flatnonzero(activity < max_activity))
    activity[extendable[: n_clicks - activity.sum()]] += 1
    return activity


def _round(values: NDArray[np.float64]) -> Activity:
    return np.asarray(np.rint(values), dtype=np.int64)


def _round_activity(values: NDArray[np.float64], n_items: int) -> Activity:
    return np.clip(values, _MIN_ACTIVITY, max(_MIN_ACTIVITY, n_items * _MAX_FRACTION)).astype(np.int64)
