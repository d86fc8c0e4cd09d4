"""How strongly the plan is spread, in the unit of the scores."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from prorec._core.checks import check_float, safe_repr
from prorec._core.errors import InputError
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals
from prorec.transport.scores import Rows, ScaledScores, ScoreFunction, scale_scores

_SHARE = 0.2
"""γ as a share of the spread: a user's best item then counts e⁵, some 150 times, as much as an average one. With it,
NCE gained more than by scaled weights on the validation parts of AMusic, AToy and MovieLens-100k alike; .15, .25 and .3
were tried as well."""
MAX_USERS = 1000
"""The automatic γ is worked out from so many users at most."""
_PART = 32


def parse_gamma(gamma: Any) -> float | None:
    """How many times the automatic γ is meant, and None where γ itself is given; anything else is refused.

    >>> parse_gamma("auto"), times_automatic("0.5 auto"), times_automatic(0.1)
    (1.0, 0.5, None)
    """
    if isinstance(gamma, str):
        matched = re.fullmatch(r"(?:(\d{1,9}(?:\.\d{1,9})?|\.\d{1,9}) ?)?auto", gamma)
        times = float(matched[1] or 1) if matched else 0.0
        if times == 0:
            raise InputError(f"gamma must be a number above 0, 'auto', or like '0.5 auto'; got {safe_repr(gamma)}")
        return times
    if not check_float("gamma", gamma) > 0:
        raise InputError(f"gamma must be above 0, or 'auto'; got {safe_repr(gamma)}")
    return None


def estimate_gamma(scores: Factors | ScoreFunction, observed: csr_array) -> float:
    """γ = ⅕·√(mean over users of (max_j S_ij − mean_j S_ij)²).

    The absolute γ of the paper fits scores that are about 1 on what was clicked. A strong regulariser, a network's
    logits or somebody's own model have scores of another size; this γ grows with them. It is worked out from the rows
    of at most a thousand users who have interactions, evenly spaced. Where all scores are equal there is no spread, and
    any γ gives the same plan: 1, then.
    """
    rows_of = np.repeat(np.arange(observed.shape[0], dtype=np.int32), np.diff(observed.indptr))
    active = np.unique(rows_of[observed.data != 0])
    users = active[np.linspace(0, len(active) - 1, min(MAX_USERS, len(active))).astype(np.intp)]
    rows = scale_scores(scores, 1.0, Marginals.uniform(*observed.shape))
    squares, largest = sum_squared_spread(rows, users)
    return gamma_from_squares(squares, len(users), largest)


def sum_squared_spread(scores: ScaledScores, users: Rows) -> tuple[float, float]:
    """Σ(max_j S_ij − mean_j S_ij)² over some users, and the largest |S_ij| of theirs."""
    squares, largest = 0.0, 0.0
    for begin in range(0, len(users), _PART):
        block = scores.compute_double(users[begin : begin + _PART])
        squares += float(np.square(block.max(axis=1) - block.mean(axis=1)).sum())
        largest = max(largest, float(np.abs(block).max()))
    return squares, largest


def gamma_from_squares(squares: float, n_users: int, largest: float) -> float:
    """The automatic γ for such a spread of so many users' scores."""
    spread = float(np.sqrt(squares / n_users))
    return _SHARE * spread if spread > 1e-9 * largest else 1.0
