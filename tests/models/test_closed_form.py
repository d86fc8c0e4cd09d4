"""The closed-form models and WRMF against dense arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from prorec import InputError
from prorec.models import EASE, NCE, SVD, WRMF
from prorec.models.model import WeightMeaning
from prorec.models.svd import leading_right_vectors
from tests.models.helpers import all_scores, clicks, make_matrix


@pytest.mark.parametrize("shape", [(40, 30), (30, 40), (700, 500), (500, 700)])
def test_svd_against_lapack(shape: tuple[int, int]) -> None:
    matrix = make_matrix(*shape)
    values, vectors = leading_right_vectors(matrix, 5, seed=0)
    _, expected, right = np.linalg.svd(matrix.toarray().astype(float))
    np.testing.assert_allclose(values, expected[:5], rtol=2e-2)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=1e-5)
    np.testing.assert_allclose(values[0], expected[0], rtol=1e-5)
    assert abs(vectors[:, 0] @ right[0]) == pytest.approx(1, abs=1e-5)
    kept = np.linalg.norm(matrix @ vectors)
    assert kept > 0.995 * np.linalg.norm(expected[:5])


@pytest.mark.parametrize("true_rank", [1, 3, 12, 40])
@pytest.mark.parametrize("scale", [1.0, 1e-12])
def test_svd_of_a_matrix_of_lower_rank(true_rank: int, scale: float) -> None:
    """The matrix has few different rows, so that the Krylov space is exhausted early."""
    rng = np.random.default_rng(0)
    rows = (rng.random((true_rank, 300)) < 0.2).astype(np.float32)
    dense = rows[rng.integers(true_rank, size=400)]
    values, vectors = leading_right_vectors(csr_array(dense * np.float32(scale)), 20, seed=0)
    expected = np.linalg.svd(dense.astype(float), compute_uv=False)[:20]
    np.testing.assert_allclose(values / scale, expected, rtol=2e-3, atol=1e-3 * expected[0])
    is_zero = expected < 1e-6 * expected[0]
    assert (vectors[:, is_zero] == 0).all()
    lengths = np.linalg.norm(vectors, axis=0)
    np.testing.assert_allclose(lengths[~is_zero], 1, atol=1e-4)
    projected = dense @ vectors @ vectors.T
    assert np.linalg.norm(dense - projected) <= np.linalg.norm(expected) * 1e-3 + np.sqrt(
        max((dense.astype(float) ** 2).sum() - (expected**2).sum(), 0)
    ) * (1 + 1e-3)


def test_svd_of_ones() -> None:
    values, vectors = leading_right_vectors(csr_array(np.ones((100, 100), dtype=np.float32)), 3, seed=0)
    np.testing.assert_allclose(values, [100, 0, 0], atol=1e-3)
    np.testing.assert_allclose(vectors[:, 0], 0.1, rtol=1e-4)


def test_svd_keeps_as_much_as_arpack() -> None:
    matrix = make_matrix(1500, 1200, density=0.05)
    ours = np.linalg.norm(SVD(30, weight_meaning="value").fit(matrix).arrays_["users"])
    theirs = np.linalg.norm(svds(matrix.astype(float), 30)[1])
    assert ours > 0.99 * theirs


def test_nce_against_its_formula() -> None:
    matrix = make_matrix(50, 40)
    x = matrix.toarray().astype(float)
    means: dict[WeightMeaning, float] = {"probability": (x**2).sum() / x.sum(), "value": x[x > 0].mean()}
    for meaning, mean in means.items():
        popularity = x.sum(axis=0) / mean
        discount = np.maximum(np.log(50 / np.where(popularity > 0, popularity, 1) ** 1.1), 0)
        _, values, right = np.linalg.svd(x * discount)
        users = x @ right[:6].T * np.sqrt(values[:6])
        items = np.linalg.solve(users.T @ users + 7 * np.eye(6), users.T @ x)
        model = NCE(rank=6, regularization=7, popularity_power=1.1, weight_meaning=meaning)
        np.testing.assert_allclose(all_scores(model.fit(matrix)), users @ items, atol=1e-4)


def test_ease_against_its_formula() -> None:
    matrix = make_matrix(50, 40)
    x = matrix.toarray().astype(float)
    grams: dict[WeightMeaning, Any] = {"probability": x.T @ x, "value": x.T @ x}
    np.fill_diagonal(grams["probability"], x.sum(axis=0))
    for meaning, gram in grams.items():
        inverse = np.linalg.inv(gram + 5 * np.eye(40))
        weights = -inverse / inverse.diagonal()
        np.fill_diagonal(weights, 0)
        model = EASE(5, weight_meaning=meaning).fit(matrix)
        np.testing.assert_allclose(model.scores_(np.arange(50)), x @ weights, atol=1e-5)


@pytest.mark.parametrize("meaning", ["probability", "value"])
def test_wrmf_users_solve_their_equation(meaning: WeightMeaning) -> None:
    matrix = make_matrix(60, 50)
    model = WRMF(rank=8, alpha=10, regularization=2, sweeps=5, weight_meaning=meaning).fit(matrix)
    h = model.arrays_["items"].astype(float)
    for user in range(60):
        weights = matrix[[user]].toarray()[0].astype(float)
        left = h.T @ h + 2 * np.eye(8) + 10 * (h.T * weights) @ h
        target = 11 * weights if meaning == "probability" else (10 * weights + 1) * weights
        expected = np.linalg.solve(left, h.T @ target)
        np.testing.assert_allclose(model.arrays_["users"][user], expected, atol=1e-4)


def test_wrmf_lowers_its_objective() -> None:
    matrix = make_matrix(60, 50)
    x = matrix.toarray().astype(float)

    def objective(model: WRMF) -> float:
        users, items = (model.arrays_[name].astype(float) for name in ("users", "items"))
        scores = users @ items.T
        errors = x * 11 * (1 - scores) ** 2 + (1 - x) * scores**2
        return float(errors.sum() + 2 * ((users**2).sum() + (items**2).sum()))

    values = [objective(WRMF(rank=8, alpha=10, regularization=2, sweeps=sweeps).fit(matrix)) for sweeps in (1, 3, 15)]
    assert values[0] > values[1] > values[2]


@pytest.mark.parametrize("regularization", [0, 1e-20])
@pytest.mark.parametrize("weight", [1e-45, 1e-30, 1e-10, 1e-4])
def test_wrmf_of_tiny_numbers(weight: float, regularization: float) -> None:
    matrix = csr_array((np.random.default_rng(0).random((6, 5)) < 0.5) * np.float32(weight))
    x = matrix.toarray().astype(float)
    for alpha in (0, 1.0):
        model = WRMF(rank=3, alpha=alpha, regularization=regularization, sweeps=5).fit(matrix)
        scores = all_scores(model).astype(float)
        assert np.isfinite(scores).all()
        # The loss of a pair is c·(s − t)² + constant, so that a user's scores are a shrunken projection of t.
        c = 1 + alpha * x
        t = (1 + alpha) * x / c
        assert ((c * scores**2).sum(axis=1) <= (1 + 1e-4) * (c * t**2).sum(axis=1)).all()
        assert np.isfinite(model.encode_users(matrix)).all()


def test_results_that_are_not_finite_are_refused() -> None:
    with pytest.raises(InputError, match=r"WRMF must be finite.*less extreme parameters"):
        WRMF(rank=5, alpha=1e30).fit(clicks())


def test_scaled_weights_do_not_change_the_popularity_discount_of_nce() -> None:
    matrix = make_matrix(50, 40)
    full, half = (NCE(rank=6, regularization=0.0).fit(factor * matrix) for factor in (1.0, 0.5))
    np.testing.assert_allclose(all_scores(half), 0.5 * all_scores(full), atol=1e-4)


def test_svd_is_exact_where_that_is_not_slower() -> None:
    """Few users, many items and many factors give a flat spectrum, whose last vectors are hard to separate."""
    rng = np.random.default_rng(0)
    matrix = csr_array((rng.random((600, 3000)) < 0.01).astype(np.float32))
    ours = np.linalg.norm(SVD(100).fit(matrix).arrays_["users"], axis=0)
    exact = np.linalg.svd(matrix.toarray(), compute_uv=False)[:100]
    np.testing.assert_allclose(np.sort(ours)[::-1], exact, rtol=1e-4)
