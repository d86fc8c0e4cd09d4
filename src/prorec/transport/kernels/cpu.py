"""The block step on a CPU: from a block of scores over γ to sums, thresholds and row shares.

The functions are pure, except that they may overwrite the block. Each comes in two precisions, chosen by the block's
dtype:

- float32, if |S/γ| is at most `MAX_SCORE`: e^(S/γ) needs no shift, and compiled loops fuse the exponential with the
  sums. The result is None for a block with larger scores.
- float64, for everything else: log-domain, with each row and column shifted by its own maximum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.compilation import njit
from prorec.transport.kernels.row_split import find_kth_largest, split_row, sum_row

Block = NDArray[Any]
"""Scores over γ of users × items, in float32 or float64."""
Vector = NDArray[np.float64]
MatchArrays = tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]
"""κ of each user, the row share at each user's threshold, and the row share of each observed pair."""

MAX_SCORE = 40.0
"""The largest |S/γ| that single precision is used for.

Half a unit in the last place of 40 is 2e-6, and e^±40 neither overflows nor vanishes."""

_MIN_NORMAL = 1e-30
"""Smaller sums and weights lose digits in single precision."""

_COLUMN_ROWS = 64  # rows that are summed by column in single precision before they join the sum in double


def log_sums(block: Block) -> tuple[Vector, Vector] | None:
    """Compute the log-sum-exp of each row and of each column.

    Parameters
    ----------
    block : array, users × items
        Scores over γ; overwritten.

    Returns
    -------
    tuple of array, or None
        By row and by column; None if the scores are too large for single precision.
    """
    if block.dtype == np.float32:
        rows, columns = np.empty(len(block)), np.zeros(block.shape[1])
        if not _sum_exponentials(block, rows, columns) <= MAX_SCORE:
            return None
        return np.log(rows), np.log(columns)
    top = block.max()
    if top - block.min() < 600:  # one shift and one exponential are enough for rows and columns
        block -= top
        np.exp(block, out=block)
        return np.log(block.sum(axis=1)) + top, np.log(block.sum(axis=0)) + top
    return _log_sum_exp(block, axis=1), _log_sum_exp(block, axis=0)


def scaled_log_sums(block: Block, item_potential: Vector, user_log_mass: Vector) -> tuple[Vector, Vector] | None:
    """Compute the log-sums of one Sinkhorn iteration.

    Parameters
    ----------
    block : array, users × items
        Scores x over γ; overwritten.
    item_potential : array of float
        g of each item.
    user_log_mass : array of float
        log q of each user of the block.

    Returns
    -------
    tuple of array, or None
        Log-sum-exp of x + g by row; then, with f = log q minus that, of x + f by column. None if single precision is
        not accurate enough.
    """
    if block.dtype == np.float32:
        item_top, user_top = item_potential.max(), user_log_mass.max()
        if user_top == -np.inf:
            return None
        item_scale = np.exp(item_potential - item_top).astype(np.float32)
        rows, columns = np.empty(len(block)), np.zeros(block.shape[1])
        if not _scaled_sums(block, item_scale, np.exp(user_log_mass - user_top), rows, columns) <= MAX_SCORE:
            return None
        if columns.min() < _MIN_NORMAL:  # an item with tiny values for all users of this block
            return None
        return np.log(rows) + item_top, np.log(columns) + user_top - item_top
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
) -> MatchArrays | None:
    """Find thresholds and row shares in a plan e^(x_ij + max(A_j, B_i)).

    Parameters
    ----------
    block : array, users × items
        Scores x over γ; overwritten.
    user_potential, item_potential : array of float
        B of each user of the block and A of each item.
    k, indptr, indices
        See `match_plan`.

    Returns
    -------
    MatchArrays or None
        See `match_plan`; None if single precision is not accurate enough.
    """
    if block.dtype == np.float32:
        # Weights are relative to the largest weight of the row, so that none overflows.
        top = item_potential.max()
        shift = np.maximum(user_potential, top)
        item_weight = np.exp(item_potential - top)
        weights = np.exp([top - shift, user_potential - shift]).T
        if _has_tiny(item_weight) and (weights[:, 1] >= _MIN_NORMAL).all():
            item_weight[item_weight < _MIN_NORMAL] = 0  # the user's weight is larger, and the larger one counts
        elif _has_tiny(item_weight) or _has_tiny(weights[:, 1]):
            return None
        result = empty_match_arrays(len(block), len(indices))
        weights = np.ascontiguousarray(weights, dtype=np.float32)
        largest = _match_rows(block, item_weight.astype(np.float32), weights, k, indptr, indices, *result)
        return result if largest <= MAX_SCORE else None
    block += np.maximum(item_potential, user_potential[:, None])
    block -= block.max(axis=1, keepdims=True)
    return match_plan(np.exp(block, out=block), k, indptr, indices)


