"""Splitting interactions into parts to learn from, to tune on and to be judged by.

Every interaction lands in exactly one part; users and items keep their index in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_choice, check_float, check_int
from prorec._core.errors import InputError
from prorec._core.random import make_generator
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
        return self.interactions.select(self.part == TRAIN, hold_out_rest=True)

    @cached_property
    def valid(self) -> Interactions:
        """What to tune on; may be empty."""
        return self.interactions.select(self.part == VALID, hold_out_rest=True)

    @cached_property
    def test(self) -> Interactions:
        """What to be judged by."""
        return self.interactions.select(self.part == TEST, hold_out_rest=True)

    @cached_property
    def train_and_valid(self) -> Interactions:
        """What the final model learns from, when tuning is over."""
        return self.interactions.select(self.part != TEST, hold_out_rest=True)

    def __repr__(self) -> str:
        train, valid, test = np.bincount(self.part, minlength=3)
        return f"Split({train:,} train, {valid:,} valid, {test:,} test)"


def split_by_user(
    interactions: Interactions, ratios: Sequence[float], *, seed: int = 0, order: Order = "random"
) -> Split:
    """Split each user's interactions by ratio.

    Of a user's n interactions, ⌊r_test·n⌋ test, ⌊(r_valid + r_test)·n⌋ − ⌊r_test·n⌋ validate, the rest train.

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
    check_choice("order", order, ("random", "time"))
    n = len(interactions)
    shuffled = make_generator(seed).permutation(n)
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
    k, k_valid = (min(check_int(*each), len(interactions)) for each in (("k", k, 1), ("k_valid", k_valid, 0)))
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
    test_begins = _as_time("test_from", test_from, times)
    valid_begins = test_begins if valid_from is None else _as_time("valid_from", valid_from, times)
    if valid_begins > test_begins:
        raise InputError(f"valid_from ({valid_from}) must not be later than test_from ({test_from})")
    part = np.full(len(interactions), TRAIN, dtype=np.int8)
    part[times >= valid_begins] = VALID
    part[times >= test_begins] = TEST
    return Split(interactions, part)


def _as_time(name: str, point: Any, times: NDArray[Any]) -> Any:
    """A point in time that can be compared with the timestamps."""
    is_date = times.dtype.kind == "M"
    try:
        if isinstance(point, Integral) and not is_date:
            return int(point)  # exactly: nanoseconds are more than a float can hold
        begins = np.datetime64(point) if is_date else float(point)
        if np.isnan(begins):
            raise ValueError
    except (TypeError, ValueError, OverflowError) as error:
        kind = "a date, such as '2024-05-01'" if is_date else "a number"
        raise InputError(f"{name} must be {kind}, like the timestamps; got {point!r}") from error
    return begins


def _checked_ratios(ratios: Sequence[float]) -> tuple[Fraction, Fraction, Fraction]:
    """The shares of train, valid and test, as the decimal numbers that were typed: .29 of 100 is 29, not 28."""
    if not isinstance(ratios, Iterable) or len(ratios := list(ratios)) not in (2, 3):
        raise InputError(f"ratios must be (train, valid, test) or (train, test); got {ratios!r}")
    typed = [check_float("each of the ratios", ratio, 0, 1) for ratio in ratios]
    if abs(sum(typed) - 1) > 1e-6:
        raise InputError(f"ratios must sum to 1, got {tuple(typed)}, which sum to {sum(typed):g}")
    shares = [Fraction(ratio).limit_denominator(1_000_000) for ratio in typed]
    return shares[0], shares[1] if len(shares) == 3 else Fraction(0), shares[-1]


def _share(n: Any, ratio: Fraction) -> NDArray[np.int64]:
    """⌊ratio·n⌋."""
    return np.asarray(n, dtype=np.int64) * ratio.numerator // ratio.denominator


def _times(interactions: Interactions) -> NDArray[Any]:
    if "timestamp" not in interactions.columns:
        raise InputError("a split by time needs timestamps: name their column with timestamp_col")
    return interactions.columns["timestamp"]


def _rank_from_last(interactions: Interactions, order: Order, seed: int) -> NDArray[np.int64]:
    """How many of the user's interactions come after each one, in random order or in order of time."""
    check_choice("order", order, ("random", "time"))
    n = len(interactions)
    chance = make_generator(seed).random(n)
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
