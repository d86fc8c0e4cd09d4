"""Rows become a matrix in the order of users and items, against `np.lexsort` and a plain loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prorec import DataWarning
from prorec.interactions import assembly
from prorec.interactions.assembly import assemble_matrix

PAIRS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 70_000)), max_size=60)


@given(PAIRS)
def test_order_equals_lexsort(pairs: list[tuple[int, int]]) -> None:
    users = np.array([user for user, _ in pairs], dtype=np.int32)
    items = np.array([item for _, item in pairs], dtype=np.int32)
    assembled = assemble_matrix(users, items, (51, 70_001), None, {}, "max")
    np.testing.assert_array_equal(assembled.order, np.lexsort((items, users)))
    distinct = sorted(set(pairs))
    assert list(zip(*assembled.matrix.nonzero(), strict=True)) == distinct
    assert [distinct[position] for position in assembled.row_positions()] == pairs


def test_order_is_stable_on_many_rows() -> None:
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 300, (2, 20_000)).astype(np.int32)
    order = assemble_matrix(users, items, (300, 300), None, {}, "first").order
    np.testing.assert_array_equal(order, np.lexsort((items, users)))


def test_ids_near_the_limit_of_32_bits() -> None:
    items = np.array([1, 2**31 - 2, 0], dtype=np.int32)
    assembled = assemble_matrix(np.array([2, 0, 1], dtype=np.int32), items, (3, 2**31 - 1), None, {}, "error")
    np.testing.assert_array_equal(assembled.order, [1, 2, 0])
    np.testing.assert_array_equal(assembled.matrix.indices, [2**31 - 2, 0, 1])


@pytest.mark.filterwarnings("ignore::prorec.DataWarning")
@pytest.mark.parametrize("duplicates", ["max", "sum", "first"])
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 9)), max_size=40))
def test_duplicates_equal_a_loop(duplicates: str, rows: list[tuple[int, int, int]]) -> None:
    users, items, values = np.array(rows, dtype=np.int32).reshape(-1, 3).T
    weights = values.astype(np.float32)
    assembled = assemble_matrix(users, items, (4, 4), weights, {"time": values}, duplicates)
    by_pair: dict[tuple[int, int], list[int]] = {}
    for user, item, value in rows:
        by_pair.setdefault((user, item), []).append(value)
    rules: dict[str, Callable[[list[int]], int]] = {"max": max, "sum": sum, "first": lambda values: values[0]}
    combine = rules[duplicates]
    latest = combine if duplicates == "first" else max
    ordered = [by_pair[pair] for pair in sorted(by_pair)]
    assert assembled.matrix.data.tolist() == [combine(each) for each in ordered]
    assert assembled.columns["time"].tolist() == [latest(each) for each in ordered]
    assert assembled.matrix.has_canonical_format


def test_sums_come_with_a_warning_that_counts_the_repeats() -> None:
    codes = np.zeros(3, dtype=np.int32)
    with pytest.warns(DataWarning, match="2 rows repeat"):
        assert assemble_matrix(codes, codes, (1, 1), None, {}, "sum").matrix.data.tolist() == [3]


def test_order_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 40, (2, 3_000)).astype(np.int32)  # more than 24 rows a user
    monkeypatch.setattr(assembly, "_ROWS_PER_THREAD", 100)
    for n_cores in (1, 3, 16):
        monkeypatch.setattr(assembly, "N_CORES", n_cores)
        order = assemble_matrix(users, items, (41, 40), None, {}, "first").order
        np.testing.assert_array_equal(order, np.lexsort((items, users)))
