"""Models of LensKit, RecTools and RecBole, wrapped. Tests with the libraries themselves run where they are installed.

Their requirements disagree with each other and with those of the tests, so that the manual says which versions were
tried. Stand-ins with the same interface test what prorec does with them.
"""

from __future__ import annotations

import random
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import prorec
from prorec import Factors, InputError
from prorec.models import wrap
from tests.models.helpers import clicks


def learns_taste(model: Any) -> bool:
    """Return whether the fitted model recommends items of the users' taste, whatever its library."""
    data = clicks()
    recommended = model.recommend(data.users[:-1], k=3)
    assert np.isfinite(recommended.scores).all()
    return bool(np.mean(recommended.item_positions % 2 == np.arange(59)[:, None] % 2) > 0.8)


def numpy_state() -> NDArray[Any]:
    """Return the state of numpy's global generator."""
    return np.asarray(np.random.get_state(legacy=False)["state"]["key"]).copy()  # noqa: NPY002


# ── the libraries themselves ────────────────────────────────────────────────────────────────────────


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["als", "knn", "flexmf"])
def test_lenskit(name: str) -> None:
    pytest.importorskip("lenskit", exc_type=ImportError)
    if name == "als":
        from lenskit.als import ImplicitMFScorer

        theirs = ImplicitMFScorer(embedding_size=4, epochs=10)
    elif name == "knn":
        from lenskit.knn import ItemKNNScorer

        theirs = ItemKNNScorer(max_nbrs=10, feedback="implicit")
    else:
        from lenskit.flexmf import FlexMFImplicitScorer

        theirs = FlexMFImplicitScorer(embedding_size=8, epochs=60, batch_size=100)
    first, second = (wrap(theirs).fit(clicks()) for _ in range(2))
    assert learns_taste(first)
    assert isinstance(first.scores_, Factors) == (name == "als")
    users = clicks().users
    np.testing.assert_array_equal(first.recommend(users).item_positions, second.recommend(users).item_positions)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["als", "svd", "bpr", "ease", "knn"])
def test_rectools(name: str) -> None:
    models = pytest.importorskip("rectools.models", exc_type=ImportError)
    if name in ("als", "bpr", "knn"):
        from implicit.als import AlternatingLeastSquares
        from implicit.bpr import BayesianPersonalizedRanking
        from implicit.nearest_neighbours import CosineRecommender

        theirs = {
            "als": lambda: models.ImplicitALSWrapperModel(AlternatingLeastSquares(4, alpha=5, random_state=0)),
            "bpr": lambda: models.ImplicitBPRWrapperModel(
                BayesianPersonalizedRanking(4, learning_rate=0.1, iterations=200, random_state=0, num_threads=1)
            ),
            "knn": lambda: models.ImplicitItemKNNWrapperModel(CosineRecommender(10)),
        }[name]()
    else:
        theirs = models.PureSVDModel(factors=3) if name == "svd" else models.EASEModel(regularization=5.0)
    model: Any = wrap(theirs).fit(clicks())
    assert learns_taste(model)
    assert isinstance(model.scores_, Factors) == (name in ("als", "svd", "bpr"))
    assert model.sample_clicks == (name == "bpr")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["BPR", "EASE", "MultiVAE"])
