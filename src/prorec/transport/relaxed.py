"""Relaxed transport: entropic transport with one marginal fixed, in closed form (Eq. 5, 6 and 7)."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from prorec._core.checks import check_choice
from prorec._core.progress import Progress
from prorec.transport.backend import Backend, CpuBackend, Precision, make_backend
from prorec.transport.blocks import DEFAULT_MEMORY, bind_task
from prorec.transport.bounded_sums import BoundedSums, bound_log_sums
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals, Vector
from prorec.transport.plan import ScaledPlan
from prorec.transport.scores import ScoreFunction

_LARGE_CATALOGUE = 200_000  # items
_MANY_PAIRS = 1e11  # minutes on a few cores


class BoundedPlan(ScaledPlan):
    """A relaxed plan whose log-sums lie between proven bounds.

    Values have a relative error of at most `error_bounds`, because they are in proportion to the sums. `match` is exact
    for this plan, and goes over all pairs.

    Attributes
    ----------
    user_sums, item_sums : BoundedSums or None
        Log-sums by user and by item; None for those that the plan does not need.
    """

    def __init__(
        self,
        backend: Backend,
        marginals: Marginals,
        potentials: tuple[Vector, Vector, Vector],
        user_sums: BoundedSums | None,
        item_sums: BoundedSums | None,
    ) -> None:
        super().__init__(backend, marginals, *potentials)
        self.user_sums, self.item_sums = user_sums, item_sums

    def error_bounds(self, users: ArrayLike, items: ArrayLike) -> Vector:
        """Return a bound of the relative error of π at single pairs.

        Parameters
        ----------
        users, items : array of int
            Row and column numbers, of equal length.

        Returns
        -------
        array of float
        """
        rows, columns = self._check_pairs(users, items)
        bounds = np.zeros(len(rows))
        for sums, at in ((self.user_sums, rows), (self.item_sums, columns)):
            if sums is not None:  # a value is p or q over the sum, so a high sum makes it low
                above, below = np.expm1(sums.high - sums.estimate), -np.expm1(sums.low - sums.estimate)
                np.maximum(bounds, np.maximum(above, below)[at], out=bounds)
        return bounds


def relaxed(
    scores: Factors | ScoreFunction,
    marginals: Marginals,
    gamma: float,
    side: Literal["both", "users", "items"] = "both",
    *,
    method: Literal["exact", "bounded"] = "exact",
    tolerance: float = 0.02,
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
    method : {"exact", "bounded"}, default "exact"
        `"exact"` goes over all pairs. `"bounded"` is for large catalogues: it bounds the sums by `bound_log_sums`, on
        the CPU, and returns a `BoundedPlan`, whose values have proven error bounds.
    tolerance : float, default 0.02
        Largest relative distance between the bounds of a sum, from 0.0001 to 1; only for `"bounded"`.
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

    Warns
    -----
    UserWarning
        If all pairs of a catalogue of more than 200,000 items will take long on the CPU.

    Examples
    --------
    >>> factors = Factors([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]])
    >>> relaxed(factors, Marginals.uniform(2, 2), gamma=0.5, side="users").to_dense().round(2)
    array([[0.44, 0.06],
           [0.06, 0.44]])
    """
    check_choice("side", side, ("both", "users", "items"))
    check_choice("method", method, ("exact", "bounded"))
    report = bind_task(progress, "Computing the transport plan")
    backend = make_backend(scores, marginals, gamma, memory, device, precision)
    user_sums = item_sums = None
    if method == "exact":
        _warn_if_large(scores, backend)
        by_user, by_item = backend.log_sums(report)
    else:
        by_user, by_item = np.zeros(marginals.shape[0]), np.zeros(marginals.shape[1])
        if side != "items":
            user_sums = bound_log_sums(scores, gamma, "users", tolerance=tolerance, memory=memory, progress=progress)
            by_user = user_sums.estimate
        if side != "users":
            item_sums = bound_log_sums(scores, gamma, "items", tolerance=tolerance, memory=memory, progress=progress)
            by_item = item_sums.estimate
    for_users, for_items = marginals.log_users - by_user, marginals.log_items - by_item
    no_offset, no_users = np.zeros_like(by_user), np.full_like(by_user, -np.inf)
    offset, user_potential, item_potential = {
        "users": (for_users, no_users, np.zeros_like(by_item)),
        "items": (no_offset, no_users, for_items),
        "both": (no_offset, for_users, for_items),
    }[side]
    if method == "exact":
        return ScaledPlan(backend, marginals, offset, user_potential, item_potential)
    return BoundedPlan(backend, marginals, (offset, user_potential, item_potential), user_sums, item_sums)


def _warn_if_large(scores: Factors | ScoreFunction, backend: Backend) -> None:
    """Name the bounded method if it applies and the exact one takes long."""
    n_users, n_items = backend.blocks.scores.shape
    is_bounded = isinstance(scores, Factors) and scores.link == "identity"
    if (
        is_bounded
        and isinstance(backend, CpuBackend)
        and n_items > _LARGE_CATALOGUE
        and n_users * n_items > _MANY_PAIRS
    ):
        warnings.warn(
            f"{n_users:,} users × {n_items:,} items are {n_users * n_items:.2g} pairs, which take long on the CPU. "
            'transport.relaxed(…, method="bounded") bounds the sums of the plan from a part of them',
            UserWarning,
            stacklevel=3,
        )
