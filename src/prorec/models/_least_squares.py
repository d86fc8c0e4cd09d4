"""WRMF's least squares on a device of PyTorch's: the conjugate gradients of `wrmf._solve_rows`, many rows at a time."""

from __future__ import annotations

import numpy as np
import torch

from prorec.models._on_device import Pattern, Sparse, in_blocks, products, segments, sums_of_rows

_ENTRIES = 2**22  # gathered at a time: each takes twice the rank in numbers
_SHORT = 8  # steps, up to which rows that are done are carried along: to leave them out costs more


def solve(
    matrix: Sparse,
    known: torch.Tensor,
    wanted: torch.Tensor,
    *,
    alpha: float,
    ridge: float,
    steps: int,
    exact: float,
) -> None:
    """Solve (HᵀH + λI + α Σ r·hhᵀ)·x = Σ (αr + 1)·r·h for each row, in place, from where `wanted` stands."""
    rank = known.shape[1]
    gram = (products(known) + ridge * torch.eye(rank, dtype=torch.float64, device=known.device)).float()

    def work(begin: int, end: int) -> None:
        rows = _Rows(matrix, known, gram, alpha, begin, end)
        wanted[begin:end] = rows.solved(wanted[begin:end].clone(), steps, exact)

    in_blocks(work, _cuts(matrix.pattern))


def _cuts(pattern: Pattern) -> list[int]:
    """Where to cut rows so that a block has so many entries at most, or is one row; a row counts as one entry."""
    work = pattern.host_indptr + np.arange(len(pattern.host_indptr))
    cuts = [0]
    while cuts[-1] < pattern.shape[0]:
        end = int(np.searchsorted(work, work[cuts[-1]] + _ENTRIES, side="right")) - 1
        cuts.append(max(end, cuts[-1] + 1))
    return cuts


class _Rows:
    """Some rows and the factors of their entries, gathered once."""

    def __init__(
        self, matrix: Sparse, known: torch.Tensor, gram: torch.Tensor, alpha: float, begin: int, end: int
    ) -> None:
        pattern = matrix.pattern
        first, last = pattern.host_indptr[[begin, end]].tolist()
        self.gram = gram
        self._place(pattern.indptr[begin : end + 1] - first, last - first)
        self.h = known.index_select(0, pattern.indices[first:last])
        weights = matrix.values[first:last]
        self.confidence = alpha * weights
        self.target = (self.confidence + 1) * weights

    def _place(self, indptr: torch.Tensor, n_entries: int) -> None:
        self.indptr, self.begins = indptr, segments(indptr)
        self.entries = torch.arange(n_entries, dtype=indptr.dtype, device=indptr.device)
        numbers = torch.arange(len(indptr) - 1, dtype=indptr.dtype, device=indptr.device)
        self.rows = numbers.repeat_interleave(indptr.diff(), output_size=n_entries)

    def _sums(self, weights: torch.Tensor) -> torch.Tensor:
        return sums_of_rows(self.h, self.entries, self.begins, weights)

    def _applied(self, x: torch.Tensor) -> torch.Tensor:
        """(HᵀH + λI + α Σ r·hhᵀ)·x of each row."""
        along = x.index_select(0, self.rows).mul_(self.h).sum(dim=1)
        return torch.addmm(self._sums(along.mul_(self.confidence)), x, self.gram)

    def solved(self, x: torch.Tensor, steps: int, exact: float) -> torch.Tensor:
        """The solutions: no more than so many steps, and none for a row whose residual is small enough."""
        solution = x.clone()
        residual = self._sums(self.target)
        target = _dot(residual, residual)
        # What has no target is 0; what has overflowed must not look like a solution.
        is_settled = (target == 0) | ~target.isfinite()
        solution = torch.where(is_settled[:, None], target[:, None], solution)
        where = torch.arange(len(x), device=x.device)
        bound = exact * exact * target
        residual = residual - self._applied(x)
        direction = residual.clone()
        error = _dot(residual, residual)
        is_open = ~is_settled & ~(error <= bound)
        for _ in range(steps):
            if steps > _SHORT:
                n_open = int(is_open.sum())
                if n_open == 0:
                    break
                if n_open < 0.7 * len(is_open):
                    solution[where[~is_open]] = torch.where(
                        is_settled[~is_open, None], solution[where[~is_open]], x[~is_open]
                    )
                    self._keep(is_open)
                    state = where, x, residual, direction, error, bound, is_settled
                    where, x, residual, direction, error, bound, is_settled = (each[is_open] for each in state)
                    is_open = is_open[is_open]
            applied = self._applied(direction)
            # A row that is done does not move: its step is 0, and what it divides by does not matter.
            step = torch.where(is_open, error / _dot(direction, applied), 0)[:, None]
            x = torch.addcmul(x, step, direction)
            residual = torch.addcmul(residual, step, applied, value=-1)
            before, error = error, torch.where(is_open, _dot(residual, residual), error)
            direction = torch.addcmul(residual, torch.where(is_open, error / before, 0)[:, None], direction)
            is_open = is_open & ~(error <= bound)
        solution[where] = torch.where(is_settled[:, None], solution[where], x)
        return solution

    def _keep(self, is_kept: torch.Tensor) -> None:
        """Leave out the other rows."""
        lengths = self.indptr.diff()[is_kept]
        entry_kept = is_kept[self.rows]
        indptr = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(self.indptr.dtype)
        self.h, self.confidence = self.h[entry_kept], self.confidence[entry_kept]
        self._place(indptr, len(self.h))


def _dot(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return (left * right).sum(dim=1)
