"""Tasks of cross-fitting: the functions of `prorec.noise` over the users of a partition.

`mapInArrow` runs these functions in the executors. A user's pairs are the user's clicks, in the order of the items,
and then the user's negatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.engines.spark import task_arrays as arrays
from prorec.engines.spark.task_arrays import Batches, ItemFactors
from prorec.noise.cross_fitting import NEGATIVES_PER_CLICK, assign_folds_by_key, sample_negatives
from prorec.noise.pair_features import ACTIVITY_RANK, PairFeatures, PairScores, ReferenceClicks, smoothed_log_odds
from prorec.noise.plan_ranks import Pairs, rank_in_blocks
from prorec.noise.posterior import NoisePosterior, basis_names

FOLDS = (
    "user int, items array<int>, weights array<float>, folds array<smallint>, is_sampled array<boolean>, "
    "negatives array<int>, negative_of array<int>"
)
"""Lists of clicks, then lists of negatives; `negative_of` is the position of the click that a negative is for."""
SCORED = "user int, positions array<int>, values array<float>, percentile_ranks array<float>, is_cold array<boolean>"
"""`positions` are those of the user's pairs; `values` and `percentile_ranks` have a number for each model and pair."""
FEATURES = (
    "user int, item int, is_click boolean, is_sampled boolean, activity int, is_cold boolean, popularity float, "
    "percentile_rank float, features array<float>"
)
PROBABILITIES = "user int, item int, noise_probability float, percentile_rank float, basis string"

_FOLD, _FIRST_FOLD, _SAMPLE, _NEGATIVE = range(4)
"""Keys that keep the hashes for different purposes apart."""


