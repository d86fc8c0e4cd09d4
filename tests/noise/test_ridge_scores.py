"""Leave-one-out ridge scores against a ridge regression that is fitted again for each pair."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.models import EASE
from prorec.noise import ridge_scores
from prorec.noise.plan_ranks import Pairs
from prorec.noise.ridge_scores import RIDGES, compute_ridge_scores

RNG = np.random.default_rng


def some_clicks(seed: int, n_users: int = 14, n_items: int = 9) -> csr_array:
    matrix = csr_array((RNG(seed).random((n_users, n_items)) < 0.4).astype(np.float32))
    matrix.data[RNG(seed).random(matrix.nnz) < 0.1] = 0  # an interaction of weight 0 is none
    return matrix


def score_by_refitting(matrix: csr_array, history: NDArray[np.float32], item: int, without: int) -> list[float]:
    """Return the scores of an item by EASE, fitted to the rows other than `without`."""
    others = csr_array(np.delete(matrix.toarray(), without, axis=0) if without >= 0 else matrix.toarray())
    others.eliminate_zeros()
    fits = [EASE(regularization=ridge).fit(others) for ridge in RIDGES]
    return [float(np.arcsinh(100 * (history @ fit.arrays_["item_weights"])[item])) for fit in fits]


@pytest.mark.parametrize("by_items", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_models_fitted_to_the_other_users(
    seed: int, by_items: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ridge_scores, "MAX_SIZE", 9 if by_items else 8)  # there are 9 items
    monkeypatch.setattr(ridge_scores, "_ROWS_PER_PIECE", 5)
    matrix, rng = some_clicks(seed), RNG(seed)
    pairs = Pairs(rng.integers(14, size=40).astype(np.int32), rng.integers(9, size=40).astype(np.int32))
    is_click = matrix.toarray()[pairs] > 0
    assert 0 < is_click.sum() < 40
    left_out = np.where(is_click, pairs.items, rng.integers(-1, 9, size=40))
    scores = compute_ridge_scores(matrix, matrix, pairs, left_out, np.arange(14))
    for own, user, item, out in zip(scores, *pairs, left_out, strict=True):
        history = matrix.toarray()[user]
        history[out if out >= 0 else []] = 0
        np.testing.assert_allclose(own, score_by_refitting(matrix, history, item, user), atol=1e-4)


@pytest.mark.parametrize("by_items", [True, False])
def test_new_users_leave_nobody_out(by_items: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ridge_scores, "MAX_SIZE", 9 if by_items else 8)
    matrix, new = some_clicks(1), some_clicks(2, n_users=1)
    pairs = Pairs(np.zeros(9, dtype=np.int32), np.arange(9, dtype=np.int32))
    history = new.toarray()[0]
    scores = compute_ridge_scores(matrix, new, pairs, np.where(history > 0, np.arange(9), -1), np.array([-1]))
    for item, own in enumerate(scores):
        np.testing.assert_allclose(own, score_by_refitting(matrix, history, item, -1), atol=1e-4)


def test_a_click_says_nothing_for_itself() -> None:
    """A click, and the same pair if it were a negative sampled for another click, have the same scores."""
    matrix = some_clicks(3)
    without = matrix.toarray()
    user, item = 4, int(matrix.indices[matrix.indptr[4]])
    without[user, item] = 0
    pair, rows = Pairs(np.array([user], dtype=np.int32), np.array([item], dtype=np.int32)), np.arange(14)
    as_click = compute_ridge_scores(matrix, matrix, pair, np.array([item]), rows)
    as_negative = compute_ridge_scores(csr_array(without), csr_array(without), pair, np.array([-1]), rows)
    np.testing.assert_allclose(as_click, as_negative, atol=1e-5)  # in single precision
