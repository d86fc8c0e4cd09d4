"""What a model says about pairs it has not seen: the plan value, and where that stands among the user's others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.transport import Marginals, relaxed, sinkhorn
from prorec.transport.blocks import Blocks, make_blocks
from prorec.transport.factors import Factors
from prorec.transport.gamma import estimate_gamma
from prorec.transport.plan import ScaledPlan
from prorec.transport.scores import Rows, ScoreFunction, split_into_parts

Transport = Literal["relaxed-users", "relaxed", "sinkhorn"]


class Pairs(NamedTuple):
    """Users and items, by row and column number; in any order."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]


class Evidence(NamedTuple):
    """One value for each pair."""

    values: NDArray[np.float32]
    """log π, up to a constant for each user."""
    percentiles: NDArray[np.float32]
    """The share of the user's unobserved items with a larger value; equals count half."""


def evidence(
    scores: Factors | ScoreFunction, observed: csr_array, pairs: Pairs, train: csr_array, how: Transport, memory: float
) -> Evidence:
    """Where these pairs stand in a plan of these scores.

    Parameters
    ----------
    scores : of a model that has seen none of the pairs
    observed : all interactions; what is not among them is what a pair is held against
    pairs : which ones
    train : what the model has learned from
    how : `relaxed-users` is the plan that meets the users' marginal alone (Eq. 6), which orders a user's items as their
        scores do; `relaxed` is the paper's (Eq. 7); or `sinkhorn`
    memory : how many bytes of blocks may be in memory at once
    """
    return evidence_in(*_plan(scores, train, how, memory), observed, pairs)


def evidence_in(
    blocks: Blocks, added: Callable[[Rows], NDArray[np.float32]] | None, observed: csr_array, pairs: Pairs
) -> Evidence:
    """The same in blocks of scores over γ, with what a plan adds to them."""
    order = np.argsort(pairs.users, kind="stable")
    begins = np.append(0, np.cumsum(np.bincount(pairs.users, minlength=observed.shape[0])))
    items = pairs.items[order]
    values, percentiles = np.empty(len(order), dtype=np.float32), np.empty(len(order), dtype=np.float32)

    def work(rows: Rows, room: NDArray[np.float32]) -> None:
        asked = rows[begins[rows + 1] > begins[rows]]
        if not len(asked):
            return
        block = blocks.scores.compute_single(asked, room)
        if block is not None and added is None:
            place_among_others(block, asked, observed.indptr, observed.indices, begins, items, values, percentiles)
            return
        for part in split_into_parts(np.arange(len(asked))):  # what is in double precision must keep within the budget
            given = blocks.scores.compute_double(asked[part]) if block is None else block[part]
            if added is not None:
                given = given + added(asked[part])
            given = given.astype(np.float32, copy=False)
            place_among_others(
                given, asked[part], observed.indptr, observed.indices, begins, items, values, percentiles
            )

    for _ in blocks.map(work):
        pass
    return Evidence(_put_back(values, order), _put_back(percentiles, order))


def _plan(
    scores: Factors | ScoreFunction, train: csr_array, how: Transport, memory: float
) -> tuple[Blocks, Callable[[Rows], NDArray[np.float32]] | None]:
    """Scores over γ in blocks, and what a plan adds to them."""
    if how == "relaxed-users" or not train.data.any():
        # Whatever γ is, it does not change the order, and neither does what belongs to the user.
        return make_blocks(scores, Marginals.uniform(*train.shape), 1.0, memory), None
    gamma, marginals = estimate_gamma(scores, train), Marginals.popularity(train)
    solve = relaxed if how == "relaxed" else sinkhorn
    plan: ScaledPlan = solve(scores, marginals, gamma, memory=memory)
    least = plan.item_potential[np.isfinite(plan.item_potential)].min(initial=0.0)
    # An item that nobody has in the training part has no mass: it comes after those that have.
    of_items = np.maximum(plan.item_potential, least - 1)

    def added(rows: Rows) -> NDArray[np.float32]:
        potential = np.maximum(of_items, plan.user_potential[rows, None])
        return np.asarray(potential - potential.max(axis=1, keepdims=True), dtype=np.float32)

    return plan.blocks, added


def _put_back(values: NDArray[np.float32], order: NDArray[np.intp]) -> NDArray[np.float32]:
    given = np.empty_like(values)
    given[order] = values
    return given


@njit(cache=True, nogil=True)
def place_among_others(  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    block, rows, indptr, observed, begins, items, values, percentiles
):
    """Values of each row's pairs, and (a + e/2 + ½) / (n + 1), a and e of n other unobserved items above and equal."""
    free = np.empty(block.shape[1], dtype=np.float32)
    for place in range(len(rows)):
        row, line, n, at = rows[place], block[place], 0, indptr[rows[place]]
        end = indptr[row + 1]
        for item in range(len(line)):
            if at < end and observed[at] == item:
                at += 1
            else:
                free[n] = line[item]
                n += 1
        others = free[:n]
        # Comparing with all of them is a tenth of a nanosecond each; putting them in order pays for many pairs only.
        in_order = begins[row + 1] - begins[row] > 50 * np.log2(n + 1)
        if in_order:
            others.sort()
        for pair in range(begins[row], begins[row + 1]):
            item = items[pair]
            own, above, equal = line[item], 0, 0
            if in_order:
                up_to = np.searchsorted(others, own, side="right")
                above, equal = n - up_to, up_to - np.searchsorted(others, own, side="left")
            else:
                for value in others:
                    above += value > own
                    equal += value == own
            found = indptr[row] + np.searchsorted(observed[indptr[row] : end], item)
            is_free = 0 if found < end and observed[found] == item else 1  # a control is not held against itself
            values[pair] = own
            percentiles[pair] = (above + 0.5 * (equal - is_free) + 0.5) / (n - is_free + 1)
