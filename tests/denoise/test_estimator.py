"""ProRec against Algorithm 1 written out in dense arrays; what it answers, refuses, keeps and takes up again."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import ot
import polars as pl
import pyarrow as pa
import pytest
import torch
from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import csr_array
from scipy.special import expit

import prorec
from prorec import InputError, Interactions, NotFittedError, ProRec
from prorec.models import CDAE, EASE, NCE, SVD, VAE, WRMF, Model, Popularity
from tests.models.test_all import SMALL, all_scores, clicks, made

torch.set_num_threads(1)


def scores_of(model: Model) -> np.ndarray:
    return expit(all_scores(model)) if getattr(model.scores_, "link", "identity") == "sigmoid" else all_scores(model)


def dense_plan(scores: np.ndarray, p: np.ndarray, q: np.ndarray, gamma: float, how: str) -> np.ndarray:
    if how == "relaxed":
        kernel = np.exp(scores / gamma)
        return np.maximum(kernel * (p / kernel.sum(axis=0)), kernel * (q / kernel.sum(axis=1))[:, None])
    if how == "sinkhorn":
        return ot.bregman.sinkhorn_log(q, p, -scores, gamma, numItermax=20_000, stopThr=1e-10)
    return ot.emd(q, p, -scores - (-scores).min())


def dense_threshold(shares: np.ndarray, threshold: Any) -> np.ndarray:
    values = []
    for row in shares:
        ordered = np.sort(row)[::-1]
        if threshold == "none":
            values.append(0.0)
        elif threshold == "personal":
            errors = [
                len(a) * a.var() + len(b) * b.var()
                for a, b in ((ordered[:eta], ordered[eta:]) for eta in range(1, len(ordered)))
            ]
            values.append(ordered[int(np.argmin(np.round(errors, 14)))])
        else:
            values.append(ordered[threshold - 1])
    return np.array(values)


def by_definition(model: Model, data: Interactions, **how: Any) -> np.ndarray:
    """The weights after all rounds, with everything of size users × items in memory."""
    x = original = data.matrix.toarray().astype(float)
    p, q = x.sum(axis=0) / x.sum(), x.sum(axis=1) / x.sum()
    if how["marginals"] == "uniform":
        p, q = np.full_like(p, 1 / len(p)), np.full_like(q, 1 / len(q))
    for _ in range(how["rounds"]):
        fitted = type(model)(**model.get_params(deep=False)).fit(data.with_weights(x[original > 0]))
        plan = dense_plan(scores_of(fitted), p, q, how["gamma"], how["transport"])
        shares = plan / np.maximum(plan.sum(axis=1, keepdims=True), 1e-300)
        r = expit(how["beta"] * (shares - dense_threshold(shares, how["threshold"])[:, None]))
        x = how["lam"] * x + (1 - how["lam"]) * r * (original if how["relabel_from"] == "original" else x)
    return x[original > 0]


DEFAULTS: dict[str, Any] = {
    "transport": "relaxed",
    "threshold": "personal",
    "gamma": 0.2,
    "beta": 20.0,
    "lam": 0.5,
    "rounds": 2,
    "relabel_from": "current",
    "marginals": "popularity",
}


def without_idle() -> Interactions:
    return clicks().drop_empty()


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"relabel_from": "original", "rounds": 3},
        {"transport": "sinkhorn"},
        {"transport": "emd", "rounds": 1},
        {"threshold": 4},
        {"threshold": "none"},
        {"marginals": "uniform"},
        {"gamma": 0.05, "beta": 5.0, "lam": 0.25},
        {"lam": 1.0},
    ],
    ids=str,
)
def test_every_row_of_the_ablation_by_definition(change: dict[str, Any]) -> None:
    data, how = without_idle(), DEFAULTS | change
    model = SVD(rank=3)
    got = ProRec(model, **how).fit(data)
    np.testing.assert_allclose(got.weights_.data, by_definition(model, data, **how), atol=2e-4)


@pytest.mark.parametrize("kind", [NCE, WRMF, EASE, Popularity, CDAE, VAE])
def test_every_model_by_definition(kind: type[Model]) -> None:
    data = without_idle()
    model = made(kind)
    # Popularity's scores are counts, a network's are logits or probabilities: γ goes with them.
    gamma = 10.0 if kind is Popularity else 1.0 if kind is VAE else 0.2
    how = DEFAULTS | {"gamma": gamma, "rounds": 1}
    got = ProRec(model, **how).fit(data)
    np.testing.assert_allclose(got.weights_.data, by_definition(model, data, **how), atol=2e-4)
    assert got.recommend(data.users[:2], k=3).item_positions.shape == (2, 3)


def test_a_model_of_somebody_else() -> None:
    data = without_idle()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about threads of BLAS
        als = AlternatingLeastSquares(4, iterations=3, random_state=0, num_threads=1)
    first, second = (ProRec(als, rounds=2).fit(data) for _ in range(2))
    np.testing.assert_allclose(first.weights_.data, second.weights_.data, atol=1e-5)
    assert als.user_factors is None, "the model that was given stays as it is"
    assert first.model_.fitted_.user_factors.shape == (data.n_users, 4)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="cannot be saved here"):
        first.save("nowhere")


def test_the_model_given_is_not_changed() -> None:
    model = NCE(rank=3)
    ProRec(model).fit(clicks())
    assert not hasattr(model, "arrays_")


# ── rounds ──────────────────────────────────────────────────────────────────────────────────────────


def test_compounding_ends_at_zero_and_anchoring_does_not() -> None:
    data = clicks()
    compounding = ProRec(NCE(rank=3), rounds=60, gamma=0.2).fit(data)
    anchored = ProRec(NCE(rank=3), rounds=60, gamma=0.2, relabel_from="original").fit(data)
    assert compounding.history_[-1].mass_kept < 1e-3
    assert anchored.history_[-1].mass_kept > 0.2
    assert anchored.converged_
    assert anchored.history_[-1].change <= 0.01 < anchored.history_[-2].change
    assert len(anchored.history_) < 61


def test_history_links_up() -> None:
    history = ProRec(WRMF(rank=3), rounds=3).fit(clicks(), track_loss=True).history_
    assert [each.number for each in history] == [0, 1, 2, 3]
    assert history[0].loss_before is None
    assert history[0].relabeling_decreased is None
    for before, after in pairwise(history):
        assert after.loss_before == before.loss_refitted
        assert after.mass_kept <= before.mass_kept
    assert all(each.fit_seconds > 0 for each in history)


def test_loss_may_go_up_and_that_is_said() -> None:
    """Proposition 2 is for models that minimise L; popularity does not."""
    history = ProRec(Popularity(), rounds=1).fit(clicks(), track_loss=True).history_
    assert history[1].relabeling_decreased is False


def test_weights_without_a_last_fit(tmp_path: Path) -> None:
    data = clicks()
    whole = ProRec(NCE(rank=3), rounds=2).fit(data, track_loss=True)
    alone = ProRec(NCE(rank=3), rounds=2).fit(data, refit=False, track_loss=True)
    assert alone.noise_table().equals(whole.noise_table())
    assert alone.history_[1].loss_refitted == whole.history_[1].loss_refitted
    assert alone.history_[2].loss_refitted is None
    assert alone.history_[2].refitting_decreased is None
    asking = (
        lambda: alone.recommend(data.users),
        lambda: alone.explain(data.users[0]),
        lambda: alone.save(tmp_path),
        lambda: alone.scores_,
    )
    for ask in asking:
        with pytest.raises(InputError, match="no model for the final weights"):
            ask()


def test_warm_start_begins_with_the_last_model() -> None:
    data = clicks()
    cold = ProRec(WRMF(rank=3, sweeps=1, regularization=1.0)).fit(data, track_loss=True)
    warm = ProRec(WRMF(rank=3, sweeps=1, regularization=1.0), warm_start=True).fit(data, track_loss=True)
    np.testing.assert_array_equal(cold.weights_.data, warm.weights_.data)
    assert warm.history_[-1].loss_refitted.error < cold.history_[-1].loss_refitted.error
    np.testing.assert_array_equal(
        ProRec(NCE(rank=3), warm_start=True).fit(data).scores_.users, ProRec(NCE(rank=3)).fit(data).scores_.users
    )


# ── taking up again ─────────────────────────────────────────────────────────────────────────────────


class Killed(BaseException):
    pass


@pytest.mark.parametrize(
    "model", [NCE(rank=3), WRMF(rank=3), CDAE(**SMALL[CDAE] | {"epochs": 4})], ids=lambda model: type(model).__name__
)
@pytest.mark.parametrize("warm_start", [False, True])
def test_a_run_that_was_killed_comes_to_the_same_result(model: Model, warm_start: bool, tmp_path: Path) -> None:
    data = clicks()
    denoiser = ProRec(model, rounds=3, warm_start=warm_start)
    calls: list[tuple[str, int, int]] = []
    denoiser.fit(data, progress=lambda *report: calls.append(report), track_loss=True)
    wanted = denoiser.weights_.data, denoiser.recommend(data.users, k=5), denoiser.history_
    for at in range(0, len(calls), 5):
        folder = tmp_path / str(at)
        count = iter(range(len(calls) + 1))

        def progress(*_: object, count: Any = count, at: int = at) -> None:
            if next(count) == at:
                raise Killed

        again = ProRec(model, rounds=3, warm_start=warm_start)
        with pytest.raises(Killed):
            again.fit(data, checkpoint=folder, progress=progress, track_loss=True)
        again.fit(data, checkpoint=folder, track_loss=True)
        np.testing.assert_array_equal(again.weights_.data, wanted[0])
        np.testing.assert_array_equal(again.recommend(data.users, k=5).scores, wanted[1].scores)
        assert [each.loss_refitted for each in again.history_] == [each.loss_refitted for each in wanted[2]]
        np.testing.assert_array_equal(again.thresholds_.kappa, denoiser.thresholds_.kappa)


def test_rounds_that_are_done_are_not_done_again(tmp_path: Path) -> None:
    data, stages = clicks(), []
    ProRec(NCE(rank=3), rounds=2).fit(data, checkpoint=tmp_path)
    ProRec(NCE(rank=3), rounds=2).fit(data, checkpoint=tmp_path, progress=lambda what, *_: stages.append(what))
    assert set(stages) == {"fitting NCE, round 2"}


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    data = clicks()
    ProRec(NCE(rank=3)).fit(data, checkpoint=tmp_path)
    others = (
        (ProRec(NCE(rank=4)), data),
        (ProRec(NCE(rank=3), lam=0.4), data),
        (ProRec(SVD(rank=3)), data),
        (ProRec(NCE(rank=3)), clicks(seed=1)),
    )
    for denoiser, of in others:
        with pytest.raises(InputError, match="checkpoint of other parameters or other interactions"):
            denoiser.fit(of, checkpoint=tmp_path)
    path = tmp_path / "round.npz"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match=r"round\.npz: this checkpoint is damaged; remove it to start anew"):
        ProRec(NCE(rank=3)).fit(data, checkpoint=tmp_path)


class Configured:
    """A third-party model whose settings are not all numbers."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def fit(self, matrix: csr_array) -> None:
        self.matrix = matrix.toarray()

    def score(self, rows: np.ndarray) -> np.ndarray:
        return self.matrix[rows] * self.config["scale"]


