"""The block step: pure functions from a block of users to sums, thresholds and row shares.

`Blocks.map` runs them on one machine; Spark runs them on partitions of users. Each function takes the block in single
precision if that is accurate enough. Otherwise it takes the block in double precision, part by part, to keep within the
memory of a block in single precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.transport.kernels import cpu
from prorec.transport.kernels.cpu import MatchArrays
from prorec.transport.marginals import Vector
from prorec.transport.scores import PARTS, Rows, ScaledScores, split_into_parts

Buffer = NDArray[np.float32]
"""Memory for a block in single precision: at least as many rows as there are users, one column for each item."""
Result = TypeVar("Result", bound=tuple[NDArray[Any], ...])


def sum_block(scores: ScaledScores, rows: Rows, buffer: Buffer) -> tuple[Vector, Vector]:
    """Compute the log-sums that Eq. 7 divides by.

    Parameters
    ----------
    scores : ScaledScores
        Scores over γ.
    rows : array of int
        Row numbers of the users in the block.
    buffer : array of float32
        Memory for the block.

    Returns
    -------
    by_user : array of float
        R_i = log Σ_j e^(S_ij/γ) of each user of the block.
    by_item : array of float
        C_j = log Σ_i e^(S_ij/γ) of each item, over the users of the block.
    """
    return _run_step(scores, rows, buffer, lambda part, block: cpu.log_sums(block), _join_sums)


def scale_block(
    scores: ScaledScores, rows: Rows, buffer: Buffer, item_potential: Vector, user_log_mass: Vector
) -> tuple[Vector, Vector]:
    """Compute the log-sums of one Sinkhorn iteration (Eq. 4).

    Parameters
    ----------
    scores : ScaledScores
        Scores over γ.
    rows : array of int
        Row numbers of the users in the block.
    buffer : array of float32
        Memory for the block.
    item_potential : array of float
        g of all items.
    user_log_mass : array of float
        log q of the users of the block.

    Returns
    -------
    by_user : array of float
        log Σ_j e^(S_ij/γ + g_j) of each user of the block; f_i is log q_i minus that.
    by_item : array of float
        log Σ_i e^(S_ij/γ + f_i) of each item, over the users of the block.
    """

    def step(part: Rows, block: cpu.Block) -> tuple[Vector, Vector] | None:
        return cpu.scaled_log_sums(block, item_potential, user_log_mass[part])

    return _run_step(scores, rows, buffer, step, _join_sums)


def match_block(
    scores: ScaledScores,
    rows: Rows,
    buffer: Buffer,
    user_potential: Vector,
    item_potential: Vector,
    k: int,
    observed: csr_array,
) -> MatchArrays:
    """Find thresholds and row shares in a plan e^(S_ij/γ + max(A_j, B_i)) (Eq. 20).

    A row share is a value divided by the sum of its row, so each row of the plan may have any scale.

    Parameters
    ----------
    scores : ScaledScores
        Scores over γ.
    rows : array of int
        Row numbers of the users in the block.
    buffer : array of float32
        Memory for the block.
    user_potential : array of float
        B of the users of the block.
    item_potential : array of float
        A of all items.
    k : int
        κ: the threshold is the κ-th largest value of a row. 0 asks for the least-squares split.
    observed : csr_array, users of the block × items
        The observed pairs.

    Returns
    -------
    kappa : array of int
        κ of each user of the block.
    threshold : array of float
        Row share at the threshold of each user.
    shares : array of float
        Row share of each observed pair.
    """

    def step(part: Rows, block: cpu.Block) -> MatchArrays | None:
        pairs = observed if len(part) == len(rows) else observed[part]
        indptr, indices = pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32)
        return cpu.match(block, user_potential[part], item_potential, k, indptr, indices)

    return _run_step(scores, rows, buffer, step, _join_arrays)


def _run_step(
    scores: ScaledScores,
    rows: Rows,
    buffer: Buffer,
    step: Callable[[Rows, cpu.Block], Result | None],
    join: Callable[[Result, Result], Result],
) -> Result:
    """Run a step on the block in single precision; if it returns None, in double, part by part."""
    positions = np.arange(len(rows))
    block = scores.compute_single(rows, buffer)
    result = None if block is None else step(positions, block)
    if result is not None:
        return result
    # A twelfth of a full block fits in double precision; a smaller block may need no parts at all.
    for part in split_into_parts(positions, -(-PARTS * len(rows) // len(buffer))):
        part_result = step(part, scores.compute_double(rows[part]))
        assert part_result is not None, "every step takes a block in double precision"
        result = part_result if result is None else join(result, part_result)
    assert result is not None
    return result


def _join_sums(first: tuple[Vector, Vector], second: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
    return np.concatenate([first[0], second[0]]), np.logaddexp(first[1], second[1])


def _join_arrays(first: Result, second: Result) -> Result:
    return tuple(np.concatenate(both) for both in zip(first, second, strict=True))  # type: ignore[return-value]
