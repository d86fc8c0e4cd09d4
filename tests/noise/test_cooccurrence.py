"""Co-occurrence features against brute force, and their symmetry between clicks and negatives."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.noise import cooccurrence
from prorec.noise.cooccurrence import compute_cooccurrence
from prorec.noise.plan_ranks import Pairs

RNG = np.random.default_rng
SINGLE_PRECISION = 5e-6


def some_clicks(seed: int, n_users: int = 12, n_items: int = 9) -> csr_array:
    matrix = csr_array((RNG(seed).random((n_users, n_items)) < 0.4).astype(np.float32))
    matrix.data[RNG(seed).random(matrix.nnz) < 0.1] = 0  # an interaction of weight 0 is none
    return matrix


def brute_force(clicks: NDArray[np.bool_], history: set[int], user: int, item: int) -> list[float]:
    """Return the features of one pair, from sets."""
    histories = {v: {int(i) for i in np.flatnonzero(clicks[v])} for v in range(len(clicks)) if v != user}
    users = [v for v, own in histories.items() if item in own]
    shared = {v: len(histories[v] & history) for v in users}
    popularity = {j: sum(j in own for own in histories.values()) for j in history}
    expected = len(users) * sum(popularity.values()) / len(clicks)
    total = sum(shared.values())
    others = {v: max(len(histories[v]) - 1, 1) for v in users}
    cosine = sum(
        sum(j in histories[v] for v in users) / np.sqrt(max(popularity[j], 1) * max(len(users), 1)) for j in history
    )
    squares = [shared[v] ** 2 / (len(history) * others[v]) for v in users if shared[v]]
    return [
        np.log1p(total),
        np.log((total + 0.5) / (expected + 0.5)),
        np.log(cosine / max(len(history), 1) + 1e-3),
        np.log((sum(shared[v] / others[v] for v in users) + 0.05) / (len(users) + 1)),
        np.sqrt(max(squares, default=0.0)),
        (len(squares) + 0.5) / (len(users) + 1),
        np.log(sum(squares) + 1e-3),
        np.log1p(len(users)),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_features_are_sums_over_other_users(seed: int) -> None:
    matrix = some_clicks(seed)
    clicks = matrix.toarray() > 0
    rng = RNG(seed)
    users = rng.integers(12, size=60).astype(np.int32)
    pairs = Pairs(users, rng.integers(9, size=60).astype(np.int32))
    left_out = rng.integers(-1, 9, size=60)
    features = compute_cooccurrence(matrix, matrix, pairs, left_out, np.arange(12), rng)
    for own, user, item, out in zip(features, *pairs, left_out, strict=True):
        history = {int(i) for i in np.flatnonzero(clicks[user])} - {int(out)}
        np.testing.assert_allclose(own, brute_force(clicks, history, user, item), atol=SINGLE_PRECISION)


def test_a_click_says_nothing_for_itself() -> None:
    """A click, and the same pair if it were a negative sampled for another click, have the same features."""
    matrix = some_clicks(3)
    without = matrix.toarray()
    user, item = 4, int(matrix.indices[matrix.indptr[4]])
    without[user, item] = 0
    pair, rows = Pairs(np.array([user], dtype=np.int32), np.array([item], dtype=np.int32)), np.arange(12)
    as_click = compute_cooccurrence(matrix, matrix, pair, np.array([item]), rows, RNG(0))
    as_negative = compute_cooccurrence(csr_array(without), csr_array(without), pair, np.array([-1]), rows, RNG(0))
    np.testing.assert_allclose(as_click, as_negative, atol=SINGLE_PRECISION)


def test_new_users_are_compared_with_everybody() -> None:
    matrix, new = some_clicks(1), some_clicks(2)
    pairs = Pairs(np.zeros(9, dtype=np.int32), np.arange(9, dtype=np.int32))
    features = compute_cooccurrence(matrix, new, pairs, np.full(9, -1), np.full(12, -1), RNG(0))
    history = {int(i) for i in np.flatnonzero(new.toarray()[0] > 0)}
    for item, own in enumerate(features):
        np.testing.assert_allclose(own, brute_force(matrix.toarray() > 0, history, -1, item), atol=SINGLE_PRECISION)


def test_very_popular_items_have_a_sample_of_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooccurrence, "MAX_LISTED_USERS", 30)
    matrix = csr_array((RNG(0).random((200, 6)) < 0.5).astype(np.float32))
    pairs = Pairs(np.arange(200, dtype=np.int32), np.zeros(200, dtype=np.int32))
    left_out, rows = np.zeros(200, dtype=np.int64), np.arange(200)
    sampled = compute_cooccurrence(matrix, matrix, pairs, left_out, rows, RNG(0))
    assert np.expm1(sampled[:, 7]).max() <= 30.01
    monkeypatch.setattr(cooccurrence, "MAX_LISTED_USERS", 1_000)
    exact = compute_cooccurrence(matrix, matrix, pairs, left_out, rows, RNG(0))
    assert np.abs(sampled[:, 3] - exact[:, 3]).mean() < 0.3
    assert np.corrcoef(sampled[:, 2], exact[:, 2])[0, 1] > 0.8
