"""Values and percentile ranks of pairs in the transport plan of a model's scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.compilation import njit
from prorec.noise.grouping import group_positions
from prorec.transport import Marginals, relaxed, sinkhorn
from prorec.transport.blocks import Blocks, make_blocks
from prorec.transport.factors import Factors
from prorec.transport.gamma import estimate_gamma
from prorec.transport.plan import ScaledPlan
from prorec.transport.scores import Rows, ScoreFunction, split_into_parts

Transport = Literal["relaxed-users", "relaxed", "sinkhorn"]
Offset = Callable[[Rows], NDArray[np.float32]]


class Pairs(NamedTuple):
    """Users and items by row and column number, in any order."""

    users: NDArray[np.int32]
    """Row of each pair."""
    items: NDArray[np.int32]
    """Column of each pair."""

    def at(self, positions: NDArray[np.intp]) -> Pairs:
        """Return the pairs at some positions."""
        return Pairs(self.users[positions], self.items[positions])


class PlanRanks(NamedTuple):
    """One plan value and one percentile rank per pair."""

    values: NDArray[np.float32]
    """log π, up to a constant per user."""
    percentile_ranks: NDArray[np.float32]
    """Share of the user's unobserved items with a larger value; an equal value counts half."""


def rank_in_plan(
    scores: Factors | ScoreFunction,
    observed: csr_array,
    pairs: Pairs,
    train: csr_array,
    transport: Transport,
    memory: float,
) -> PlanRanks:
    """Rank pairs among their user's unobserved items, by the transport plan of some scores.

    Parameters
    ----------
    scores : Factors or function
        Scores of a model that was not trained on the pairs.
    observed : csr_array, users × items
        All interactions. Each pair is ranked among the items that its user has no interaction with.
    pairs : Pairs
        Pairs to rank.
    train : csr_array, users × items
        Interactions that the model was trained on. They give the marginals and γ.
    transport : {"relaxed-users", "relaxed", "sinkhorn"}
        The plan: with the users' marginal only (Eq. 6), which keeps the order of the scores; the larger of both relaxed
        plans (Eq. 7); or Sinkhorn's (Eq. 4).
    memory : float
        Maximum number of bytes of blocks in memory.

    Returns
    -------
    PlanRanks
        In the order of the pairs.
    """
    if transport == "relaxed-users" or not train.data.any():
        # Neither γ nor the user's potential changes the order of a user's items.
        blocks = make_blocks(scores, Marginals.uniform(*train.shape), 1.0, memory)
        return rank_in_blocks(blocks, None, observed, pairs)
    solvers: dict[str, Callable[..., ScaledPlan]] = {"relaxed": relaxed, "sinkhorn": sinkhorn}
    plan = solvers[transport](scores, Marginals.popularity(train), estimate_gamma(scores, train), memory=memory)
    lowest = plan.item_potential[np.isfinite(plan.item_potential)].min(initial=0.0)
    # An item without interactions in the training part has no mass; it ranks below the items that have some.
    item_potential = np.maximum(plan.item_potential, lowest - 1)

    def offset(rows: Rows) -> NDArray[np.float32]:
        potential = np.maximum(item_potential, plan.user_potential[rows, None])
        return np.asarray(potential - potential.max(axis=1, keepdims=True), dtype=np.float32)

    return rank_in_blocks(plan.blocks, offset, observed, pairs)


def rank_in_blocks(blocks: Blocks, offset: Offset | None, observed: csr_array, pairs: Pairs) -> PlanRanks:
    """Rank pairs among their user's unobserved items, by scores over γ that come in blocks of users.

    Parameters
    ----------
    blocks : Blocks
        Scores over γ.
    offset : function or None
        Returns the plan's potentials for some rows, which are added to the scores; None adds nothing.
    observed : csr_array, users × items
        All interactions.
    pairs : Pairs
        Pairs to rank.

    Returns
    -------
    PlanRanks
        In the order of the pairs.
    """
    order, starts = group_positions(pairs.users, observed.shape[0])
    ranks = PlanRanks(np.empty(len(order), dtype=np.float32), np.empty(len(order), dtype=np.float32))

    def work(rows: Rows, buffer: NDArray[np.float32]) -> None:
        rows = rows[starts[rows + 1] > starts[rows]]
        if not len(rows):
            return
        block = blocks.scores.compute_single(rows, buffer)
        parts: list[Rows | slice] = [slice(None)]
        if block is None or offset is not None:
            parts = [*split_into_parts(np.arange(len(rows)))]  # double precision must stay within the memory budget
        for part in parts:
            values = blocks.scores.compute_double(rows[part]) if block is None else block[part]
            if offset is not None:
                values = values + offset(rows[part])
            values = values.astype(np.float32, copy=False)
            _rank_rows(values, rows[part], observed.indptr, observed.indices, starts, order, pairs.items, *ranks)

    for _ in blocks.map(work):
        pass
    return ranks


@njit(cache=True, nogil=True)
def _rank_rows(  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    block, rows, indptr, observed, starts, order, items, values, percentile_ranks
):
    """Write the value of each pair and its rank (a + e/2 + ½)/(n + 1).

    a and e are the numbers of larger and equal values among the user's n other unobserved items.
    """
    is_unobserved = np.empty(block.shape[1], dtype=np.bool_)
    for index in range(len(rows)):
        row, line = rows[index], block[index]
        is_unobserved[:] = True
        is_unobserved[observed[indptr[row] : indptr[row + 1]]] = False
        others = line[is_unobserved]
        n = len(others)
        # A comparison with all others takes a tenth of a nanosecond each, so sorting pays only for many pairs.
        is_sorted = starts[row + 1] - starts[row] > 50 * np.log2(n + 1)
        if is_sorted:
            others.sort()
        for pair in order[starts[row] : starts[row + 1]]:
            own, above, equal = line[items[pair]], 0, 0
            if is_sorted:
                n_at_most = np.searchsorted(others, own, side="right")
                above, equal = n - n_at_most, n_at_most - np.searchsorted(others, own, side="left")
            else:
                for value in others:
                    above += value > own
                    equal += value == own
            is_negative = int(is_unobserved[items[pair]])  # a negative is not compared with itself
            values[pair] = own
            percentile_ranks[pair] = (above + 0.5 * (equal - is_negative) + 0.5) / (n - is_negative + 1)
