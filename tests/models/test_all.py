"""What every model must do; a new model is found and tested by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import prorec
from prorec import Factors, InputError, Interactions, NotFittedError, ProRec
from prorec.models import CDAE, EASE, NCE, SVD, VAE, WRMF, Model, Popularity, load

_NETWORK = {"rank": 16, "epochs": 40, "batch_size": 20, "learning_rate": 0.01}
SMALL: dict[type[Model], dict[str, object]] = {
    SVD: {"rank": 3},
    NCE: {"rank": 3, "regularization": 1.0},
    WRMF: {"rank": 3, "sweeps": 8, "alpha": 5.0, "regularization": 1.0},
    CDAE: _NETWORK,
    VAE: {**_NETWORK, "hidden": 16},
}
"""Smaller than the defaults, so that every model fits small data in no time."""
CLOSED_FORM = (SVD, NCE, EASE, Popularity)


torch.set_num_threads(1)  # the tests run side by side


def every_model() -> list[type[Any]]:
    """Return every model, and the denoiser, which offers the same methods."""
    return sorted([*Model.registry.values(), ProRec], key=lambda kind: kind.__name__)


def made(kind: type[Any], **how: object) -> Any:
    if kind is ProRec:
        return ProRec(made(NCE, **how))
    return kind(**SMALL.get(kind, {}), **how)


def learned_arrays(model: Any) -> dict[str, np.ndarray]:
    """Return all arrays that a fit computes."""
    if isinstance(model, ProRec):
        results = {"weights": model.weights_.data, "kappa": model.thresholds_.kappa, "value": model.thresholds_.value}
        return {**model.model_.arrays_, **results}
    return dict(model.arrays_)


def clicks(seed: int = 0) -> Interactions:
    """Two tastes, 60 users, 30 items; the last user and the last item have nothing."""
    rng = np.random.default_rng(seed)
    taste_of_user, taste_of_item = np.arange(60) % 2, np.arange(30) % 2
    chance = np.where(taste_of_user[:, None] == taste_of_item, 0.5, 0.05)
    matrix = (rng.random((60, 30)) < chance).astype(np.float32)
    matrix[-1] = matrix[:, -1] = 0
    users = [f"user {number}" for number in range(60)]
    return Interactions.from_matrix(csr_array(matrix), users=users, items=np.arange(30) + 100)


def all_scores(model: Model) -> np.ndarray:
    scores = model.scores_
    if isinstance(scores, Factors):
        product = scores.users.astype(float) @ scores.items.astype(float).T
        return product if scores.item_bias is None else product + scores.item_bias
    return np.asarray(scores(np.arange(model.interactions_.n_users)), dtype=float)


def test_the_models_of_the_paper_are_among_them() -> None:
    assert {SVD, NCE, WRMF, CDAE, VAE, EASE, Popularity} <= set(every_model())


@pytest.mark.parametrize("kind", every_model())
class TestEvery:
    def test_learns_taste(self, kind: type[Model]) -> None:
        data = clicks()
        recommended = made(kind).fit(data).recommend(data.users[:-1], k=3)
        right = np.mean(recommended.item_positions % 2 == np.arange(59)[:, None] % 2)
        assert right > (0.8 if kind is not Popularity else 0.2)
        assert np.isfinite(recommended.scores).all()

    def test_ranks_by_its_scores(self, kind: type[Model]) -> None:
        data = clicks()
        model = made(kind).fit(data)
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

    def test_the_same_seed_gives_the_same_model(self, kind: type[Model]) -> None:
        first, second = (made(kind, seed=7).fit(clicks()) for _ in range(2))
        for name, array in learned_arrays(first).items():
            np.testing.assert_array_equal(array, learned_arrays(second)[name])
        assert first == second
        assert repr(first) == repr(second)

    def test_a_matrix_is_as_good_as_interactions(self, kind: type[Model]) -> None:
        first, second = made(kind).fit(clicks()), made(kind).fit(clicks().matrix)
        for name, array in learned_arrays(first).items():
            np.testing.assert_array_equal(array, learned_arrays(second)[name])

    def test_halving_weights_changes_the_model(self, kind: type[Model]) -> None:
        data = clicks()
        halved = data.with_weights(np.where(np.random.default_rng(0).random(data.matrix.nnz) < 0.5, 0.5, 1.0))
        before, after = (all_scores(made(kind).fit(each)) for each in (data, halved))
        assert np.abs(before - after).max() > 1e-3 * np.abs(before).max()

    def test_weight_zero_equals_removal(self, kind: type[Model]) -> None:
        data = clicks()
        is_kept = np.random.default_rng(1).random(data.matrix.nnz) < 0.7
        zeroed = made(kind).fit(data.with_weights(np.where(is_kept, 1.0, 0.0)))
        removed = made(kind).fit(data.select(is_kept))
        if kind not in (CDAE, VAE):  # whose corruption is drawn for each entry, whatever its weight
            tolerance = 1e-5 if kind in CLOSED_FORM else 1e-3
            wanted = all_scores(removed)
            np.testing.assert_allclose(all_scores(zeroed), wanted, atol=tolerance * np.abs(wanted).max())
        # But what no longer counts is not recommended back.
        ranked = zeroed.recommend(data.users[:-1], k=5).item_positions
        for user, row in enumerate(ranked):
            assert not set(row.tolist()) & set(data.matrix[[user]].indices.tolist())

    def test_survives_saving(self, kind: type[Model], tmp_path: Path) -> None:
        data = clicks()
        model = made(kind, seed=3).fit(data)
        for _ in range(2):  # the second replaces the first
            model.save(tmp_path / "model")
        assert len(list((tmp_path / "model").iterdir())) == 2
        again = load(tmp_path / "model")
        assert again == model
        assert type(again) is kind
        np.testing.assert_array_equal(
            again.recommend(data.users, k=5).item_positions, model.recommend(data.users, k=5).item_positions
        )
        assert again.interactions_.users.tolist() == data.users.tolist()
        assert again.interactions_.items.tolist() == data.items.tolist()

    def test_folding_in_a_known_user_gives_what_they_have(self, kind: type[Model]) -> None:
        data = clicks()
        model = made(kind).fit(data)
        baskets = [data.items[data.matrix[[user]].indices].tolist() for user in range(5)]
        new, known = model.recommend_new(baskets, k=5), model.recommend(data.users[:5], k=5)
        if kind in (CDAE, ProRec):  # which know their users by a vector, or by weights, of their own
            assert np.mean(new.item_positions % 2 == np.arange(5)[:, None] % 2) > 0.7
        else:
            np.testing.assert_allclose(new.scores, known.scores, rtol=1e-3, atol=1e-4)
            assert np.mean(new.item_positions == known.item_positions) > 0.9
        assert new.users.tolist() == [0, 1, 2, 3, 4]

    def test_who_has_nothing_gets_what_is_popular(self, kind: type[Model]) -> None:
        data = clicks()
        model = made(kind).fit(data)
        counted = data.with_weights(model.weights_.data) if isinstance(model, ProRec) else data
        wanted = Popularity().fit(counted).recommend(["user 59"], k=5).item_positions
        np.testing.assert_array_equal(model.recommend(["user 59"], k=5).item_positions, wanted)
        np.testing.assert_array_equal(model.recommend_new([[]], k=5).item_positions, wanted)
        nothing = data.with_weights(np.where(data.user_codes == 0, 0.0, 1.0))
        model = made(kind).fit(nothing)
        seen = set(data.matrix[[0]].indices.tolist())
        of = model.model_ if isinstance(model, ProRec) else model
        best = [item for item in np.argsort(-of._popularity(), kind="stable") if item not in seen]
        assert model.recommend(["user 0"], k=5).item_positions[0].tolist() == best[:5]

    def test_similar_items_share_a_taste(self, kind: type[Model]) -> None:
        data = clicks()
        similar = made(kind).fit(data).similar_items(data.items[:-1], k=3)
        assert np.mean(similar.item_positions % 2 == np.arange(29)[:, None] % 2) > 0.8
        assert (similar.item_positions != np.arange(29)[:, None]).all()
        assert similar.query_items.tolist() == data.items[:-1].tolist()

    def test_evaluates(self, kind: type[Model]) -> None:
        parts = prorec.split_by_user(clicks(), (0.7, 0.3), seed=0)
        result = prorec.evaluate(made(kind).fit(parts.train), parts.test, k=5)
        assert 0 < result.mean["ndcg@5"] <= 1

    def test_nothing_to_learn_from(self, kind: type[Model]) -> None:
        data = Interactions.from_matrix(csr_array((12, 10), dtype=np.float32))
        if kind is ProRec:
            with pytest.raises(InputError, match="no interaction to learn from"):
                made(kind).fit(data)
            return
        recommended = made(kind).fit(data).recommend(data.users, k=10)
        assert (np.sort(recommended.item_positions, axis=1) == np.arange(10)).all()
        assert np.isfinite(recommended.scores).all()

    def test_is_asked_too_early(self, kind: type[Model], tmp_path: Path) -> None:
        for question in (
            lambda model: model.recommend([1]),
            lambda model: model.recommend_new([[1]]),
            lambda model: model.similar_items([1]),
            lambda model: model.scores_,
            lambda model: model.save(tmp_path),
        ):
            with pytest.raises(NotFittedError, match=f"{kind.__name__} is not fitted yet; call .*fit"):
                question(made(kind))

    def test_strangers(self, kind: type[Model]) -> None:
        model = made(kind).fit(clicks())
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

    def test_bad_weights(self, kind: type[Model]) -> None:
        with pytest.raises(InputError, match="weights must be from 0 to 1; that of user 0 and item 1 is 2"):
            made(kind).fit(csr_array(np.array([[1.0, 2.0], [0.5, 0.0]])))
        with pytest.raises(InputError, match="weight"):
            made(kind).fit(csr_array(np.array([[1.0, np.nan], [0.5, 0.0]])))
        with pytest.raises(InputError, match="interactions must be Interactions or a sparse matrix; got list"):
            made(kind).fit([[1, 0]])

    def test_a_failed_fit_leaves_the_old_model(self, kind: type[Model]) -> None:
        model = made(kind).fit(clicks())
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
        (WRMF(rank="8"), "rank must be"),
        (EASE(regularization=0), "regularization must be above 0"),
        (SVD(rank=8, seed=-1), "seed must be"),
    ],
)
def test_bad_parameters(model: Model, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model.fit(clicks())


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no model here: model\.json is missing"):
        load(tmp_path)
    folder = tmp_path / "model"
    SVD(rank=2).fit(clicks()).save(folder)
    about = json.loads((folder / "model.json").read_text())

    def written(**changes: object) -> None:
        (folder / "model.json").write_text(json.dumps(about | changes))

    written(version=2)
    with pytest.raises(InputError, match="the model has format version 2; this prorec reads 1"):
        load(folder)
    written(class_name="Oracle")
    with pytest.raises(InputError, match="'Oracle'"):
        load(folder)
    written(parameters={"depth": 3})
    with pytest.raises(InputError, match="the parameters are not those of SVD"):
        load(folder)
    written(arrays="other.npz")
    with pytest.raises(InputError, match=r"the model is incomplete: other\.npz is missing"):
        load(folder)
    (folder / "model.json").write_text("{")
    with pytest.raises(InputError, match=r"model\.json is not a model's"):
        load(folder)
    written()
    arrays = folder / about["arrays"]
    arrays.write_bytes(arrays.read_bytes()[:100])
    with pytest.raises(InputError, match="cannot be read"):
        load(folder)


def test_damaged_arrays(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    SVD(rank=2).fit(clicks()).save(folder)
    path = folder / json.loads((folder / "model.json").read_text())["arrays"]
    with np.load(path) as file:
        good = {name: file[name] for name in file.files}

    def refused(message: str, **changes: np.ndarray | None) -> None:
        arrays = {name: changes.get(name, array) for name, array in good.items()}
        np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
        with pytest.raises(InputError, match=message):
            load(folder)

    refused("damaged", **{"matrix.indices": good["matrix.indices"] + 20})
    refused("damaged", **{"matrix.indices": good["matrix.indices"] - 20})
    refused("there is no items", **{"learned.items": None})
    refused("items is float32 of shape", **{"learned.items": good["learned.items"][:5]})
    refused("users is float32 of shape", **{"learned.users": good["learned.users"] * np.nan})
    refused("users is float32 of shape", **{"learned.users": good["learned.users"][:, :1]})


def test_saving_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "arrays-mine.npz").write_bytes(b"mine")
    for _ in range(2):
        SVD(rank=np.int64(2)).fit(clicks()).save(tmp_path)
    assert (tmp_path / "arrays-mine.npz").read_bytes() == b"mine"
    assert len(list(tmp_path.iterdir())) == 3
    with pytest.raises(InputError, match=r"File exists|Not a directory"):
        SVD(rank=2).fit(clicks()).save(tmp_path / "model.json")


def test_ids_of_any_kind() -> None:
    model = SVD(rank=2).fit(clicks())
    wanted = model.recommend(["user 1", "user 2"], k=3).item_positions
    np.testing.assert_array_equal(model.recommend((name for name in ("user 1", "user 2")), k=3).item_positions, wanted)
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
