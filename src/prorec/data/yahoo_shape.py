"""As many users, items and clicks as Yahoo! R1 has in the paper, or the same in small: made up, not Yahoo's data."""

from __future__ import annotations

from prorec._core.checks import check_float
from prorec.data.cinema import Cinema, make_cinema

YAHOO_COUNTS = (1_948_882, 46_110, 48_817_561)
"""Users, items and interactions, as the paper's Table 1 has them."""
_SMALLEST = 0.005  # with fewer films, users would have to click most of what they like


def make_yahoo_shape(scale: float = 1.0, *, seed: int = 0) -> Cinema:
    """A cinema with the counts of the paper's Yahoo! R1, for time and memory at that size.

    Who likes what is made up: it says nothing of how well anything works on the real data, which may not be passed on.

    Parameters
    ----------
    scale : this share of the users, of the items and of the clicks: as many clicks for each user, and users for each
        item, as at full size
    seed : the same seed and scale give the same clicks

    >>> make_yahoo_shape(0.01).interactions
    Interactions(19,489 users × 461 items, 488,176 interactions, with timestamp and origin)
    """
    n_users, n_items, clicks = counts_at(scale)
    return make_cinema(n_users, n_items, clicks=clicks, seed=seed)


def counts_at(scale: float) -> tuple[int, int, int]:
    """Users, items and interactions at that scale, if it can be made.

    >>> counts_at(0.01)
    (19489, 461, 488176)
    """
    scale = check_float("scale", scale, _SMALLEST, 10)
    n_users, n_items, clicks = (round(count * scale) for count in YAHOO_COUNTS)
    return n_users, n_items, clicks
