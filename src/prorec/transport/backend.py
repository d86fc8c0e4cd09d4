"""Passes over all pairs of users and items, whatever they run on: what solvers and plans are made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_choice
from prorec._core.device import explain_out_of_memory, resolve_device
from prorec.transport.block_step import Room, match_block, scale_block, sum_block
from prorec.transport.blocks import BlockProgress, Blocks, make_blocks
from prorec.transport.factors import Factors
from prorec.transport.kernels import cpu
from prorec.transport.marginals import Marginals, Vector
from prorec.transport.scores import Rows, ScaledFactors, ScoreFunction

if TYPE_CHECKING:
    from prorec.transport.gpu_backend import Precision

Matched = cpu.Matched
"""κ and the threshold's share of each user, and the share of each observed pair."""


class Backend(Protocol):
    """Scores over γ, and what can be had in one pass over them."""

    blocks: Blocks
    """The scores in blocks of users, on the CPU: for those who want rows of them."""
    n_steps: int
    """How often a pass reports its progress."""

    def log_sums(self, progress: BlockProgress | None = None) -> tuple[Vector, Vector]:
        """R_i = log Σ_j e^(S_ij/γ) for each user, and C_j = log Σ_i e^(S_ij/γ) for each item."""
        ...

    def scaled_log_sums(
        self, item_potential: Vector, user_log_mass: Vector, progress: BlockProgress | None = None
    ) -> tuple[Vector, Vector]:
        """Sums for both halves of a Sinkhorn iteration.

        log Σ_j e^(S_ij/γ + g_j) for each user; with f_i = log q_i less that, log Σ_i e^(S_ij/γ + f_i) for each item.
        """
        ...

    def match(
        self,
        user_potential: Vector,
        item_potential: Vector,
        k: int,
        observed: csr_array,
        progress: BlockProgress | None = None,
    ) -> Matched:
        """κ and the threshold's share of each user, and the shares of the observed pairs, in their order."""
        ...


def make_backend(
    scores: Factors | ScoreFunction,
    marginals: Marginals,
    gamma: float,
    memory: float,
    device: str = "cpu",
    precision: Precision = "high",
    *,
    in_double: bool = False,
) -> Backend:
    """Scores over γ on a device, or in blocks on the CPU; every argument checked.

    A function's scores come to the CPU, and stay there.
    """
    check_choice("precision", precision, ("high", "fast", "double"))
    in_double = in_double or precision == "double"
    blocks = make_blocks(scores, marginals, gamma, memory, in_double=in_double)
    n_users, n_items = marginals.shape
    where = resolve_device(device, float(n_users) * n_items)
    if where is None or not isinstance(blocks.scores, ScaledFactors):
        return CpuBackend(blocks)
    from prorec.transport.gpu_backend import GpuBackend

    with explain_out_of_memory(where, "what the items are multiplied by"):
        return GpuBackend(blocks, where, "double" if in_double else precision)


class CpuBackend:
    """Passes on all cores, in blocks."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.n_steps = len(blocks.rows)

    def log_sums(self, progress: BlockProgress | None = None) -> tuple[Vector, Vector]:
        """Sums by user and by item, see `Backend`."""
        return self._both_sums(partial(sum_block, self.blocks.scores), progress)

    def scaled_log_sums(
        self, item_potential: Vector, user_log_mass: Vector, progress: BlockProgress | None = None
    ) -> tuple[Vector, Vector]:
        """Sums for both halves of a Sinkhorn iteration, see `Backend`."""

        def work(rows: Rows, room: Room) -> tuple[Vector, Vector]:
            return scale_block(self.blocks.scores, rows, room, item_potential, user_log_mass[rows])

        return self._both_sums(work, progress)

    def _both_sums(
        self, work: Callable[[Rows, Room], tuple[Vector, Vector]], progress: BlockProgress | None
    ) -> tuple[Vector, Vector]:
        n_users, n_items = self.blocks.scores.shape
        by_user, by_item = np.empty(n_users), np.full(n_items, -np.inf)
        for rows, (row_sums, column_sums) in self.blocks.map(work, progress):
            by_user[rows] = row_sums
            np.logaddexp(by_item, column_sums, out=by_item)
        return by_user, by_item

    def match(
        self,
        user_potential: Vector,
        item_potential: Vector,
        k: int,
        observed: csr_array,
        progress: BlockProgress | None = None,
    ) -> Matched:
        """Thresholds and shares, see `Backend`."""

        def work(rows: Rows, room: Room) -> Matched:
            return match_block(self.blocks.scores, rows, room, user_potential[rows], item_potential, k, observed[rows])

        n_users = self.blocks.scores.shape[0]
        kappa, threshold = np.empty(n_users, dtype=np.int64), np.empty(n_users, dtype=np.float32)
        shares = np.empty(observed.nnz, dtype=np.float32)
        for rows, (of_rows, value, of_pairs) in self.blocks.map(work, progress):
            kappa[rows], threshold[rows] = of_rows, value
            shares[entry_positions(observed.indptr, rows)] = of_pairs
        return kappa, threshold, shares


def entry_positions(indptr: NDArray[Any], rows: Rows) -> NDArray[np.intp]:
    """Where the entries of some rows of a sparse matrix lie, row after row."""
    counts = indptr[rows + 1] - indptr[rows]
    ends = np.cumsum(counts)
    return np.repeat(indptr[rows] - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)
