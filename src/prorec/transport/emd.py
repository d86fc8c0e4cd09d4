"""Exact optimal transport without entropy: the earth mover's distance, EMD (Eq. 1)."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from prorec._core.checks import check_float
from prorec._core.errors import ConvergenceWarning, MemoryLimitError, MissingExtraError
from prorec._core.versions import advise_install
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals
from prorec.transport.plan import SparsePlan
from prorec.transport.scores import ScoreFunction, scale_scores, split_into_parts

_Array = NDArray[np.float64]


class _Cost(NamedTuple):
    """Memory and time that a solver takes."""

    bytes_per_pair: float
    seconds_per_pair: float
    """Times the square root of users + items; between half and twice that."""


# Measured on problems of 500 × 500 to 4,000 × 4,000 and on Amazon Music; for HiGHS of 200 × 300 to 943 × 1,682.
_POT = _Cost(42, 5e-9)
_HIGHS = _Cost(1_200, 2e-7)
_MAX_PAIRS_OF_HIGHS = 500_000  # a few seconds; POT takes less than a tenth of one
_TOLERANCE = 1e-9  # of HiGHS, for costs and marginals of about 1
DEFAULT_EMD_MEMORY = 8e9
"""Default memory budget of the solver, in bytes."""


def emd(scores: Factors | ScoreFunction, marginals: Marginals, *, memory: float = DEFAULT_EMD_MEMORY) -> SparsePlan:
    """Compute the plan of least cost Σ −S_ij·π_ij that meets both marginals exactly (Eq. 1).

    POT's network simplex solves it, or SciPy's HiGHS if POT is not installed, which takes up to 500,000 pairs. Both
    need the whole cost matrix, so this is for small problems. At most users + items − 1 pairs of the plan have mass.

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
    MissingExtraError
        If the problem has more pairs than HiGHS takes, and POT is not installed.

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
    solve = _solve_by_pot if _has_pot() else _solve_by_highs
    dense, warning = solve(marginals.users[users], marginals.items[items], cost)
    if warning is not None:
        warnings.warn(f"emd may not be exact: {warning}", ConvergenceWarning, stacklevel=2)
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
    MemoryLimitError
        If the solver needs more.
    MissingExtraError
        If the problem needs POT, which is not installed.
    """
    memory = check_float("memory", memory, 0)
    n_users, n_items = shape
    is_small = n_users * n_items <= _MAX_PAIRS_OF_HIGHS
    cost = _HIGHS if is_small and not _has_pot() else _POT
    needed = cost.bytes_per_pair * n_users * n_items
    seconds = cost.seconds_per_pair * n_users * n_items * np.sqrt(n_users + n_items)
    if needed > memory:
        raise MemoryLimitError(
            f"memory must be at least {needed:,} bytes for the exact plan of {n_users:,} × {n_items:,}, which takes "
            f"about {_format_duration(seconds)}; got {memory:,.0f}. Use relaxed() or sinkhorn(), which work in blocks"
        )
    if not (is_small or _has_pot()):
        raise MissingExtraError(
            f"the exact plan of {n_users:,} × {n_items:,} has more than {_MAX_PAIRS_OF_HIGHS:,} pairs and needs POT, "
            f"which is not installed: {advise_install('emd')}"
        )


def _has_pot() -> bool:
    return find_spec("ot") is not None


def _solve_by_pot(p: _Array, q: _Array, cost: _Array) -> tuple[_Array, str | None]:
    """Return the plan with marginals p and q, and a warning if it may not be exact."""
    from ot.lp import emd as solve  # takes seconds to import

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan, log = solve(p, q, cost, numItermax=2**31 - 1, log=True)
    return plan, log["warning"]


def _solve_by_highs(p: _Array, q: _Array, cost: _Array) -> tuple[_Array, str | None]:
    """Return the same plan as `_solve_by_pot`, as the solution of a linear program with a variable for each pair."""
    from scipy.optimize import linprog

    n_users, n_items = cost.shape
    pairs = np.arange(cost.size)
    constraints = np.column_stack([pairs // n_items, n_users + pairs % n_items]).ravel()
    matrix = csc_array((np.ones(2 * cost.size), constraints, np.append(2 * pairs, 2 * cost.size)))
    scale = max(cost.shape)  # otherwise the tolerance, which is absolute, would not be small for small marginals
    solved = linprog(
        cost.ravel(),
        A_eq=matrix[:-1],  # follows from the others
        b_eq=scale * np.concatenate([p, q[:-1]]),
        method="highs-ds",
        options={"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE},
    )
    return solved.x.reshape(cost.shape).clip(0) / scale, None if solved.success else solved.message


def _format_duration(seconds: float) -> str:
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"
