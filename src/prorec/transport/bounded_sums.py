"""Log-sums of a large catalogue between proven bounds, from a small part of all pairs.

A user's sum Σ_j e^(S_ij/γ) is split by the length of the item factors. Long factors are the head: their pairs are
computed. Short factors are the tail: their scores are close together, and moments bound their sum. With u the user's
factors over γ, and with weights w_j = e^(b_j/γ) for an item bias b, items with the weighted mean c have

    Σ_j w_j·e^(u·v_j)  =  e^(u·c)·W·(1 + q·φ),    φ(−L) ≤ φ ≤ φ(L),    φ(t) = (e^t − 1 − t)/t²,

where W is the sum of their weights, q the weighted mean of t_j² for t_j = u·(v_j − c), and L = ‖u‖·max_j ‖v_j − c‖ is
at least |t_j|. For the weighted mean of t_j is 0, and φ increases. q needs no pairs but the items' second moment. With
the third moment, c₃ is the weighted mean of t_j³, and closer bounds of the same sum over W are

    1 + q/2 + c₃/6    and    1 + q/2 + c₃/6 + q·ψ(L),    ψ(t) = (e^t − 1 − t − t²/2 − t³/6)/t²,

because the part of e^t beyond its third power is never negative, and at most ψ(L)·t².

The tail is cut into shells of items with factors of similar length, which have moments of their own. Each user gets the
shortest head that brings the bounds together. Nothing is drawn at random, so no bound fails by chance.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from prorec._core.checks import check_choice, check_float
from prorec._core.errors import InputError
from prorec._core.progress import Progress
from prorec.transport.block_step import sum_block
from prorec.transport.blocks import DEFAULT_MEMORY, Blocks, bind_task, check_memory
from prorec.transport.factors import Factors
from prorec.transport.marginals import Vector
from prorec.transport.scores import ScaledFactors, ScoreFunction

_SMALLEST_SHELL = 64
_GROWTH = 1.5  # of the head from shell to shell; a smaller one saves pairs and costs moments
_ROUNDING = 4e-5  # relative error of sums in single precision, see the manual
_DOUBLE_ROUNDING = 1e-15  # of scores over γ in double precision, relative to the product of lengths
_MAX_LENGTH = 1e100  # beyond, moments of short factors might vanish
_PART = 1024  # rows whose bounds are computed at a time
_THIRD_MOMENT_SHARE = 20  # a third moment costs a twentieth of the pairs of its shell, or less
_MAX_THIRD_REACH = 4.0  # L beyond which a third moment brings the bounds no closer
_PSI_TERMS = 40


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


class Shells(NamedTuple):
    """Moments of shells of columns: columns by descending distance from their mean, in runs."""

    order: NDArray[np.intp]
    """Columns in that order."""
    starts: NDArray[np.int64]
    """Positions in `order` at which the shells begin, and its length."""
    log_weights: Vector
    """log W of each shell."""
    means: NDArray[np.float64]
    """Weighted mean c of each shell, shells × width."""
    moments: NDArray[np.float64]
    """Weighted mean of (v − c)(v − c)ᵀ of each shell, shells × width × width."""
    radii: Vector
    """Largest ‖v − c‖ of each shell."""
    third_moments: list[NDArray[np.float64] | None]
    """Weighted mean of v_a·v_b·v_c around c, pairs a ≤ b × width, for each shell that is large enough for its cost."""


class TailBounds(NamedTuple):
    """Bounds of the log-sums over the tails of some rows."""

    head: NDArray[np.intp]
    """Number of shells in the head of each row."""
    low: Vector
    """Lower bound of the log-sum over the other shells; −∞ if there are none."""
    estimate: Vector
    """Estimate of it."""
    high: Vector
    """Upper bound of it."""


def bound_log_sums(
    factors: Factors | ScoreFunction,
    gamma: float,
    side: Literal["users", "items"] = "users",
    *,
    tolerance: float = 0.01,
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
    tolerance : float, default 0.01
        Largest relative distance between the two bounds of a sum, from 0.0001 to 1; rounding comes on top.
    memory : float, default 256e6
        Maximum number of bytes of blocks in memory at once, beside copies of the factors.
    progress : callable, optional
        Called with the task, the number of computed pairs and the number of all pairs to compute.

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
    >>> bool(((sums.low <= exact) & (exact <= sums.high)).all()), bool(sums.error_bounds.max() < 0.0102)
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
    report = bind_task(progress, "Bounding log-sums")

    rows, columns, bias = factors.users, factors.items, factors.item_bias
    row_shift = np.zeros(len(rows))
    if side == "items":
        row_shift = np.zeros(len(columns)) if bias is None else bias.astype(np.float64) / gamma
        rows, columns, bias = columns, rows, None
    score_bound = ScaledFactors(Factors(rows, columns, bias), gamma).score_bound + np.abs(row_shift)
    check_memory(memory, len(columns))  # some row may need all of them
    # A power of two makes the largest factor of the columns about 1, so that moments neither overflow nor vanish.
    _, exponent = np.frexp(max(columns.max(), -columns.min()))
    with np.errstate(over="ignore"):
        scale = np.ldexp(1 / gamma, exponent)
        longest = np.linalg.norm(rows, axis=1).max() * scale
    if not longest <= _MAX_LENGTH:
        raise InputError(
            f"factors over gamma must be at most {_MAX_LENGTH:g} if those of the other side are 1; got {longest:.3g}. "
            "Use relaxed(), or scale the factors"
        )
    log_weights = np.zeros(len(columns)) if bias is None else bias.astype(np.float64) / gamma
    shells = make_shells(np.ldexp(columns, -exponent), log_weights)
    parts = (rows[start : start + _PART].astype(np.float64) * scale for start in range(0, len(rows), _PART))
    tails = [bound_tails(part, shells, tolerance) for part in parts]
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
            if report is not None:
                report(n_computed, n_total)
    rounding = _ROUNDING + _DOUBLE_ROUNDING * score_bound
    return BoundedSums(
        estimate + row_shift,
        low + row_shift - rounding,
        high + row_shift + rounding,
        n_total + len(rows) * _count_moment_pairs(shells),
        len(rows) * len(columns),
    )


def make_shells(columns: NDArray[Any], log_weights: Vector) -> Shells:
    """Sort columns by their distance from the mean, cut them into shells, and compute the moments of each.

    Parameters
    ----------
    columns : array, columns × width
        Factors.
    log_weights : array of float
        log w of each column.

    Returns
    -------
    Shells
    """
    center = columns.mean(axis=0, dtype=np.float64)
    order = np.argsort(-np.linalg.norm(columns - center, axis=1), kind="stable")
    starts = [0, min(_SMALLEST_SHELL, len(columns))]
    while starts[-1] < len(columns):
        starts.append(min(int(starts[-1] * _GROWTH), len(columns)))
    sums, means, moments, radii, third = [], [], [], [], []
    for start, stop in itertools.pairwise(starts):
        shell = columns[order[start:stop]].astype(np.float64)
        sums.append(logsumexp(log_weights[order[start:stop]]))
        shares = np.exp(log_weights[order[start:stop]] - sums[-1])
        means.append(shares @ shell)
        shell -= means[-1]
        moments.append((shell.T * shares) @ shell)
        radii.append(np.linalg.norm(shell, axis=1).max())
        is_large = len(shell) >= _THIRD_MOMENT_SHARE * _count_products(columns.shape[1])
        third.append(_third_moment(shell, shares) if is_large else None)
    return Shells(order, np.array(starts), np.array(sums), np.array(means), np.array(moments), np.array(radii), third)


def bound_tails(rows: NDArray[np.float64], shells: Shells, tolerance: float) -> TailBounds:
    """Bound the sums over the tails of a block of rows, with the shortest heads that the tolerance allows.

    Parameters
    ----------
    rows : array, rows × width
        Factors over γ.
    shells : Shells
        Shells of the columns.
    tolerance : float
        Largest difference of the bounds of a tail, relative to a lower bound of the whole sum.

    Returns
    -------
    TailBounds
    """
    shifts = rows @ shells.means.T + shells.log_weights
    second = np.stack([np.einsum("ij,ij->i", rows @ moment, rows) for moment in shells.moments], axis=1)
    reach = np.linalg.norm(rows, axis=1)[:, None] * shells.radii
    with np.errstate(divide="ignore"):
        log_second = np.log(np.clip(second, 0, reach**2))
    low = shifts + np.logaddexp(0, log_second + _log_phi(-reach))
    high = shifts + np.logaddexp(0, log_second + _log_phi(reach))
    estimate = second / 2  # right if scores are from a normal distribution
    products = _multiply_pairs(rows) if any(third is not None for third in shells.third_moments) else rows
    for shell, third in enumerate(shells.third_moments):
        if third is None:
            continue
        near = np.flatnonzero(reach[:, shell] <= _MAX_THIRD_REACH)
        cubic = np.einsum("ij,ij->i", products[near] @ third, rows[near]) / 6
        least = np.maximum(1 + second[near, shell] / 2 + cubic, np.finfo(np.float64).tiny)
        most = least + np.exp(log_second[near, shell]) * _psi(reach[near, shell])
        low[near, shell] = np.maximum(low[near, shell], shifts[near, shell] + np.log(least))
        high[near, shell] = np.minimum(high[near, shell], shifts[near, shell] + np.log(most))
        estimate[near, shell] += cubic
    estimate = np.clip(shifts + estimate, low, high)
    # Sums over the shells from each shell on, and over none.
    low, estimate, high = (_sums_from_each(each) for each in (low, estimate, high))
    with np.errstate(invalid="ignore", over="ignore"):
        width = np.nan_to_num(np.exp(high - low[:, :1]) - np.exp(low - low[:, :1]), nan=np.inf)
    head = np.argmax(width <= tolerance, axis=1)
    chosen = np.arange(len(rows)), head
    return TailBounds(head, low[chosen], estimate[chosen], high[chosen])


def _log_phi(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute log φ(t) = log((e^t − 1 − t)/t²), which is log ½ at 0."""
    is_small, is_large = np.abs(t) < 0.01, t > 30
    inside = np.where(is_small | is_large, 1.0, t)
    result: NDArray[np.float64] = np.log(np.expm1(inside) - inside) - 2 * np.log(np.abs(inside))
    small, large = t[is_small], t[is_large]
    result[is_small] = np.log(0.5 + small / 6 + small**2 / 24 + small**3 / 120)
    result[is_large] = large - 2 * np.log(large)  # slightly too large, which an upper bound may be
    return result