def match_plan(rows: Vector, k: int, indptr: NDArray[np.int64], indices: NDArray[np.int32]) -> MatchArrays:
    """Find thresholds and row shares in rows of a plan (Eq. 20).

    Parameters
    ----------
    rows : array, users × items
        Values of the plan.
    k : int
        κ: the threshold is the κ-th largest value of a row. 0 asks for the least-squares split.
    indptr, indices : array of int
        The observed pairs of row i are `indices[indptr[i] : indptr[i + 1]]`.

    Returns
    -------
    MatchArrays
        κ, the threshold and the observed pairs' values; the latter two divided by the sum of their row.
    """
    result = empty_match_arrays(len(rows), len(indices))
    no_weights = np.empty(0, dtype=np.float32)
    _match_rows(rows.astype(np.float32), no_weights, no_weights.reshape(0, 2), k, indptr, indices, *result)
    return result


def empty_match_arrays(n_users: int, n_pairs: int) -> MatchArrays:
    """Allocate the arrays of a match.

    Parameters
    ----------
    n_users, n_pairs : int
        Numbers of users and of observed pairs.

    Returns
    -------
    MatchArrays
    """
    return np.empty(n_users, dtype=np.int64), np.empty(n_users, dtype=np.float32), np.empty(n_pairs, dtype=np.float32)


def _has_tiny(weights: Vector) -> bool:
    """Return whether single precision would lose digits of a weight above 0."""
    return bool(((weights > 0) & (weights < _MIN_NORMAL)).any())


def _log_sum_exp(block: NDArray[np.float64], axis: int) -> Vector:
    top = block.max(axis=axis, keepdims=True)
    top[~np.isfinite(top)] = 0.0  # a row or column without mass: its sum is 0, the logarithm −∞
    with np.errstate(divide="ignore"):
        sums: Vector = np.log(np.exp(block - top).sum(axis=axis))
    sums += top.squeeze(axis)
    return sums


# Sums in any order let the loops run in vector registers.
_ANY_ORDER = {"reassoc", "contract", "nsz", "nnan", "ninf"}
_LOG2_E = np.float32(1.4426950408889634)
_LN_2_HIGH, _LN_2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_ROUNDER = np.float32(1.5 * 2**23)  # adding it rounds to a whole number, in the trailing bits
_EXP = tuple(np.float32(c) for c in (1.9875691e-4, 1.3981999e-3, 8.3334519e-3, 4.1665795e-2, 1.6666665e-1, 0.5))
_C0, _C1, _C2, _C3, _C4, _C5 = _EXP


