"""Bounds of sums over the tail of a catalogue, by moments of its factors.

With u a user's factors over γ, and with weights w_j = e^(b_j/γ) for an item bias b, items with the weighted mean c have

    Σ_j w_j·e^(u·v_j)  =  e^(u·c)·W·(1 + q·φ),    φ(−L) ≤ φ ≤ φ(L),    φ(t) = (e^t − 1 − t)/t²,

where W is the sum of their weights, q the weighted mean of t_j² for t_j = u·(v_j − c), and L = ‖u‖·max_j ‖v_j − c‖ is
at least |t_j|. For the weighted mean of t_j is 0, and φ increases. q needs no pairs but the items' second moment. With
the third moment, c₃ is the weighted mean of t_j³, and closer bounds of the same sum over W are

    1 + q/2 + c₃/6    and    1 + q/2 + c₃/6 + q·ψ(L),    ψ(t) = (e^t − 1 − t − t²/2 − t³/6)/t²,

because the part of e^t beyond its third power is never negative, and at most ψ(L)·t².

The tail is cut into shells of items with factors of similar length, which have moments of their own.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from prorec.transport.marginals import Vector

Matrix = NDArray[np.float64]
PART = 1024
"""Number of rows whose bounds are computed at a time."""

_SMALLEST_SHELL = 64
_GROWTH = 1.5  # of the head from shell to shell; a smaller one saves pairs and costs moments
_THIRD_MOMENT_SHARE = 20  # a third moment costs a twentieth of the pairs of its shell, or less
_MAX_THIRD_REACH = 4.0  # L beyond which a third moment brings the bounds no closer
_PSI_TERMS = 40


class Shells(NamedTuple):
    """Moments of shells of columns: columns by descending distance from their mean, in runs."""

    order: NDArray[np.intp]
    """Columns in that order."""
    starts: NDArray[np.int64]
    """Positions in `order` at which the shells begin, and its length."""
    log_weights: Vector
    """log W of each shell."""
    means: Matrix
    """Weighted mean c of each shell, shells × width."""
    moments: Matrix
    """Weighted mean of (v − c)(v − c)ᵀ of each shell, shells × width × width."""
    radii: Vector
    """Largest ‖v − c‖ of each shell."""
    third_moments: list[Matrix | None]
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


def make_shells(columns: Matrix, log_weights: Vector) -> Shells:
    """Sort columns by their distance from the mean, cut them into shells, and compute the moments of each.

    Parameters
    ----------
    columns : array of float, columns × width
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


def bound_tails(rows: Matrix, shells: Shells, tolerance: float) -> TailBounds:
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


def count_moment_pairs(shells: Shells) -> int:
    """Return the work of all moments for one row, as a number of pairs.

    Parameters
    ----------
    shells : Shells
        Shells of the columns.

    Returns
    -------
    int
    """
    n_third = sum(third is not None for third in shells.third_moments)
    width = int(shells.means.shape[1])
    return len(shells.radii) * width + n_third * _count_products(width)


def _log_phi(t: Matrix) -> Matrix:
    """Compute log φ(t) = log((e^t − 1 − t)/t²), which is log ½ at 0."""
    is_small, is_large = np.abs(t) < 0.01, t > 30
    inside = np.where(is_small | is_large, 1.0, t)
    result: Matrix = np.log(np.expm1(inside) - inside) - 2 * np.log(np.abs(inside))
    small, large = t[is_small], t[is_large]
    result[is_small] = np.log(0.5 + small / 6 + small**2 / 24 + small**3 / 120)
    result[is_large] = large - 2 * np.log(large)  # slightly too large, which an upper bound may be
    return result


def _psi(t: Matrix) -> Matrix:
    """Compute ψ(t) = (e^t − 1 − t − t²/2 − t³/6)/t² for t from 0 to `_MAX_THIRD_REACH`, rounded up."""
    total = np.zeros_like(t)
    for power in range(_PSI_TERMS + 3, 3, -1):
        total = (total + 1) * t / power
    return total * t / 6 * (1 + 1e-12)


def _third_moment(shell: Matrix, shares: Vector) -> Matrix:
    """Compute the weighted mean of v_a·v_b·v_c; pairs a < b count twice."""
    total = np.zeros((_count_products(shell.shape[1]), shell.shape[1]))
    for start in range(0, len(shell), PART):
        part = shell[start : start + PART]
        total += _multiply_pairs(part).T @ (part * shares[start : start + PART, None])
    a, b = np.triu_indices(shell.shape[1])
    total[a < b] *= 2
    return total


def _multiply_pairs(vectors: Matrix) -> Matrix:
    """Return the products of each two coordinates a ≤ b."""
    a, b = np.triu_indices(vectors.shape[1])
    return vectors[:, a] * vectors[:, b]


def _count_products(width: int) -> int:
    """Return the work of a third moment for one row, in pairs."""
    return width * (width + 1) // 2


def _sums_from_each(values: Matrix) -> Matrix:
    """Return, for each column and for one past the last, the log-sum-exp of the columns from there on."""
    result = np.full((len(values), values.shape[1] + 1), -np.inf)
    for shell in range(values.shape[1] - 1, -1, -1):
        result[:, shell] = np.logaddexp(result[:, shell + 1], values[:, shell])
    return result