def _psi(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute ψ(t) = (e^t − 1 − t − t²/2 − t³/6)/t² for t from 0 to `_MAX_THIRD_REACH`, rounded up."""
    total = np.zeros_like(t)
    for power in range(_PSI_TERMS + 3, 3, -1):
        total = (total + 1) * t / power
    return total * t / 6 * (1 + 1e-12)


def _third_moment(shell: NDArray[np.float64], shares: Vector) -> NDArray[np.float64]:
    """Compute the weighted mean of v_a·v_b·v_c; pairs a < b count twice."""
    total = np.zeros((_count_products(shell.shape[1]), shell.shape[1]))
    for start in range(0, len(shell), _PART):
        part = shell[start : start + _PART]
        total += _multiply_pairs(part).T @ (part * shares[start : start + _PART, None])
    a, b = np.triu_indices(shell.shape[1])
    total[a < b] *= 2
    return total


def _multiply_pairs(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the products of each two coordinates a ≤ b."""
    a, b = np.triu_indices(vectors.shape[1])
    return vectors[:, a] * vectors[:, b]


def _count_products(width: int) -> int:
    """Return the work of a third moment for one row, in pairs."""
    return width * (width + 1) // 2


def _count_moment_pairs(shells: Shells) -> int:
    """Return the work of all moments for one row, in pairs."""
    n_third = sum(third is not None for third in shells.third_moments)
    width = shells.means.shape[1]
    return len(shells.radii) * width + n_third * _count_products(width)


def _sums_from_each(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each column and for one past the last, the log-sum-exp of the columns from there on."""
    result = np.full((len(values), values.shape[1] + 1), -np.inf)
    for shell in range(values.shape[1] - 1, -1, -1):
        result[:, shell] = np.logaddexp(result[:, shell + 1], values[:, shell])
    return result