def test_checkpoints_of_third_party_models(tmp_path: Path) -> None:
    data = clicks()
    first = ProRec(Configured({"scale": 1.0}), gamma=0.1).fit(data, checkpoint=tmp_path)
    again = ProRec(Configured({"scale": 1.0}), gamma=0.1).fit(data, checkpoint=tmp_path)
    np.testing.assert_array_equal(first.weights_.data, again.weights_.data)
    with pytest.raises(InputError, match="checkpoint of other parameters"):
        ProRec(Configured({"scale": np.full(30, -1.0)}), gamma=0.1).fit(data, checkpoint=tmp_path)
    ProRec(Configured({"scale": 1.0, "odd": torch.ones(3)}), gamma=0.1).fit(data, checkpoint=tmp_path / "odd")
    ProRec(Configured({"scale": 1.0, "odd": torch.ones(3)}), gamma=0.1).fit(data, checkpoint=tmp_path / "odd")
    for odd in (torch.zeros(3), np.random.default_rng(1), {"a", "b"}):
        with pytest.raises(InputError, match="checkpoint of other parameters"):
            ProRec(Configured({"scale": 1.0, "odd": odd}), gamma=0.1).fit(data, checkpoint=tmp_path / "odd")
    for odd in (torch.ones(30), torch.zeros(30)):
        with pytest.raises(InputError, match="checkpoint of other parameters"):
            ProRec(Configured({"scale": 1.0, "odd": odd}), gamma=0.1).fit(data, checkpoint=tmp_path)
    with pytest.raises(InputError, match=r"holds the function .*<lambda>, which cannot"):
        ProRec(Configured({"scale": 1.0, "change": lambda x: x}), gamma=0.1).fit(data, checkpoint=tmp_path)


