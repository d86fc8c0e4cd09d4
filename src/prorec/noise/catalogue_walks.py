"""Accounts that walk through the catalogue in its order, as crawlers and test scripts do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prorec.interactions import Interactions

_MIN_ITEMS = 8
_MIN_SHARE = 0.3
_RANGE = 0.5  # from the share with the score 0 to that with the score 1


def score_catalogue_walks(interactions: Interactions) -> NDArray[np.float64]:
    """Score users by the share of their items that are followed by the next item of the catalogue.

    Parameters
    ----------
    interactions : Interactions
        The log. The catalogue has the order of `interactions.items`, which is that of the ids unless the log was made
        from a matrix.

    Returns
    -------
    ndarray of float64
        For each user. The share that chance gives, the user's part of the catalogue, is subtracted. The score rises
        from 0 at twice the share that 90% of the users do not exceed, and at least at 0.3. Users with fewer than 8
        items have the score 0.
    """
    users, items = interactions.user_codes, interactions.item_codes
    activity = interactions.activity
    is_step = (np.diff(users) == 0) & (np.diff(items) == 1)
    n_steps = np.bincount(users[1:][is_step], minlength=interactions.n_users)
    coverage = activity / max(interactions.n_items, 1)
    share = n_steps / np.maximum(activity - 1, 1)
    excess = (share - coverage) / np.maximum(1 - coverage, 1e-9)
    is_scored = activity >= _MIN_ITEMS
    usual = max(_MIN_SHARE, 2 * float(np.quantile(excess[is_scored], 0.9))) if is_scored.any() else _MIN_SHARE
    return np.asarray(np.where(is_scored, np.clip((excess - usual) / _RANGE, 0.0, 1.0), 0.0))
