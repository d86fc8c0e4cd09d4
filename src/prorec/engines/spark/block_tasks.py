"""What runs in an executor: batches of users in, batches of users out, by the block step of one machine.

Functions here are handed to `mapInArrow`. Each gets the users of a partition, some thousands at a time, and item
factors that were shipped as files; those are mapped into memory rather than read, so executors on one machine share
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.denoise.weighting import Weighting, update_weights
from prorec.engines.spark.arrow_batches import Batches, batch_of, features_in, in_pieces, lists, observed_in, values_in
from prorec.transport.backend import CpuBackend
from prorec.transport.blocks import Blocks
from prorec.transport.factors import Factors
from prorec.transport.gamma import sum_squared_spread
from prorec.transport.item_blocks import BlockedFactors
from prorec.transport.scores import ScaledFactors, ScaledScores
from prorec.transport.thresholds import Matching, Threshold, check_threshold

Vector = NDArray[np.float64]

SUMS = "user int, row_sum double, column_sums binary"
MATCHED = (
    "user int, kappa long, threshold float, items array<int>, weights array<float>, originals array<float>, "
    "shares array<float>, kept double, before double, original double, changed double, below double"
)
COUNTED = "bits int, number long, wrong double"
SPREAD = "users long, squares double, largest double"


@dataclass(frozen=True)
class Shipped:
    """Arrays that every executor has as files, by their names; `prorec.engines.spark.broadcast_files` sends them."""

    factors: tuple[str, ...]
    """Item factors in blocks, one after the other."""
    gamma: float
    memory: float
    """How many bytes of a block of users × items one task may hold."""
    most_items: int
    """So many items at most are multiplied at a time: with more, their factors alone would fill the memory."""

    def passes(self, features: NDArray[np.float32]) -> CpuBackend:
        """Passes over all pairs of these users with all items, in one thread: Spark has one task for each core."""
        return CpuBackend(Blocks(self.scores(features, self.gamma), self.memory, workers=1))

    def scores(self, features: NDArray[np.float32], gamma: float) -> ScaledScores:
        """Scores over γ of these users."""
        blocks = [mapped(name) for name in self.factors]
        if sum(map(len, blocks)) <= self.most_items:
            items = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
            return ScaledFactors(Factors(features, items), gamma)
        return BlockedFactors(features, blocks, gamma)


def mapped(name: str) -> NDArray[Any]:
    """An array that was shipped."""
    from pyspark import SparkFiles

    array: NDArray[Any] = np.load(SparkFiles.get(name), mmap_mode="r", allow_pickle=False)
    return array


def sums(batches: Batches, shipped: Shipped) -> Iterator[pa.RecordBatch]:
    """R_i of each user; and, at the end, C_j over the users of this partition."""
    by_item: Vector | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        by_user, here = shipped.passes(features_in(batch)).log_sums()
        by_item = here if by_item is None else np.logaddexp(by_item, here)
        yield batch_of(SUMS, [batch.column("user"), pa.array(by_user), pa.nulls(len(by_user), pa.binary())])
    if by_item is not None:
        yield batch_of(SUMS, [pa.nulls(1, pa.int32()), pa.nulls(1, pa.float64()), pa.array([by_item.tobytes()])])


def joined_sums(batches: Batches) -> Iterator[pa.RecordBatch]:
    """C_j of several partitions in one: a step of the tree."""
    total: Vector | None = None
    for batch in batches:
        for value in batch.column("column_sums"):
            here = np.frombuffer(value.as_buffer())
            total = here if total is None else np.logaddexp(total, here)
    if total is not None:
        yield pa.RecordBatch.from_arrays([pa.array([total.tobytes()])], ["column_sums"])


def matched(
    batches: Batches,
    shipped: Shipped,
    potential: str,
    total: float | None,
    n_users: int,
    threshold: Threshold,
    beta: float,
    lam: float,
    anchored: bool,
    by: Weighting,
) -> Iterator[pa.RecordBatch]:
    """κ and threshold of each user, shares and new weights of their interactions, and what these add up to.

    `potential` names A_j = log p_j − C_j. `total` is the sum of all weights of the beginning, which a user's share q_i
    is of; None, where all users have the same.
    """
    item_potential = np.asarray(mapped(potential))
    for batch in in_pieces(batches):
        observed = observed_in(batch, "weights", len(item_potential))
        originals = observed_in(batch, "originals", len(item_potential))
        by_user = batch.column("row_sum").to_numpy()
        with np.errstate(divide="ignore"):  # a user whose weights are all 0 has no mass
            mass = (
                np.log(_row_sums(originals, originals.data) / total)
                if total is not None
                else np.full(len(by_user), -np.log(n_users))
            )
        passes = shipped.passes(features_in(batch))
        kappa, value, shares = passes.match(mass - by_user, item_potential, check_threshold(threshold), observed)
        matching = Matching.from_arrays(observed, kappa, value, shares)
        if threshold == "none":
            matching = matching.without_threshold(len(item_potential))
        trusted = None if by == "plan" else values_in(batch, "trusted")
        new = update_weights(
            observed,
            matching,
            beta,
            lam,
            original=originals if anchored else None,
            clean_probability=trusted,
            weighting=by,
        )
        below = shares < np.repeat(matching.threshold, np.diff(observed.indptr))
        added_up = (new, observed.data, originals.data, np.abs(new - observed.data), below)
        columns = [lists(observed.indptr, values) for values in (new, originals.data, shares)]
        yield batch_of(
            MATCHED,
            [
                batch.column("user"),
                pa.array(matching.kappa),
                pa.array(matching.threshold),
                batch.column("items"),
                *columns,
                *(pa.array(_row_sums(observed, each)) for each in added_up),
            ],
        )


def spread(batches: Batches, shipped: Shipped) -> Iterator[pa.RecordBatch]:
    """What the automatic γ is made of, over these users."""
    for batch in batches:
        if batch.num_rows:
            scores = shipped.scores(features_in(batch), 1.0)
            squares, largest = sum_squared_spread(scores, np.arange(batch.num_rows))
            yield batch_of(SPREAD, [pa.array([batch.num_rows]), pa.array([squares]), pa.array([largest])])


def counted(
    batches: Batches, probability: Callable[[NDArray[np.float32]], NDArray[np.float32]] | None, high: int | None
) -> Iterator[pa.RecordBatch]:
    """How many interactions have which noise probability p, by the upper half of its bits; or by the lower, below one.

    Positive numbers are in the order of their bits. With each number Σ(1 − p), how many of them are not noise. The
    column has probabilities, or lists of what they are worked out from.
    """
    for batch in batches:
        if probability is None:
            values = batch.column(0).to_numpy(zero_copy_only=False)
        else:
            values = probability(batch.column(0).flatten().to_numpy(zero_copy_only=False))
        bits = values.view(np.uint32).astype(np.int64)
        if high is not None:
            inside = (bits >> 16) == high
            bits, values = bits[inside] & 0xFFFF, values[inside]
        else:
            bits = bits >> 16
        kinds, which, number = np.unique(bits, return_inverse=True, return_counts=True)
        wrong = np.bincount(which, 1 - values.astype(np.float64), len(kinds))
        yield batch_of(COUNTED, [pa.array(kinds.astype(np.int32)), pa.array(number.astype(np.int64)), pa.array(wrong)])


def _row_sums(observed: csr_array, values: NDArray[Any]) -> Vector:
    """What each user's interactions have of something, added up."""
    rows = np.repeat(np.arange(observed.shape[0]), np.diff(observed.indptr))
    return np.asarray(np.bincount(rows, values.astype(np.float64), observed.shape[0]), dtype=np.float64)