def test_a_checkpoint_knows_how_many_items_there_were(tmp_path: Path) -> None:
    entries = (np.ones(4), ([0, 0, 1, 1], [0, 1, 0, 1]))
    small, large = (csr_array(entries, shape=(2, n_items)) for n_items in (3, 5))
    ProRec(SVD(rank=1)).fit(small, checkpoint=tmp_path)
    with pytest.raises(InputError, match="checkpoint of other parameters"):
        ProRec(SVD(rank=1)).fit(large, checkpoint=tmp_path)


# ── what came out ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def cinema() -> prorec.Interactions:
    return prorec.make_cinema(300, 200, seed=2).interactions


@pytest.fixture(scope="module")
def denoised(cinema: Interactions) -> ProRec:
    return ProRec(NCE(rank=20, regularization=10.0)).fit(cinema)


def test_noise_table(denoised: ProRec, cinema: Interactions) -> None:
    table = denoised.noise_table("pandas")
    assert list(table) == ["user", "item", "name", "weight", "noise_probability", "flagged", "share", "threshold"]
    assert len(table) == len(cinema)
    assert (table.noise_probability.diff().dropna() <= 0).all()
    assert table.noise_probability.between(0, 1).all()
    assert table.flagged.sum() == int(0.05 * len(cinema))
    assert table.flagged[: table.flagged.sum()].all(), "the most suspicious"
    assert denoised.noise_table(limit=7).equals(denoised.noise_table().slice(0, 7))
    assert denoised.noise_table(limit=10**9).num_rows == len(cinema)
    assert len(set(zip(table.user, table.item, strict=True))) == len(cinema)
    first = table.iloc[0]
    row, column = cinema.user_positions([first.user])[0], cinema.item_positions([first["item"]])[0]
    assert denoised.weights_[row, column] == pytest.approx(first.weight)
    assert cinema.item_names is not None
    assert first["name"] == cinema.item_names[column]


