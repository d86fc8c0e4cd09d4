"""Tasks of one round: the block step of `prorec.transport` over the users of a partition.

`mapInArrow` runs these functions in the executors. Each takes batches of users, and item factors from files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.denoise.weighting import plan_noise_probability
from prorec.engines.spark import task_arrays as arrays
from prorec.engines.spark.task_arrays import Batches, ItemFactors
from prorec.transport.backend import CpuBackend
from prorec.transport.gamma import sum_squared_spread
from prorec.transport.relabeling import relabel
from prorec.transport.thresholds import Matching, check_threshold

if TYPE_CHECKING:
    from prorec.engines.spark.spark_denoiser import SparkProRec

Vector = NDArray[np.float64]

SPREADS = "n_users long, squares double, largest double"
SUMS = "user int, row_sum double, column_sums binary"
MATCHED = (
    "user int, kappa long, threshold float, items array<int>, weights array<float>, original_weights array<float>, "
    "shares array<float>, noise_probabilities array<float>, weight_after double, weight_before double, "
    "original_weight double, change double, n_below double"
)


def measure_spread(batches: Batches, items: ItemFactors) -> Iterator[pa.RecordBatch]:
    """Sum the squared spread of users' scores, from which γ is chosen (`transport.gamma`).

    Parameters
    ----------
    batches : iterable of RecordBatch
        Columns `user` and `features`.
    items : ItemFactors
        Factors of all items.

    Yields
    ------
    RecordBatch
        `SPREADS`: one row for each batch.
    """
    for batch in batches:
        if batch.num_rows:
            squares, largest = sum_squared_spread(items.scores(arrays.read_features(batch)), np.arange(batch.num_rows))
            yield arrays.make_batch(SPREADS, [np.array([batch.num_rows]), np.array([squares]), np.array([largest])])


def sum_scores(batches: Batches, items: ItemFactors, gamma: float) -> Iterator[pa.RecordBatch]:
    """Compute the sums by which Eq. 7 divides, for the users of a partition.

    Parameters
    ----------
    batches : iterable of RecordBatch
        Columns `user` and `features`.
    items : ItemFactors
        Factors of all items.
    gamma : float
        γ.

    Yields
    ------
    RecordBatch
        `SUMS`: R_i = log Σ_j e^(S_ij/γ) of each user; then one row without a user that has C_j = log Σ_i e^(S_ij/γ)
        over the users of the partition, as bytes.
    """
    by_item: Vector | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        by_user, of_batch = CpuBackend(items.blocks(arrays.read_features(batch), gamma)).log_sums()
        by_item = of_batch if by_item is None else np.logaddexp(by_item, of_batch)
        yield arrays.make_batch(SUMS, [batch.column("user"), by_user, pa.nulls(len(by_user), pa.binary())])
    if by_item is not None:
        yield arrays.make_batch(
            SUMS, [pa.nulls(1, pa.int32()), pa.nulls(1, pa.float64()), pa.array([by_item.tobytes()])]
        )


def merge_column_sums(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Merge the sums C_j of several partitions into one row: one level of a tree of reductions.

    Parameters
    ----------
    batches : iterable of RecordBatch
        A column `column_sums` of bytes.

    Yields
    ------
    RecordBatch
        One row, or none if there are no sums.
    """
    total: Vector | None = None
    for batch in batches:
        for value in batch.column("column_sums"):
            sums = np.frombuffer(value.as_buffer())
            total = sums if total is None else np.logaddexp(total, sums)
    if total is not None:
        yield pa.RecordBatch.from_arrays([pa.array([total.tobytes()])], ["column_sums"])


def match_and_relabel(
    batches: Batches,
    items: ItemFactors,
    gamma: float,
    item_potential: str,
    total_weight: float,
    n_users: int,
    settings: SparkProRec,
) -> Iterator[pa.RecordBatch]:
    """Find thresholds, and compute new weights and noise probabilities, for the users of a partition.

    Parameters
    ----------
    batches : iterable of RecordBatch
        Columns `user`, `features`, `row_sum`, and lists `items`, `weights` and `original_weights`; if noise is found by
        cross-fitting, also a list `factors`, which the original weights are multiplied by.
    items : ItemFactors
        Factors of all items.
    gamma : float
        γ.
    item_potential : str
        Name of the array A_j = log p_j − C_j.
    total_weight : float
        Sum of all original weights. A user's sum divided by it is q_i, unless marginals are uniform.
    n_users : int
        Number of all users.
    settings : SparkProRec
        The denoiser.

    Yields
    ------
    RecordBatch
        `MATCHED`: one row per user. The last five columns are the user's parts of the sums for the history.
    """
    potential = np.asarray(arrays.load_array(item_potential))
    for batch in arrays.split_batches(batches):
        observed = arrays.read_matrix(batch, "weights", len(potential))
        original = arrays.read_matrix(batch, "original_weights", len(potential))
        if settings.marginals == "uniform":
            log_mass = np.full(batch.num_rows, -np.log(n_users))
        else:
            with np.errstate(divide="ignore"):  # a user whose weights are all 0 has no mass
                log_mass = np.log(_sum_by_user(original, original.data) / total_weight)
        backend = CpuBackend(items.blocks(arrays.read_features(batch), gamma))
        user_potential = log_mass - batch.column("row_sum").to_numpy()
        matched = backend.match(user_potential, potential, check_threshold(settings.threshold), observed)
        matching = Matching.from_arrays(observed, *matched)
        if settings.threshold == "none":
            matching = matching.without_threshold(len(potential))
        if settings.cross_fit is None:
            multiplied = original if settings.relabel_from == "original" else None
            weights = relabel(observed, matching, settings.beta, settings.lam, multiplied).data
        else:
            weights = original.data * arrays.list_values(batch, "factors").astype(np.float32)
        shares = matching.row_shares
        lists = (weights, original.data, shares, plan_noise_probability(shares, len(potential)))
        sums = (weights, observed.data, original.data, np.abs(weights - observed.data), matching.margins < 0)
        yield arrays.make_batch(
            MATCHED,
            [
                batch.column("user"),
                matching.kappa,
                matching.threshold,
                batch.column("items"),
                *(arrays.make_lists(observed.indptr, values) for values in lists),
                *(_sum_by_user(observed, values) for values in sums),
            ],
        )


def _sum_by_user(matrix: csr_array, values: NDArray[Any]) -> Vector:
    """Return the sum of the values of each user's interactions, in double precision."""
    users = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.asarray(np.bincount(users, values.astype(np.float64), matrix.shape[0]), dtype=np.float64)
