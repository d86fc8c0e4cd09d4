"""The block step on a CPU: from a block of scores over γ to sums, thresholds and shares.

Every function here is pure but for the block itself, which it may overwrite, and comes in two precisions, chosen by
the block's dtype:

- float32, where |S/γ| stays within `REACH`: e^(S/γ) can be taken without a shift, and compiled loops fuse exponential
  and sums. A block that does not fit is answered with None.
- float64, for everything else: log-domain, each row and column shifted by its own largest value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from prorec.transport.kernels.row_split import kth_largest, split_row, sum_of

Block = NDArray[Any]  # float32 or float64
Vector = NDArray[np.float64]
Matched = tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]

REACH = 40.0
"""The largest |S/γ| that single precision is trusted with.

Half a unit in the last place of 40 is 2e-6, and e^±40 is far from what overflows or vanishes."""

SMALLEST = 1e-30
"""Below this, sums and weights in single precision have lost digits, or are about to."""

_COLUMN_ROWS = 64  # so many rows are summed by column in single precision before they join the sum in double


def log_sums(block: Block) -> tuple[Vector, Vector] | None:
    """Row and column log-sum-exp of a block; None where it is too large for single precision."""
    if block.dtype == np.float32:
        rows, columns = np.empty(len(block)), np.zeros(block.shape[1])
        if not _kernel_sums(block, rows, columns) <= REACH:
            return None
        return np.log(rows), np.log(columns)
    top = block.max()
    if top - block.min() < 600:  # one shift does for all, and one exponential for rows and columns
        block -= top
        np.exp(block, out=block)
        return np.log(block.sum(axis=1)) + top, np.log(block.sum(axis=0)) + top
    return _log_sum_exp(block, axis=1), _log_sum_exp(block, axis=0)


def scaled_log_sums(block: Block, item_potential: Vector, user_log_mass: Vector) -> tuple[Vector, Vector] | None:
    """Row log-sum-exp of x + g; then, with f = log q less that, column log-sum-exp of x + f; None as in `log_sums`."""
    if block.dtype == np.float32:
        top, most = item_potential.max(), user_log_mass.max()
        if most == -np.inf:
            return None
        item_scale = np.exp(item_potential - top).astype(np.float32)
        rows, columns = np.empty(len(block)), np.zeros(block.shape[1])
        if not _scaled_sums(block, item_scale, np.exp(user_log_mass - most), rows, columns) <= REACH:
            return None
        if columns.min() < SMALLEST:  # an item that no user of this block comes near
            return None
        return np.log(rows) + top, np.log(columns) + most - top
    rows = _log_sum_exp(block + item_potential, axis=1)
    block += (user_log_mass - rows)[:, None]
    return rows, _log_sum_exp(block, axis=0)


def match(
    block: Block,
    user_potential: Vector,
    item_potential: Vector,
    k: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
) -> Matched | None:
    """Thresholds and shares in a plan e^(x_ij + max(A_j, B_i)), see `match_plan`; None as in `log_sums`."""
    if block.dtype == np.float32:
        # Relative to the largest weight of the row, so that none overflows.
        top = item_potential.max()
        shift = np.maximum(user_potential, top)
        item_weight = np.exp(item_potential - top)
        weights = np.exp([top - shift, user_potential - shift]).T
        if _has_tiny(item_weight) and (weights[:, 1] >= SMALLEST).all():
            item_weight[item_weight < SMALLEST] = 0  # of the two weights of a pair the user's is the larger one
        elif _has_tiny(item_weight) or _has_tiny(weights[:, 1]):
            return None
        kappa, threshold, shares = _room_for(len(block), len(indices))
        weights = np.ascontiguousarray(weights, dtype=np.float32)
        arguments = item_weight.astype(np.float32), weights, k, indptr, indices, kappa, threshold, shares
        return (kappa, threshold, shares) if _match_rows(block, *arguments) <= REACH else None
    block += np.maximum(item_potential, user_potential[:, None])
    block -= block.max(axis=1, keepdims=True)
    return match_plan(np.exp(block, out=block), k, indptr, indices)


def match_plan(rows: Vector, k: int, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> Matched:
    """κ, the threshold's share and the shares of the given pairs, in rows of a plan.

    A share is a plan value divided by its row's sum: the ρ of Eq. 20. `k` asks for the k-th largest value of each row
    as its threshold; 0, for the least-squares split. Row i's pairs are `indices[indptr[i] : indptr[i + 1]]`.
    """
    kappa, threshold, shares = _room_for(len(rows), len(indices))
    no_weights = np.empty(0, dtype=np.float32)
    arguments = no_weights, no_weights.reshape(0, 2), k, indptr, indices, kappa, threshold, shares
    _match_rows(rows.astype(np.float32), *arguments)
    return kappa, threshold, shares


def _room_for(n_users: int, n_pairs: int) -> Matched:
    return np.empty(n_users, dtype=np.int64), np.empty(n_users, dtype=np.float32), np.empty(n_pairs, dtype=np.float32)


def _has_tiny(weights: Vector) -> bool:
    """Is there any that single precision would round to a few digits or to nothing, though it is not nothing?"""
    return bool(((weights > 0) & (weights < SMALLEST)).any())


def logistic(block: NDArray[np.float32], scale: float) -> None:
    """Scale / (1 + e^−x), in place."""
    _logistic(block.reshape(-1), np.float32(scale))


def _log_sum_exp(block: NDArray[np.float64], axis: int) -> Vector:
    top = block.max(axis=axis, keepdims=True)
    top[~np.isfinite(top)] = 0.0  # a row or column without any mass: its sum is 0, its logarithm −∞
    with np.errstate(divide="ignore"):
        sums: Vector = np.log(np.exp(block - top).sum(axis=axis))
    sums += top.squeeze(axis)
    return sums


# Terms may be added in any order: that lets the loops run in vector registers.
_ANY_ORDER = {"reassoc", "contract", "nsz", "nnan", "ninf"}
_LOG2_E = np.float32(1.4426950408889634)
_LN_2_HIGH, _LN_2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_ROUNDER = np.float32(1.5 * 2**23)  # adding it rounds to a whole number, which is then in the trailing bits
_EXP = tuple(np.float32(c) for c in (1.9875691e-4, 1.3981999e-3, 8.3334519e-3, 4.1665795e-2, 1.6666665e-1, 0.5))
_C0, _C1, _C2, _C3, _C4, _C5 = _EXP


@njit(cache=True, nogil=True, fastmath={"contract", "nsz", "nnan", "ninf"})
def _exp(x: np.float32) -> np.float32:
    """e^x for |x| < 87, relative error 1e-7: 2^n · e^r with |r| ≤ log(2)/2, e^r by Cephes' polynomial.

    The compiler turns loops over this into vector code, which it does not for the library's function.
    """
    shifted = x * _LOG2_E + _ROUNDER
    n = shifted - _ROUNDER
    r = (x - n * _LN_2_HIGH) - n * _LN_2_LOW
    y = ((((_C0 * r + _C1) * r + _C2) * r + _C3) * r + _C4) * r + _C5
    y = y * r * r + r + np.float32(1)
    return np.int32(np.float32(y).view(np.int32) + (np.float32(shifted).view(np.int32) << 23)).view(np.float32)


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _kernel_sums(block: NDArray[np.float32], rows: Vector, columns: Vector) -> float:
    """Sums of e^x by row and (added to what is there) by column; returns the largest |x|."""
    n = block.shape[1]
    reach = np.int32(0)
    here = np.zeros(n, dtype=np.float32)
    for row in range(len(block)):
        total = 0.0
        for begin in range(0, n, 4096):
            part, column = block[row, begin : begin + 4096], here[begin : begin + 4096]
            row_sum = np.float32(0)
            largest = np.int32(0)
            for j in range(len(part)):
                value = _exp(part[j])
                row_sum += value
                column[j] += value
                size = np.float32(part[j]).view(np.int32) & 0x7FFFFFFF
                largest = size if size > largest else largest
            total += np.float64(row_sum)
            reach = max(reach, largest)
        rows[row] = total
        if row % _COLUMN_ROWS == _COLUMN_ROWS - 1 or row == len(block) - 1:
            _flush(here, columns)
    return _float(reach)


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _scaled_sums(
    block: NDArray[np.float32], item_scale: NDArray[np.float32], mass: Vector, rows: Vector, columns: Vector
) -> float:
    """Row sums of e^x·v_j, then, with u_i = mass_i / row sum, column sums of u_i·e^x; returns the largest |x|.

    Overwrites the block.
    """
    n = block.shape[1]
    reach = np.int32(0)
    here = np.zeros(n, dtype=np.float32)
    for row in range(len(block)):
        total = 0.0
        for begin in range(0, n, 4096):
            part, scale = block[row, begin : begin + 4096], item_scale[begin : begin + 4096]
            row_sum = np.float32(0)
            largest = np.int32(0)
            for j in range(len(part)):
                value = _exp(part[j])
                size = np.float32(part[j]).view(np.int32) & 0x7FFFFFFF
                largest = size if size > largest else largest
                part[j] = value
                row_sum += value * scale[j]
            total += np.float64(row_sum)
            reach = max(reach, largest)
        rows[row] = total
        user_scale = np.float32(mass[row] / total) if total > 0 else np.float32(0)
        part = block[row]
        for j in range(n):
            here[j] += user_scale * part[j]
        if row % _COLUMN_ROWS == _COLUMN_ROWS - 1 or row == len(block) - 1:
            _flush(here, columns)
    return _float(reach)


@njit(cache=True, nogil=True)
def _flush(here: NDArray[np.float32], columns: Vector) -> None:
    for j in range(len(here)):
        columns[j] += here[j]
        here[j] = 0


@njit(cache=True, nogil=True)
def _match_rows(
    rows: NDArray[np.float32],
    item_weight: NDArray[np.float32],
    weights: NDArray[np.float32],
    k: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    kappa: NDArray[np.int64],
    threshold: NDArray[np.float32],
    shares: NDArray[np.float32],
) -> float:
    """Scores to plan values, where there are weights for that; then thresholds and shares, row by row in the cache.

    Returns the largest |score|; beyond `REACH` it stops there.
    """
    spare = np.empty(rows.shape[1], dtype=np.int32)
    reach = 0.0
    for i in range(len(rows)):
        row = rows[i]
        if len(weights):
            reach = max(reach, _weigh(row, item_weight, weights[i, 0], weights[i, 1]))
            if not reach <= REACH:
                return np.inf
        total = sum_of(row)
        if k == 0:
            kappa[i], value = split_row(row, total, spare)
        else:
            kappa[i] = min(k, len(row))
            value = kth_largest(row, kappa[i], spare)
        scale = 1 / total if total > 0 else 0.0  # a row of zeros has shares of 0
        threshold[i] = value * scale
        for pair in range(indptr[i], indptr[i + 1]):
            shares[pair] = row[indices[pair]] * scale
    return reach


@njit(cache=True, nogil=True)
def split_rows(rows: NDArray[np.float32], kappa: NDArray[np.int64], threshold: NDArray[np.float32]) -> None:
    """The least-squares split of each row."""
    spare = np.empty(rows.shape[1], dtype=np.int32)
    for i in range(len(rows)):
        kappa[i], threshold[i] = split_row(rows[i], sum_of(rows[i]), spare)


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _weigh(
    row: NDArray[np.float32], item_weight: NDArray[np.float32], item_scale: np.float32, user_weight: np.float32
) -> float:
    """Plan values of one row, e^x·max(a_j, b), in place; returns the largest |x|."""
    largest = np.int32(0)
    for j in range(len(row)):
        size = np.float32(row[j]).view(np.int32) & 0x7FFFFFFF
        largest = size if size > largest else largest
        weight = item_weight[j] * item_scale
        weight = weight if weight > user_weight else user_weight
        row[j] = _exp(row[j]) * weight
    return _float(largest)


@njit(cache=True, nogil=True)
def _float(bits: np.int32) -> float:
    """The number of these bits; what is no number counts as infinite."""
    value = np.float64(np.int32(bits).view(np.float32))
    return value if value == value else np.inf


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _logistic(values: NDArray[np.float32], scale: np.float32) -> None:
    limit = np.float32(80)
    for j in range(len(values)):
        x = -values[j]
        x = limit if x > limit else x
        x = -limit if x < -limit else x
        values[j] = scale / (np.float32(1) + _exp(x))
