from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prorec import InputError, Interactions, split_at_time, split_by_user, split_globally, split_leave_out
from prorec.data.splits import Split, _check_ratios, _floor_product
from tests.strategies import interactions, pairs_of

RATIOS = st.sampled_from([(0.5, 0.2, 0.3), (0.8, 0.2), (0.1, 0.61, 0.29), (1.0, 0.0, 0.0), (0.0, 0.5, 0.5)])
SPLITTERS: list[Callable[[Interactions, int], Split]] = [
    lambda data, seed: split_by_user(data, (0.5, 0.2, 0.3), seed=seed),
    lambda data, seed: split_by_user(data, (0.5, 0.2, 0.3), seed=seed, order="time"),
    lambda data, seed: split_globally(data, (0.5, 0.2, 0.3), seed=seed),
    lambda data, seed: split_globally(data, (0.8, 0.2), seed=seed, order="time"),
    lambda data, seed: split_leave_out(data, 1, k_valid=1, seed=seed),
    lambda data, seed: split_leave_out(data, 2, seed=seed, order="time"),
    lambda data, seed: split_at_time(data, 3, valid_from=2),
]


@pytest.mark.parametrize("split", SPLITTERS)
@given(data=interactions(), seed=st.integers(0, 5))
def test_nothing_lost_nothing_twice_same_seed_same_result(
    split: Callable[[Interactions, int], Split], data: Interactions, seed: int
) -> None:
    parts = split(data, seed)
    each = [parts.train, parts.valid, parts.test]
    assert sum(len(part) for part in each) == len(data)
    assert set.union(*(pairs_of(part) for part in each)) == pairs_of(data)
    for part in each:
        assert part.users is data.users
        assert part.items is data.items
        held_out = part.held_out
        assert held_out is not None
        assert set(zip(*np.nonzero(held_out.toarray()), strict=True)) == pairs_of(data) - pairs_of(part)
    assert pairs_of(parts.train_and_valid) == pairs_of(parts.train) | pairs_of(parts.valid)
    again = split(data, seed)
    np.testing.assert_array_equal(parts.part, again.part)


def exact_share(n: int, *ratios: float) -> int:
    """⌊(sum of ratios)·n⌋ in exact decimal arithmetic."""
    return int(sum(Fraction(str(ratio)) for ratio in ratios) * n)


@given(data=interactions(max_items=40), ratios=RATIOS, order=st.sampled_from(["random", "time"]))
def test_counts_follow_the_floor_rule(data: Interactions, ratios: tuple[float, ...], order: str) -> None:
    valid, test = (0.0, ratios[1]) if len(ratios) == 2 else ratios[1:]
    parts = split_by_user(data, ratios, order=order)  # type: ignore[arg-type]
    for user, n in enumerate(data.activity):
        assert parts.test.activity[user] == exact_share(n, test)
        assert parts.valid.activity[user] == exact_share(n, valid, test) - exact_share(n, test)
    whole = split_globally(data, ratios, order=order)  # type: ignore[arg-type]
    assert len(whole.test) == exact_share(len(data), test)
    assert len(whole.valid) == exact_share(len(data), valid, test) - exact_share(len(data), test)


def test_the_floor_rule_is_not_fooled_by_binary_fractions() -> None:
    data = Interactions.from_table(pa.table({"user": [1] * 100, "item": list(range(100))}))
    assert len(split_by_user(data, (0.71, 0.29)).test) == 29, "int(.29 * 100) is 28"
    assert _floor_product(sum(_check_ratios((0.1, 0.2, 0.7)), Fraction(0)), 30_000_000) == 27_000_000, "(.2 + .7) * 3e7"
    assert len(split_by_user(data, np.array([0.8, 0.2], dtype=np.float32)).test) == 20  # type: ignore[arg-type]


@given(data=interactions(max_items=20))
def test_by_time_the_latest_are_tested(data: Interactions) -> None:
    times = data.columns["timestamp"]
    for parts in (split_by_user(data, (0.4, 0.3, 0.3), order="time"), split_leave_out(data, 2, order="time")):
        for user in range(data.n_users):
            mine = data.user_codes == user
            before = times[mine & (parts.part == 0)].max(initial=-1)
            between = times[mine & (parts.part == 1)]
            after = times[mine & (parts.part == 2)].min(initial=99)
            assert before <= between.min(initial=99)
            assert max(before, between.max(initial=-1)) <= after
    whole = split_globally(data, (0.5, 0.5), order="time")
    assert times[whole.part == 0].max(initial=-1) <= times[whole.part == 2].min(initial=99)


@given(data=interactions(max_items=20), k=st.integers(1, 3), k_valid=st.integers(0, 2))
def test_leave_out_counts(data: Interactions, k: int, k_valid: int) -> None:
    parts = split_leave_out(data, k, k_valid=k_valid)
    enough = data.activity > k + k_valid
    np.testing.assert_array_equal(parts.test.activity, np.where(enough, k, 0))
    np.testing.assert_array_equal(parts.valid.activity, np.where(enough, k_valid, 0))


