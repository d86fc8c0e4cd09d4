"""Third-party models, the real ones."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

import prorec
from prorec import Factors, InputError
from prorec.models import SVD, Model, wrap
from tests.models.test_all import clicks


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
@pytest.mark.parametrize("which", range(3))
def test_implicit(which: int) -> None:
    data = clicks()
    theirs = implicit_models()[which]
    model = wrap(theirs).fit(data)
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
    assert theirs.user_factors is None  # the model that was given is as it was


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("which", range(3))
def test_cornac(which: int) -> None:
    data = clicks()
    model = wrap(cornac_models()[which]).fit(data)
    recommended = model.recommend(data.users[:-1], k=3)
    right = np.mean(recommended.item_positions % 2 == np.arange(59)[:, None] % 2)
    assert right > (0.8 if which else 0.3)  # MF fits ratings, which are all 1 here
    fitted, known = model.fitted_, model.fitted_.train_set if hasattr(model.fitted_, "train_set") else None
    if known is not None:
        user = known.uid_map[5]
        wanted = np.asarray(fitted.score(user))
        got = model.scores_(np.array([5]))[0]
        for item, place in known.iid_map.items():
            assert got[item] == pytest.approx(wanted[place], rel=1e-5)
    assert not callable(getattr(model.scores_, "users", None))
    with pytest.raises(InputError, match="only scores users it knows"):
        model.recommend_new([[100]], k=3)
    similar = model.similar_items(data.items[:10], k=3)
    assert np.mean(similar.item_positions % 2 == np.arange(10)[:, None] % 2) > 0.8


class ByScores:
    """The smallest model there can be: everybody likes what they have."""

    def fit(self, matrix: csr_matrix) -> None:
        self.matrix = matrix

    def score(self, rows: np.ndarray) -> np.ndarray:
        return self.matrix[rows].toarray()


class ByFactors:
    def fit(self, matrix: csr_matrix) -> None:
        learned = SVD(3).fit(csr_array(matrix)).arrays_
        self.user_factors, self.items = learned["users"], learned["items"]

    def item_factors(self) -> np.ndarray:
        return self.items


def test_models_of_ones_own(tmp_path: Path) -> None:
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
    assert prorec.evaluate(by_factors, data, k=5).mean["ndcg@5"] == 0  # what was seen is not recommended


def test_weight_zero_is_left_out() -> None:
    data = clicks()
    model = wrap(ByScores()).fit(data.with_weights(np.where(data.item_codes == 3, 0.0, 1.0)))
    assert model.fitted_.matrix.nnz == data.matrix.nnz - int((data.item_codes == 3).sum())


def test_ours_is_not_wrapped() -> None:
    model: Model = SVD(3)
    assert wrap(model) is model


def test_bad_models() -> None:
    class Nothing:
        def fit(self, matrix: csr_matrix) -> None:
            pass

    class Short(ByScores):
        def score(self, rows: np.ndarray) -> np.ndarray:
            return np.ones((len(rows), 2))

    class Odd(ByFactors):
        def item_factors(self) -> np.ndarray:
            return self.items[:5]

    class Broken(ByFactors):
        def item_factors(self) -> np.ndarray:
            return self.items * np.nan

    data = clicks()
    with pytest.raises(InputError, match="model must have a fit method; object has none"):
        wrap(object())
    with pytest.raises(InputError, match="Nothing has neither user_factors and item_factors nor a score method"):
        wrap(Nothing()).fit(data)
    with pytest.raises(InputError, match="must return 1 × 30 finite numbers for 1 users"):
        wrap(Short()).fit(data).recommend(data.users[:1])
    with pytest.raises(InputError, match="the model's factors have shapes"):
        wrap(Odd()).fit(data)
    with pytest.raises(InputError, match="the model's factors of items are not finite"):
        wrap(Broken()).fit(data)
