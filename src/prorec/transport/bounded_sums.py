"""Log-sums of a large catalogue between proven bounds, from a small part of all pairs.

A user's sum Σ_j e^(S_ij/γ) is split by the length of the item factors. Long factors are the head: their pairs are
computed. Short factors are the tail: their scores are close together, and moments bound their sum (`tail_bounds`). Each
user gets the shortest head that brings the bounds together. Nothing is drawn at random, so no bound fails by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from prorec._core.checks import check_choice, check_float
from prorec._core.errors import InputError
from prorec._core.parallel import N_CORES, map_in_order
from prorec._core.progress import Progress
from prorec.transport.block_step import sum_block
from prorec.transport.blocks import DEFAULT_MEMORY, Blocks, bind_task, check_memory
from prorec.transport.factors import Factors
from prorec.transport.marginals import Vector
from prorec.transport.scores import ScaledFactors, ScoreFunction
from prorec.transport.tail_bounds import PART, TailBounds, bound_tails, count_moment_pairs, make_shells

_ROUNDING = 4e-5  # relative error of sums in single precision, see the manual
_DOUBLE_ROUNDING = 1e-15  # of scores over γ in double precision, relative to the product of lengths
_MAX_LENGTH = 1e100  # beyond, moments of short factors might vanish


@dataclass(frozen=True, eq=False, repr=False)
class BoundedSums:
    """Log-sums between proven bounds: the result of `bound_log_sums`."""

    estimate: Vector
    """Estimate of the log-sum of each row."""
    low: Vector
    """Lower bound of each log-sum."""
    high: Vector
    """Upper bound of each log-sum."""
    n_pairs: int
    """Work: the number of computed pairs, and the work on moments as if it were pairs."""
    n_all_pairs: int
    """Number of pairs that exact sums take."""

    @property
    def error_bounds(self) -> Vector:
        """Bound of the relative error of each sum e^estimate."""
        above, below = np.expm1(self.estimate - self.low), -np.expm1(self.estimate - self.high)
        return np.asarray(np.maximum(above, below))

    def __repr__(self) -> str:
        median, most = np.quantile(self.error_bounds, [0.5, 0.99])
        return (
            f"BoundedSums({len(self.estimate):,} rows from {self.n_pairs / self.n_all_pairs:.1%} of the pairs, "
            f"errors of at most {median:.2%} in half of the rows and {most:.2%} in 99%)"
        )


def bound_log_sums(
    factors: Factors | ScoreFunction,
    gamma: float,
    side: Literal["users", "items"] = "users",
    *,
    tolerance: float = 0.02,
    memory: float = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> BoundedSums:
    """Bound the log-sums that the relaxed plan divides by, without computing all pairs.

    `relaxed` computes R_i = log Σ_j e^(S_ij/γ) and C_j = log Σ_i e^(S_ij/γ) from all pairs, which takes long for
    hundreds of thousands of users and items. This function computes the pairs with long factors, and bounds the sum
    over the others by their moments. It saves much if factors differ in length, as those of trained models do, and if γ
    is not small. Rows for which it saves nothing are computed exactly.

    Parameters
    ----------
    factors : Factors
        Scores, with or without an item bias, but without a sigmoid. A function of row numbers is refused.
    gamma : float
        γ, above 0.
    side : {"users", "items"}, default "users"
        `"users"` asks for R, `"items"` for C.
    tolerance : float, default 0.02
        Largest relative distance between the two bounds of a sum, from 0.0001 to 1; rounding comes on top.
    memory : float, default 256e6
        Maximum number of bytes of blocks in memory at once, beside copies of the factors.
    progress : callable, optional
        Called with the task, and the done and the whole number of blocks of rows, then of pairs to compute.

    Returns
    -------
    BoundedSums

    Raises
    ------
    InputError
        If an argument is invalid.

    References
    ----------
    Heads by the length of factors are from: C. Teflioudi, R. Gemulla and O. Mykytiuk, "LEMP: Fast retrieval of large
    entries in a matrix product", SIGMOD 2015.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> items = rng.normal(size=(5000, 8)) * rng.lognormal(-2, 1, size=(5000, 1))
    >>> factors = Factors(rng.normal(size=(300, 8)), items)
    >>> sums = bound_log_sums(factors, gamma=1.0)
    >>> exact = np.log(np.exp(factors.users @ items.T).sum(axis=1))
    >>> bool(((sums.low <= exact) & (exact <= sums.high)).all()), bool(sums.error_bounds.max() < 0.0202)
    (True, True)
    """
    if not isinstance(factors, Factors):
        raise InputError(
            f"factors must be Factors; got {type(factors).__name__}. Use relaxed() for scores of a function"
        )
    if factors.link != "identity":
        raise InputError(f"factors must have the identity link; got {factors.link}. Use relaxed() for other links")
    check_choice("side", side, ("users", "items"))
    gamma, tolerance = check_float("gamma", gamma), check_float("tolerance", tolerance, 1e-4, 1)
    if gamma <= 0:
        raise InputError(f"gamma must be above 0; got {gamma:g}")
    report_tails = bind_task(progress, "Bounding the tails of sums")
    report_heads = bind_task(progress, "Computing the heads of sums")

    rows, columns, bias = factors.users, factors.items, factors.item_bias
    row_shift = np.zeros(len(rows))
    if side == "items":
        row_shift = np.zeros(len(columns)) if bias is None else bias.astype(np.float64) / gamma
        rows, columns, bias = columns, rows, None
    score_bound = ScaledFactors(Factors(rows, columns, bias), gamma).score_bound + np.abs(row_shift)
    check_memory(memory, len(columns))  # some row may need all of them
    # A power of two makes the largest factor of the columns about 1, so that moments neither overflow nor vanish.
    _, exponent = np.frexp(max(columns.max(initial=0), -columns.min(initial=0)))
    with np.errstate(over="ignore"):
        scale = np.ldexp(1 / gamma, exponent)
        longest = np.sqrt(rows.shape[1]) * float(max(rows.max(initial=0), -rows.min(initial=0))) * scale
    if not longest <= _MAX_LENGTH:
        raise InputError(
            f"factors over gamma must be at most {_MAX_LENGTH:g} if those of the other side are 1; got {longest:.3g}. "
            "Use relaxed(), or scale the factors"
        )
    log_weights = np.zeros(len(columns)) if bias is None else bias.astype(np.float64) / gamma
    shells = make_shells(np.ldexp(columns.astype(np.float64), -exponent), log_weights)
    starts = range(0, len(rows), PART)

    def bound_part(index: int) -> TailBounds:
        part = rows[starts[index] : starts[index] + PART]
        return bound_tails(part.astype(np.float64) * scale, shells, tolerance)

    tails = []
    for tail in map_in_order(bound_part, len(starts), N_CORES):
        tails.append(tail)
        if report_tails is not None:
            report_tails(len(tails), len(starts))
    heads, low, estimate, high = (np.concatenate(each) for each in zip(*tails, strict=True))

    n_computed, n_total = 0, int(shells.starts[heads].sum())
    for head in np.unique(heads[heads > 0]):
        chosen = np.flatnonzero(heads == head)
        in_head = shells.order[: shells.starts[head]]
        part_of_factors = Factors(rows[chosen], columns[in_head], None if bias is None else bias[in_head])
        blocks = Blocks(ScaledFactors(part_of_factors, gamma), memory)
        for positions, (sums, _) in blocks.map(partial(sum_block, blocks.scores)):
            at = chosen[positions]
            for total in (low, estimate, high):
                total[at] = np.logaddexp(total[at], sums)
            n_computed += len(at) * len(in_head)
            if report_heads is not None:
                report_heads(n_computed, n_total)
    rounding = _ROUNDING + _DOUBLE_ROUNDING * score_bound
    return BoundedSums(
        estimate + row_shift,
        low + row_shift - rounding,
        high + row_shift + rounding,
        n_total + len(rows) * count_moment_pairs(shells),
        len(rows) * len(columns),
    )
