"""Entropic transport with both marginals fixed, by Sinkhorn's iterations (Eq. 4)."""

from __future__ import annotations

import warnings

import numpy as np

from prorec._core.checks import check_float, check_int
from prorec._core.errors import ConvergenceWarning, InputError
from prorec._core.progress import Progress
from prorec.transport.backend import Backend, Precision, make_backend
from prorec.transport.blocks import DEFAULT_MEMORY, bind_task
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals, Vector
from prorec.transport.plan import ScaledPlan
from prorec.transport.scores import ScoreFunction

_MIN_SINGLE_TOLERANCE = 1e-5  # rounding in single precision may leave an error of half of this


class SinkhornPlan(ScaledPlan):
    """A plan log π_ij = S_ij/γ + f_i + g_j, with a record of the iterations.

    Attributes
    ----------
    gamma : float
        γ.
    iterations : int
        Number of passes over the scores.
    error : float
        Remaining error in the item marginal, `Σ_j |Σ_i π_ij − p_j|`; the user marginal is met.
    converged : bool
        Whether the error is within the tolerance.
    """

    def __init__(
        self,
        backend: Backend,
        marginals: Marginals,
        potentials: tuple[Vector, Vector],
        gamma: float,
        iterations: int,
        error: float,
        tolerance: float,
    ) -> None:
        for_users, for_items = potentials
        super().__init__(backend, marginals, for_users, np.full_like(for_users, -np.inf), for_items)
        self.gamma = gamma
        self.iterations = iterations
        self.error = error
        self.converged = error <= tolerance


def sinkhorn(
    scores: Factors | ScoreFunction,
    marginals: Marginals,
    gamma: float,
    *,
    tolerance: float = 1e-5,
    max_iterations: int = 1000,
    init_from: SinkhornPlan | None = None,
    device: str = "auto",
    precision: Precision = "high",
    memory: float = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> SinkhornPlan:
    """Compute the plan of least cost plus γ·H(π) that meets both marginals (Eq. 4).

    Each iteration is one pass over the scores, in the log-domain: f_i = log q_i − log Σ_j e^(S_ij/γ + g_j), then
    g_j = log p_j − log Σ_i e^(S_ij/γ + f_i), until the item marginal is met.

    Parameters
    ----------
    scores : Factors or callable
        S = −M, higher is better; factors, or a function from row numbers to a block of scores.
    marginals : Marginals
        p over items and q over users.
    gamma : float
        γ, the entropic regularization; a small γ takes many iterations.
    tolerance : float, default 1e-5
        The error `Σ_j |Σ_i π_ij − p_j|` at which the iterations stop. Below 1e-5 everything is computed in double
        precision.
    max_iterations : int, default 1000
        Maximum number of iterations.
    init_from : SinkhornPlan, optional
        An earlier plan for the same items, possibly for other scores or another γ, to start from.
    device : str, default "auto"
        `"auto"` uses a GPU if there is one and there are at least a billion pairs; `"cpu"`; or `"cuda"`.
    precision : {"high", "double"}, default "high"
        See `relaxed`.
    memory : float, default 256e6
        Maximum number of bytes of blocks in memory at once, on the CPU.
    progress : callable, optional
        Called after each block with the task, the number of blocks done, and the number of blocks of `max_iterations`
        iterations.

    Returns
    -------
    SinkhornPlan

    Raises
    ------
    InputError
        If an argument is invalid.

    Warns
    -----
    ConvergenceWarning
        If the iterations stop before the tolerance is met. `SinkhornPlan.converged` is False then.

    Examples
    --------
    >>> factors = Factors([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    >>> sinkhorn(factors, Marginals.uniform(2, 2), gamma=0.5).to_dense().round(2)
    array([[0.44, 0.06],
           [0.06, 0.44]])
    """
    tolerance = check_float("tolerance", tolerance, 0)
    max_iterations = check_int("max_iterations", max_iterations, 1)
    report = bind_task(progress, "Computing the transport plan")
    in_double = tolerance < _MIN_SINGLE_TOLERANCE
    backend = make_backend(scores, marginals, gamma, memory, device, precision, in_double=in_double)
    log_users, log_items = marginals.log_users, marginals.log_items
    for_items = log_items if init_from is None else _start_potentials(init_from, gamma, log_items)
    n_steps = max_iterations * backend.n_steps

    error, iterations = np.inf, 0
    while True:

        def report_block(done: int, _: int, before: int = iterations * backend.n_steps) -> None:
            if report is not None:
                report(before + done, n_steps)

        row_sums, by_item = backend.scaled_log_sums(for_items, log_users, report_block)
        for_users = log_users - row_sums
        iterations += 1
        error = float(np.abs(np.exp(by_item + for_items) - marginals.items).sum())
        if error <= tolerance or iterations == max_iterations:
            break
        for_items = log_items - by_item
    if report is not None:
        report(n_steps, n_steps)
    plan = SinkhornPlan(backend, marginals, (for_users, for_items), float(gamma), iterations, error, tolerance)
    if not plan.converged:
        warnings.warn(
            f"sinkhorn stopped after {iterations} iterations with an error of {error:.3g} in the item marginal, above "
            f"the tolerance of {tolerance:g}; use a larger gamma or more iterations",
            ConvergenceWarning,
            stacklevel=2,
        )
    return plan


def _start_potentials(init_from: SinkhornPlan, gamma: float, log_items: Vector) -> Vector:
    """Return the items' potentials of an earlier plan; γ·g changes little from one γ to another."""
    if not isinstance(init_from, SinkhornPlan):
        raise InputError(f"init_from must be a plan of sinkhorn; got {type(init_from).__name__}")
    if init_from.shape[1] != len(log_items):
        raise InputError(f"init_from must be a plan for {len(log_items)} items; got one for {init_from.shape[1]} items")
    potential = init_from.item_potential * (init_from.gamma / gamma)
    return np.where(np.isfinite(potential), potential, log_items)
