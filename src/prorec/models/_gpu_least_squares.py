"""WRMF's least squares on a device of PyTorch: the conjugate gradients of `wrmf._solve_rows`, many rows at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from prorec._core.tensors import to_tensor
from prorec.models._gpu_matrix import (
    GpuMatrix,
    SparsityPattern,
    dense_gram,
    find_segments,
    repeat_rows,
    run_in_blocks,
    sum_rows,
)

_MAX_ENTRIES = 2**22
"""Entries gathered at a time; each takes twice the rank in numbers."""
_FEW_STEPS = 8
"""Up to so many steps, solved rows stay in the block: to remove them costs more than to carry them along."""


class LeastSquares(NamedTuple):
    """The equation (Σ n·hhᵀ + λI + α Σ n·w·hhᵀ)·x = Σ n·t(w)·w·h of each row."""

    alpha: float
    """Confidence α that a click has beyond that of other pairs."""
    target: tuple[float, float]
    """Constant and slope of t(w)."""
    ridge: float
    """Penalty λ."""
    counts: NDArray[np.float64] | None = None
    """Number of times n that each h counts; None if each counts once."""


def solve_least_squares(
    matrix: GpuMatrix,
    fixed: torch.Tensor,
    solution: torch.Tensor,
    problem: LeastSquares,
    *,
    steps: int,
    tolerance: float,
) -> None:
    """Solve the equation of each row, in place.

    Parameters
    ----------
    matrix : GpuMatrix
        Weights w: one row for each row of `solution`, one column for each row of `fixed`.
    fixed : torch.Tensor
        Factors H of the other side.
    solution : torch.Tensor
        Factors x: the start of the iteration, and its result.
    problem : LeastSquares
        The other parts of the equation.
    steps : int
        Maximum number of steps of conjugate gradients.
    tolerance : float
        Relative residual at which a row is solved.
    """
    rank = fixed.shape[1]
    counts = None if problem.counts is None else to_tensor(problem.counts, fixed.device)
    scaled = fixed if counts is None else fixed * counts.sqrt().float()[:, None]
    ridge = problem.ridge * torch.eye(rank, dtype=torch.float64, device=fixed.device)
    gram = (dense_gram(scaled) + ridge).float()
    if counts is not None:
        counts = counts.float()

    def solve(begin: int, end: int) -> None:
        block = _RowBlock(matrix, fixed, gram, problem, counts, begin, end)
        solution[begin:end] = block.solve(solution[begin:end].clone(), steps, tolerance)

    run_in_blocks(solve, _cut_rows(matrix.pattern))


def _cut_rows(pattern: SparsityPattern) -> list[int]:
    """Return cuts between blocks of at most `_MAX_ENTRIES` entries, or of one row; a row counts as one entry."""
    costs = pattern.host_indptr + np.arange(len(pattern.host_indptr))
    cuts = [0]
    while cuts[-1] < pattern.shape[0]:
        end = int(np.searchsorted(costs, costs[cuts[-1]] + _MAX_ENTRIES, side="right")) - 1
        cuts.append(max(end, cuts[-1] + 1))
    return cuts


class _RowBlock:
    """Some rows and the factors h of their entries, gathered once."""

    def __init__(
        self,
        matrix: GpuMatrix,
        fixed: torch.Tensor,
        gram: torch.Tensor,
        problem: LeastSquares,
        counts: torch.Tensor | None,
        begin: int,
        end: int,
    ) -> None:
        pattern = matrix.pattern
        first, last = pattern.host_indptr[[begin, end]].tolist()
        self.gram = gram
        self._set_rows(pattern.indptr[begin : end + 1] - first, last - first)
        others = pattern.indices[first:last]
        self.h = fixed.index_select(0, others)
        weights = matrix.values[first:last]
        constant, slope = problem.target
        self.confidence = problem.alpha * weights
        self.target = (slope * weights + constant) * weights
        if counts is not None:
            self.confidence, self.target = (each * counts[others] for each in (self.confidence, self.target))

    def _set_rows(self, indptr: torch.Tensor, n_entries: int) -> None:
        self.indptr, self.starts = indptr, find_segments(indptr)
        self.entries = torch.arange(n_entries, dtype=indptr.dtype, device=indptr.device)
        self.rows = repeat_rows(indptr, n_entries)

    def _sum_entries(self, weights: torch.Tensor) -> torch.Tensor:
        """Return Σ weight·h of each row."""
        return sum_rows(self.h, self.entries, self.starts, weights)

    def _apply(self, x: torch.Tensor) -> torch.Tensor:
        """Return (Σ n·hhᵀ + λI + α Σ n·w·hhᵀ)·x of each row."""
        products = x.index_select(0, self.rows).mul_(self.h).sum(dim=1)
        return torch.addmm(self._sum_entries(products.mul_(self.confidence)), x, self.gram)

    def solve(self, x: torch.Tensor, steps: int, tolerance: float) -> torch.Tensor:
        """Return the solutions after at most `steps` steps; solved rows do not move."""
        solution = x.clone()
        residual = self._sum_entries(self.target)
        target = _dot(residual, residual)
        # A row without a target is 0. An overflow must not look like a solution.
        is_trivial = (target == 0) | ~target.isfinite()
        solution = torch.where(is_trivial[:, None], target[:, None], solution)
        row = torch.arange(len(x), device=x.device)
        bound = tolerance * tolerance * target
        residual = residual - self._apply(x)
        direction = residual.clone()
        error = _dot(residual, residual)
        is_open = ~is_trivial & ~(error <= bound)
        for _ in range(steps):
            if steps > _FEW_STEPS:
                n_open = int(is_open.sum())
                if n_open == 0:
                    break
                if n_open < 0.7 * len(is_open):
                    done = row[~is_open]
                    solution[done] = torch.where(is_trivial[~is_open, None], solution[done], x[~is_open])
                    self._keep_rows(is_open)
                    state = row, x, residual, direction, error, bound, is_trivial
                    row, x, residual, direction, error, bound, is_trivial = (each[is_open] for each in state)
                    is_open = is_open[is_open]
            applied = self._apply(direction)
            curvature = _dot(direction, applied)
            is_open = is_open & ~(curvature <= 0)  # numbers too small for single precision
            # The step of a solved row is 0, whatever its divisor.
            step = torch.where(is_open, error / curvature, 0)[:, None]
            x = torch.addcmul(x, step, direction)
            residual = torch.addcmul(residual, step, applied, value=-1)
            previous, error = error, torch.where(is_open, _dot(residual, residual), error)
            direction = torch.addcmul(residual, torch.where(is_open, error / previous, 0)[:, None], direction)
            is_open = is_open & ~(error <= bound)
        solution[row] = torch.where(is_trivial[:, None], solution[row], x)
        return solution

    def _keep_rows(self, is_kept: torch.Tensor) -> None:
        """Remove the other rows."""
        lengths = self.indptr.diff()[is_kept]
        is_entry_kept = is_kept[self.rows]
        indptr = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(self.indptr.dtype)
        self.h, self.confidence = self.h[is_entry_kept], self.confidence[is_entry_kept]
        self._set_rows(indptr, len(self.h))


def _dot(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (left * right).sum(dim=1)
