"""EASE with fewer users than items: weights between users, which give the scores of weights between items."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import prorec
from prorec import InputError, Interactions
from prorec.models import EASE
from prorec.models.model import WeightMeaning
from tests.models.helpers import UNUSUAL, make_matrix, make_unusual_matrix


def brute_force(x: NDArray[np.floating], model: EASE) -> NDArray[np.float64]:
    """Return B from the dense inverse of items × items."""
    x = x.astype(np.float64)
    activity = x.sum(axis=1)
    counts = np.where(activity > 0, np.where(activity > 0, activity, 1) ** -model.activity_power, 0)
    counts *= activity.sum() / (counts @ activity)
    gram = (x.T * counts) @ x
    if model.weight_meaning == "probability":
        np.fill_diagonal(gram, counts @ x)
    inverse = np.linalg.inv(gram + model.regularization * np.eye(len(gram)))
    b = -inverse / inverse.diagonal()
    np.fill_diagonal(b, 0)
    return b


@pytest.mark.parametrize("meaning", ["probability", "value"])
@pytest.mark.parametrize("activity_power", [0.0, 0.6])
@pytest.mark.parametrize("regularization", [300.0, 3.0, 0.01])
def test_both_sides_are_the_brute_force_solution(
    regularization: float, activity_power: float, meaning: WeightMeaning
) -> None:
    matrix = make_matrix(60, 150, seed=3)
    matrix.data[:] = np.random.default_rng(0).random(matrix.nnz)
    model = EASE(regularization, activity_power=activity_power, weight_meaning=meaning).fit(matrix)
    assert model.arrays_["user_weights"].shape == (60, 60)
    x, b = matrix.toarray(), brute_force(matrix.toarray(), model)
    assert np.abs(b).max() > 1e-3
    np.testing.assert_allclose(model.similarities_(np.arange(150)), b, atol=1e-5)
    np.testing.assert_allclose(model.score_known_users(np.arange(60)), x @ b, atol=1e-5)
    assert sum(float(np.square(block).sum()) for block in model.regularized_blocks()) == pytest.approx((b**2).sum())

    # The same users three times, with a third of each count, are the item side of the same problem.
    rows = csr_array(np.vstack([x, x, x]).astype(np.float32))
    tall = EASE(3 * regularization, activity_power=activity_power, weight_meaning=meaning).fit(rows)
    np.testing.assert_allclose(tall.arrays_["item_weights"], b, atol=1e-5)
    np.testing.assert_allclose(tall.score_known_users(np.arange(60)), model.score_known_users(np.arange(60)), atol=1e-5)


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_matrices(name: str) -> None:
    matrix = csr_array(make_unusual_matrix(name)[:20])
    model = EASE(2.0).fit(matrix)
    b = brute_force(matrix.toarray(), model) if matrix.data.any() else np.zeros((matrix.shape[1],) * 2)
    np.testing.assert_allclose(model.scores_(np.arange(20)), matrix.toarray() @ b, atol=1e-5)


def test_weights_of_zero_are_no_clicks_and_of_one_are_clicks() -> None:
    matrix = make_matrix(40, 90, seed=1)
    is_kept = np.random.default_rng(2).random(matrix.nnz) < 0.6
    zeroed = csr_array((is_kept.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)
    without = zeroed.copy()
    without.eliminate_zeros()
    for activity_power in (0.0, 0.5):
        first, second = (EASE(5.0, activity_power=activity_power).fit(each) for each in (zeroed, without))
        for name, array in first.arrays_.items():
            np.testing.assert_allclose(array, second.arrays_[name], rtol=1e-6)
        as_values = EASE(5.0, activity_power=activity_power, weight_meaning="value").fit(without)
        for name, array in second.arrays_.items():
            np.testing.assert_array_equal(array, as_values.arrays_[name])


def test_new_users_score_as_fitted_ones_and_lists_are_those_of_b(tmp_path: Path) -> None:
    data = Interactions.from_matrix(make_matrix(40, 90, seed=1))
    data = data.with_weights(np.ones(len(data)))
    model = EASE(5.0, activity_power=0.3).fit(data)
    x = data.matrix.toarray()
    b = brute_force(x, model)
    expected = np.where(x > 0, -np.inf, x @ b)
    known = model.recommend(data.users, k=5)
    new = model.recommend_new([data.items[np.flatnonzero(row)] for row in x], k=5)
    ranked = np.sort(expected, axis=1)[:, ::-1][:, :5]
    np.testing.assert_allclose(known.scores, ranked, atol=1e-5)
    np.testing.assert_array_equal(known.items, new.items)
    similar = model.similar_items(data.items, k=3)
    without_itself = np.where(np.eye(90, dtype=bool), -np.inf, b)
    np.testing.assert_allclose(similar.scores, np.sort(without_itself, axis=1)[:, ::-1][:, :3], atol=1e-5)

    model.save(tmp_path)
    loaded = prorec.load(tmp_path)
    assert loaded == model
    np.testing.assert_array_equal(loaded.recommend(data.users, k=5).items, known.items)


def test_a_penalty_that_is_too_small_is_refused() -> None:
    with pytest.raises(InputError, match="regularization of 1e-300 is too small for these interactions"):
        EASE(1e-300).fit(csr_array(np.ones((3, 4), dtype=np.float32)))


def test_memory_is_that_of_the_smaller_side() -> None:
    EASE().check_parameters((1_000, 1_000_000))
    EASE().check_parameters((1_000_000, 1_000))
    with pytest.raises(prorec.MemoryLimitError, match="needs 14 GB for the weights between 30,000 users; at most 8 GB"):
        EASE(device="cpu").check_parameters((30_000, 40_000))
    with pytest.raises(prorec.MemoryLimitError, match=r"between 30,000 items.*Remove items with few interactions"):
        EASE(device="cpu").check_parameters((40_000, 30_000))


def test_arrays_of_half_a_model_are_refused() -> None:
    model = EASE().fit(make_matrix(5, 9))
    arrays = dict(model.arrays_)
    for name in model.arrays_:
        with pytest.raises(InputError, match="its arrays must be item_weights alone, or user_weights, inverse_penalty"):
            EASE.restore({}, {key: array for key, array in arrays.items() if key != name}, model.interactions_)
    both = arrays | {"item_weights": np.zeros((9, 9), dtype=np.float32)}
    with pytest.raises(InputError, match="its arrays must be"):
        EASE.restore({}, both, model.interactions_)
    assert EASE.restore({}, arrays, model.interactions_).scores_(np.arange(5)).shape == (5, 9)