def test_equals_are_not_told_apart() -> None:
    denoiser = ProRec(Popularity(), flag_fraction=0.3).fit(csr_array(np.ones((6, 4))))
    assert not denoiser.flagged_.any()
    denoiser.flag_fraction = 1.0
    assert denoiser.flagged_.all()


def test_planted_mistakes_are_found_better_than_by_chance() -> None:
    club = prorec.make_cinema(seed=0)
    denoiser = ProRec(NCE(rank=20)).fit(club.interactions)
    found = prorec.detection_metrics(denoiser.noise_probability_, club.is_mistake)
    assert found["auroc"] > 0.75
    flagged = denoiser.flagged_
    assert club.is_mistake[flagged].mean() > 2 * club.is_mistake.mean()


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_annotate_keeps_the_table_and_its_order(denoised: ProRec, cinema: Interactions, kind: Any) -> None:
    table = cinema.to_table().rename_columns(["viewer", "film", "weight", "timestamp", "origin"])
    order = np.random.default_rng(0).permutation(len(cinema))
    shuffled = table.take(pa.array(np.concatenate([order, order[:5]]))).append_column("x", [["a"] * (len(cinema) + 5)])
    given = {
        "pandas": lambda: shuffled.to_pandas(),
        "polars": lambda: pl.from_arrow(shuffled),
        "pyarrow": lambda: shuffled,
    }
    native = given[kind]()
    found = denoised.annotate(native, user_col="viewer", item_col="film")
    assert type(found) is type(native)
    got = found if kind == "pyarrow" else pa.table(found) if kind == "pandas" else found.to_arrow()
    assert got.column_names == [*shuffled.column_names, "prorec_weight", "noise_probability", "flagged"]
    assert got["film"].to_pylist() == shuffled["film"].to_pylist()
    places = np.concatenate([order, order[:5]])
    np.testing.assert_allclose(got["prorec_weight"].to_numpy(), denoised.weights_.data[places], rtol=1e-6)
    assert got["flagged"].to_pylist() == denoised.flagged_[places].tolist()


