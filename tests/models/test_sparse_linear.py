"""The sparse linear item model: with all neighbours it is EASE, with few it solves small systems of its own."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec import InputError, MemoryLimitError
from prorec.models import EASE, SparseLinear
from tests.models.helpers import UNUSUAL, all_scores, clicks, make_unusual_matrix


def dense_weights(model: SparseLinear) -> NDArray[np.float64]:
    """Return B as a dense matrix."""
    neighbors, item_weights = model.arrays_["neighbors"], model.arrays_["item_weights"]
    b = np.zeros((len(neighbors), len(neighbors)))
    for item in range(len(neighbors)):
        np.add.at(b[:, item], neighbors[item], item_weights[item])
    return b


def make_dense_matrix(n_users: int = 200, n_items: int = 30) -> csr_array:
    """Return distinct weights; every two items share users, and no two are equally good neighbours."""
    rng = np.random.default_rng(0)
    is_observed = rng.random((n_users, n_items)) < 0.25 + 0.4 * rng.random(n_items)
    return csr_array((is_observed * rng.uniform(0.2, 1, (n_users, n_items))).astype(np.float32))


@pytest.mark.parametrize("activity_power", [0.0, 0.5])
def test_with_all_neighbors_it_is_ease(activity_power: float) -> None:
    matrix = make_dense_matrix()
    assert (matrix.T @ matrix).toarray().all()
    for neighbors in (29, 1000):
        model = SparseLinear(neighbors, regularization=3.0, activity_power=activity_power).fit(matrix)
        expected = EASE(3.0, activity_power=activity_power).fit(matrix).arrays_["item_weights"]
        np.testing.assert_allclose(dense_weights(model), expected, atol=1e-6)


@pytest.mark.parametrize("name", UNUSUAL)
def test_unusual_matrices(name: str) -> None:
    matrix = make_unusual_matrix(name)
    model = SparseLinear(20, regularization=3.0).fit(matrix)
    b = dense_weights(model)
    assert np.isfinite(b).all()
    assert not b.diagonal().any()
    shares_users = (matrix.T @ matrix).toarray() > 0
    assert not b[~shares_users].any()
    assert b.any() == (name != "nothing")


def test_items_that_share_no_user_have_no_weight() -> None:
    two_shops = csr_array(np.kron(np.eye(2), make_dense_matrix(30, 8).toarray()).astype(np.float32))
    model = SparseLinear(100, regularization=2.0).fit(two_shops)
    b = dense_weights(model)
    assert not b[:8, 8:].any()
    np.testing.assert_allclose(b, EASE(2.0).fit(two_shops).arrays_["item_weights"], atol=1e-5)


@pytest.mark.parametrize("neighbors", [1, 3, 7])
def test_against_a_plain_loop(neighbors: int) -> None:
    matrix = make_dense_matrix(50, 40)
    x = matrix.toarray().astype(np.float64)
    gram = x.T @ x
    np.fill_diagonal(gram, x.sum(axis=0))
    left = gram + 4 * np.eye(40)
    expected = np.zeros((40, 40))
    for item in range(40):
        others = np.flatnonzero((gram[:, item] > 0) & (np.arange(40) != item))
        gains = gram[others, item] ** 2 / left[others, others]
        chosen = others[np.argsort(-gains)[:neighbors]]
        expected[chosen, item] = np.linalg.solve(left[np.ix_(chosen, chosen)], gram[chosen, item])
    model = SparseLinear(neighbors, regularization=4).fit(matrix)
    np.testing.assert_allclose(dense_weights(model), expected, atol=1e-6)
    np.testing.assert_allclose(model.scores_(np.arange(50)), x @ expected, atol=1e-5)
    np.testing.assert_allclose(model.similarities_(np.array([5, 7])), expected[[5, 7]], atol=1e-6)


def test_more_neighbors_lower_the_loss() -> None:
    matrix = make_dense_matrix(200, 60)
    matrix.data[:] = 1
    x = matrix.toarray().astype(np.float64)

    def loss(model: SparseLinear | EASE, b: NDArray[np.floating]) -> float:
        return float(((x - x @ b) ** 2).sum() + 10 * (b**2).sum())

    models = [SparseLinear(n, regularization=10.0).fit(matrix) for n in (1, 5, 20, 59)]
    losses = [loss(model, dense_weights(model)) for model in models]
    ease = EASE(10.0).fit(matrix)
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] == pytest.approx(loss(ease, ease.arrays_["item_weights"]), rel=1e-6)


def test_a_second_fit_has_scores_of_its_own() -> None:
    model = SparseLinear(5, regularization=1.0).fit(clicks(0))
    first = all_scores(model)
    second = all_scores(model.fit(clicks(1)))
    np.testing.assert_array_equal(second, all_scores(SparseLinear(5, regularization=1.0).fit(clicks(1))))
    assert np.abs(first - second).max() > 0.01


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 4)])
def test_few_items(shape: tuple[int, int]) -> None:
    model = SparseLinear().fit(csr_array(np.ones(shape, dtype=np.float32)))
    assert np.isfinite(all_scores(model)).all()
    assert model.recommend([0], k=1, exclude_seen=False).item_positions.shape == (1, 1)


def test_vanishing_weights_stay_finite() -> None:
    data = clicks()
    for weight in (1e-45, 1e-20):
        model = SparseLinear(5, activity_power=1.0).fit(data.with_weights(np.full(len(data), weight)))
        assert np.isfinite(all_scores(model)).all()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SparseLinear(0), "neighbors must be a whole number of at least 1; got 0"),
        (SparseLinear(regularization=0), "regularization must be above 0; got 0"),
        (SparseLinear(activity_power=2), "activity_power must be a finite number from 0 to 1; got 2"),
        (SparseLinear(seed=-1), "seed must be"),
    ],
)
def test_bad_parameters_are_refused(model: SparseLinear, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model.fit(clicks())


def test_a_penalty_that_is_too_small_is_refused() -> None:
    twins = csr_array(np.tile(np.array([[1.0, 1, 1, 0]], dtype=np.float32), (5, 1)))
    with pytest.raises(InputError, match=r"regularization of 1e-300 is too small.*use a larger one"):
        SparseLinear(regularization=1e-300).fit(twins)


def test_too_many_weights_are_refused_before_the_fit() -> None:
    with pytest.raises(MemoryLimitError, match=r"needs 16 GB for the weights of 1,000,000 items .*Use fewer neighbors"):
        SparseLinear(neighbors=2000).check_parameters((10, 1_000_000))
    SparseLinear().check_parameters((10, 1_000_000))
