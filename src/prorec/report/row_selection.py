"""Choice of the interactions that a report holds: all of them, or the most suspicious if there are too many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prorec.interactions import Interactions

MAX_ROWS = 300_000
"""Maximum number of interactions in a report, so that it opens from a mail attachment."""
MAX_SUSPICIOUS = 100_000
"""Maximum number of interactions that are chosen because they are suspicious."""
_MIN_SUSPICIOUS = 1_000
_MAX_ACTIVITY = 5_000  # nobody reads through more interactions of one user


@dataclass(frozen=True)
class RowSelection:
    """The interactions that a report holds."""

    positions: NDArray[np.int64]
    """Positions of the interactions in `matrix.data`, in that order."""
    complete_users: NDArray[np.int64]
    """Rows of the users whose interactions are all selected, in order."""
    is_complete: bool
    """Whether all interactions of the log are selected."""


def select_rows(
    interactions: Interactions,
    noise_probability: NDArray[np.float32],
    flagged: NDArray[np.bool_],
    *,
    max_rows: int = MAX_ROWS,
    max_suspicious: int = MAX_SUSPICIOUS,
) -> RowSelection:
    """Select the interactions that a report holds.

    A log of at most `max_rows` interactions is selected completely. Of a larger log the selection has the most
    suspicious interactions, as many as are flagged (1,000 at least), and all interactions of the users who have most
    of those.

    Parameters
    ----------
    interactions : Interactions
        The log.
    noise_probability : ndarray
        Noise probability of each interaction.
    flagged : ndarray of bool
        Whether each interaction is flagged.
    max_rows, max_suspicious : int
        Maximum number of interactions in all, and of those chosen because they are suspicious.

    Returns
    -------
    RowSelection
    """
    n = len(interactions)
    if n <= max_rows:
        return RowSelection(np.arange(n), np.flatnonzero(interactions.activity), True)
    n_suspicious = min(max(int(flagged.sum()), _MIN_SUSPICIOUS), max_suspicious, max_rows)
    suspicious = np.argpartition(-noise_probability, n_suspicious - 1)[:n_suspicious]
    per_user = np.bincount(interactions.user_codes[suspicious], minlength=interactions.n_users)
    candidates = np.flatnonzero((per_user > 0) & (interactions.activity <= _MAX_ACTIVITY))
    order = candidates[np.argsort(-per_user[candidates], kind="stable")]
    # The suspicious interactions of a user are selected already; the others are the cost of a complete user.
    cost = np.cumsum(interactions.activity[order] - per_user[order])
    complete_users = np.sort(order[cost <= max_rows - n_suspicious])
    is_selected = np.isin(interactions.user_codes, complete_users)
    is_selected[suspicious] = True
    return RowSelection(np.flatnonzero(is_selected), complete_users, False)
