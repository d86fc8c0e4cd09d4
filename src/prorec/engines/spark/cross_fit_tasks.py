"""Cross-fitting over one partition of users, with the functions of one machine's `prorec.noise`.

Functions here are handed to `mapInArrow`. A user's pairs are the clicks, in the order of the items, and then the
controls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.engines.spark.arrow_batches import (
    Batches,
    batch_of,
    begins_in,
    features_in,
    in_pieces,
    lists,
    observed_in,
    values_in,
)
from prorec.engines.spark.block_tasks import Shipped, mapped
from prorec.engines.spark.chance import chance
from prorec.noise.cross_fitting import NEGATIVES_PER_CLICK, assign_folds_by_key, sample_negatives
from prorec.noise.pair_features import PairFeatures, PairScores, ReferenceClicks, smoothed_log_odds
from prorec.noise.plan_ranks import Pairs, rank_in_blocks
from prorec.noise.posterior import NoisePosterior, basis_codes, basis_names
from prorec.transport.blocks import Blocks

DEALT = (
    "user int, items array<int>, weights array<float>, folds array<smallint>, learned_from array<int>, "
    "controls array<int>"
)
"""`learned_from` has positions in the list of items; `controls` has negatives for each of those, or none."""
JUDGED = "user int, places array<int>, values array<float>, percentiles array<float>, is_alone array<boolean>"
"""`places` are numbers of the user's pairs; the next two lists have as many values for each as there are models."""
FEATURED = (
    "user int, item int, is_click boolean, is_learned_from boolean, activity int, is_alone boolean, popularity float, "
    "percentile_rank float, features array<float>"
)
FOUND = "user int, item int, noise_probability float, percentile_rank float, basis string"

_FOLD, _FIRST, _LEARN, _CONTROL = range(4)  # what chance is asked for


def dealt(batches: Batches, n_items: int, n_folds: int, seed: int, share: float) -> Iterator[pa.RecordBatch]:
    """Folds of each user's clicks, the share of clicks that is learned from, and controls for those."""
    for batch in in_pieces(batches):
        users, matrix = batch.column("user").to_numpy(), observed_in(batch, "weights", n_items)
        rows = np.repeat(np.arange(len(users), dtype=np.int32), np.diff(matrix.indptr))
        names = users[rows], matrix.indices
        first = (chance(seed, _FIRST, users) * n_folds).astype(np.int64)
        folds = assign_folds_by_key(matrix.indptr, n_folds, chance(seed, _FOLD, *names), first)
        learned_from = np.flatnonzero(chance(seed, _LEARN, *names) < share)
        places = learned_from - matrix.indptr[rows[learned_from]]
        asked, which = (
            np.repeat(learned_from, NEGATIVES_PER_CLICK),
            np.tile(np.arange(NEGATIVES_PER_CLICK), len(learned_from)),
        )
        drawn_by = chance(seed, _CONTROL, *(each[asked] for each in names), which)
        controls, there = sample_negatives(matrix, rows[asked], drawn_by)
        yield batch_of(
            DEALT,
            [
                batch.column("user"),
                batch.column("items"),
                batch.column("weights"),
                lists(matrix.indptr, folds),
                lists(_begins(rows[learned_from], len(users)), places.astype(np.int32)),
                lists(_begins(rows[asked[there]], len(users)), controls[there]),
            ],
        )


class _Asked(NamedTuple):
    """All pairs of some users: clicks, and after them controls."""

    matrix: csr_array
    """The clicks."""
    pairs: Pairs
    """By row in this batch."""
    places: NDArray[np.int64]
    """Each pair's number among its user's."""
    folds: NDArray[np.int16]
    apart: NDArray[np.int64]
    """For each pair the click that it is not held against: itself, or the one that a control is for."""
    learned_from: NDArray[np.bool_]

    @classmethod
    def of(cls, batch: pa.RecordBatch, n_items: int) -> Self:
        """As `dealt` wrote them."""
        matrix = observed_in(batch, "weights", n_items)
        begins, folds = matrix.indptr.astype(np.int64), values_in(batch, "folds")
        rows = np.repeat(np.arange(batch.num_rows, dtype=np.int32), np.diff(begins))
        learned_begins, control_begins = begins_in(batch, "learned_from"), begins_in(batch, "controls")
        of_learned = np.repeat(np.arange(batch.num_rows), np.diff(learned_begins))
        learned = values_in(batch, "learned_from") + begins[of_learned]
        # Whoever has clicked on everything has no controls.
        has_controls = np.diff(control_begins)[of_learned] > 0
        asked = np.repeat(learned[has_controls], NEGATIVES_PER_CLICK)
        of_control = np.repeat(np.arange(batch.num_rows, dtype=np.int32), np.diff(control_begins))
        place = np.arange(len(asked)) - control_begins[of_control] + np.diff(begins)[of_control]
        chosen = np.ones(len(rows) + len(asked), dtype=bool)
        chosen[: len(rows)] = np.isin(np.arange(len(rows)), learned)
        return cls(
            matrix,
            Pairs(
                np.concatenate([rows, of_control]),
                np.concatenate([matrix.indices, values_in(batch, "controls")]).astype(np.int32),
            ),
            np.concatenate([np.arange(len(rows)) - begins[rows], place]),
            np.concatenate([folds, folds[asked]]).astype(np.int16),
            np.concatenate([np.arange(len(rows)), asked]),
            chosen,
        )