def test_annotate_leaves_strangers_empty(denoised: ProRec, cinema: Interactions) -> None:
    unseen = int(np.setdiff1d(np.arange(cinema.n_items), cinema.matrix[[0]].indices)[0])
    pairs = {"user": [cinema.users[0], 9999, cinema.users[0]], "item": [cinema.items[unseen], cinema.items[0], 9999]}
    got = denoised.annotate(pa.table(pairs))
    assert got["weight"].to_pylist() == [None, None, None]
    assert got["flagged"].to_pylist() == [None, None, None]
    with pytest.raises(InputError, match="no column is called 'user'"):
        denoised.annotate(pa.table({"a": [1]}))


def test_explain(denoised: ProRec, cinema: Interactions) -> None:
    user = cinema.users[int(np.argmax(cinema.activity))]
    table = denoised.explain(user, "pandas")
    own = cinema.items[cinema.matrix[[int(np.argmax(cinema.activity))]].indices]
    assert sorted(table["item"]) == sorted(own)
    assert (table.noise_probability.diff().dropna() <= 0).all()
    factors = denoised.scores_.items
    unit = factors / np.maximum(np.linalg.norm(factors, axis=1, keepdims=True), 1e-12)
    for _, row in table.iterrows():
        at = cinema.item_positions([row["item"]])[0]
        others = [item for item in own if item != row["item"]]
        likeness = unit[cinema.item_positions(others)] @ unit[at]
        assert row["for"] == others[int(np.argmax(likeness))]
        assert row["for_similarity"] == pytest.approx(likeness.max(), abs=1e-5)
        assert row["against"] == others[int(np.argmin(likeness))]
    with pytest.raises(InputError, match=r"one of the 300 users .*; got 999"):
        denoised.explain(999)


