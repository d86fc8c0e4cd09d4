"""Weighted matrix factorization by alternating least squares (WRMF)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_float, check_int
from prorec._core.parallel import N_CORES
from prorec._core.random import make_generator
from prorec.models._cpu_matrix import CpuMatrix, Dense, run_on_rows, to_device_matrix
from prorec.models.model import Model
from prorec.models.storage import Arrays

if TYPE_CHECKING:
    from prorec.models._gpu_matrix import GpuMatrix

_SWEEP_STEPS = 3
"""Steps of conjugate gradients in a sweep, from the result of the last sweep."""
_MIN_RIDGE = 1e-9
"""Smallest λ; without any, the factors of users without interactions would be undetermined."""
_TOLERANCE = 1e-5
"""Relative residual at which a row is solved, as far as single precision can tell."""


@dataclass
class WRMF(Model):
    """Factorizes the matrix with a larger confidence in clicks than in other pairs.

    Minimizes Σ c_ij·(r_ij − x_i·y_j)² + λ(‖x‖² + ‖y‖²) with c = 1 + α·r over all pairs (Eq. 3 of the reference). For
    one user, with H the item factors and r the user's weights, the solution is that of

        (HᵀH + λI + α·Σ r·hhᵀ)·x = Σ (αr + 1)·r·h,

    where r is both confidence and target; for one item likewise (Eq. 4 and 5). A sweep solves for all users and then
    for all items by a few steps of conjugate gradients. The last solution, and that of new users, is iterated until
    the residual is negligible, for at most 4·rank steps.

    References
    ----------
    Y. Hu, Y. Koren and C. Volinsky, "Collaborative filtering for implicit feedback datasets", ICDM 2008.
    """

    rank: int = 100
    """Number of factors."""
    alpha: float = 10.0
    """Confidence α that a click has beyond that of a pair without one."""
    regularization: float = 10.0
    """Penalty λ on the squared factors."""
    sweeps: int = 10
    """Number of alternating passes over all users and all items."""
    seed: int = 0
    """Seed of the random start."""
    device: str = field(default="auto", repr=False, compare=False)
    """Device to fit and to recommend on: "auto" (a GPU if there is one and the data are large), "cpu" or "cuda"."""

    supports_warm_start: ClassVar[bool] = True
    regularized_arrays: ClassVar[tuple[str, ...]] = ("users", "items")

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Check that the parameters are valid for a matrix of this shape."""
        check_int("rank", self.rank, 1, min(shape), "the smaller side of the matrix")
        check_float("alpha", self.alpha, 0)
        check_float("regularization", self.regularization, 0)
        check_int("sweeps", self.sweeps, 1)
        check_int("seed", self.seed, 0)
        self._device(shape)

    def _learn(self, matrix: csr_array) -> Arrays:
        rng = make_generator(self.seed)
        users, items = (0.01 * rng.standard_normal((n, self.rank), dtype=np.float32) for n in matrix.shape)
        return self._learn_from(matrix, {"users": users, "items": items})

    def _learn_from(self, matrix: csr_array, start: Arrays) -> Arrays:
        clicks = to_device_matrix(matrix, self._device(matrix.shape))
        users, items = (clicks.to_device(start[name]) for name in ("users", "items"))
        for _ in range(self.sweeps):
            self._solve(clicks, items, users, _SWEEP_STEPS)
            self._solve(clicks.transposed, users, items, _SWEEP_STEPS)
        self._solve(clicks, items, users, 4 * self.rank)
        return {"users": clicks.to_host(users), "items": clicks.to_host(items)}

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors x for rows of weights r."""
        clicks = to_device_matrix(matrix, self._device(matrix.shape))
        users = clicks.to_device(np.zeros((matrix.shape[0], self.rank), dtype=np.float32))
        self._solve(clicks, clicks.to_device(self._fitted()["items"]), users, 4 * self.rank)
        return clicks.to_host(users)

    def _solve(self, matrix: CpuMatrix | GpuMatrix, fixed: Dense, solution: Dense, steps: int) -> None:
        """Solve for one side, with the factors of the other side fixed, in place."""
        ridge = max(self.regularization, _MIN_RIDGE)
        if not isinstance(matrix, CpuMatrix):
            from prorec.models._gpu_least_squares import solve_least_squares

            alpha = float(self.alpha)
            solve_least_squares(matrix, fixed, solution, alpha=alpha, ridge=ridge, steps=steps, tolerance=_TOLERANCE)
            return
        gram = (fixed.T @ fixed + ridge * np.eye(self.rank)).astype(np.float32)
        csr = matrix.matrix
        entries = csr.data.astype(np.float32, copy=False), csr.indices, csr.indptr
        alpha32 = np.float32(self.alpha)
        run_on_rows(
            lambda begin, end: _solve_rows(*entries, fixed, gram, alpha32, steps, solution, begin, end),
            csr.indptr,
            8 * N_CORES,
        )


@njit(cache=True, nogil=True)
def _solve_rows(
    data: NDArray[np.float32],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int32],
    fixed: NDArray[np.float32],
    gram: NDArray[np.float32],
    alpha: np.float32,
    steps: int,
    solution: NDArray[np.float32],
    begin: int,
    end: int,
) -> None:
    """Solve rows by conjugate gradients; the matrix (HᵀH + λI + α Σ r·hhᵀ) is never formed, only applied."""
    rank = fixed.shape[1]
    longest = 0
    for row in range(begin, end):
        longest = max(longest, indptr[row + 1] - indptr[row])
    all_h = np.empty((longest, rank), dtype=np.float32)
    all_products = np.empty(longest, dtype=np.float32)
    residual = np.empty(rank, dtype=np.float32)
    direction, applied, buffer = np.empty_like(residual), np.empty_like(residual), np.empty_like(residual)
    for row in range(begin, end):
        x = solution[row]
        weights = data[indptr[row] : indptr[row + 1]]
        h, product = all_h[: len(weights)], all_products[: len(weights)]
        for entry in range(len(weights)):
            h[entry] = fixed[indices[indptr[row] + entry]]
            product[entry] = (alpha * weights[entry] + np.float32(1)) * weights[entry]
        np.dot(product, h, residual)  # the right-hand side
        target = np.dot(residual, residual)
        if target == 0 or not np.isfinite(target):
            x[:] = target  # an overflow must not look like a solution
            continue
        _apply(h, weights, gram, alpha, x, product, buffer, applied)
        residual -= applied
        direction[:] = residual
        error = np.dot(residual, residual)
        for _ in range(steps):
            if error <= _TOLERANCE * _TOLERANCE * target:
                break
            _apply(h, weights, gram, alpha, direction, product, buffer, applied)
            curvature = np.dot(direction, applied)
            if curvature <= 0:  # numbers too small for single precision
                break
            step = error / curvature
            x += step * direction
            residual -= step * applied
            previous, error = error, np.dot(residual, residual)
            direction *= error / previous
            direction += residual


@njit(cache=True, nogil=True)
def _apply(
    h: NDArray[np.float32],
    weights: NDArray[np.float32],
    gram: NDArray[np.float32],
    alpha: np.float32,
    x: NDArray[np.float32],
    product: NDArray[np.float32],
    buffer: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Write (HᵀH + λI + α Σ r·hhᵀ)·x into `out`."""
    np.dot(h, x, product)
    product *= alpha * weights
    np.dot(product, h, buffer)
    np.dot(gram, x, out)
    out += buffer
