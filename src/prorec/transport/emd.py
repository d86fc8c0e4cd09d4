"""Exact optimal transport without entropy: the earth mover's distance, EMD (Eq. 1)."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.sparse import csr_array

from prorec._core.checks import check_float
from prorec._core.errors import ConvergenceWarning, MemoryLimitError
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals
from prorec.transport.plan import SparsePlan
from prorec.transport.scores import ScoreFunction, scale_scores, split_into_parts

# Measured for POT's network simplex, on problems of 500 × 500 to 4,000 × 4,000 and on Amazon Music.
_BYTES_PER_PAIR = 42
_SECONDS_PER_PAIR = 5e-9  # times the square root of users + items; between half and twice that
DEFAULT_EMD_MEMORY = 8e9
"""Default memory budget of the solver, in bytes."""


def emd(scores: Factors | ScoreFunction, marginals: Marginals, *, memory: float = DEFAULT_EMD_MEMORY) -> SparsePlan:
    """Compute the plan of least cost Σ −S_ij·π_ij that meets both marginals exactly (Eq. 1).

    POT's network simplex solves it. It needs the whole cost matrix, so this is for small problems. At most
    users + items − 1 pairs of the plan have mass.

    Parameters
    ----------
    scores : Factors or callable
        S = −M, higher is better; factors, or a function from row numbers to a block of scores.
    marginals : Marginals
        p over items and q over users; Eq. 1 has `Marginals.uniform`.
    memory : float, default 8e9
        Maximum number of bytes. A larger problem is refused with an estimate.

    Returns
    -------
    SparsePlan

    Raises
    ------
    InputError
        If an argument is invalid, or the problem does not fit in memory.

    Warns
    -----
    ConvergenceWarning
        If the solver could not finish.

    Examples
    --------
    >>> factors = Factors([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    >>> emd(factors, Marginals.uniform(2, 2)).to_dense()
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    negative_cost = scale_scores(scores, 1.0, marginals, in_double=True)
    check_emd_size(marginals.shape, memory)
    users, items = np.flatnonzero(marginals.users), np.flatnonzero(marginals.items)
    cost = np.empty((len(users), len(items)))
    for part in split_into_parts(np.arange(len(users)), 64):
        cost[part] = -negative_cost.compute_double(users[part])[:, items]
    # Neither a constant nor a factor changes the plan, but POT fails on negative and on tiny costs.
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
    """Refuse a problem that does not fit in memory, with an estimate of its size and time.

    Parameters
    ----------
    shape : tuple of int
        Numbers of users and items.
    memory : float, default 8e9
        Maximum number of bytes.

    Raises
    ------
    InputError
        If the solver needs more.
    """
    memory = check_float("memory", memory, 0)
    n_users, n_items = shape
    needed = _BYTES_PER_PAIR * n_users * n_items
    seconds = _SECONDS_PER_PAIR * n_users * n_items * np.sqrt(n_users + n_items)
    if needed > memory:
        raise MemoryLimitError(
            f"memory must be at least {needed:,} bytes for the exact plan of {n_users:,} × {n_items:,}, which takes "
            f"about {_format_duration(seconds)}; got {memory:,.0f}. Use relaxed() or sinkhorn(), which work in blocks"
        )


def _format_duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"
