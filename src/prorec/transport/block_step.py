"""The block step: pure functions of scores and some users, whoever drives them.

One machine loops over blocks of users (`blocks.py`); another driver may map over partitions. Each function takes the
block in single precision where that is good enough, and otherwise in double, in parts, to keep within its memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.transport.kernels import cpu
from prorec.transport.scores import PARTS, Rows, ScaledScores, split_into_parts

Room = NDArray[np.float32]
"""Where a block in single precision goes: at least as many rows as there are users, one column for each item."""
Vector = NDArray[np.float64]
Result = TypeVar("Result", bound=tuple[NDArray[Any], ...])


def sum_block(scores: ScaledScores, rows: Rows, room: Room) -> tuple[Vector, Vector]:
    """R_i = log Σ_j e^(S_ij/γ) for these users, and C_j = log Σ_i e^(S_ij/γ) over them: what Eq. 7 divides by."""
    return _worked(scores, rows, room, lambda part, block: cpu.log_sums(block), _joined_sums)


def scale_block(
    scores: ScaledScores, rows: Rows, room: Room, item_potential: Vector, user_log_mass: Vector
) -> tuple[Vector, Vector]:
    """Half a Sinkhorn iteration, and the sums for the other half (Eq. 4).

    log Σ_j e^(S_ij/γ + g_j) for these users, which gives f_i = log q_i less that; then log Σ_i e^(S_ij/γ + f_i) over
    them.
    """
    return _worked(
        scores,
        rows,
        room,
        lambda part, block: cpu.scaled_log_sums(block, item_potential, user_log_mass[part]),
        _joined_sums,
    )


def match_block(
    scores: ScaledScores,
    rows: Rows,
    room: Room,
    user_potential: Vector,
    item_potential: Vector,
    k: int,
    observed: csr_array,
) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
    """κ and the threshold's share for these users, and the shares of their observed pairs (Eq. 20).

    In a plan e^(S_ij/γ + max(A_j, B_i)), each of whose rows may be scaled by anything: a share is a value over its
    row's sum. `k` asks for the k-th largest value of each row as its threshold; 0, for the least-squares split.
    Potentials and observed pairs are those of these users, in their order.
    """

    def step(part: Rows, block: cpu.Block) -> cpu.Matched | None:
        pairs = observed if len(part) == len(rows) else observed[part]
        indptr, indices = pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32)
        return cpu.match(block, user_potential[part], item_potential, k, indptr, indices)

    return _worked(scores, rows, room, step, _concatenated)


def _worked(
    scores: ScaledScores,
    rows: Rows,
    room: Room,
    step: Callable[[Rows, cpu.Block], Result | None],
    join: Callable[[Result, Result], Result],
) -> Result:
    """Do a step on the block in single precision; if it answers None, in double, in parts that `join` puts together."""
    everyone = np.arange(len(rows))
    block = scores.compute_single(rows, room)
    result = None if block is None else step(everyone, block)
    if result is not None:
        return result
    # Room for a twelfth of a full block in double precision; a smaller block may not need to be parted at all.
    for part in split_into_parts(everyone, -(-PARTS * len(rows) // len(room))):
        of_part = step(part, scores.compute_double(rows[part]))
        assert of_part is not None, "every step takes a block in double precision"
        result = of_part if result is None else join(result, of_part)
    assert result is not None
    return result


def _joined_sums(first: tuple[Vector, Vector], second: tuple[Vector, Vector]) -> tuple[Vector, Vector]:
    return np.concatenate([first[0], second[0]]), np.logaddexp(first[1], second[1])


def _concatenated(first: Result, second: Result) -> Result:
    return tuple(np.concatenate(both) for both in zip(first, second, strict=True))  # type: ignore[return-value]