def hash_to_uniform(*keys: Any) -> NDArray[np.float64]:
    """Hash integers to numbers in [0, 1) that look like random draws.

    A task that runs again must draw the same numbers, whichever rows are in its batch, so draws depend on keys alone.
    The keys are mixed one after the other as in the generator SplitMix64.

    Parameters
    ----------
    *keys : int or ndarray of int
        Integers, or arrays of one length.

    Returns
    -------
    ndarray of float64

    Examples
    --------
    >>> hash_to_uniform(0, np.array([7, 8, 7])).round(3)
    array([0.394, 0.893, 0.394])
    """
    state = np.zeros((), dtype=np.uint64)
    with np.errstate(over="ignore"):  # the arithmetic is modulo 2⁶⁴
        for key in keys:
            state = (state ^ np.asarray(key).astype(np.int64).view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return np.asarray((state >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def assign_folds_and_negatives(
    batches: Batches, n_items: int, n_folds: int, seed: int, sample_rate: float
) -> Iterator[pa.RecordBatch]:
    """Assign clicks to folds, sample clicks to learn from, and sample negatives for these.

    Parameters
    ----------
    batches : iterable of RecordBatch
        Columns `user`, `items` and `weights`.
    n_items, n_folds, seed : int
        Number of items, number of folds, and the seed of the hash.
    sample_rate : float
        Share of the clicks that the density-ratio classifier learns from.

    Yields
    ------
    RecordBatch
        `FOLDS`: one row per user.
    """
    for batch in arrays.split_batches(batches):
        users, matrix = batch.column("user").to_numpy(), arrays.read_matrix(batch, "weights", n_items)
        rows = _rows_of(matrix.indptr)
        keys = users[rows], matrix.indices
        first_fold = (hash_to_uniform(seed, _FIRST_FOLD, users) * n_folds).astype(np.int64)
        folds = assign_folds_by_key(matrix.indptr, n_folds, hash_to_uniform(seed, _FOLD, *keys), first_fold)
        is_sampled = hash_to_uniform(seed, _SAMPLE, *keys) < sample_rate
        clicks = np.repeat(np.flatnonzero(is_sampled), NEGATIVES_PER_CLICK)
        copies = np.tile(np.arange(NEGATIVES_PER_CLICK), np.count_nonzero(is_sampled))
        uniform = hash_to_uniform(seed, _NEGATIVE, *(each[clicks] for each in keys), copies)
        negatives, exists = sample_negatives(matrix, rows[clicks], uniform)
        clicks, negatives = clicks[exists], negatives[exists]
        offsets = np.append(0, np.cumsum(np.bincount(rows[clicks], minlength=len(users))))
        yield arrays.make_batch(
            FOLDS,
            [
                *(batch.column(name) for name in ("user", "items", "weights")),
                arrays.make_lists(matrix.indptr, folds),
                arrays.make_lists(matrix.indptr, is_sampled),
                arrays.make_lists(offsets, negatives),
                arrays.make_lists(offsets, clicks - matrix.indptr[rows[clicks]]),
            ],
        )


class _UserPairs(NamedTuple):
    """All pairs of a batch of users, user by user."""

    matrix: csr_array
    """The clicks: users of the batch × items."""
    users: NDArray[np.int32]
    """Row of each pair's user in the batch."""
    items: NDArray[np.int32]
    offsets: NDArray[np.int64]
    """Position at which each user's pairs start, and the end of the last."""
    clicks: NDArray[np.int64]
    """Position in `matrix.data` of each click, and of the click that a negative is for."""
    folds: NDArray[np.int16]
    is_click: NDArray[np.bool_]
    is_sampled: NDArray[np.bool_]

    @classmethod
    def read(cls, batch: pa.RecordBatch, n_items: int) -> Self:
        """Read the pairs that `assign_folds_and_negatives` wrote."""
        matrix, negative_offsets = (
            arrays.read_matrix(batch, "weights", n_items),
            arrays.list_offsets(batch, "negatives"),
        )
        negative_rows = _rows_of(negative_offsets)
        users = np.concatenate([_rows_of(matrix.indptr), negative_rows])
        items = np.concatenate([matrix.indices, arrays.list_values(batch, "negatives")])
        clicks = np.concatenate(
            [np.arange(matrix.nnz), arrays.list_values(batch, "negative_of") + matrix.indptr[negative_rows]]
        )
        order = np.argsort(users, kind="stable")
        is_click, clicks = order < matrix.nnz, clicks[order]
        return cls(
            matrix,
            users[order],
            items[order].astype(np.int32),
            matrix.indptr + negative_offsets,
            clicks,
            arrays.list_values(batch, "folds")[clicks],
            is_click,
            arrays.list_values(batch, "is_sampled")[clicks] | ~is_click,
        )


def score_fold(
    batches: Batches, base_models: tuple[ItemFactors, ...], n_items: int, fold: int
) -> Iterator[pa.RecordBatch]:
    """Score the pairs of one fold by models that were trained on the others.

    Parameters
    ----------
    batches : iterable of RecordBatch
        `FOLDS`, and the user factors of each model in columns `features_0`, `features_1`, …
    base_models : tuple of ItemFactors
        Item factors of each model.
    n_items, fold : int
        Number of items, and number of the fold.

    Yields
    ------
    RecordBatch
        `SCORED`: one row for each user with a pair in the fold.
    """
    for batch in arrays.split_batches(batches):
        pairs = _UserPairs.read(batch, n_items)
        inside = np.flatnonzero(pairs.folds == fold)
        users = pairs.users[inside]
        is_left = pairs.folds[pairs.is_click] != fold
        weight_left = np.bincount(pairs.users[pairs.is_click], is_left * pairs.matrix.data, batch.num_rows)
        results = [
            rank_in_blocks(
                items.blocks(arrays.read_features(batch, f"features_{index}")),
                None,
                pairs.matrix,
                Pairs(users, pairs.items[inside]),
            )
            for index, items in enumerate(base_models)
        ]
        present = np.unique(users)
        offsets = np.append(np.searchsorted(users, present), len(inside))
        yield arrays.make_batch(
            SCORED,
            [
                batch.column("user").take(pa.array(present)),
                arrays.make_lists(offsets, inside - pairs.offsets[users]),
                *(
                    arrays.make_lists(offsets * len(base_models), np.stack(values, axis=1).ravel())
                    for values in zip(*results, strict=True)
                ),
                arrays.make_lists(offsets, weight_left[users] == 0),
            ],
        )


def compute_features(batches: Batches, n_items: int, n_models: int, popularity: str) -> Iterator[pa.RecordBatch]:
    """Compute the features of each pair that need only the user's own rows.

    Parameters
    ----------
    batches : iterable of RecordBatch
        `FOLDS` and `SCORED`, joined.
    n_items, n_models : int
        Number of items and number of base models.
    popularity : str
        Name of the array folds × items with the number of interactions outside the fold.

    Yields
    ------
    RecordBatch
        `FEATURES`: one row per pair. The last feature but one is 0; `read_features` fills it in.
    """
    popularity_outside = arrays.load_array(popularity)
    for batch in arrays.split_batches(batches):
        pairs = _UserPairs.read(batch, n_items)
        n_pairs = len(pairs.users)
        index = pairs.offsets[_rows_of(arrays.list_offsets(batch, "positions"))] + arrays.list_values(
            batch, "positions"
        )
        scores = PairScores.allocate(n_models, n_pairs)
        scores.plan_values[:, index] = arrays.list_values(batch, "values").reshape(-1, n_models).T
        scores.percentile_ranks[:, index] = arrays.list_values(batch, "percentile_ranks").reshape(-1, n_models).T
        scores.is_cold[index] = arrays.list_values(batch, "is_cold")
        scores.popularity[:] = popularity_outside[pairs.folds, pairs.items]
        percentile_rank = scores.mean_percentile_rank
        reference = ReferenceClicks(pairs.matrix, percentile_rank[pairs.is_click], scores.popularity[pairs.is_click])
        user_ranks = reference.rank_among_user_clicks(scores, Pairs(pairs.users, pairs.items), pairs.clicks)
        features = scores.to_features(user_ranks, np.zeros(n_pairs)).matrix.astype(np.float32)
        yield arrays.make_batch(
            FEATURES,
            [
                batch.column("user").take(pa.array(pairs.users)),
                pairs.items,
                pairs.is_click,
                pairs.is_sampled,
                np.diff(pairs.matrix.indptr)[pairs.users],
                scores.is_cold,
                scores.popularity,
                percentile_rank,
                arrays.make_lists(np.arange(n_pairs + 1) * features.shape[1], features.ravel()),
            ],
        )


def read_features(batch: pa.RecordBatch) -> PairFeatures:
    """Read the features of pairs, and fill in the rank of the user's activity among the item's other users.

    Parameters
    ----------
    batch : RecordBatch
        `FEATURES` with the counts `n_above`, `n_equal` and `n_users` of the item's users.

    Returns
    -------
    PairFeatures
    """
    n_above, n_equal, n_users, is_click, popularity, is_cold = (
        batch.column(name).to_numpy(zero_copy_only=False)
        for name in ("n_above", "n_equal", "n_users", "is_click", "popularity", "is_cold")
    )
    features = arrays.read_features(batch).astype(np.float64)
    own = is_click.astype(np.int64)  # a click is not compared with itself
    features[:, ACTIVITY_RANK] = smoothed_log_odds(n_above, n_equal - own, n_users - own)
    return PairFeatures(features, popularity.astype(np.float64), is_cold)


def estimate_probabilities(batches: Batches, posterior: NoisePosterior) -> Iterator[pa.RecordBatch]:
    """Estimate the noise probability of each click.

    Parameters
    ----------
    batches : iterable of RecordBatch
        As for `read_features`.
    posterior : NoisePosterior
        The density-ratio classifier, the noise rate and the calibration.

    Yields
    ------
    RecordBatch
        `PROBABILITIES`: one row per click.
    """
    for batch in batches:
        if batch.num_rows:
            pair_features = read_features(batch)
            yield arrays.make_batch(
                PROBABILITIES,
                [
                    batch.column("user"),
                    batch.column("item"),
                    posterior.predict(pair_features),
                    batch.column("percentile_rank"),
                    basis_names(posterior.basis_codes(pair_features)),
                ],
            )


def _rows_of(offsets: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """Return the number of the list in which each value is, from the offsets of the lists."""
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