def judged(batches: Batches, voters: tuple[Shipped, ...], n_items: int, fold: int) -> Iterator[pa.RecordBatch]:
    """What models that learned from the other folds say of the pairs in one."""
    for batch in in_pieces(batches):
        asked = _Asked.of(batch, n_items)
        here = np.flatnonzero(asked.folds == fold)
        here = here[np.argsort(asked.pairs.users[here], kind="stable")]
        part = Pairs(asked.pairs.users[here], asked.pairs.items[here])
        left = np.where(asked.folds[: asked.matrix.nnz] == fold, 0, asked.matrix.data)
        rows = asked.pairs.users[: asked.matrix.nnz]
        is_alone = np.bincount(rows, left, batch.num_rows) == 0
        found = []
        for number, shipped in enumerate(voters):
            scores = shipped.scores(features_in(batch, f"features_{number}"), 1.0)
            found.append(rank_in_blocks(Blocks(scores, shipped.memory, workers=1), None, asked.matrix, part))
        there = np.unique(part.users)  # not everybody has something in every fold
        begins = np.append(np.searchsorted(part.users, there), len(part.users))
        yield batch_of(
            JUDGED,
            [
                batch.column("user").take(pa.array(there)),
                lists(begins, asked.places[here].astype(np.int32)),
                *(lists(begins * len(voters), np.stack(each, axis=1).ravel()) for each in zip(*found, strict=True)),
                lists(begins, is_alone[part.users]),
            ],
        )


def featured(batches: Batches, n_items: int, n_voters: int, popularity: str) -> Iterator[pa.RecordBatch]:
    """One row for each pair: what clicks are told from controls by.

    `popularity` names how many have each item outside each fold. The place for what is known by item is left empty:
    the one before the last of the features.
    """
    by_fold = mapped(popularity)
    for batch in in_pieces(batches):
        asked = _Asked.of(batch, n_items)
        pairs, n = asked.pairs, asked.matrix.nnz
        # From the order of folds to that of the pairs: clicks of all users, then controls.
        n_clicks = np.diff(asked.matrix.indptr)
        begins = _begins(pairs.users[n:], batch.num_rows)
        user = np.repeat(np.arange(batch.num_rows), np.diff(begins_in(batch, "places")))
        place = values_in(batch, "places")
        is_click = place < n_clicks[user]
        to = np.where(is_click, asked.matrix.indptr[user] + place, n + begins[user] + place - n_clicks[user])
        known = PairScores.allocate(n_voters, len(pairs.users))
        for name, room in (("values", known.plan_values), ("percentiles", known.percentile_ranks)):
            room[:, to] = values_in(batch, name).reshape(-1, n_voters).T
        known.is_cold[to] = values_in(batch, "is_alone")
        known.popularity[:] = by_fold[asked.folds, pairs.items]
        vote = known.mean_percentile_rank
        company = ReferenceClicks(asked.matrix, vote[:n], known.popularity[:n])
        nothing = np.zeros(len(pairs.users))
        features = known.to_features(company.rank_among_user_clicks(known, pairs, asked.apart), nothing).matrix.astype(
            np.float32
        )
        width = features.shape[1]
        yield batch_of(
            FEATURED,
            [
                batch.column("user").take(pa.array(pairs.users)),
                pa.array(pairs.items),
                pa.array(np.arange(len(pairs.users)) < n),
                pa.array(asked.learned_from),
                pa.array(n_clicks[pairs.users].astype(np.int32)),
                pa.array(known.is_cold),
                pa.array(known.popularity),
                pa.array(vote),
                lists(np.arange(len(features) + 1) * width, features.ravel()),
            ],
        )


def observed(batch: pa.RecordBatch) -> PairFeatures:
    """Evidence of pairs, with where the user's activity is among that of the item's other users put in its place."""
    features = features_in(batch).astype(np.float64)
    above, equal, others, is_click, popularity, is_alone = (
        batch.column(name).to_numpy(zero_copy_only=False)
        for name in ("above", "equal", "others", "is_click", "popularity", "is_alone")
    )
    itself = is_click.astype(np.int64)  # a click is not held against itself
    features[:, -2] = smoothed_log_odds(above, equal - itself, others - itself)
    return PairFeatures(features, popularity.astype(np.float64), is_alone)


def concluded(batches: Batches, learned: NoisePosterior) -> Iterator[pa.RecordBatch]:
    """How probable it is that each click is noise."""
    for batch in batches:
        if not batch.num_rows:
            continue
        evidence = observed(batch)
        yield batch_of(
            FOUND,
            [
                batch.column("user"),
                batch.column("item"),
                pa.array(learned.predict(evidence)),
                batch.column("percentile_rank"),
                basis_names(basis_codes(evidence.is_cold)),
            ],
        )


def _begins(rows: NDArray[np.int32], n_rows: int) -> NDArray[np.int64]:
    """Where the entries of each row begin, if they are in order."""
    return np.append(0, np.cumsum(np.bincount(rows, minlength=n_rows))).astype(np.int64)
