"""Weighted matrix factorisation by alternating least squares (Hu, Koren and Volinsky 2008)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_float, check_int
from prorec._core.parallel import N_CORES, map_in_order
from prorec._core.random import make_generator
from prorec.models._sparse import balanced
from prorec.models.model import Model
from prorec.models.storage import Arrays

if TYPE_CHECKING:
    import torch

    from prorec.models._on_device import Sparse

_STEPS = 3  # of conjugate gradients in a sweep, each from where the last sweep ended
_LEAST_RIDGE = 1e-9  # one of nothing would leave users without interactions undetermined
_EXACT = 1e-5  # relative residual at which a solution is final: what single precision can reach


@dataclass
class WRMF(Model):
    """Every pair counts a little, clicks more: min Σ c_ij·(r_ij − x_i·y_j)² + λ(‖x‖² + ‖y‖²), c = 1 + α·r.

    For one user, with H the item factors and r the user's weights,

        (HᵀH + λI + α·Σ r·hhᵀ)·x = Σ (αr + 1)·r·h,

    where r is confidence and target both; for one item likewise. Each is solved by a few steps of conjugate gradients
    from where the last sweep ended; in the end, and for new users, until the residual is negligible (or, where α is
    millions of times λ, for 4·rank steps).
    """

    rank: int = 100
    """How many factors."""
    alpha: float = 10.0
    """α: how much more a click counts than a pair without one."""
    regularization: float = 10.0
    """λ."""
    sweeps: int = 10
    """How often both sides are solved for."""
    seed: int = 0
    """Of the random start."""
    device: str = field(default="auto", repr=False, compare=False)
    """Where to learn and to recommend: `auto`, a GPU if there is one and the data are large; `cpu`; or `cuda`."""

    supports_warm_start: ClassVar[bool] = True
    regularized_arrays: ClassVar[tuple[str, ...]] = ("users", "items")

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Raise InputError unless the parameters are valid for a matrix of this shape."""
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
        device = self._device(matrix.shape)
        if device is not None:
            return self._learn_on(device, matrix, start)
        users, items = start["users"].copy(), start["items"].copy()
        transposed = csr_array(matrix.T)
        for _ in range(self.sweeps):
            self._solve(matrix, items, users, _STEPS)
            self._solve(transposed, users, items, _STEPS)
        self._solve(matrix, items, users, 4 * self.rank)
        return {"users": users, "items": items}

    def _learn_on(self, device: torch.device, matrix: csr_array, start: Arrays) -> Arrays:
        """The same on a device, where everything stays until the end."""
        from prorec._core.tensors import to_tensor
        from prorec.models._on_device import Sparse, to_host

        clicks = Sparse.of(matrix, device)
        users, items = (to_tensor(start[name], device).clone() for name in ("users", "items"))
        for _ in range(self.sweeps):
            self._solve_on(clicks, items, users, _STEPS)
            self._solve_on(clicks.transposed, users, items, _STEPS)
        self._solve_on(clicks, items, users, 4 * self.rank)
        return {"users": to_host(users), "items": to_host(items)}

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors for rows of weights."""
        users = np.zeros((matrix.shape[0], self.rank), dtype=np.float32)
        items = self._fitted()["items"]
        device = self._device(matrix.shape)
        if device is None:
            self._solve(matrix, items, users, 4 * self.rank)
            return users
        from prorec._core.tensors import to_tensor
        from prorec.models._on_device import Sparse, to_host

        wanted = to_tensor(users, device)
        self._solve_on(Sparse.of(matrix, device), to_tensor(items, device), wanted, 4 * self.rank)
        return to_host(wanted)

    def _solve_on(self, matrix: Sparse, known: torch.Tensor, wanted: torch.Tensor, steps: int) -> None:
        """Solve for one side, given the other, in place, on a device."""
        from prorec.models._least_squares import solve

        ridge = max(self.regularization, _LEAST_RIDGE)
        solve(matrix, known, wanted, alpha=float(self.alpha), ridge=ridge, steps=steps, exact=_EXACT)

    def _solve(self, matrix: csr_array, known: NDArray[np.float32], wanted: NDArray[np.float32], steps: int) -> None:
        """Solve for one side, given the other, in place."""
        ridge = max(self.regularization, _LEAST_RIDGE)
        gram = (known.T @ known + ridge * np.eye(self.rank)).astype(np.float32)
        cuts = balanced(matrix.indptr, 8 * N_CORES)
        data = matrix.data.astype(np.float32, copy=False)

        def work(place: int) -> None:
            part = cuts[place], cuts[place + 1]
            _solve_rows(data, matrix.indices, matrix.indptr, known, gram, np.float32(self.alpha), steps, wanted, *part)

        for _ in map_in_order(work, len(cuts) - 1, N_CORES):
            pass


@njit(cache=True, nogil=True)
def _solve_rows(
    data: NDArray[np.float32],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int32],
    known: NDArray[np.float32],
    gram: NDArray[np.float32],
    alpha: np.float32,
    steps: int,
    wanted: NDArray[np.float32],
    begin: int,
    end: int,
) -> None:
    """Conjugate gradients for each row; the matrix (HᵀH + λI + α Σ r·hhᵀ) is never formed, only applied."""
    rank = known.shape[1]
    longest = 0
    for row in range(begin, end):
        longest = max(longest, indptr[row + 1] - indptr[row])
    gathered = np.empty((longest, rank), dtype=np.float32)
    products = np.empty(longest, dtype=np.float32)
    residual = np.empty(rank, dtype=np.float32)
    direction, applied, part = np.empty_like(residual), np.empty_like(residual), np.empty_like(residual)
    for row in range(begin, end):
        x = wanted[row]
        weights = data[indptr[row] : indptr[row + 1]]
        h, product = gathered[: len(weights)], products[: len(weights)]
        for place in range(len(weights)):
            h[place] = known[indices[indptr[row] + place]]
            product[place] = (alpha * weights[place] + np.float32(1)) * weights[place]
        np.dot(product, h, residual)  # the right-hand side
        target = np.dot(residual, residual)
        if target == 0 or not np.isfinite(target):
            x[:] = target  # what has overflowed must not look like a solution
            continue
        _apply(h, weights, gram, alpha, x, product, part, applied)
        residual -= applied
        direction[:] = residual
        error = np.dot(residual, residual)
        for _ in range(steps):
            if error <= _EXACT * _EXACT * target:
                break
            _apply(h, weights, gram, alpha, direction, product, part, applied)
            step = error / np.dot(direction, applied)
            x += step * direction
            residual -= step * applied
            before, error = error, np.dot(residual, residual)
            direction *= error / before
            direction += residual


@njit(cache=True, nogil=True)
def _apply(
    h: NDArray[np.float32],
    weights: NDArray[np.float32],
    gram: NDArray[np.float32],
    alpha: np.float32,
    x: NDArray[np.float32],
    product: NDArray[np.float32],
    part: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """(HᵀH + λI + α Σ r·hhᵀ)·x."""
    np.dot(h, x, product)
    product *= alpha * weights
    np.dot(product, h, part)
    np.dot(gram, x, out)
    out += part
