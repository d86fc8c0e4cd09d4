"""Splitting interactions into parts to learn from, to tune on and to be judged by.

Every interaction lands in exactly one part; users and items keep their index in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from prorec.errors import InputError, one_of
from prorec.interactions import Interactions

Order = Literal["random", "time"]
TRAIN, VALID, TEST = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Split:
    """Interactions and the part each of them belongs to."""

    interactions: Interactions
    """What was split."""
    part: NDArray[np.int8]
    """0 (train), 1 (valid) or 2 (test) for each interaction, in the order of `interactions.matrix.data`."""

    @cached_property
    def train(self) -> Interactions:
        """What to learn from while tuning."""
        return self.interactions.select(self.part == TRAIN)

    @cached_property
    def valid(self) -> Interactions:
        """What to tune on; may be empty."""
        return self.interactions.select(self.part == VALID)

    @cached_property
    def test(self) -> Interactions:
        """What to be judged by."""
        return self.interactions.select(self.part == TEST)

    @cached_property
    def train_and_valid(self) -> Interactions:
        """What the final model learns from, when tuning is over."""
        return self.interactions.select(self.part != TEST)

    def __repr__(self) -> str:
        train, valid, test = np.bincount(self.part, minlength=3)
        return f"Split({train:,} train, {valid:,} valid, {test:,} test)"


def split_by_user(
    interactions: Interactions, ratios: Sequence[float], *, seed: int = 0, order: Order = "random"
) -> Split:
    """Split each user's interactions by ratio.

    Of a user's n interactions, ⌊r_test·n⌋ test, ⌊(r_valid + r_test)·n⌋ − ⌊r_test·n⌋ validate, the rest train: a
    user always keeps something to learn from.

    Parameters
    ----------
    ratios : (train, valid, test), or (train, test); they sum to 1
    seed : of the random order; with `order="time"`, of the order among equal times
    order : {"random", "time"}
        `time` tests on each user's latest interactions and validates on those just before.
    """
    _, r_valid, r_test = _checked_ratios(ratios)
    n = interactions.activity
    rank = _rank_from_last(interactions, order, seed)
    return _cut(interactions, rank, _share(n, r_test), _share(n, r_valid + r_test))


def split_globally(
    interactions: Interactions, ratios: Sequence[float], *, seed: int = 0, order: Order = "random"
) -> Split:
    """Split all interactions by ratio at once, whoever they belong to.

    The counts are those of `split_by_user` with n the number of all interactions. A user may be left with nothing
    to learn from.
    """
    _, r_valid, r_test = _checked_ratios(ratios)
    one_of("order", order, ("random", "time"))
    n = len(interactions)
    shuffled = np.random.default_rng(seed).permutation(n)
    if order == "time":
        shuffled = shuffled[np.argsort(_times(interactions)[shuffled], kind="stable")]
    part = np.full(n, TRAIN, dtype=np.int8)
    n_test, n_held = int(_share(n, r_test)), int(_share(n, r_valid + r_test))
    part[shuffled[n - n_held :]] = VALID
    part[shuffled[n - n_test :]] = TEST
    return Split(interactions, part)


def split_leave_out(
    interactions: Interactions, k: int = 1, *, k_valid: int = 0, seed: int = 0, order: Order = "random"
) -> Split:
    """Test on k interactions of each user, and validate on `k_valid` more.

    A user who would be left with nothing to learn from is not tested: with k + k_valid interactions or fewer,
    all of them train.
    """
    for name, value, least in (("k", k, 1), ("k_valid", k_valid, 0)):
        if not isinstance(value, (int, np.integer)) or value < least:
            raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")
    enough = interactions.activity > k + k_valid
    rank = _rank_from_last(interactions, order, seed)
    return _cut(interactions, rank, np.where(enough, k, 0), np.where(enough, k + k_valid, 0))


def split_at_time(interactions: Interactions, test_from: Any, *, valid_from: Any = None) -> Split:
    """Test on what happened at `test_from` or later, validate on what happened from `valid_from` until then.

    Parameters
    ----------
    test_from, valid_from : points in time, of the kind that the timestamps are (a number, or a date)
    """
    times = _times(interactions)
    part = np.full(len(interactions), TRAIN, dtype=np.int8)
    try:
        if valid_from is not None:
            if not _as_time(valid_from, times) <= _as_time(test_from, times):
                raise InputError(f"valid_from ({valid_from}) must not be later than test_from ({test_from})")
            part[times >= _as_time(valid_from, times)] = VALID
        part[times >= _as_time(test_from, times)] = TEST
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{test_from!r} or {valid_from!r} is not a point in time like the timestamps, of type {times.dtype}"
        ) from error
    return Split(interactions, part)


def _as_time(point: Any, times: NDArray[Any]) -> Any:
    return np.datetime64(point) if times.dtype.kind == "M" else float(point)


def _checked_ratios(ratios: Sequence[float]) -> tuple[float, float, float]:
    shares = [float(ratio) for ratio in ratios]
    if len(shares) == 2:
        shares.insert(1, 0.0)
    if len(shares) != 3:
        raise InputError(f"ratios must be (train, valid, test) or (train, test), got {len(shares)} of them")
    if not all(0 <= share <= 1 for share in shares):
        raise InputError(f"ratios must lie between 0 and 1, got {tuple(ratios)}")
    if abs(sum(shares) - 1) > 1e-9:
        raise InputError(f"ratios must sum to 1, got {tuple(ratios)}, which sum to {sum(shares):g}")
    return shares[0], shares[1], shares[2]


def _share(n: Any, ratio: float) -> NDArray[np.int64]:
    """⌊ratio·n⌋, where ratio means the decimal number that was typed: ⌊.29 · 100⌋ is 29, not 28."""
    return np.floor(np.asarray(n) * ratio + 1e-9).astype(np.int64)


def _times(interactions: Interactions) -> NDArray[Any]:
    if "timestamp" not in interactions.columns:
        raise InputError("a split by time needs timestamps: name their column with timestamp_col")
    return interactions.columns["timestamp"]


def _rank_from_last(interactions: Interactions, order: Order, seed: int) -> NDArray[np.int64]:
    """How many of the user's interactions come after each one, in random order or in order of time."""
    one_of("order", order, ("random", "time"))
    n = len(interactions)
    chance = np.random.default_rng(seed).random(n)
    times = [_times(interactions)] if order == "time" else []
    rank = np.empty(n, dtype=np.int64)
    last = interactions.matrix.indptr[1:].astype(np.int64) - 1
    rank[np.lexsort([chance, *times, interactions.user_codes])] = np.repeat(last, interactions.activity) - np.arange(n)
    return rank


def _cut(
    interactions: Interactions, rank: NDArray[np.int64], n_test: NDArray[np.int64], n_held: NDArray[np.int64]
) -> Split:
    """The last `n_test` of each user's interactions test, the rest of the last `n_held` validate."""
    user = interactions.user_codes
    part = np.full(len(interactions), TRAIN, dtype=np.int8)
    part[rank < n_held[user]] = VALID
    part[rank < n_test[user]] = TEST
    return Split(interactions, part)