def test_recbole(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = pytest.importorskip("recbole.config", exc_type=ImportError)
    for old, new in (("float_", np.float64), ("complex_", np.complex128), ("unicode_", np.str_)):
        monkeypatch.setattr(np, old, new, raising=False)  # RecBole 1.2.1 needs these names, which numpy 2 lacks
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pytest"])
    settings = {"epochs": 60, "embedding_size": 8, "learning_rate": 0.02, "train_batch_size": 128, "state": "ERROR"}
    settings["train_neg_sample_args"] = None if name == "MultiVAE" else {"distribution": "uniform", "sample_num": 1}
    theirs = config.Config(name, "any", config_dict={k: v for k, v in settings.items() if v or name == "MultiVAE"})
    before = numpy_state(), random.getstate(), torch.random.get_rng_state()
    model: Any = wrap(theirs).fit(clicks())
    assert learns_taste(model)
    assert type(model.fitted_).__name__ == name
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(before[0], numpy_state())
    assert before[1] == random.getstate()
    assert torch.equal(before[2], torch.random.get_rng_state())
    with pytest.raises(InputError, match=f"belongs to one data set; got a {name}. Pass the Config"):
        wrap(model.fitted_)


# ── stand-ins ───────────────────────────────────────────────────────────────────────────────────────


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> types.ModuleType:
    """Put a module in place of a library's."""
    module = types.ModuleType(name)
    for key, value in contents.items():
        setattr(module, key, value)
        if isinstance(value, type):
            value.__module__ = name
    monkeypatch.setitem(sys.modules, name, module)
    return module


class ItemList:
    def __init__(self, item_ids: NDArray[Any], scores: NDArray[Any] | None = None) -> None:
        self.item_ids, self._scores = item_ids, scores

    def scores(self, form: str) -> NDArray[Any]:
        assert form == "numpy"
        assert self._scores is not None
        return self._scores


class LensKitScorer:
    """Counts how often items occur together with the query's; it has no score for the last item."""

    def train(self, data: Any, options: Any) -> None:
        self.matrix = data.matrix
        assert options.rng == 0

    def __call__(self, query: Any, items: ItemList) -> ItemList:
        together = self.matrix.T @ self.matrix
        scores = together[query.items.item_ids].sum(axis=0).astype(float)
        scores[-1] = np.nan
        return ItemList(items.item_ids, scores[items.item_ids])


class LensKitData:
    def __init__(self, table: Any, users: NDArray[Any], items: NDArray[Any]) -> None:
        self.matrix = np.zeros((len(users), len(items)))
        self.matrix[table["user_id"], table["item_id"]] = table["rating"]

    def user_row(self, user: int) -> ItemList:
        return ItemList(np.flatnonzero(self.matrix[user]))


def put_lenskit(monkeypatch: pytest.MonkeyPatch) -> None:
    query = types.SimpleNamespace
    stand_in(monkeypatch, "lenskit")
    stand_in(
        monkeypatch,
        "lenskit.data",
        ItemList=ItemList,
        RecQuery=lambda user, items: query(user_id=user, items=items),
        from_interactions_df=lambda table, users, items: LensKitData(table, users, items),
    )
    stand_in(monkeypatch, "lenskit.training", TrainingOptions=lambda rng: query(rng=rng))
    stand_in(monkeypatch, "lenskit.knn", LensKitScorer=LensKitScorer)


def test_a_scorer_of_lenskit_has_the_items_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    put_lenskit(monkeypatch)
    theirs = LensKitScorer()
    model: Any = wrap(theirs).fit(clicks())
    assert learns_taste(model)
    assert model.sample_clicks
    assert not hasattr(theirs, "matrix")
    scores = model.scores_(np.array([0, 59]))
    assert scores[0, -1] == scores[0].min()  # an item without a score comes last
    assert not scores[1].any()  # a user without clicks


def test_an_old_lenskit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    put_lenskit(monkeypatch)

    class ItemItem:
        def fit(self, ratings: Any) -> None: ...

    ItemItem.__module__ = "lenskit.algorithms.item_knn"
    with pytest.raises(InputError, match=r"a scorer of version 2025\.1 or later, with a train method; got a ItemItem"):
        wrap(ItemItem())
    monkeypatch.setitem(sys.modules, "lenskit.training", None)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2024.0")
    with pytest.raises(InputError, match=r"lenskit must be 2025\.1 or later to be wrapped; 2024\.0 is installed"):
        wrap(LensKitScorer()).fit(clicks())


class EASEModel:
    """Recommends all items that it knows, best first, as RecTools does."""

    def fit(self, dataset: Any) -> None:
        self.table = dataset.table

    def recommend(self, users: NDArray[Any], dataset: Any, k: int, filter_viewed: bool) -> Any:
        import pandas as pd

        assert not filter_viewed
        matrix = np.zeros((60, k))
        matrix[self.table["user_id"], self.table["item_id"]] = self.table["weight"]
        scores = matrix @ matrix.T @ matrix
        known = dataset.item_id_map.external_ids
        pairs = [(user, item, scores[user, item]) for user in users for item in known]
        return pd.DataFrame(pairs, columns=["user_id", "item_id", "score"])


class PureSVDModel(EASEModel):
    def get_vectors(self) -> tuple[NDArray[Any], NDArray[Any]]:
        # In the order of the first appearance in the table
        users, items = (self.table[name].unique() for name in ("user_id", "item_id"))
        return np.column_stack([users % 2, 1 - users % 2]), np.column_stack([items % 2, 1 - items % 2])


def put_rectools(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dataset:
        @classmethod
        def construct(cls, table: Any) -> Any:
            ids = {
                f"{side}_id_map": types.SimpleNamespace(external_ids=table[f"{side}_id"].unique())
                for side in ("user", "item")
            }
            return types.SimpleNamespace(table=table, **ids)

    stand_in(monkeypatch, "rectools")
    stand_in(monkeypatch, "rectools.dataset", Dataset=Dataset)
    stand_in(monkeypatch, "rectools.models", EASEModel=EASEModel, PureSVDModel=PureSVDModel)


def test_a_model_of_rectools_recommends_all_items(monkeypatch: pytest.MonkeyPatch) -> None:
    put_rectools(monkeypatch)
    model: Any = wrap(EASEModel()).fit(clicks())
    assert learns_taste(model)
    assert not model.sample_clicks
    scores = model.scores_(np.array([59, 3]))
    assert not scores[0].any()
    assert scores[1, -1] == scores[1].min()
    weights = clicks().with_weights(np.where(clicks().user_codes == 0, 0.25, 1.0))
    fitted: Any = wrap(EASEModel()).fit(weights)
    assert set(fitted.fitted_.table["weight"].tolist()) == {0.25, 1.0}


def test_vectors_of_rectools_are_put_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    put_rectools(monkeypatch)
    model: Any = wrap(PureSVDModel()).fit(clicks())
    factors = model.scores_
    assert isinstance(factors, Factors)
    np.testing.assert_array_equal(factors.users[:-1, 0], np.arange(59) % 2)
    np.testing.assert_array_equal(factors.items[:-1, 0], np.arange(29) % 2)
    assert not factors.users[-1].any()  # no clicks
    assert not factors.items[-1].any()


def test_models_of_recbole_are_refused_before_they_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    class BPR:
        pass

    BPR.__module__ = "recbole.model.general_recommender.bpr"
    with pytest.raises(InputError, match=r"a model of RecBole belongs to one data set; got a BPR\. Pass the Config"):
        wrap(BPR())


def test_an_old_recbole_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Config:
        pass

    stand_in(monkeypatch, "recbole")
    Config.__module__ = "recbole.config.configurator"
    monkeypatch.setitem(sys.modules, "recbole.data", None)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.2.1")
    with pytest.raises(InputError, match=r"recbole must be 1\.1 or later to be wrapped; 0\.2\.1 is installed"):
        wrap(Config()).fit(clicks())


@pytest.mark.parametrize("put", [put_lenskit, put_rectools])
def test_no_click_is_refused(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put(monkeypatch)
    theirs = LensKitScorer() if put is put_lenskit else EASEModel()
    data = clicks().with_weights(np.zeros(len(clicks())))
    with pytest.raises(InputError, match="must have at least one click to learn from; none has a weight above 0"):
        wrap(theirs).fit(data)


def test_denoising_with_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    put_lenskit(monkeypatch)
    denoiser = prorec.ProRec(LensKitScorer(), noise_method="plan").fit(clicks())
    assert np.isfinite(denoiser.weights_.data).all()
