"""Models of implicit and Cornac, and own models, wrapped."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix

import prorec
from prorec import Factors, InputError
from prorec.models import SVD, Model, wrap
from tests.models.helpers import clicks


def implicit_models() -> list[Any]:
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.cpu.bpr import BayesianPersonalizedRanking
    from implicit.cpu.lmf import LogisticMatrixFactorization

    return [
        AlternatingLeastSquares(4, regularization=1.0, alpha=5, iterations=10, random_state=0),
        BayesianPersonalizedRanking(4, learning_rate=0.1, iterations=200, random_state=0, num_threads=1),
        LogisticMatrixFactorization(4, iterations=60, random_state=0, num_threads=1),
    ]


def cornac_models() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from cornac.models import BPR, MF, VAECF

    return [
        MF(k=4, max_iter=50, seed=0, verbose=False),
        BPR(k=4, max_iter=200, learning_rate=0.05, seed=0, verbose=False),
        VAECF(k=4, autoencoder_structure=[16], n_epochs=60, batch_size=20, seed=0, verbose=False),
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("index", range(3))
def test_implicit(index: int) -> None:
    data = clicks()
    theirs = implicit_models()[index]
    model: Any = wrap(theirs).fit(data)
    assert isinstance(model.scores_, Factors)
    recommended = model.recommend(data.users[:-1], k=3)
    assert np.mean(recommended.item_positions % 2 == np.arange(59)[:, None] % 2) > 0.8
    rows = np.arange(59)
    ids, _ = model.fitted_.recommend(rows, csr_matrix(data.matrix)[rows], N=3)
    assert np.mean(ids == recommended.item_positions) > 0.95
    baskets = [data.items[data.matrix[[user]].indices].tolist() for user in range(59)]
    new = model.recommend_new(baskets, k=3)
    assert np.mean(new.item_positions % 2 == np.arange(59)[:, None] % 2) > 0.75
    similar = model.similar_items(data.items[:10], k=3)
    assert np.mean(similar.item_positions % 2 == np.arange(10)[:, None] % 2) > 0.7
    assert theirs.user_factors is None  # the given model is unchanged


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("index", range(3))
def test_cornac(index: int) -> None:
    data = clicks()
    model: Any = wrap(cornac_models()[index]).fit(data)
    recommended = model.recommend(data.users[:-1], k=3)
    right = np.mean(recommended.item_positions % 2 == np.arange(59)[:, None] % 2)
    assert right > (0.8 if index else 0.3)  # MF fits ratings, which are all 1 here
    train_set = getattr(model.fitted_, "train_set", None)
    if train_set is not None:
        expected = np.asarray(model.fitted_.score(train_set.uid_map[5]))
        got = model.scores_(np.array([5]))[0]
        for item, position in train_set.iid_map.items():
            assert got[item] == pytest.approx(expected[position], rel=1e-5)
    assert not callable(getattr(model.scores_, "users", None))
    with pytest.raises(InputError, match="only scores users that it was fitted on"):
        model.recommend_new([[100]], k=3)
    similar = model.similar_items(data.items[:10], k=3)
    assert np.mean(similar.item_positions % 2 == np.arange(10)[:, None] % 2) > 0.8


class ByScores:
    """A minimal model: users like the items that they have."""

    def fit(self, matrix: csr_matrix) -> None:
        self.matrix = matrix

    def score(self, rows: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(self.matrix[rows].toarray())


class ByFactors:
    def fit(self, matrix: csr_matrix) -> None:
        learned = SVD(3).fit(csr_array(matrix)).arrays_
        self.user_factors, self.items = learned["users"], learned["items"]

    def item_factors(self) -> NDArray[Any]:
        return self.items


def test_own_models(tmp_path: Path) -> None:
    data = clicks()
    by_scores = wrap(ByScores()).fit(data)
    ranked = by_scores.recommend(data.users[:3], k=30, exclude_seen=False).item_positions
    for user, row in enumerate(ranked):
        seen = set(data.matrix[[user]].indices.tolist())
        assert set(row[: len(seen)].tolist()) == seen
    by_factors = wrap(ByFactors()).fit(data)
    np.testing.assert_array_equal(
        by_factors.recommend(data.users, k=5).item_positions, SVD(3).fit(data).recommend(data.users, k=5).item_positions
    )
    with pytest.raises(InputError, match="a wrapped ByFactors cannot be saved here"):
        by_factors.save(tmp_path)
    assert prorec.evaluate(by_factors, data, k=5).mean["ndcg@5"] == 0  # seen items are not recommended


def test_weight_zero_is_left_out() -> None:
    data = clicks()
    model: Any = wrap(ByScores()).fit(data.with_weights(np.where(data.item_codes == 3, 0.0, 1.0)))
    assert model.fitted_.matrix.nnz == data.matrix.nnz - int((data.item_codes == 3).sum())


def test_clicks_are_drawn_with_their_weight_as_probability() -> None:
    data = clicks()
    weights = np.where(data.item_codes < 10, 1.0, np.where(data.item_codes < 20, 0.6, 0.0))
    first, second = (wrap(ByScores(), sample_clicks=True).fit(data.with_weights(weights)) for _ in range(2))
    drawn = csr_array(first.fitted_.matrix)  # type: ignore[attr-defined]
    assert (drawn.data == 1).all()
    np.testing.assert_array_equal(drawn.toarray(), second.fitted_.matrix.toarray())  # type: ignore[attr-defined]
    assert drawn[:, :10].nnz == (weights == 1).sum()
    assert drawn[:, 20:].nnz == 0
    n_uncertain = (data.item_codes >= 10).sum() - (data.item_codes >= 20).sum()
    assert drawn[:, 10:20].nnz == pytest.approx(0.6 * n_uncertain, abs=4 * np.sqrt(0.24 * n_uncertain))
    given: Any = wrap(ByScores()).fit(data.with_weights(weights))
    assert set(given.fitted_.matrix.data.tolist()) == {1.0, np.float32(0.6)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("index", "draws"), [(0, False), (1, True), (2, False)])
def test_bpr_of_implicit_sees_drawn_clicks(index: int, draws: bool) -> None:
    assert wrap(implicit_models()[index]).sample_clicks == draws  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore")
def test_models_of_cornac_see_drawn_clicks() -> None:
    data = clicks()
    model: Any = wrap(cornac_models()[1]).fit(data.with_weights(np.full(len(data), 0.5)))
    assert model.fitted_.train_set.num_ratings == pytest.approx(len(data) / 2, rel=0.2)


@pytest.mark.filterwarnings("ignore")
def test_als_of_implicit_multiplies_confidence_by_the_weight() -> None:
    """As the documentation of `wrap` says: (HᵀH + λI + Σ (αw − 1)·hhᵀ)·x = Σ αw·h."""
    data = clicks().with_weights(np.random.default_rng(0).choice([0.3, 0.7, 1.0], len(clicks())))
    als: Any = wrap(implicit_models()[0]).fit(data)
    h = als.fitted_.item_factors.astype(np.float64)
    row = data.matrix[[4]]
    w = row.toarray()[0].astype(np.float64)
    observed = w > 0
    left = h.T @ h + np.eye(4) + (h[observed].T * (5 * w[observed] - 1)) @ h[observed]
    expected = np.linalg.solve(left, 5 * h.T @ w)
    np.testing.assert_allclose(als.fitted_.recalculate_user(0, csr_matrix(row)), expected, atol=1e-3)


def test_our_models_are_not_wrapped() -> None:
    model: Model = SVD(3)
    assert wrap(model) is model


def test_bad_models_are_refused() -> None:
    class Nothing:
        def fit(self, matrix: csr_matrix) -> None:
            pass

    class Short(ByScores):
        def score(self, rows: NDArray[Any]) -> NDArray[Any]:
            return np.ones((len(rows), 2))

    class Odd(ByFactors):
        def item_factors(self) -> NDArray[Any]:
            return self.items[:5]

    class Broken(ByFactors):
        def item_factors(self) -> NDArray[Any]:
            return self.items * np.nan

    data = clicks()
    with pytest.raises(InputError, match="model must have a fit method; object has none"):
        wrap(object())
    with pytest.raises(InputError, match=r"user_factors and item_factors, or a score method.*Nothing"):
        wrap(Nothing()).fit(data)
    with pytest.raises(InputError, match="must return 1 × 30 finite numbers for 1 users"):
        wrap(Short()).fit(data).recommend(data.users[:1])
    with pytest.raises(InputError, match="the model's factors have shapes"):
        wrap(Odd()).fit(data)
    with pytest.raises(InputError, match="the model's factors of items must be finite"):
        wrap(Broken()).fit(data)
