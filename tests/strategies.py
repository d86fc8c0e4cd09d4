"""Small interactions of every shape, for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csr_array

from prorec import Interactions


@st.composite
def interactions(draw: st.DrawFn, max_users: int = 8, max_items: int = 9, min_size: int = 0) -> Interactions:
    """Interactions with ratings and times (many of them equal), some users and items without any."""
    n_users, n_items = draw(st.integers(1, max_users)), draw(st.integers(2, max_items))
    size = n_users * n_items
    observed = draw(st.sets(st.integers(0, size - 1), min_size=min(min_size, size), max_size=size))
    pairs = np.array(sorted(observed), dtype=np.int64)
    rows, cols = pairs // n_items, pairs % n_items
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n_users))])
    weights = np.array(draw(st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0]), min_size=len(pairs), max_size=len(pairs))))
    times = draw(st.lists(st.integers(0, 4), min_size=len(pairs), max_size=len(pairs)))
    ratings = draw(st.lists(st.integers(1, 5), min_size=len(pairs), max_size=len(pairs)))
    return Interactions(
        csr_array(
            (weights.astype(np.float32), cols.astype(np.int32), indptr.astype(np.int32)), shape=(n_users, n_items)
        ),
        np.arange(n_users) + 10,
        np.array([f"item {at}" for at in range(n_items)], dtype=object),
        {"rating": np.array(ratings, dtype=np.float32), "timestamp": np.array(times, dtype=np.int64)},
    )


def pairs_of(data: Interactions) -> set[tuple[int, int]]:
    """The observed pairs, as positions."""
    return set(zip(data.user_codes.tolist(), data.item_codes.tolist(), strict=True))
