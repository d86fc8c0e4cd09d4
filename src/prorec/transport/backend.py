"""Backends: passes over all pairs of users and items, on the CPU or on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_choice
from prorec._core.device import explain_out_of_memory, resolve_device
from prorec.transport.block_step import Buffer, match_block, scale_block, sum_block
from prorec.transport.blocks import BlockProgress, Blocks, make_blocks
from prorec.transport.factors import Factors
from prorec.transport.kernels.cpu import MatchArrays, empty_match_arrays
from prorec.transport.marginals import Marginals, Vector
from prorec.transport.scores import Rows, ScaledFactors, ScoreFunction

Precision = Literal["high", "double"]
"""`"high"` has the error of single precision, `"double"` that of double precision."""


class Backend(Protocol):
    """Passes over the scores over γ."""

    blocks: Blocks
    """The scores in blocks of users, on the CPU."""
    n_steps: int
    """Number of reports of progress in a pass."""

    def log_sums(self, progress: BlockProgress | None = None) -> tuple[Vector, Vector]:
        """Compute the log-sums that Eq. 7 divides by.

        Parameters
        ----------
        progress : callable, optional
            Called after each block.

        Returns
        -------
        by_user : array of float
            R_i = log Σ_j e^(S_ij/γ) of each user.
        by_item : array of float
            C_j = log Σ_i e^(S_ij/γ) of each item.
        """

    def scaled_log_sums(
        self, item_potential: Vector, user_log_mass: Vector, progress: BlockProgress | None = None
    ) -> tuple[Vector, Vector]:
        """Compute the log-sums of one Sinkhorn iteration (Eq. 4).

        Parameters
        ----------
        item_potential : array of float
            g of each item.
        user_log_mass : array of float
            log q of each user.
        progress : callable, optional
            Called after each block.

        Returns
        -------
        by_user : array of float
            log Σ_j e^(S_ij/γ + g_j) of each user; f_i is log q_i minus that.
        by_item : array of float
            log Σ_i e^(S_ij/γ + f_i) of each item.
        """

    def match(
        self,
        user_potential: Vector,
        item_potential: Vector,
        k: int,
        observed: csr_array,
        progress: BlockProgress | None = None,
    ) -> MatchArrays:
        """Find thresholds and row shares in a plan e^(S_ij/γ + max(A_j, B_i)) (Eq. 20).

        Parameters
        ----------
        user_potential, item_potential : array of float
            B of each user and A of each item.
        k : int
            κ: the threshold is the κ-th largest value of a row. 0 asks for the least-squares split.
        observed : csr_array, users × items
            The observed pairs.
        progress : callable, optional
            Called after each block.

        Returns
        -------
        kappa : array of int
            κ of each user.
        threshold : array of float
            Row share at the threshold of each user.
        shares : array of float
            Row share of each observed pair.
        """


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
    """Check all arguments and choose a backend.

    Parameters
    ----------
    scores : Factors or callable
        Factors, or a function from row numbers to a block of scores. Those of a function always stay on the CPU.
    marginals : Marginals
        The marginals.
    gamma : float
        γ, above 0.
    memory : float
        Maximum number of bytes of blocks in memory at once, on the CPU.
    device : str, default "cpu"
        `"auto"`, `"cpu"` or `"cuda"`.
    precision : {"high", "double"}, default "high"
        Precision of the user.
    in_double : bool, default False
        Use double precision, whatever `precision` is.

    Returns
    -------
    Backend

    Raises
    ------
    InputError
        If an argument is invalid, or the items do not fit on the GPU.
    """
    check_choice("precision", precision, ("high", "double"))
    in_double = in_double or precision == "double"
    blocks = make_blocks(scores, marginals, gamma, memory, in_double=in_double)
    n_users, n_items = marginals.shape
    torch_device = resolve_device(device, float(n_users) * n_items)
    if torch_device is None or not isinstance(blocks.scores, ScaledFactors):
        return CpuBackend(blocks)
    from prorec.transport.gpu_backend import GpuBackend

    with explain_out_of_memory(torch_device, "the items' factors"):
        return GpuBackend(blocks, torch_device, in_double=in_double)


class CpuBackend:
    """Passes on all cores of the CPU, in blocks. See `Backend`.

    Parameters
    ----------
    blocks : Blocks
        Scores over γ in blocks of users.
    """

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.n_steps = len(blocks.rows)

    def log_sums(self, progress: BlockProgress | None = None) -> tuple[Vector, Vector]:
        """Compute log-sums by user and by item, see `Backend.log_sums`."""
        return self._join_sums(partial(sum_block, self.blocks.scores), progress)

    def scaled_log_sums(
        self, item_potential: Vector, user_log_mass: Vector, progress: BlockProgress | None = None
    ) -> tuple[Vector, Vector]:
        """Compute the log-sums of a Sinkhorn iteration, see `Backend.scaled_log_sums`."""

        def step(rows: Rows, buffer: Buffer) -> tuple[Vector, Vector]:
            return scale_block(self.blocks.scores, rows, buffer, item_potential, user_log_mass[rows])

        return self._join_sums(step, progress)

    def _join_sums(
        self, step: Callable[[Rows, Buffer], tuple[Vector, Vector]], progress: BlockProgress | None
    ) -> tuple[Vector, Vector]:
        n_users, n_items = self.blocks.scores.shape
        by_user, by_item = np.empty(n_users), np.full(n_items, -np.inf)
        for rows, (row_sums, column_sums) in self.blocks.map(step, progress):
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
    ) -> MatchArrays:
        """Find thresholds and row shares, see `Backend.match`."""

        def step(rows: Rows, buffer: Buffer) -> MatchArrays:
            potential = user_potential[rows]
            return match_block(self.blocks.scores, rows, buffer, potential, item_potential, k, observed[rows])

        kappa, threshold, shares = empty_match_arrays(self.blocks.scores.shape[0], observed.nnz)
        for rows, result in self.blocks.map(step, progress):
            kappa[rows], threshold[rows], shares[entry_positions(observed.indptr, rows)] = result
        return kappa, threshold, shares


def entry_positions(indptr: NDArray[Any], rows: Rows) -> NDArray[np.intp]:
    """Return the positions of the entries of some rows of a sparse matrix, row by row.

    Parameters
    ----------
    indptr : array of int
        Positions at which the rows of the matrix begin and end.
    rows : array of int
        Row numbers.

    Returns
    -------
    array of int

    Examples
    --------
    >>> entry_positions(np.array([0, 2, 2, 5]), np.array([2, 0]))
    array([2, 3, 4, 0, 1])
    """
    counts = indptr[rows + 1] - indptr[rows]
    ends = np.cumsum(counts)
    return np.repeat(indptr[rows] - (ends - counts), counts) + np.arange(ends[-1] if len(ends) else 0)
