"""Steps of a pairwise loss on the CPU: stochastic gradient descent on all cores, with the same bits for any of them.

Users and items are cut into blocks. A stage pairs each block of users with a block of items of its own, so that no two
threads touch the same factors. Which blocks meet when is fixed by the seed and the data, never by the threads. Items
are assigned to blocks at random in every epoch, so that each pair of items meets in some epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.compilation import njit
from prorec._core.parallel import N_CORES, map_in_order
from prorec._core.random import make_generator
from prorec.models._cpu_matrix import run_on_rows
from prorec.models.storage import Arrays

_MAX_BLOCKS = 64
"""Largest number of blocks, and so of threads that can work at the same time."""
_MIN_TASK = 4096
"""Clicks of a typical task below which starting it would cost more than it brings."""
_MIN_ITEMS = 32
"""Items of a block below which its pairs of items would repeat too often in an epoch."""


@dataclass(frozen=True)
class StepSizes:
    """Sizes of the steps of all epochs."""

    learning_rate: float
    """Factor of the gradient in the first step; it falls linearly to 0."""
    regularization: float
    """Penalty on the squared factors of a step."""
    epochs: int
    """Number of epochs."""

    def at(self, epoch: int) -> tuple[np.float32, np.float32]:
        """Return the factor of the gradient in an epoch, and the penalty."""
        return np.float32(self.learning_rate * (1 - epoch / self.epochs)), np.float32(self.regularization)


def count_blocks(n_clicks: int, shape: tuple[int, int]) -> int:
    """Return the number of blocks of users and of items, which depends on the data alone.

    >>> count_blocks(810_128, (29_858, 40_981)), count_blocks(500, (60, 30))
    (14, 1)
    """
    return max(1, min(_MAX_BLOCKS, math.isqrt(n_clicks // _MIN_TASK), shape[0], shape[1] // _MIN_ITEMS))


class PairwiseSteps:
    """Epochs of steps over the clicks of a matrix; each step changes a user, a clicked item and another item.

    Parameters
    ----------
    matrix : csr_array
        Weights above 0, users × items, with sorted indices.
    arrays : dict of str to array
        `users`, `items` and possibly `item_bias`, which the steps change in place.
    sizes : StepSizes
        Sizes of the steps.
    """

    def __init__(self, matrix: csr_array, arrays: Arrays, sizes: StepSizes) -> None:
        self._sizes = sizes
        self._n_items = matrix.shape[1]
        self._weights = matrix.data.astype(np.float32, copy=False)
        self._indices, self._indptr = matrix.indices, matrix.indptr
        self._rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))
        self._factors = arrays["users"], arrays["items"], arrays.get("item_bias", np.empty(0, dtype=np.float32))
        self._n_blocks = count_blocks(matrix.nnz, matrix.shape)
        ends = np.linspace(0, matrix.nnz, self._n_blocks + 1)[1:-1]
        rows = np.searchsorted(matrix.indptr, ends)
        self._cuts = matrix.indptr[[0, *rows.tolist(), matrix.shape[0]]]  # entries of each block of users
        self._order = np.empty(matrix.nnz, dtype=np.int32 if matrix.nnz < 2**31 else np.int64)
        self._bounds = np.empty((self._n_blocks, self._n_blocks + 1), dtype=np.int64)

    def run_epoch(self, epoch: int, rng: np.random.Generator) -> None:
        """Visit every click once, in random order, and step if the click and the other item are drawn."""
        n_blocks = self._n_blocks
        shuffled = rng.permutation(self._n_items).astype(np.int32)
        item_cuts = np.linspace(0, self._n_items, n_blocks + 1).astype(np.int64)
        block_of = np.empty(self._n_items, dtype=np.int32)
        block_of[shuffled] = np.repeat(np.arange(n_blocks, dtype=np.int32), np.diff(item_cuts))
        seeds = rng.integers(2**64, size=(n_blocks, n_blocks), dtype=np.uint64)
        step_size, penalty = self._sizes.at(epoch)

        def sort_entries(user_block: int) -> None:
            begin, end = self._cuts[user_block], self._cuts[user_block + 1]
            _sort_by_block(self._indices, begin, end, block_of, self._order, self._bounds[user_block])

        def run_stage(stage: int) -> None:
            def run_task(user_block: int) -> None:
                item_block = (user_block + stage) % n_blocks
                begin, end = self._bounds[user_block, item_block : item_block + 2]
                _run_steps(
                    self._order[begin:end],
                    self._rows,
                    self._indices,
                    self._indptr,
                    self._weights,
                    shuffled[item_cuts[item_block] : item_cuts[item_block + 1]],
                    *self._factors,
                    step_size,
                    penalty,
                    seeds[user_block, item_block],
                )

            _run_all(run_task, n_blocks)

        _run_all(sort_entries, n_blocks)
        for stage in range(n_blocks):
            run_stage(stage)


def fold_in_users(matrix: csr_array, arrays: Arrays, sizes: StepSizes, seed: int) -> NDArray[np.float32]:
    """Return vectors of new users, by the same steps with the items' arrays fixed.

    The random numbers of a user depend on the seed and the user's clicks only, so that the other rows do not matter.

    Parameters
    ----------
    matrix : csr_array
        Weights above 0, new users × items, with sorted indices.
    arrays : dict of str to array
        `items` and possibly `item_bias`.
    sizes : StepSizes
        Sizes of the steps.
    seed : int
        Seed of the random numbers.

    Returns
    -------
    array of float32
        Users × rank; 0 for a user without clicks.
    """
    items, bias = arrays["items"], arrays.get("item_bias", np.empty(0, dtype=np.float32))
    users = np.zeros((matrix.shape[0], items.shape[1]), dtype=np.float32)
    weights = matrix.data.astype(np.float32, copy=False)
    step_sizes = np.array([sizes.at(epoch)[0] for epoch in range(sizes.epochs)])
    penalty = np.float32(sizes.regularization)
    first = make_generator(seed).integers(2**64, dtype=np.uint64)
    entries = matrix.indices, matrix.indptr, weights
    run_on_rows(
        lambda begin, end: _fold_in_rows(*entries, items, bias, step_sizes, penalty, first, users, begin, end),
        matrix.indptr,
        8 * N_CORES,
    )
    return users


def _run_all(work: Callable[[int], None], n_pieces: int) -> None:
    for _ in map_in_order(work, n_pieces, N_CORES):
        pass


@njit(cache=True, nogil=True)
def _sort_by_block(
    indices: NDArray[np.int32],
    begin: int,
    end: int,
    block_of: NDArray[np.int32],
    order: NDArray[np.int32],
    bounds: NDArray[np.int64],
) -> None:
    """Write the entries from begin to end into `order`, sorted by block of items, and where each block begins."""
    n_blocks = len(bounds) - 1
    bounds[:] = 0
    for entry in range(begin, end):
        bounds[block_of[indices[entry]] + 1] += 1
    bounds[0] = begin
    for block in range(n_blocks):
        bounds[block + 1] += bounds[block]
    free = bounds[:-1].copy()
    for entry in range(begin, end):
        block = block_of[indices[entry]]
        order[free[block]] = entry
        free[block] += 1


_GAMMA, _MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@njit(cache=True, nogil=True)
def _draw(state: np.uint64) -> np.uint64:
    """Return the random number of a state of splitmix64; the next state is this one plus `_GAMMA`."""
    mixed = (state ^ (state >> _S30)) * _MIX1
    mixed = (mixed ^ (mixed >> _S27)) * _MIX2
    return mixed ^ (mixed >> _S31)


@njit(cache=True, nogil=True)
def _draw_below(state: np.uint64, n: int) -> int:
    """Return a random whole number from 0 to n − 1."""
    high: np.uint64 = (_draw(state) >> _S32) * np.uint64(n)
    return int(high >> _S32)


@njit(cache=True, nogil=True)
def _draw_unit(state: np.uint64) -> float:
    """Return a random number in [0, 1)."""
    return np.float64(_draw(state) >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True)
def _find(indices: NDArray[np.int32], begin: int, end: int, item: int) -> int:
    """Return the entry of an item among a row's sorted ones, or −1."""
    stop = end
    while begin < end:
        middle = (begin + end) // 2
        if indices[middle] < item:
            begin = middle + 1
        else:
            end = middle
    return begin if begin < stop and indices[begin] == item else -1


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _run_steps(
    order: NDArray[np.int32],
    rows: NDArray[np.int32],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int32],
    weights: NDArray[np.float32],
    block: NDArray[np.int32],
    users: NDArray[np.float32],
    items: NDArray[np.float32],
    bias: NDArray[np.float32],
    step_size: np.float32,
    penalty: np.float32,
    seed: np.uint64,
) -> None:
    """Step for the entries of `order`, in random order, against other items of the block."""
    state = seed
    has_bias = len(bias) > 0
    n, one = len(order), np.float32(1)
    last = len(block) - 1
    if last < 1:
        return
    for position in range(n):
        state += _GAMMA
        other = position + _draw_below(state, n - position)
        entry = order[other]
        order[other] = order[position]
        state += _GAMMA
        if weights[entry] < 1 and _draw_unit(state) >= weights[entry]:
            continue
        user, clicked = rows[entry], indices[entry]
        state += _GAMMA
        drawn = block[_draw_below(state, last)]
        if drawn == clicked:
            drawn = block[last]
        found = _find(indices, indptr[user], indptr[user + 1], drawn)
        state += _GAMMA
        if found >= 0 and _draw_unit(state) < weights[found]:
            continue
        x, p, q = users[user], items[clicked], items[drawn]
        margin = np.float32(0)
        for factor in range(len(x)):
            margin += x[factor] * (p[factor] - q[factor])
        if has_bias:
            margin += bias[clicked] - bias[drawn]
        slope = one / (one + np.exp(margin))
        if has_bias:
            bias[clicked] += step_size * (slope - penalty * bias[clicked])
            bias[drawn] -= step_size * (slope + penalty * bias[drawn])
        for factor in range(len(x)):
            of_user, of_clicked, of_drawn = x[factor], p[factor], q[factor]
            x[factor] += step_size * (slope * (of_clicked - of_drawn) - penalty * of_user)
            p[factor] += step_size * (slope * of_user - penalty * of_clicked)
            q[factor] -= step_size * (slope * of_user + penalty * of_drawn)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _fold_in_rows(
    indices: NDArray[np.int32],
    indptr: NDArray[np.int32],
    weights: NDArray[np.float32],
    items: NDArray[np.float32],
    bias: NDArray[np.float32],
    step_sizes: NDArray[np.float32],
    penalty: np.float32,
    seed: np.uint64,
    users: NDArray[np.float32],
    first_row: int,
    last_row: int,
) -> None:
    """Step for each click of each user in turn, and change the users' factors only."""
    has_bias, one = len(bias) > 0, np.float32(1)
    if len(items) < 2:
        return
    for user in range(first_row, last_row):
        begin, end = indptr[user], indptr[user + 1]
        x, state = users[user], seed
        for entry in range(begin, end):
            state = _draw(state + np.uint64(indices[entry]))
        for epoch in range(len(step_sizes)):
            for entry in range(begin, end):
                state += _GAMMA
                if weights[entry] < 1 and _draw_unit(state) >= weights[entry]:
                    continue
                state += _GAMMA
                clicked, drawn = indices[entry], _draw_below(state, len(items) - 1)
                drawn += 1 if drawn >= clicked else 0
                found = _find(indices, begin, end, drawn)
                state += _GAMMA
                if found >= 0 and _draw_unit(state) < weights[found]:
                    continue
                p, q = items[clicked], items[drawn]
                margin = np.float32(0)
                for factor in range(len(x)):
                    margin += x[factor] * (p[factor] - q[factor])
                if has_bias:
                    margin += bias[clicked] - bias[drawn]
                slope = one / (one + np.exp(margin))
                for factor in range(len(x)):
                    x[factor] += step_sizes[epoch] * (slope * (p[factor] - q[factor]) - penalty * x[factor])
