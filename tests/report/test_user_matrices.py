"""Neighbours and items of a user, checked against plain loops over sets."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from prorec.report import user_matrices
from prorec.report.user_matrices import drop_popular_items, find_neighbors, select_items

Clicks = list[set[int]]


def find_by_loops(clicks: Clicks, user: int, limit: int) -> list[int]:
    """Compare squared cosines as fractions, so that rounding breaks no ties."""
    own = clicks[user]
    candidates = []
    for other, items in enumerate(clicks):
        n_shared = len(own & items)
        if other != user and n_shared:
            candidates.append((-Fraction(n_shared**2, len(own) * len(items)), other))
    best = [other for _, other in sorted(candidates)][:limit]
    return best + [-1] * (limit - len(best))


def make_matrix(clicks: Clicks, n_items: int, weight: float = 1.0) -> csr_array:
    indptr = np.cumsum([0] + [len(own) for own in clicks])
    indices = np.array([item for own in clicks for item in sorted(own)], dtype=np.int32)
    data = np.full(len(indices), weight, dtype=np.float32)
    return csr_array((data, indices, indptr.astype(np.int32)), shape=(len(clicks), n_items))


@given(
    st.lists(st.sets(st.integers(0, 6)), min_size=1, max_size=12),
    st.integers(1, 5),
    st.sampled_from([1.0, 0.0, 0.3]),
    st.sampled_from([1.0, 300.0, 64e6]),  # bytes: one row at a time, a few, or all rows
    st.data(),
)
def test_neighbors_against_loops(
    clicks: Clicks, limit: int, weight: float, n_bytes: float, data: st.DataObject
) -> None:
    users = data.draw(st.lists(st.integers(0, len(clicks) - 1), max_size=15))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(user_matrices, "_BLOCK_BYTES", n_bytes)
        neighbors = find_neighbors(make_matrix(clicks, 7, weight), np.array(users, dtype=np.int64), limit)
    assert neighbors.shape == (len(users), limit)
    assert neighbors.dtype == np.int32
    assert neighbors.tolist() == [find_by_loops(clicks, user, limit) for user in users]


def test_pair_stored_twice_counts_once() -> None:
    twice = csr_array((np.ones(5), [1, 0, 1, 1, 0], [0, 3, 4, 5]), shape=(3, 2))
    before = twice.indices.copy()
    assert find_neighbors(twice, np.array([1]), 2).tolist() == [find_by_loops([{0, 1}, {1}, {0}], 1, 2)]
    assert twice.indices.tolist() == before.tolist()  # the argument is not changed


def test_equally_similar_users_are_in_order_of_rows() -> None:
    # All have the same cosine with the first, 1/√3: 1 of 1, 2 of 4, 3 of 9 items. Square roots would not be exact.
    clicks = [{0, 1, 2}, {0, 1, 2, *range(3, 9)}, {0, 1, 3, 4}, {2}, {1}]
    assert find_neighbors(make_matrix(clicks, 9), np.array([0]), 4).tolist() == [[1, 2, 3, 4]]


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=9), st.integers(1, 10))
def test_items_are_the_ends_of_a_sorted_list(weights: list[float], limit: int) -> None:
    n_items = 2 * len(weights) + 1
    own = list(range(0, 2 * len(weights), 2))
    matrix = make_matrix([{1}, set(own), {0}], n_items)
    values = np.array([9.0, *weights, 9.0], dtype=np.float32)
    ordered = [item for _, item in sorted(zip([-w for w in weights], own, strict=True))]
    if len(ordered) > limit:
        ordered = ordered[: (limit + 1) // 2] + ordered[::-1][: limit // 2][::-1]
    assert select_items(matrix, values, 1, limit).tolist() == ordered


def test_most_popular_items_are_dropped() -> None:
    clicks = csr_array(np.array([[1, 1, 0], [1, 0, 1], [1, 1, 0], [1, 0, 0]]))
    assert drop_popular_items(clicks, 100) is clicks
    rest = drop_popular_items(clicks, 10)  # 16 pairs of users share the first item, 4 the second, 1 the third
    assert rest.toarray().tolist() == [[0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 0]]
    assert drop_popular_items(clicks, 0).nnz == 0
