from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prorec.interactions import sorting
from prorec.interactions.sorting import sort_by_user_and_item


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 70000)), max_size=60))
def test_equals_lexsort(pairs: list[tuple[int, int]]) -> None:
    users = np.array([user for user, _ in pairs], dtype=np.int32)
    items = np.array([item for _, item in pairs], dtype=np.int32)
    got_users, got_items, order = sort_by_user_and_item(users, items, 5001, 70001)
    expected = np.lexsort((items, users))
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(got_users, users[expected])
    np.testing.assert_array_equal(got_items, items[expected])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_is_stable_with_any_number_of_threads(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    monkeypatch.setattr(sorting, "N_THREADS", threads)
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 300, (2, 20_000)).astype(np.int32)
    order = sort_by_user_and_item(users, items, 300, 300)[2]
    np.testing.assert_array_equal(order, np.lexsort((items, users)))


def test_keys_too_wide_for_64_bits_are_sorted_another_way() -> None:
    users = np.array([2**31 - 2, 0, 5], dtype=np.int32)
    items = np.array([1, 2**31 - 2, 0], dtype=np.int32)
    got_users, _, order = sort_by_user_and_item(users, items, 2**31 - 1, 2**31 - 1)
    np.testing.assert_array_equal(order, [1, 2, 0])
    np.testing.assert_array_equal(got_users, [0, 5, 2**31 - 2])
