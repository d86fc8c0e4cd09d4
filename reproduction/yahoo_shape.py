"""Synthetic clicks with the counts of Yahoo! R1 in the paper, or a fraction of them: not Yahoo's data."""

from __future__ import annotations

from prorec import InputError, make_cinema
from prorec.data.cinema import Cinema

YAHOO_COUNTS = (1_948_882, 46_110, 48_817_561)
"""Users, items and interactions, as the paper's Table 1 has them."""
_SMALLEST = 0.005  # with fewer films, users would have to click most of what they like


def make_yahoo_shape(scale: float = 1.0, *, seed: int = 0) -> Cinema:
    """Make a cinema with the counts of the paper's Yahoo! R1, to measure time and memory at that size.

    The tastes are synthetic, so results say nothing about accuracy on the real data, which may not be redistributed.

    Parameters
    ----------
    scale : float, default 1.0
        Fraction of the users, of the items and of the clicks, from 0.005 to 10. Clicks per user stay the same.
    seed : int, default 0
        The same seed and scale give the same clicks.

    >>> make_yahoo_shape(0.01).interactions
    Interactions(19,489 users × 461 items, 488,176 interactions, with timestamp and origin)
    """
    n_users, n_items, clicks = scale_counts(scale)
    return make_cinema(n_users, n_items, n_clicks=clicks, seed=seed)


def scale_counts(scale: float) -> tuple[int, int, int]:
    """Return the numbers of users, items and interactions at a scale.

    >>> scale_counts(0.01)
    (19489, 461, 488176)
    """
    if not (isinstance(scale, (int, float)) and _SMALLEST <= scale <= 10):
        raise InputError(f"scale must be a number from {_SMALLEST} to 10; got {scale!r}")
    n_users, n_items, clicks = (round(count * scale) for count in YAHOO_COUNTS)
    return n_users, n_items, clicks
