"""Relaxed transport: entropic transport with one marginal fixed, in closed form (Eq. 5, 6 and 7)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from prorec._core.checks import check_choice
from prorec._core.progress import Progress
from prorec.transport.backend import Precision, make_backend
from prorec.transport.blocks import DEFAULT_MEMORY, bind_task
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals
from prorec.transport.plan import ScaledPlan
from prorec.transport.scores import ScoreFunction


def relaxed(
    scores: Factors | ScoreFunction,
    marginals: Marginals,
    gamma: float,
    side: Literal["both", "users", "items"] = "both",
    *,
    device: str = "auto",
    precision: Precision = "high",
    memory: float = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> ScaledPlan:
    """Compute the relaxed plan of Eq. 7, in one pass over the scores.

    With C_j = log Σ_i e^(S_ij/γ) and R_i = log Σ_j e^(S_ij/γ) the plan is

        log π_ij = S_ij/γ + max(log p_j − C_j, log q_i − R_i).

    Parameters
    ----------
    scores : Factors or callable
        S = −M, higher is better; factors, or a function from row numbers to a block of scores.
    marginals : Marginals
        p over items and q over users.
    gamma : float
        γ, the entropic regularization; a small γ concentrates the plan.
    side : {"both", "users", "items"}, default "both"
        `"users"` is the plan that meets q exactly (Eq. 6), `"items"` the plan that meets p exactly (Eq. 5), and
        `"both"` the larger of the two at each pair (Eq. 7, as in the paper).
    device : str, default "auto"
        `"auto"` uses a GPU if there is one and there are at least a billion pairs; `"cpu"`; or `"cuda"`.
    precision : {"high", "double"}, default "high"
        `"high"` leaves errors of a few 1e-6 in the plan; `"double"` computes everything in double precision.
    memory : float, default 256e6
        Maximum number of bytes of blocks in memory at once, on the CPU.
    progress : callable, optional
        Called after each block with the task, the number of blocks done and the number of all blocks.

    Returns
    -------
    ScaledPlan
        A `Plan` that computes its values from the scores.

    Raises
    ------
    InputError
        If an argument is invalid.

    Examples
    --------
    >>> factors = Factors([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    >>> relaxed(factors, Marginals.uniform(2, 2), gamma=0.5, side="users").to_dense().round(2)
    array([[0.44, 0.06],
           [0.06, 0.44]])
    """
    check_choice("side", side, ("both", "users", "items"))
    report = bind_task(progress, "Computing the transport plan")
    backend = make_backend(scores, marginals, gamma, memory, device, precision)
    by_user, by_item = backend.log_sums(report)
    no_offset = np.zeros(marginals.shape[0])
    for_users, for_items = marginals.log_users - by_user, marginals.log_items - by_item
    if side == "users":
        return ScaledPlan(backend, marginals, for_users, np.full_like(by_user, -np.inf), np.zeros_like(by_item))
    if side == "items":
        return ScaledPlan(backend, marginals, no_offset, np.full_like(by_user, -np.inf), for_items)
    return ScaledPlan(backend, marginals, no_offset, for_users, for_items)
