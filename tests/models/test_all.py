"""Tests that every model must pass; a new model is found and tested without any change here."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import prorec
from prorec import InputError, Interactions, NotFittedError, ProRec
from prorec.models import BPR, CDAE, EASE, NCE, SVD, VAE, WRMF, LightGCN, Model, Popularity, SparseLinear, load
from tests.models.helpers import all_scores, clicks, make_small

EXACT = (SVD, NCE, EASE, SparseLinear, Popularity, BPR, LightGCN, CDAE, VAE)
"""Models whose fit does not end at a tolerance."""
EVERY_MODEL: list[type[Any]] = sorted([*Model.registry.values(), ProRec], key=lambda each: each.__name__)
"""Every model, and the denoiser, which has the same methods."""


def learned_arrays(model: Any) -> dict[str, NDArray[Any]]:
    """Return all arrays that a fit computes."""
    if isinstance(model, ProRec):
        results = {"weights": model.weights_.data, "kappa": model.thresholds_.kappa, "value": model.thresholds_.value}
        return {**model.model_.arrays_, **results}
    return dict(model.arrays_)


def test_the_models_of_the_paper_are_tested() -> None:
    assert {SVD, NCE, WRMF, BPR, LightGCN, CDAE, VAE, EASE, SparseLinear, Popularity} <= set(EVERY_MODEL)


@pytest.mark.parametrize("model_class", EVERY_MODEL)
class TestEveryModel:
    def test_learns_taste(self, model_class: type[Any]) -> None:
        data = clicks()
        recommended = make_small(model_class).fit(data).recommend(data.users[:-1], k=3)
        right = np.mean(recommended.item_positions % 2 == np.arange(59)[:, None] % 2)
        assert right > (0.8 if model_class is not Popularity else 0.2)
        assert np.isfinite(recommended.scores).all()

    def test_ranks_by_its_scores(self, model_class: type[Any]) -> None:
        data = clicks()
        model = make_small(model_class).fit(data)
        scores = all_scores(model)[:-1]
        for exclude_seen in (True, False):
            got = model.recommend(data.users[:-1], k=30, exclude_seen=exclude_seen)
            for user, (ranked, values) in enumerate(zip(got.item_positions, got.scores, strict=True)):
                kept = ranked[ranked >= 0]
                seen = set(data.matrix[[user]].indices.tolist())
                assert set(kept.tolist()) == set(range(30)) - (seen if exclude_seen else set())
                assert (np.diff(values[: len(kept)]) <= 0).all()
                np.testing.assert_allclose(values[: len(kept)], scores[user, kept], rtol=1e-4, atol=1e-5)
                assert (values[len(kept) :] == 0).all()

    def test_the_same_seed_gives_the_same_model(self, model_class: type[Any]) -> None:
        first, second = (make_small(model_class, seed=7).fit(clicks()) for _ in range(2))
        for name, array in learned_arrays(first).items():
            np.testing.assert_array_equal(array, learned_arrays(second)[name])
        assert first == second
        assert repr(first) == repr(second)

    def test_a_matrix_is_as_good_as_interactions(self, model_class: type[Any]) -> None:
        first, second = make_small(model_class).fit(clicks()), make_small(model_class).fit(clicks().matrix)
        for name, array in learned_arrays(first).items():
            np.testing.assert_array_equal(array, learned_arrays(second)[name])

    def test_halving_weights_changes_the_model(self, model_class: type[Any]) -> None:
        data = clicks()
        halved = data.with_weights(np.where(np.random.default_rng(0).random(data.matrix.nnz) < 0.5, 0.5, 1.0))
        before, after = (all_scores(make_small(model_class).fit(each)) for each in (data, halved))
        assert np.abs(before - after).max() > 1e-3 * np.abs(before).max()

    def test_weight_zero_equals_removal(self, model_class: type[Any]) -> None:
        data = clicks()
        is_kept = np.random.default_rng(1).random(data.matrix.nnz) < 0.7
        zeroed = make_small(model_class).fit(data.with_weights(np.where(is_kept, 1.0, 0.0)))
        removed = make_small(model_class).fit(data.select(is_kept))
        tolerance = 1e-5 if model_class in EXACT else 1e-3
        expected = all_scores(removed)
        np.testing.assert_allclose(all_scores(zeroed), expected, atol=tolerance * np.abs(expected).max())
        # An interaction of weight 0 is not recommended back.
        ranked = zeroed.recommend(data.users[:-1], k=5).item_positions
        for user, row in enumerate(ranked):
            assert not set(row.tolist()) & set(data.matrix[[user]].indices.tolist())

    def test_survives_saving(self, model_class: type[Any], tmp_path: Path) -> None:
        data = clicks()
        model = make_small(model_class, seed=3).fit(data)
        for _ in range(2):  # the second replaces the first
            model.save(tmp_path / "model")
        assert len(list((tmp_path / "model").iterdir())) == 2
        again = load(tmp_path / "model")
        assert again == model
        assert type(again) is model_class
        np.testing.assert_array_equal(
            again.recommend(data.users, k=5).item_positions, model.recommend(data.users, k=5).item_positions
        )
        assert again.interactions_.users.tolist() == data.users.tolist()
        assert again.interactions_.items.tolist() == data.items.tolist()

    def test_fold_in_of_a_fitted_user_gives_the_same_items(self, model_class: type[Any]) -> None:
        data = clicks()
        model = make_small(model_class).fit(data)
        baskets = [data.items[data.matrix[[user]].indices].tolist() for user in range(5)]
        new, known = model.recommend_new(baskets, k=5), model.recommend(data.users[:5], k=5)
        if model_class in (BPR, LightGCN, CDAE, ProRec):  # fitted users have a vector, or weights, of their own
            assert np.mean(new.item_positions % 2 == np.arange(5)[:, None] % 2) > 0.7
        else:
            np.testing.assert_allclose(new.scores, known.scores, rtol=1e-3, atol=1e-4)
            assert np.mean(new.item_positions == known.item_positions) > 0.9
        assert new.users.tolist() == [0, 1, 2, 3, 4]

    def test_users_without_interactions_get_popular_items(self, model_class: type[Any]) -> None:
        data = clicks()
        model = make_small(model_class).fit(data)
        counted = data.with_weights(model.weights_.data) if isinstance(model, ProRec) else data
        expected = Popularity().fit(counted).recommend(["user 59"], k=5).item_positions
        np.testing.assert_array_equal(model.recommend(["user 59"], k=5).item_positions, expected)
        np.testing.assert_array_equal(model.recommend_new([[]], k=5).item_positions, expected)
        nothing = data.with_weights(np.where(data.user_codes == 0, 0.0, 1.0))
        model = make_small(model_class).fit(nothing)
        seen = set(data.matrix[[0]].indices.tolist())
        inner = model.model_ if isinstance(model, ProRec) else model
        best = [item for item in np.argsort(-inner._popularity(), kind="stable") if item not in seen]
        assert model.recommend(["user 0"], k=5).item_positions[0].tolist() == best[:5]

    def test_similar_items_share_a_taste(self, model_class: type[Any]) -> None:
        data = clicks()
        similar = make_small(model_class).fit(data).similar_items(data.items[:-1], k=3)
        assert np.mean(similar.item_positions % 2 == np.arange(29)[:, None] % 2) > 0.8
        assert (similar.item_positions != np.arange(29)[:, None]).all()
        assert similar.query_items.tolist() == data.items[:-1].tolist()

    def test_evaluates(self, model_class: type[Any]) -> None:
        parts = prorec.split_by_user(clicks(), (0.7, 0.3), seed=0)
        result = prorec.evaluate(make_small(model_class).fit(parts.train), parts.test, k=5)
        assert 0 < result.mean["ndcg@5"] <= 1

    def test_nothing_to_learn_from(self, model_class: type[Any]) -> None:
        data = Interactions.from_matrix(csr_array((12, 10), dtype=np.float32))
        if model_class is ProRec:
            with pytest.raises(InputError, match="no interaction to learn from"):
                make_small(model_class).fit(data)
            return
        recommended = make_small(model_class).fit(data).recommend(data.users, k=10)
        assert (np.sort(recommended.item_positions, axis=1) == np.arange(10)).all()
        assert np.isfinite(recommended.scores).all()

    def test_methods_before_fit_are_refused(self, model_class: type[Any], tmp_path: Path) -> None:
        calls: list[Callable[[Any], object]] = [
            lambda model: model.recommend([1]),
            lambda model: model.recommend_new([[1]]),
            lambda model: model.similar_items([1]),
            lambda model: model.scores_,
            lambda model: model.save(tmp_path),
        ]
        for call in calls:
            with pytest.raises(NotFittedError, match=f"{model_class.__name__} is not fitted yet; call .*fit"):
                call(make_small(model_class))

    def test_unknown_ids_are_refused(self, model_class: type[Any]) -> None:
        model = make_small(model_class).fit(clicks())
        with pytest.raises(InputError, match=r"user 'nobody' is not among the 60 users.*recommend_new"):
            model.recommend(["user 1", "nobody"])
        with pytest.raises(InputError, match="item 999 is not among the 30 items"):
            model.recommend_new([[100], [101, 999]])
        with pytest.raises(InputError, match="item 999 is not among the 30 items"):
            model.similar_items([999])
        with pytest.raises(InputError, match="baskets must be a list of lists"):
            model.recommend_new("abc")
        for k in (0, 31):
            with pytest.raises(
                InputError, match=f"k must be a whole number from 1 to the number of items, 30; got {k}"
            ):
                model.recommend(["user 1"], k=k)

    def test_bad_weights_are_refused(self, model_class: type[Any]) -> None:
        with pytest.raises(InputError, match="weights must be from 0 to 1; that of user 0 and item 1 is 2"):
            make_small(model_class).fit(csr_array(np.array([[1.0, 2.0], [0.5, 0.0]])))
        with pytest.raises(InputError, match="weight"):
            make_small(model_class).fit(csr_array(np.array([[1.0, np.nan], [0.5, 0.0]])))
        message = "interactions must be Interactions, a data frame or a sparse matrix; got list"
        with pytest.raises(InputError, match=message):
            make_small(model_class).fit([[1, 0]])

    def test_a_failed_fit_leaves_the_old_model(self, model_class: type[Any]) -> None:
        model = make_small(model_class).fit(clicks())
        with pytest.raises(InputError):
            model.fit(csr_array(np.array([[3.0]])))
        assert model.recommend(["user 1"], k=2).item_positions.shape == (1, 2)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SVD(rank=31), "rank must be a whole number from 1 to the smaller side of the matrix, 30; got 31"),
        (SVD(rank=0), "rank must be"),
        (NCE(rank=8, regularization=-1), "regularization must be a finite number of at least 0; got -1"),
        (NCE(rank=8, popularity_power=-1), "popularity_power must be"),
        (WRMF(rank=8, alpha=-1), "alpha must be"),
        (WRMF(rank=8, regularization=float("nan")), "regularization must be"),
        (WRMF(rank=8, sweeps=0), "sweeps must be"),
        (WRMF(rank="8"), "rank must be"),  # type: ignore[arg-type]
        (SVD(rank=8, seed=-1), "seed must be"),
    ],
)
def test_bad_parameters_are_refused(model: Model, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model.fit(clicks())


def test_folders_without_a_whole_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model\.json is missing"):
        load(tmp_path)
    folder = tmp_path / "model"
    SVD(rank=2).fit(clicks()).save(folder)
    content = json.loads((folder / "model.json").read_text())

    def write(**changes: object) -> None:
        (folder / "model.json").write_text(json.dumps(content | changes))

    write(version=4)
    with pytest.raises(InputError, match="format version 4; this prorec reads 1 to 3"):
        load(folder)
    write(class_name="Oracle")
    with pytest.raises(InputError, match="'Oracle'"):
        load(folder)
    write(parameters={"depth": 3})
    with pytest.raises(InputError, match="the parameters are not those of SVD"):
        load(folder)
    write(arrays="arrays-01234567.npz")
    with pytest.raises(InputError, match=r"incomplete: arrays-01234567\.npz is missing"):
        load(folder)
    (folder / "model.json").write_text("{")
    with pytest.raises(InputError, match=r"model\.json is not the file of a model"):
        load(folder)
    write()
    arrays = folder / content["arrays"]
    arrays.write_bytes(arrays.read_bytes()[:100])
    with pytest.raises(InputError, match="cannot be read"):
        load(folder)


def test_arrays_without_a_rule_are_not_saved(tmp_path: Path) -> None:
    model = SVD(rank=2).fit(clicks())
    model.arrays_["extra"] = np.ones(3, dtype=np.float32)
    with pytest.raises(InputError, match=r"'extra' is not one of its arrays, .*let SVD\.array_rules say what it has"):
        model.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_saving_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "arrays-mine.npz").write_bytes(b"mine")
    for _ in range(2):
        SVD(rank=np.int64(2)).fit(clicks()).save(tmp_path)  # type: ignore[arg-type]
    assert (tmp_path / "arrays-mine.npz").read_bytes() == b"mine"
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(InputError, match=r"File exists|Not a directory"):
        SVD(rank=2).fit(clicks()).save(tmp_path / "model.json")


def test_ids_in_any_iterable() -> None:
    model = SVD(rank=2).fit(clicks())
    expected = model.recommend(["user 1", "user 2"], k=3).item_positions
    np.testing.assert_array_equal(
        model.recommend((name for name in ("user 1", "user 2")), k=3).item_positions, expected
    )
    with pytest.raises(InputError, match="user 'zz' is not among"):
        model.recommend({"zz"})
    with pytest.raises(InputError, match="users must be a list of ids; got 'user 1'"):
        model.recommend("user 1")
    for basket in (None, 3, "100"):
        with pytest.raises(InputError, match="each of baskets must be a list of ids"):
            model.recommend_new([basket])
    assert model.recommend([], k=3).item_positions.shape == (0, 3)


def test_a_save_that_fails_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SVD(rank=2).fit(clicks()).save(tmp_path / "model")
    monkeypatch.setattr(json, "dumps", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        SVD(rank=3).fit(clicks()).save(tmp_path / "model")
    monkeypatch.undo()
    assert load(tmp_path / "model") == SVD(rank=2)
