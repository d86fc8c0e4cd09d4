"""Transport with entropy and both constraints, by Sinkhorn's iteration (Eq. 4)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from prorec._core.checks import check_float, check_int
from prorec._core.errors import ConvergenceWarning, InputError
from prorec._core.progress import Progress
from prorec.transport.backend import Backend, make_backend
from prorec.transport.blocks import DEFAULT_MEMORY, bind_task
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals, Vector
from prorec.transport.plan import ScaledPlan
from prorec.transport.scores import ScoreFunction

if TYPE_CHECKING:
    from prorec.transport.gpu_backend import Precision

_FINEST = 1e-5  # rounding in single precision may leave an error of half of this


class SinkhornPlan(ScaledPlan):
    """A plan log π_ij = S_ij/γ + f_i + g_j, with what is known about how far the iteration came.

    Attributes
    ----------
    gamma : γ
    iterations : how many passes over the scores it took
    error : what is left of the error in the item marginal, `Σ_j |Σ_i π_ij − p_j|`; the user marginal is met
    converged : whether that is within the tolerance
    """

    def __init__(
        self,
        passes: Backend,
        marginals: Marginals,
        potentials: tuple[Vector, Vector],
        gamma: float,
        iterations: int,
        error: float,
        tolerance: float,
    ) -> None:
        for_users, for_items = potentials
        super().__init__(passes, marginals, for_users, np.full_like(for_users, -np.inf), for_items)
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
    """The plan that meets both marginals with the least cost less entropy; each iteration is one pass over the scores.

    In the log-domain: f_i = log q_i − log Σ_j e^(S_ij/γ + g_j), then g_j = log p_j − log Σ_i e^(S_ij/γ + f_i), until
    the item marginal is met. A plan that stops short comes with a warning and says so in `converged`.

    Parameters
    ----------
    scores : S = −M, higher is better; factors, or a function from row numbers to a block of scores
    marginals : p over items and q over users
    gamma : γ, the weight of the entropy; small ones take many iterations
    tolerance : the error to stop at, `Σ_j |Σ_i π_ij − p_j|`; below 1e-5 everything goes in double precision
    max_iterations : stop there in any case
    init_from : an earlier plan for these items, say for other scores or another γ, to start from
    device, precision : as in `relaxed`
    memory : how many bytes of blocks may be in memory at once, on the CPU
    progress : called after each block with the task, the number of blocks done, and the largest number of blocks that
        all iterations can take
    """
    tolerance = check_float("tolerance", tolerance, 0)
    max_iterations = check_int("max_iterations", max_iterations, 1)
    report = bind_task(progress, "Computing the transport plan")
    passes = make_backend(scores, marginals, gamma, memory, device, precision, in_double=tolerance < _FINEST)
    log_users, log_items = marginals.log_users, marginals.log_items
    for_items = log_items if init_from is None else _from(init_from, gamma, log_items)

    error, iterations = np.inf, 0
    while True:

        def report_block(done: int, _: int, before: int = iterations * passes.n_steps) -> None:
            if report is not None:
                report(before + done, max_iterations * passes.n_steps)

        row_sums, by_item = passes.scaled_log_sums(for_items, log_users, report_block)
        for_users = log_users - row_sums
        iterations += 1
        error = float(np.abs(np.exp(by_item + for_items) - marginals.items).sum())
        if error <= tolerance or iterations == max_iterations:
            if report is not None:
                report(max_iterations * passes.n_steps, max_iterations * passes.n_steps)
            break
        for_items = log_items - by_item
    plan = SinkhornPlan(passes, marginals, (for_users, for_items), float(gamma), iterations, error, tolerance)
    if not plan.converged:
        warnings.warn(
            f"sinkhorn stopped after {iterations} iterations with an error of {error:.3g} in the item marginal, above "
            f"the tolerance of {tolerance:g}; a larger gamma or more iterations would help",
            ConvergenceWarning,
            stacklevel=2,
        )
    return plan


def _from(init_from: SinkhornPlan, gamma: float, log_items: Vector) -> Vector:
    """The items' potentials of an earlier plan; γ·g is what changes little from one γ to another."""
    if not isinstance(init_from, SinkhornPlan):
        raise InputError(f"init_from must be a plan of sinkhorn; got {type(init_from).__name__}")
    if init_from.shape[1] != len(log_items):
        raise InputError(f"init_from is a plan for {init_from.shape[1]} items, not {len(log_items)}")
    potential = init_from.item_potential * (init_from.gamma / gamma)
    return np.where(np.isfinite(potential), potential, log_items)