def test_explain_one_click_and_none() -> None:
    data = Interactions.from_matrix(csr_array([[1.0, 1, 1, 0], [0, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]))
    denoiser = ProRec(EASE(regularization=1.0)).fit(data, track_loss=True)
    alone = denoiser.explain(1)
    assert alone.column("for").to_pylist() == [None]
    assert alone.column("against_similarity").to_pylist() == [None]
    assert denoiser.explain(3).num_rows == 0


def test_what_was_clicked_is_not_recommended_back(denoised: ProRec, cinema: Interactions) -> None:
    recommended = denoised.recommend(cinema.users, k=5).item_positions
    seen = cinema.matrix.toarray() > 0
    assert not any(seen[user, items[items >= 0]].any() for user, items in enumerate(recommended))
    nothing_left = ProRec(SVD(rank=3), beta=1e6, lam=0.0, gamma=0.01).fit(clicks())
    assert (nothing_left.weights_.data < 1e-6).any()
    ranked = nothing_left.recommend(nothing_left.interactions_.users, k=5).item_positions
    seen = clicks().matrix.toarray() > 0
    assert not any(seen[user, items[items >= 0]].any() for user, items in enumerate(ranked))


def test_users_and_items_without_interactions() -> None:
    data = clicks()
    denoiser = ProRec(NCE(rank=3)).fit(data)
    assert np.isfinite(denoiser.weights_.data).all()
    assert denoiser.recommend(data.users[-1:], k=3).item_positions.shape == (1, 3)


@pytest.mark.parametrize("threshold", ["personal", "none", 3])
def test_saved_and_loaded(threshold: Any, tmp_path: Path, cinema: Interactions) -> None:
    denoiser = ProRec(NCE(rank=8), rounds=2, threshold=threshold, gamma=0.3).fit(cinema)
    denoiser.save(tmp_path / "kept")
    again = prorec.load(tmp_path / "kept")
    assert isinstance(again, ProRec)
    assert again == denoiser, "parameters"
    assert again.history_ == denoiser.history_
    assert again.converged_ == denoiser.converged_
    assert again.noise_table().equals(denoiser.noise_table())
    assert again.interactions_.item_categories == cinema.item_categories
    np.testing.assert_array_equal(
        again.recommend(cinema.users).item_positions, denoiser.recommend(cinema.users).item_positions
    )
    assert again.explain(cinema.users[0]).num_rows
    again.fit(cinema)
    np.testing.assert_array_equal(again.weights_.data, denoiser.weights_.data)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    ProRec(NCE(rank=3)).fit(clicks()).save(tmp_path)
    about = (tmp_path / "model.json").read_text()
    for old, new, problem in (
        ('"class_name": "NCE"', '"class_name": "Nope"', "'Nope'"),
        ('"history"', '"story"', "incomplete or damaged"),
        ('"lam"', '"lamb"', "incomplete or damaged"),
        ('"flag_fraction": 0.05', '"flag_fraction": "x"', "flag_fraction must be"),
        ('"gamma": "auto"', '"gamma": "x"', "gamma must be"),
    ):
        assert old in about
        (tmp_path / "model.json").write_text(about.replace(old, new))
        with pytest.raises(InputError, match=problem):
            prorec.load(tmp_path)


@pytest.mark.parametrize("seed", range(6))
def test_flipped_bytes_are_refused(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    data = clicks()
    ProRec(NCE(rank=3)).fit(data, checkpoint=tmp_path).save(tmp_path)
    for path in (next(tmp_path.glob("arrays-*.npz")), tmp_path / "round.npz"):
        content = bytearray(path.read_bytes())
        for at in rng.integers(len(content), size=40):
            content[at] ^= 255
        path.write_bytes(content)
    with pytest.raises(InputError):
        prorec.load(tmp_path)
    with pytest.raises(InputError):
        ProRec(NCE(rank=3)).fit(data, checkpoint=tmp_path)


def test_numbers_of_any_kind_can_be_saved(tmp_path: Path) -> None:
    denoiser = ProRec(NCE(rank=3), lam=Fraction(1, 2), beta=np.float32(20)).fit(clicks())  # type: ignore[arg-type]
    denoiser.save(tmp_path)
    again = prorec.load(tmp_path)
    assert (again.lam, again.beta) == (0.5, 20.0)  # type: ignore[attr-defined]


def test_tuned_like_any_model() -> None:
    parts = prorec.split_by_user(prorec.make_cinema(300, 200, seed=2).interactions, (0.5, 0.2, 0.3))
    grid = {"lam": [0.5, 1.0], "gamma": [0.1, "auto"], "model__rank": [4, 8]}
    tuned = prorec.tune(ProRec(NCE(rank=20)), parts.train, parts.valid, grid)
    assert len(tuned.trials) == 8
    best = max(tuned.trials, key=lambda trial: trial["value"])["parameters"]
    assert isinstance(tuned.best_model, ProRec)
    assert (tuned.best_model.lam, tuned.best_model.gamma, tuned.best_model.model.rank) == tuple(best.values())
    by_hand = ProRec(NCE(rank=best["model__rank"]), lam=best["lam"], gamma=best["gamma"]).fit(parts.train)
    assert prorec.evaluate(by_hand, parts.valid, k=10).mean["ndcg@10"] == pytest.approx(tuned.best_value)
    with pytest.raises(InputError, match=r"parameters of ProRec: .*model__rank, .*; got 'model__ranks'"):
        prorec.tune(ProRec(NCE()), parts.train, parts.valid, {"model__ranks": [4]})


# ── what is refused ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"transport": "teleport"}, "transport must be one of 'relaxed', 'sinkhorn', 'emd', got 'teleport'"),
        ({"threshold": "best"}, r"threshold must be .* got 'best'"),
        ({"threshold": 0}, r"threshold must be .* got 0"),
        ({"threshold": True}, r"threshold must be .* got True"),
        ({"threshold": 2.5}, r"threshold must be .* got 2.5"),
        ({"gamma": 0}, "gamma must be above 0, or 'auto'; got 0"),
        ({"gamma": "large"}, "gamma must be a number above 0, 'auto', or like '0.5 auto'; got 'large'"),
        ({"gamma": float("nan")}, "gamma must be a finite number; got nan"),
        ({"beta": -1}, "beta must be a finite number of at least 0; got -1"),
        ({"lam": 1.5}, "lam must be a finite number from 0 to 1; got 1.5"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1; got 0"),
        ({"tolerance": -1}, "tolerance must be"),
        ({"flag_fraction": 1.1}, "flag_fraction must be a finite number from 0 to 1; got 1.1"),
        ({"relabel_from": "start"}, "relabel_from must be one of .*got 'start'"),
        ({"marginals": "equal"}, "marginals must be one of"),
        ({"memory": 10}, "memory must be at least"),
        ({"model": object()}, "model must have a fit method"),
        ({"model": NCE}, r"model must be a model, not a class: NCE\(…\) makes one"),
        ({"model": ProRec(NCE(rank=3))}, "model must be a recommender"),
        ({"model": NCE(rank=1000)}, "rank must be a whole number from 1 to the smaller side"),
    ],
)
def test_parameters_out_of_range(given: dict[str, Any], problem: str) -> None:
    calls: list[Any] = []
    with pytest.raises(InputError, match=problem):
        ProRec(**({"model": NCE(rank=3)} | given)).fit(clicks(), progress=lambda *what: calls.append(what))
    assert not calls, "before the first fit"


def test_data_that_means_nothing() -> None:
    with pytest.raises(InputError, match="every user has one interaction only"):
        ProRec(NCE(rank=2)).fit(csr_array(np.eye(5)))
    with pytest.raises(InputError, match="no interaction to learn from"):
        ProRec(NCE(rank=2)).fit(Interactions.from_matrix(csr_array(np.eye(5))).with_weights(np.zeros(5)))
    with pytest.raises(InputError, match="weights must be from 0 to 1"):
        ProRec(NCE(rank=2)).fit(csr_array(2 * np.ones((5, 5))))
    with pytest.raises(InputError, match="Interactions or a sparse matrix"):
        ProRec(NCE(rank=2)).fit("clicks.csv")  # type: ignore[arg-type]
    for wrong in (3, "x"):
        with pytest.raises(InputError, match="progress must be a function"):
            ProRec(NCE(rank=3)).fit(clicks(), progress=wrong)  # type: ignore[arg-type]
    for use in (lambda: ProRec(NCE(rank=3)).fit(clicks(), checkpoint=3), lambda: prorec.load(None)):  # type: ignore[arg-type]
        with pytest.raises(InputError, match="a path must be text or a Path"):
            use()
    large = Interactions.from_matrix(csr_array((np.ones(4), ([0, 0, 1, 1], [0, 1, 0, 1])), shape=(40_000, 40_000)))
    with pytest.raises(InputError, match="for the exact plan of 40,000 × 40,000"):
        ProRec(NCE(rank=2), transport="emd").fit(large)


def test_weights_that_vanish() -> None:
    tiny = clicks().with_weights(np.full(len(clicks()), 1e-45))
    for model in (Popularity(), SVD(rank=3), NCE(rank=3)):
        denoiser = ProRec(model, rounds=3).fit(tiny)
        assert np.isfinite(denoiser.weights_.data).all()
        assert np.isfinite(denoiser.noise_probability_).all()


def test_nothing_to_ask_before_fit() -> None:
    denoiser = ProRec(NCE())
    for ask in (
        lambda: denoiser.noise_table(),
        lambda: denoiser.explain(1),
        lambda: denoiser.recommend([1]),
        lambda: denoiser.thresholds_,
        lambda: denoiser.gamma_,
        lambda: denoiser.save("nowhere"),
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ask()
