"""Splits of interactions into a training, a validation and a test part.

Every interaction is in exactly one part. Users and items keep their positions in all parts.
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
from scipy.sparse import issparse

from prorec._core.checks import check_choice, check_float, check_int, safe_repr
from prorec._core.errors import InputError
from prorec._core.random import make_generator
from prorec.interactions import Interactions
from prorec.interactions.interactions import check_interactions

Order = Literal["random", "time"]
"""Order in which interactions go to the training, validation and test part."""
TRAIN, VALID, TEST = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Split:
    """Interactions, and the part that each of them belongs to."""

    interactions: Interactions
    """All interactions."""
    part: NDArray[np.int8]
    """0 (train), 1 (valid) or 2 (test) for each interaction, in the order of `interactions.matrix.data`."""

    @cached_property
    def train(self) -> Interactions:
        """Interactions to learn from while parameters are chosen."""
        return self.interactions.select(self.part == TRAIN, hold_out_rest=True)

    @cached_property
    def valid(self) -> Interactions:
        """Interactions to choose parameters by; may be empty."""
        return self.interactions.select(self.part == VALID, hold_out_rest=True)

    @cached_property
    def test(self) -> Interactions:
        """Interactions to evaluate on."""
        return self.interactions.select(self.part == TEST, hold_out_rest=True)

    @cached_property
    def train_and_valid(self) -> Interactions:
        """Interactions that the final model learns from, after parameters are chosen."""
        return self.interactions.select(self.part != TEST, hold_out_rest=True)

    def __repr__(self) -> str:
        train, valid, test = np.bincount(self.part, minlength=3)
        return f"Split({train:,} train, {valid:,} valid, {test:,} test)"


def split_by_user(
    interactions: Interactions, ratios: Sequence[float], *, seed: int = 0, order: Order = "random"
) -> Split:
    """Split the interactions of each user by ratio.

    Of a user's n interactions ⌊r_test·n⌋ are for test, ⌊(r_valid + r_test)·n⌋ − ⌊r_test·n⌋ for validation, and the
    others for training.

    Parameters
    ----------
    interactions : Interactions
        Interactions to split.
    ratios : sequence of float
        (train, valid, test) or (train, test), which sum to 1.
    seed : int, default 0
        Seed of the random order; with `order="time"`, of the order among equal times.
    order : {"random", "time"}, default "random"
        "time" takes each user's latest interactions for test, and those just before for validation.

    Returns
    -------
    Split

    Raises
    ------
    InputError
        If the ratios do not sum to 1, or if `order` is "time" and there are no timestamps.

    Examples
    --------
    >>> from prorec.data.registry import load_dataset
    >>> split_by_user(load_dataset("cinema"), (0.5, 0.2, 0.3), seed=0)
    Split(26,111 train, 10,571 valid, 15,071 test)
    """
    check_interactions("interactions", interactions)
    r_valid, r_test = _check_ratios(ratios)
    n = interactions.activity
    rank = _rank_from_last(interactions, order, seed)
    return _split_by_rank(interactions, rank, _floor_product(r_test, n), _floor_product(r_valid + r_test, n))


def split_globally(
    interactions: Interactions, ratios: Sequence[float], *, seed: int = 0, order: Order = "random"
) -> Split:
    """Split all interactions by ratio at once, whichever users they belong to.

    The sizes are those of `split_by_user`, where n is the number of all interactions. A user may have no interaction
    in the training part.

    Parameters
    ----------
    interactions : Interactions
        Interactions to split.
    ratios : sequence of float
        (train, valid, test) or (train, test), which sum to 1.
    seed : int, default 0
        Seed of the random order; with `order="time"`, of the order among equal times.
    order : {"random", "time"}, default "random"
        "time" takes the latest interactions for test, and those just before for validation.

    Returns
    -------
    Split
    """
    check_interactions("interactions", interactions)
    r_valid, r_test = _check_ratios(ratios)
    check_choice("order", order, ("random", "time"))
    n = len(interactions)
    shuffled = make_generator(seed).permutation(n)
    if order == "time":
        shuffled = shuffled[np.argsort(_timestamps(interactions)[shuffled], kind="stable")]
    part = np.full(n, TRAIN, dtype=np.int8)
    part[shuffled[n - int(_floor_product(r_valid + r_test, n)) :]] = VALID
    part[shuffled[n - int(_floor_product(r_test, n)) :]] = TEST
    return Split(interactions, part)


def split_leave_out(
    interactions: Interactions, k: int = 1, *, k_valid: int = 0, seed: int = 0, order: Order = "random"
) -> Split:
    """Take k interactions of each user for test, and `k_valid` more for validation.

    Parameters
    ----------
    interactions : Interactions
        Interactions to split.
    k : int, default 1
        Number of test interactions of each user.
    k_valid : int, default 0
        Number of validation interactions of each user.
    seed : int, default 0
        Seed of the random order; with `order="time"`, of the order among equal times.
    order : {"random", "time"}, default "random"
        "time" takes each user's latest interactions for test, and those just before for validation.

    Returns
    -------
    Split
        All interactions of a user with k + k_valid or fewer are in the training part.
    """
    check_interactions("interactions", interactions)
    k, k_valid = (min(check_int(*each), len(interactions)) for each in (("k", k, 1), ("k_valid", k_valid, 0)))
    has_enough = interactions.activity > k + k_valid
    rank = _rank_from_last(interactions, order, seed)
    return _split_by_rank(interactions, rank, np.where(has_enough, k, 0), np.where(has_enough, k + k_valid, 0))


def split_at_time(interactions: Interactions, test_from: Any, *, valid_from: Any = None) -> Split:
    """Split at a point in time.

    Parameters
    ----------
    interactions : Interactions
        Interactions with timestamps.
    test_from : number or date
        Time of the first test interaction, of the type that the timestamps have.
    valid_from : number or date, optional
        Time of the first validation interaction; by default no interaction is for validation.

    Returns
    -------
    Split

    Raises
    ------
    InputError
        If there are no timestamps, a time has another type, or `valid_from` is later than `test_from`.
    """
    check_interactions("interactions", interactions)
    times = _timestamps(interactions)
    test_start = _parse_time("test_from", test_from, times)
    valid_start = test_start if valid_from is None else _parse_time("valid_from", valid_from, times)
    if valid_start > test_start:
        raise InputError(f"valid_from ({valid_from}) must not be later than test_from ({test_from})")
    part = np.full(len(interactions), TRAIN, dtype=np.int8)
    part[times >= valid_start] = VALID
    part[times >= test_start] = TEST
    return Split(interactions, part)


def _parse_time(name: str, time: Any, times: NDArray[Any]) -> Any:
    """Return a time that can be compared with the timestamps."""
    is_date = times.dtype.kind == "M"
    try:
        if isinstance(time, Integral) and not is_date:
            return int(time)  # a float cannot hold nanoseconds exactly
        parsed = np.datetime64(time) if is_date else float(time)
        if np.isnan(parsed):
            raise ValueError
    except (TypeError, ValueError, OverflowError) as error:
        expected = "a date, such as '2024-05-01'" if is_date else "a number"
        raise InputError(f"{name} must be {expected}, like the timestamps; got {safe_repr(time)}") from error
    return parsed


def _check_ratios(ratios: Sequence[float]) -> tuple[Fraction, Fraction]:
    """Return the ratios of validation and test as exact decimals, so that .29 of 100 is 29 and not 28."""
    is_list = isinstance(ratios, Iterable) and not issparse(ratios) and getattr(ratios, "ndim", 1) == 1
    if not is_list or len(ratios := list(ratios)) not in (2, 3):
        raise InputError(f"ratios must be (train, valid, test) or (train, test); got {safe_repr(ratios)}")
    checked = [check_float("each of the ratios", ratio, 0, 1) for ratio in ratios]
    if abs(sum(checked) - 1) > 1e-6:
        raise InputError(f"ratios must sum to 1, got {tuple(checked)}, which sum to {sum(checked):g}")
    exact = [Fraction(ratio).limit_denominator(1_000_000) for ratio in checked]
    return exact[1] if len(exact) == 3 else Fraction(0), exact[-1]


def _floor_product(ratio: Fraction, n: Any) -> NDArray[np.int64]:
    """Return ⌊ratio·n⌋."""
    return np.asarray(n, dtype=np.int64) * ratio.numerator // ratio.denominator


def _timestamps(interactions: Interactions) -> NDArray[Any]:
    if "timestamp" not in interactions.columns:
        raise InputError("a split by time needs timestamps: name their column with timestamp_col")
    return interactions.columns["timestamp"]


def _rank_from_last(interactions: Interactions, order: Order, seed: int) -> NDArray[np.int64]:
    """Return how many of the user's interactions come after each one, in random order or by time."""
    check_choice("order", order, ("random", "time"))
    n = len(interactions)
    random_keys = make_generator(seed).random(n)
    times = [_timestamps(interactions)] if order == "time" else []
    last = interactions.matrix.indptr[1:].astype(np.int64) - 1
    sorted_rows = np.lexsort([random_keys, *times, interactions.user_codes])
    rank = np.empty(n, dtype=np.int64)
    rank[sorted_rows] = np.repeat(last, interactions.activity) - np.arange(n)
    return rank


def _split_by_rank(
    interactions: Interactions, rank: NDArray[np.int64], n_test: NDArray[np.int64], n_held_out: NDArray[np.int64]
) -> Split:
    """Take the last `n_test` interactions of each user for test, the rest of the last `n_held_out` for validation."""
    user = interactions.user_codes
    part = np.full(len(interactions), TRAIN, dtype=np.int8)
    part[rank < n_held_out[user]] = VALID
    part[rank < n_test[user]] = TEST
    return Split(interactions, part)
