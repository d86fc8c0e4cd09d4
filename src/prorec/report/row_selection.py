"""Which interactions go into a report: all of them, or, where those are too many, the most suspicious."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prorec.interactions import Interactions

MAX_SUSPICIOUS = 100_000
"""Suspicious interactions in a report, at most."""
MAX_ROWS = 300_000
"""Interactions in a report, at most: it has to open from a mail attachment."""
_AT_LEAST = 1_000  # suspects, whatever is flagged
_TOO_ACTIVE = 5_000  # interactions: nobody reads through so many of one user


@dataclass(frozen=True)
class RowSelection:
    """What is in the report."""

    places: NDArray[np.int64]
    """Interactions, by their places in `matrix.data`, in that order."""
    whole_users: NDArray[np.int64]
    """Rows of the users all of whose interactions are in it, in order."""
    is_everything: bool


def select_rows(
    known: Interactions,
    probability: NDArray[np.float32],
    flagged: NDArray[np.bool_],
    *,
    most: int = MAX_ROWS,
    most_suspects: int = MAX_SUSPICIOUS,
) -> RowSelection:
    """Everything, if it fits; otherwise the most suspicious, and everything of the users who have most of those."""
    n = len(known)
    if n <= most:
        return RowSelection(np.arange(n), np.flatnonzero(known.activity), True)
    n_suspects = min(max(int(flagged.sum()), _AT_LEAST), most_suspects, most)
    suspects = np.argpartition(-probability, n_suspects - 1)[:n_suspects]
    n_own = np.bincount(known.user_codes[suspects], minlength=known.n_users)
    readable = np.flatnonzero((n_own > 0) & (known.activity <= _TOO_ACTIVE))
    order = readable[np.argsort(-n_own[readable], kind="stable")]
    # A user's suspects are in already; the rest of the user's interactions is what it costs to have all of them.
    cost = np.cumsum(known.activity[order] - n_own[order])
    whole = np.sort(order[cost <= most - n_suspects])
    is_in = np.zeros(known.n_users, dtype=bool)
    is_in[whole] = True
    chosen = is_in[known.user_codes]
    chosen[suspects] = True
    return RowSelection(np.flatnonzero(chosen), whole, False)