@njit(cache=True, nogil=True, fastmath={"contract", "nsz", "nnan", "ninf"})
def _exp(x: np.float32) -> np.float32:
    """Compute e^x for |x| < 87 with a relative error of 1e-7: 2^n · e^r with |r| ≤ log(2)/2, e^r by Cephes' polynomial.

    The compiler turns loops over this into vector code, unlike loops over the library's function.
    """
    shifted = x * _LOG2_E + _ROUNDER
    n = shifted - _ROUNDER
    r = (x - n * _LN_2_HIGH) - n * _LN_2_LOW
    y = ((((_C0 * r + _C1) * r + _C2) * r + _C3) * r + _C4) * r + _C5
    y = y * r * r + r + np.float32(1)
    return np.int32(np.float32(y).view(np.int32) + (np.float32(shifted).view(np.int32) << 23)).view(np.float32)


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _sum_exponentials(block: NDArray[np.float32], rows: Vector, columns: Vector) -> float:
    """Sum e^x by row, add the sums by column to `columns`, and return the largest |x|."""
    n = block.shape[1]
    max_bits = np.int32(0)
    pending = np.zeros(n, dtype=np.float32)
    for row in range(len(block)):
        total = 0.0
        for start in range(0, n, 4096):
            part, column = block[row, start : start + 4096], pending[start : start + 4096]
            row_sum = np.float32(0)
            largest = np.int32(0)
            for j in range(len(part)):
                value = _exp(part[j])
                row_sum += value
                column[j] += value
                size = np.float32(part[j]).view(np.int32) & 0x7FFFFFFF
                largest = size if size > largest else largest
            total += np.float64(row_sum)
            max_bits = max(max_bits, largest)
        rows[row] = total
        if row % _COLUMN_ROWS == _COLUMN_ROWS - 1 or row == len(block) - 1:
            _flush(pending, columns)
    return _float(max_bits)


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _scaled_sums(
    block: NDArray[np.float32], item_scale: NDArray[np.float32], mass: Vector, rows: Vector, columns: Vector
) -> float:
    """Sum e^x·v_j by row; then, with u_i = mass_i / row sum, u_i·e^x by column. Return the largest |x|.

    The block is overwritten.
    """
    n = block.shape[1]
    max_bits = np.int32(0)
    pending = np.zeros(n, dtype=np.float32)
    for row in range(len(block)):
        total = 0.0
        for start in range(0, n, 4096):
            part, scale = block[row, start : start + 4096], item_scale[start : start + 4096]
            row_sum = np.float32(0)
            largest = np.int32(0)
            for j in range(len(part)):
                value = _exp(part[j])
                size = np.float32(part[j]).view(np.int32) & 0x7FFFFFFF
                largest = size if size > largest else largest
                part[j] = value
                row_sum += value * scale[j]
            total += np.float64(row_sum)
            max_bits = max(max_bits, largest)
        rows[row] = total
        user_scale = np.float32(mass[row] / total) if total > 0 else np.float32(0)
        part = block[row]
        for j in range(n):
            pending[j] += user_scale * part[j]
        if row % _COLUMN_ROWS == _COLUMN_ROWS - 1 or row == len(block) - 1:
            _flush(pending, columns)
    return _float(max_bits)


@njit(cache=True, nogil=True)
def _flush(pending: NDArray[np.float32], columns: Vector) -> None:
    for j in range(len(pending)):
        columns[j] += pending[j]
        pending[j] = 0


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
    """Turn scores into plan values if there are weights, and find thresholds and shares, row by row in the cache.

    Return the largest |score|, or ∞ as soon as one is above `MAX_SCORE`.
    """
    buffer = np.empty(rows.shape[1], dtype=np.int32)
    largest = 0.0
    for i in range(len(rows)):
        row = rows[i]
        if len(weights):
            largest = max(largest, _weigh(row, item_weight, weights[i, 0], weights[i, 1]))
            if not largest <= MAX_SCORE:
                return np.inf
        total = sum_row(row)
        if k == 0:
            kappa[i], value = split_row(row, total, buffer)
        else:
            kappa[i] = min(k, len(row))
            value = find_kth_largest(row, kappa[i], buffer)
        scale = 1 / total if total > 0 else 0.0  # a row of zeros has shares of 0
        threshold[i] = value * scale
        for pair in range(indptr[i], indptr[i + 1]):
            shares[pair] = row[indices[pair]] * scale
    return largest


@njit(cache=True, nogil=True)
def split_rows(rows: NDArray[np.float32], kappa: NDArray[np.int64], threshold: NDArray[np.float32]) -> None:
    """Find the least-squares split of each row.

    Parameters
    ----------
    rows : array of float32
        Finite numbers of at least 0.
    kappa, threshold : array
        Filled with κ and the κ-th largest value of each row.
    """
    buffer = np.empty(rows.shape[1], dtype=np.int32)
    for i in range(len(rows)):
        kappa[i], threshold[i] = split_row(rows[i], sum_row(rows[i]), buffer)


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _weigh(
    row: NDArray[np.float32], item_weight: NDArray[np.float32], item_scale: np.float32, user_weight: np.float32
) -> float:
    """Turn the scores x of one row into plan values e^x·max(a_j, b), and return the largest |x|."""
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
    """Return the number with these bits, or ∞ if it is NaN."""
    value = np.float64(np.int32(bits).view(np.float32))
    return value if value == value else np.inf


@njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def apply_logistic(values: NDArray[np.float32], scale: np.float32) -> None:
    """Replace x by scale / (1 + e^−x).

    Parameters
    ----------
    values : array of float32
        A vector; overwritten.
    scale : float32
        The limit for large x.
    """
    limit = np.float32(80)
    for j in range(len(values)):
        x = -values[j]
        x = limit if x > limit else x
        x = -limit if x < -limit else x
        values[j] = scale / (np.float32(1) + _exp(x))
