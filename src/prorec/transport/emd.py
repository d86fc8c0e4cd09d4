"""Exact optimal transport, without entropy: the earth mover's plan (Eq. 1)."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.sparse import csr_array

from prorec._core.checks import check_float
from prorec._core.errors import ConvergenceWarning, InputError
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals
from prorec.transport.plan import SparsePlan
from prorec.transport.scores import ScoreFunction, scale_scores, split_into_parts

# What POT's network simplex was measured to take, on problems of 500 × 500 to 4,000 × 4,000 and on Amazon Music.
_BYTES_PER_PAIR = 42
_SECONDS_PER_PAIR = 5e-9  # times the square root of users + items; between half and twice that
DEFAULT_EMD_MEMORY = 8e9
"""How many bytes the solver may take, unless the caller says otherwise."""


def emd(scores: Factors | ScoreFunction, marginals: Marginals, *, memory: float = DEFAULT_EMD_MEMORY) -> SparsePlan:
    """The plan of least cost Σ −S_ij·π_ij that meets both marginals exactly, by POT's network simplex.

    Takes popularity marginals, or uniform ones as in Eq. 1. The solver needs the whole cost matrix, so this is for
    small problems; a plan has at most users + items − 1 pairs with any mass.

    Parameters
    ----------
    scores : S = −M, higher is better; factors, or a function from row numbers to a block of scores
    marginals : p over items and q over users
    memory : how many bytes it may take; a larger problem is refused with an estimate
    """
    negative_cost = scale_scores(scores, 1.0, marginals, in_double=True)
    check_emd_size(marginals.shape, memory)
    users, items = np.flatnonzero(marginals.users), np.flatnonzero(marginals.items)
    cost = np.empty((len(users), len(items)))
    for part in split_into_parts(np.arange(len(users)), 64):
        cost[part] = -negative_cost.compute_double(users[part])[:, items]
    # A constant more or less changes no plan, nor does a factor; but POT takes negative costs and tiny ones amiss.
    cost -= cost.min(initial=np.inf)
    cost /= max(cost.max(initial=0), np.finfo(np.float64).tiny)
    from ot.lp import emd as solve  # takes seconds to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dense, log = solve(marginals.users[users], marginals.items[items], cost, numItermax=2**31 - 1, log=True)
    if log["warning"] is not None:
        warnings.warn(f"emd may not be exact: {log['warning']}", ConvergenceWarning, stacklevel=2)
    rows, columns = np.nonzero(dense)
    plan = csr_array((dense[rows, columns], (users[rows], items[columns])), shape=marginals.shape)
    return SparsePlan(plan, marginals)


def check_emd_size(shape: tuple[int, int], memory: float = DEFAULT_EMD_MEMORY) -> None:
    """Refuse a problem that is too large, with an estimate of what it would take."""
    memory = check_float("memory", memory, 0)
    n_users, n_items = shape
    needed = _BYTES_PER_PAIR * n_users * n_items
    seconds = _SECONDS_PER_PAIR * n_users * n_items * np.sqrt(n_users + n_items)
    if needed > memory:
        raise InputError(
            f"memory must be at least {needed:,} bytes for the exact plan of {n_users:,} × {n_items:,}, "
            f"got {memory:,.0f}; it would take about {_in_words(seconds)}. relaxed() and sinkhorn() stream"
        )


def _in_words(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"
