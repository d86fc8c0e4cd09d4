"""How many clicks each user of the cinema has; where their number in all is given, what each block must come to."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_int
from prorec._core.errors import InputError

# Shape of the marginal, chosen to look like MovieLens-100k's (docs/figures/cinema_curves.png).
_LOG_ACTIVITY = (3.70, 0.93)
_LEAST_ACTIVITY = 5
_MOST_OF_ALL = 0.4  # of the films, for the most active user
_HALVINGS = 40

Activity = NDArray[np.int64]


@dataclass(frozen=True)
class ClickQuota:
    """What a block of users must come to, so that all blocks together come to what was asked for."""

    activity: Activity
    """The number of clicks meant for each user; those with no film left for one leave it to somebody else."""
    origins: tuple[int, int, int]
    """The number of clicks of each origin."""
    premieres: NDArray[np.int32]
    """Films that must have a click here: of all blocks together, every film."""


def sample_activity(n_users: int, n_items: int, rng: np.random.Generator) -> Activity:
    """As many clicks for each user as in real data."""
    return _whole_clicks(np.exp(rng.normal(*_LOG_ACTIVITY, size=n_users)), n_items)


def allocate_clicks(
    clicks: int, shares: tuple[float, float], shape: tuple[int, int], block: int, rng: np.random.Generator
) -> list[ClickQuota]:
    """For each block of users its part of the clicks, of the mistakes and exploration, and of the films."""
    n_users, n_items = shape
    activity = _activity_in_all(check_int("n_clicks", clicks, 1), n_users, n_items, rng)
    ends = np.append(np.arange(0, n_users, block), n_users)
    up_to = np.append(0, activity.cumsum())[ends]
    # Sums are rounded, not each block's part, so the totals are right within one click; and exploration is a share of
    # what mistakes leave, so that there is never too little left for it.
    mistakes_up_to = _part(up_to, shares[0])
    exploring_up_to = _part(up_to - mistakes_up_to, min(shares[1] / (1 - shares[0]), 1) if shares[0] < 1 else 0)
    mistakes, exploring = np.diff(mistakes_up_to), np.diff(exploring_up_to)
    taste = np.diff(up_to) - mistakes - exploring
    films = np.rint(n_items * ends / n_users).astype(np.int32)
    return [
        ClickQuota(activity[begin:end], (int(t), int(e), int(m)), np.arange(first, last, dtype=np.int32))
        for (begin, end), (first, last), t, e, m in zip(
            pairwise(ends), pairwise(films), taste, exploring, mistakes, strict=True
        )
    ]


def _activity_in_all(clicks: int, n_users: int, n_items: int, rng: np.random.Generator) -> Activity:
    """The usual activity, scaled so that it sums to a given number of clicks."""
    least = max(_LEAST_ACTIVITY * n_users, n_items)
    most = n_users * int(_whole_clicks(np.array([np.inf]), n_items)[0])
    if not least <= clicks <= most:
        raise InputError(
            f"n_clicks must be from {least:,} to {most:,} for {n_users:,} users and {n_items:,} films: at least "
            f"{_LEAST_ACTIVITY} for each user and one for each film, at most {_MOST_OF_ALL:.0%} of all films for each "
            f"user; got {clicks:,}"
        )
    usual = np.exp(rng.normal(0, _LOG_ACTIVITY[1], size=n_users))
    low, high = 0.0, 2.0 * n_items / float(usual.min())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _whole_clicks(usual * middle, n_items).sum() <= clicks:
            low = middle
        else:
            high = middle
    activity = _whole_clicks(usual * low, n_items)
    with_room = rng.permutation(np.flatnonzero(activity < most // n_users))
    activity[with_room[: clicks - activity.sum()]] += 1
    return activity


def _part(of: Activity, share: float) -> Activity:
    return np.asarray(np.rint(of * share), dtype=np.int64)


def _whole_clicks(wanted: NDArray[np.float64], n_items: int) -> Activity:
    most = max(_LEAST_ACTIVITY, n_items * _MOST_OF_ALL)
    return np.clip(wanted, _LEAST_ACTIVITY, most).astype(np.int64)