@given(data=interactions())
def test_at_a_point_in_time(data: Interactions) -> None:
    parts = split_at_time(data, 3, valid_from=1)
    times = data.columns["timestamp"]
    np.testing.assert_array_equal(parts.part, np.where(times >= 3, 2, np.where(times >= 1, 1, 0)))


def test_nanoseconds_are_compared_exactly() -> None:
    begin = 1_600_000_000_000_000_000
    table = pa.table({"user": [1, 1, 1], "item": [1, 2, 3], "timestamp": [begin, begin + 1, begin + 2]})
    assert split_at_time(Interactions.from_table(table), begin + 2).part.tolist() == [0, 0, 2]
    for bad in (float("nan"), None, "", "soon"):
        with pytest.raises(InputError, match="test_from must be a number"):
            split_at_time(Interactions.from_table(table), bad)


def test_at_a_date() -> None:
    days = np.array(["2024-01-01", "2024-02-01", "2024-03-01"], dtype="datetime64[s]")
    data = Interactions.from_table(pa.table({"user": [1, 1, 1], "item": [1, 2, 3], "timestamp": days}))
    assert split_at_time(data, "2024-02-15", valid_from="2024-01-15").part.tolist() == [0, 1, 2]
    with pytest.raises(InputError, match=r"test_from must be a date, such as .*; got 'carnival'"):
        split_at_time(data, "carnival")


def test_another_seed_splits_otherwise() -> None:
    data = Interactions.from_table(pa.table({"user": [1] * 50, "item": list(range(50))}))
    parts = [split_by_user(data, (0.5, 0.5), seed=seed).part for seed in (0, 1)]
    assert (parts[0] != parts[1]).any()


def test_equal_times_are_ordered_at_random() -> None:
    table = pa.table({"user": [1] * 30, "item": list(range(30)), "timestamp": [5] * 30})
    data = Interactions.from_table(table)
    parts = [split_by_user(data, (0.5, 0.5), seed=seed, order="time").part for seed in (0, 1)]
    assert (parts[0] != parts[1]).any()


def test_a_random_split_is_fair() -> None:
    data = Interactions.from_table(pa.table({"user": [1] * 10, "item": list(range(10))}))
    tested = sum(split_by_user(data, (0.7, 0.3), seed=seed).part == 2 for seed in range(3000))
    # Each is tested in 3 of 10 splits: 900 ± 25 (one standard deviation).
    assert np.abs(tested - 900).max() < 110


@pytest.mark.parametrize(
    ("ratios", "message"),
    [
        ((0.5, 0.2, 0.2), r"ratios must sum to 1, got \(0.5, 0.2, 0.2\), which sum to 0.9"),
        ((1.5, -0.5), "each of the ratios must be a finite number from 0 to 1; got 1.5"),
        ((1.0,), r"ratios must be \(train, valid, test\) or \(train, test\); got \[1.0\]"),
        (0.8, "ratios must be"),
        ((float("nan"), 1.0), "got nan"),
        (("a", "b"), "got 'a'"),
    ],
)
def test_bad_ratios_are_refused(ratios: tuple[float, ...], message: str) -> None:
    data = Interactions.from_table(pa.table({"user": [1], "item": [1]}))
    for split in (split_by_user, split_globally):
        with pytest.raises(InputError, match=message):
            split(data, ratios)


def test_other_bad_input_is_refused() -> None:
    data = Interactions.from_table(pa.table({"user": [1], "item": [1]}))
    with pytest.raises(InputError, match="needs timestamps"):
        split_by_user(data, (0.5, 0.5), order="time")
    small: Any = np.int8(100)
    assert split_leave_out(data, small, k_valid=small).part.tolist() == [0]
    with pytest.raises(InputError, match="order must be one of"):
        split_by_user(data, (0.5, 0.5), order="alphabetical")  # type: ignore[arg-type]
    for k in (0, 1.5):
        with pytest.raises(InputError, match="k must be a whole number of at least 1"):
            split_leave_out(data, k)  # type: ignore[arg-type]
    timed = Interactions.from_table(pa.table({"user": [1], "item": [1], "timestamp": [5]}))
    with pytest.raises(InputError, match="must not be later than"):
        split_at_time(timed, 3, valid_from=4)


@pytest.mark.real_data("ml-100k")
def test_counts_on_movielens() -> None:
    from prorec import load_dataset

    data = load_dataset("ml-100k")
    n = data.activity
    parts = split_by_user(data, (0.5, 0.2, 0.3))
    assert len(parts.test) == sum(int(0.3 * count) for count in n)
    assert len(parts.train) == sum(count - int(0.5 * count) for count in n)
