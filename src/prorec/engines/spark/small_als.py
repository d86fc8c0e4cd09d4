"""Alternating least squares on the driver, for logs so small that MLlib would spend its time on starting tasks.

The objective is MLlib's, and so is the order of its sweeps. A fit of ten sweeps takes MLlib fifty stages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.random import make_generator

_ROWS = 512
"""Rows that are solved at a time, which bounds the memory of their matrices."""


def fit_small(
    matrix: csr_array, rank: int, alpha: float, regularization: float, sweeps: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Learn factors of users and items: minimize Σ c_ij·(x_ij − u_i·v_j)² + λ·(Σ n_i·‖u_i‖² + Σ n_j·‖v_j‖²).

    Parameters
    ----------
    matrix : csr_array
        Weights, users × items, above 0. x is 1 where there is one, and c is 1 + α·weight; elsewhere they are 0 and 1.
        n counts the weights of a user or an item.
    rank, alpha, regularization, sweeps, seed
        As in `ALS`.

    Returns
    -------
    tuple of ndarray
        Factors of users and of items; zeros where there is no weight.
    """
    users = make_generator(seed).standard_normal((matrix.shape[0], rank))
    users /= np.linalg.norm(users, axis=1, keepdims=True)
    by_item = csr_array(matrix.T)
    for _ in range(sweeps):
        items = _solve(by_item, users, alpha, regularization)
        users = _solve(matrix, items, alpha, regularization)
    return users.astype(np.float32), items.astype(np.float32)


def _solve(matrix: csr_array, fixed: NDArray[Any], alpha: float, regularization: float) -> NDArray[np.float64]:
    """Solve the normal equations of one side, with the factors of the other side fixed."""
    n_rows, rank = matrix.shape[0], fixed.shape[1]
    solution = np.zeros((n_rows, rank))
    gram, identity = fixed.T @ fixed, np.eye(rank)
    indptr = matrix.indptr
    filled = np.flatnonzero(np.diff(indptr))
    for start in range(0, len(filled), _ROWS):
        rows = filled[start : start + _ROWS]
        left, right = np.empty((len(rows), rank, rank)), np.empty((len(rows), rank))
        for at, row in enumerate(rows):
            entries = slice(indptr[row], indptr[row + 1])
            others, confidence = fixed[matrix.indices[entries]], alpha * matrix.data[entries].astype(np.float64)
            left[at] = gram + (others.T * confidence) @ others + regularization * len(others) * identity
            right[at] = (1 + confidence) @ others
        solution[rows] = _solve_all(left, right)
    return solution


def _solve_all(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve each system; one without a penalty may have no inverse, and gets its shortest solution."""
    try:
        return np.asarray(np.linalg.solve(left, right[..., None])[..., 0])
    except np.linalg.LinAlgError:
        return np.stack([np.linalg.lstsq(a, b, rcond=None)[0] for a, b in zip(left, right, strict=True)])
