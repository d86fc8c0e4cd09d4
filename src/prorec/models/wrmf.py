"""Weighted matrix factorization by alternating least squares (WRMF)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_choice, check_float, check_int
from prorec._core.compilation import njit
from prorec._core.parallel import N_CORES, single_blas_thread
from prorec._core.random import make_generator
from prorec.models._cpu_matrix import CpuMatrix, Dense, run_on_rows, to_device_matrix
from prorec.models._user_counts import count_users
from prorec.models.model import Model, WeightMeaning
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

    Minimizes Σ c_ij·(r_ij − s_ij)² + λ(Σ‖x_i‖² + Σ‖y_j‖²) with s_ij = x_i·y_j and c = 1 + α·r over all pairs (Eq. 3 of
    the reference). A pair is a click, r = 1, with its weight w as probability, and none otherwise, so its expected loss
    is (1 + α)·w·(1 − s)² + (1 − w)·s². Half the derivative by s is (1 + αw)·s − (1 + α)·w. For one user, with H the
    item factors, the solution is therefore that of

        (HᵀH + λI + α·Σ w·hhᵀ)·x = (1 + α)·Σ w·h,

    and for one item likewise (Eq. 4 and 5). Weights of c in place of 1 act as α·c, and as λ·(1 + αc)/(c + αc). With
    `activity_power`, the loss of a user and the penalty on the user's factors count together, so that item factors
    change, and the equation of a user stays.

    A sweep solves for all users and then for all items by a few steps of conjugate gradients. The last solution, and
    that of new users, is iterated until the residual is negligible, for at most 4·rank steps.

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
    activity_power: float = 0.0
    """Exponent p of a user's activity; each user counts activity^(−p) times. With 0 all count the same."""
    weight_meaning: WeightMeaning = "probability"
    """Meaning of a weight: "probability" of a genuine click, or "value", which stands for r itself, so that the right
    side is Σ (αw + 1)·w·h, as in the ProRec paper."""
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
        check_float("activity_power", self.activity_power, 0, 1)
        check_choice("weight_meaning", self.weight_meaning, ("probability", "value"))
        check_int("seed", self.seed, 0)
        self._device(shape)

    def with_neutral_penalty(self, typical_weight: float) -> Self:
        """Return a copy with α/c and λ·(c + α)/(1 + α) for weights of c."""
        ratio = (typical_weight + self.alpha) / (1 + self.alpha)
        return replace(self, alpha=self.alpha / typical_weight, regularization=self.regularization * ratio)

    def _learn(self, matrix: csr_array) -> Arrays:
        rng = make_generator(self.seed)
        users, items = (0.01 * rng.standard_normal((n, self.rank), dtype=np.float32) for n in matrix.shape)
        return self._learn_from(matrix, {"users": users, "items": items})

    def _learn_from(self, matrix: csr_array, start: Arrays) -> Arrays:
        clicks = to_device_matrix(matrix, self._device(matrix.shape))
        users, items = (clicks.to_device(start[name]) for name in ("users", "items"))
        counts = count_users(matrix, self.activity_power)
        for _ in range(self.sweeps):
            self._solve(clicks, items, users, _SWEEP_STEPS)
            self._solve(clicks.transposed, users, items, _SWEEP_STEPS, counts)
        self._solve(clicks, items, users, 4 * self.rank)
        return {"users": clicks.to_host(users), "items": clicks.to_host(items)}

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors x for rows of weights w."""
        clicks = to_device_matrix(matrix, self._device(matrix.shape))
        users = clicks.to_device(np.zeros((matrix.shape[0], self.rank), dtype=np.float32))
        self._solve(clicks, clicks.to_device(self._fitted()["items"]), users, 4 * self.rank)
        return clicks.to_host(users)

    def _solve(
        self,
        matrix: CpuMatrix | GpuMatrix,
        fixed: Dense,
        solution: Dense,
        steps: int,
        counts: NDArray[np.float64] | None = None,
    ) -> None:
        """Solve for one side in place, with the factors of the other side fixed; they may count differently."""
        ridge = max(self.regularization, _MIN_RIDGE)
        alpha = np.float32(self.alpha)
        is_probability = self.weight_meaning == "probability"
        # The factor of w·h on the right side is affine in w.
        target = (alpha + np.float32(1), np.float32(0)) if is_probability else (np.float32(1), alpha)
        if not isinstance(matrix, CpuMatrix):
            from prorec.models._gpu_least_squares import LeastSquares, solve_least_squares

            problem = LeastSquares(float(alpha), (float(target[0]), float(target[1])), ridge, counts)
            solve_least_squares(matrix, fixed, solution, problem, steps=steps, tolerance=_TOLERANCE)
            return
        scaled = fixed if counts is None else fixed * np.sqrt(counts).astype(np.float32)[:, None]
        with single_blas_thread():
            gram = (scaled.T @ scaled + ridge * np.eye(self.rank)).astype(np.float32)
        counts32 = np.ones(len(fixed), dtype=np.float32) if counts is None else counts.astype(np.float32)
        csr = matrix.matrix
        entries = csr.data.astype(np.float32, copy=False), csr.indices, csr.indptr
        run_on_rows(
            lambda begin, end: _solve_rows(*entries, fixed, counts32, gram, alpha, target, steps, solution, begin, end),
            csr.indptr,
            8 * N_CORES,
        )


@njit(cache=True, nogil=True)
def _solve_rows(
    data: NDArray[np.float32],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int32],
    fixed: NDArray[np.float32],
    counts: NDArray[np.float32],
    gram: NDArray[np.float32],
    alpha: np.float32,
    target: tuple[np.float32, np.float32],
    steps: int,
    solution: NDArray[np.float32],
    begin: int,
    end: int,
) -> None:
    """Solve rows by conjugate gradients; the matrix (HᵀH + λI + α Σ w·hhᵀ) is never formed, only applied."""
    constant, slope = target
    rank = fixed.shape[1]
    longest = 0
    for row in range(begin, end):
        longest = max(longest, indptr[row + 1] - indptr[row])
    all_h = np.empty((longest, rank), dtype=np.float32)
    all_products = np.empty(longest, dtype=np.float32)
    all_confidences = np.empty_like(all_products)
    residual = np.empty(rank, dtype=np.float32)
    direction, applied, buffer = np.empty_like(residual), np.empty_like(residual), np.empty_like(residual)
    for row in range(begin, end):
        x = solution[row]
        weights = data[indptr[row] : indptr[row + 1]]
        h, product, confidence = all_h[: len(weights)], all_products[: len(weights)], all_confidences[: len(weights)]
        for entry in range(len(weights)):
            other, weight = indices[indptr[row] + entry], weights[entry]
            h[entry] = fixed[other]
            confidence[entry] = alpha * weight * counts[other]
            product[entry] = (slope * weight + constant) * weight * counts[other]
        np.dot(product, h, residual)  # the right-hand side
        norm = np.dot(residual, residual)
        if norm == 0 or not np.isfinite(norm):
            x[:] = norm  # an overflow must not look like a solution
            continue
        _apply(h, confidence, gram, x, product, buffer, applied)
        residual -= applied
        direction[:] = residual
        error = np.dot(residual, residual)
        for _ in range(steps):
            if error <= _TOLERANCE * _TOLERANCE * norm:
                break
            _apply(h, confidence, gram, direction, product, buffer, applied)
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
    confidence: NDArray[np.float32],
    gram: NDArray[np.float32],
    x: NDArray[np.float32],
    product: NDArray[np.float32],
    buffer: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Write (HᵀH + λI + α Σ w·hhᵀ)·x into `out`."""
    np.dot(h, x, product)
    product *= confidence
    np.dot(product, h, buffer)
    np.dot(gram, x, out)
    out += buffer
