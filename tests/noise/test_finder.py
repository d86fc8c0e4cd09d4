"""NoiseFinder on logs with known noise: estimates, flags, refusals, saved state and later clicks."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import prorec
from prorec import DamagedFileError, InputError, Interactions, NoiseFinder, NotFittedError, ProRec, detection_metrics
from prorec.models import CDAE, EASE, NCE, SVD, WRMF, Popularity
from prorec.noise import effort
from prorec.noise.finder_state import finder_state, restore_finder
from reproduction.baselines import SCORERS


@pytest.fixture(scope="module")
def club() -> prorec.data.cinema.Cinema:
    return prorec.make_cinema(400, 300, seed=5)


@pytest.fixture(scope="module")
def finder(club: prorec.data.cinema.Cinema) -> NoiseFinder:
    return NoiseFinder(folds=5).fit(club.interactions)


def random_clicks(n_users: int, n_items: int, density: float, seed: int = 0) -> csr_array:
    return csr_array((np.random.default_rng(seed).random((n_users, n_items)) < density).astype(np.float32))


def test_mistakes_are_found_better_than_by_popularity(club: prorec.data.cinema.Cinema, finder: NoiseFinder) -> None:
    metrics = detection_metrics(finder.noise_probability_, club.is_mistake)
    rare = detection_metrics(-club.interactions.popularity[club.interactions.item_codes], club.is_mistake)
    assert metrics["auroc"] > 0.8 > rare["auroc"] + 0.1
    assert finder.noise_rate_.low <= finder.noise_rate_.estimate <= finder.noise_rate_.high
    assert finder.percentile_rank_[club.is_mistake].mean() > 2 * finder.percentile_rank_[~club.is_mistake].mean()


@pytest.mark.parametrize("kind", ["uniform", "popularity"])
def test_probabilities_are_calibrated(kind: str) -> None:
    clean = prorec.make_cinema(mistake_rate=0.0, seed=1).interactions
    noisy = prorec.inject_noise(clean, 0.1, kind, seed=1)  # type: ignore[arg-type]
    finder = NoiseFinder(folds=10).fit(noisy.interactions)
    metrics = detection_metrics(finder.noise_probability_, noisy.is_noise)
    assert metrics["calibration_error"] < 0.03
    assert finder.noise_rate_.estimate == pytest.approx(noisy.is_noise.mean(), abs=0.02)
    line = finder.posterior_.noise_rate_line
    flags = finder.flag(fdr=0.3)
    assert flags.any()
    assert (~noisy.is_noise[flags]).mean() < 0.35
    assert line.uniform > line.by_popularity or kind == "popularity"


def test_few_flags_on_a_clean_log() -> None:
    clean = prorec.make_cinema(mistake_rate=0.0).interactions
    finder = NoiseFinder(folds=5).fit(clean)
    assert finder.noise_rate_.estimate < 0.02
    assert finder.flag(fdr=0.1).mean() <= 0.02


def test_a_log_of_random_clicks_cannot_tell_its_noise() -> None:
    finder = NoiseFinder(folds=5).fit(random_clicks(400, 300, 0.1))
    assert not finder.noise_rate_.is_identified
    assert finder.noise_rate_.high > 0.9
    assert not finder.flag(fdr=0.4).any()


def make_shop(seed: int, noise: float) -> tuple[csr_array, np.ndarray]:
    """Return 4,000 purchases of 240 customers in six groups with 25 items each, and which are of other groups' items.

    A share `noise` of all draws is from all 150 items. Many of the other draws repeat and count once, so the noise rate
    of the result is higher.
    """
    rng, bought = np.random.default_rng(seed), np.zeros((240, 150), dtype=np.float32)
    group, own = np.arange(240) % 6, np.arange(150) // 25
    while bought.sum() < 4000:
        customer, is_random = rng.integers(240), rng.random() < noise
        rank = min(int(rng.exponential(9)), 24)  # the first items of a group are the most popular
        bought[customer, rng.integers(150) if is_random else 25 * group[customer] + rank] = 1
    users, items = bought.nonzero()
    return csr_array(bought), group[users] != own[items]


@pytest.mark.parametrize("noise", [0.05, 0.12])
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_noise_rate_of_groups_that_keep_to_themselves(seed: int, noise: float) -> None:
    """The log is small, and its noise is easy to see: the interval reaches the truth, the estimate is low."""
    clicks, is_noise = make_shop(seed, noise)
    finder = NoiseFinder(folds=5).fit(clicks)
    noise_rate, truth = finder.noise_rate_, is_noise.mean()
    assert noise_rate.estimate == pytest.approx(truth, abs=0.06)
    assert noise_rate.low < truth < noise_rate.high + 0.01
    assert noise_rate.low < noise_rate.estimate < noise_rate.high
    metrics = detection_metrics(finder.noise_probability_, is_noise)
    assert metrics["auroc"] > 0.99
    assert metrics["calibration_error"] < 0.09
    assert finder.noise_probability_[is_noise].mean() > 0.5


def test_noise_rate_of_groups_without_noise() -> None:
    clicks, is_noise = make_shop(6, 0.0)
    assert not is_noise.any()
    noise_rate = NoiseFinder(folds=5).fit(clicks).noise_rate_
    assert noise_rate.low <= noise_rate.estimate < 0.005
    assert noise_rate.estimate < noise_rate.high < 0.02


def test_results_depend_on_the_seed_only() -> None:
    clicks = prorec.make_cinema(150, 120, seed=5).interactions
    finder, again, other = (
        NoiseFinder(folds=3, **parameters).fit(clicks) for parameters in ({}, {"memory": 1e5}, {"seed": 1})
    )
    np.testing.assert_allclose(again.noise_probability_, finder.noise_probability_, atol=1e-5)
    assert not np.array_equal(other.noise_probability_, finder.noise_probability_)


def test_base_models_are_not_trained_on_the_clicks_that_they_score() -> None:
    """A model that memorizes its clicks gives every click of another fold the middle rank."""

    class Memorizer:
        def fit(self, matrix: csr_array) -> None:
            self.weights = np.asarray(matrix.toarray())

        def score(self, rows: np.ndarray) -> np.ndarray:
            return np.asarray(self.weights[rows])

    matrix = random_clicks(60, 50, 0.2)
    finder = NoiseFinder(Memorizer(), folds=4).fit(matrix)
    assert finder.percentile_rank_.min() == finder.percentile_rank_.max() == 0.5, "no click is ranked by its own weight"


@pytest.mark.parametrize("transport", ["relaxed-users", "relaxed", "sinkhorn"])
@pytest.mark.parametrize("models", [NCE(rank=8), [SVD(rank=4), EASE()], Popularity(), CDAE(rank=4, epochs=2)])
def test_any_model_any_transport(transport: str, models: object) -> None:
    club = prorec.make_cinema(80, 60, seed=2).interactions
    finder = NoiseFinder(models, folds=3, transport=transport).fit(club)  # type: ignore[arg-type]
    assert np.isfinite(finder.noise_probability_).all()
    assert ((finder.noise_probability_ >= 0) & (finder.noise_probability_ <= 1)).all()


def test_the_only_click_of_a_user_is_scored_by_popularity() -> None:
    club = prorec.make_cinema(150, 120, seed=5).interactions.matrix.toarray()
    lonely = csr_array(np.vstack([club, np.eye(1, 120, 3)]).astype(np.float32))
    finder = NoiseFinder(folds=3).fit(lonely)
    table = finder.table()
    marked = table.filter(pa.compute.equal(table["basis"], "popularity"))
    assert marked["user"].to_pylist() == [150]
    assert set(table["basis"].to_pylist()) == {"models", "popularity"}
    falling = np.diff(table["noise_probability"].to_numpy())
    assert (falling <= 0).all()


def test_tiny_logs_have_finite_results() -> None:
    odd = [
        np.array([[1, 1, 0], [0, 1, 1]]),
        np.array([[1, 1, 1, 1], [1, 0, 1, 0], [0, 1, 0, 0]]),
        np.hstack([np.ones((30, 1)), np.zeros((30, 2)), random_clicks(30, 9, 0.2).toarray()]),
    ]
    for dense in odd:
        finder = NoiseFinder(folds=2).fit(csr_array(dense.astype(np.float32)))
        assert np.isfinite(finder.noise_probability_).all()
        assert 0 <= finder.noise_rate_.low <= finder.noise_rate_.high <= 1


@pytest.mark.parametrize(
    ("parameters", "clicks", "message"),
    [
        ({"folds": 10}, random_clicks(4, 3, 0.5), "folds must be at most"),
        ({"folds": 1}, random_clicks(9, 9, 0.5), "folds must be a whole number from 2"),
        ({"folds": 2}, csr_array(np.eye(5, dtype=np.float32)), "every user has one interaction only"),
        ({"folds": 2}, csr_array(np.ones((4, 3), dtype=np.float32)), "an interaction with every item"),
        ({}, csr_array((4, 3), dtype=np.float32), "there is no interaction"),
        ({"base_models": []}, random_clicks(9, 9, 0.5), "at least one model"),
        ({"base_models": object()}, random_clicks(9, 9, 0.5), "must have a fit method"),
        ({"base_models": ProRec(NCE(rank=2))}, random_clicks(9, 9, 0.5), "got a denoiser"),
        ({"base_models": SVD(rank=50)}, random_clicks(9, 9, 0.5), "rank must be"),
        ({"transport": "emd"}, random_clicks(9, 9, 0.5), "transport must be one of"),
        ({"memory": 10}, random_clicks(9, 9, 0.5), "memory must be at least"),
        ({"seed": -1}, random_clicks(9, 9, 0.5), "seed must be"),
    ],
)
def test_bad_input_is_refused(parameters: dict[str, object], clicks: csr_array, message: str) -> None:
    with pytest.raises(InputError, match=message):
        NoiseFinder(**parameters).fit(clicks)  # type: ignore[arg-type]


def test_results_need_a_fit() -> None:
    for ask in (
        lambda: NoiseFinder().flag(fdr=0.1),
        lambda: NoiseFinder().table(),
        lambda: NoiseFinder().percentile_rank_,
    ):
        with pytest.raises(NotFittedError, match=r"not fitted yet; call NoiseFinder\.fit"):
            ask()


def test_a_base_model_that_cannot_be_copied_is_refused() -> None:
    class Once:
        def __init__(self) -> None:
            self.lock = threading.Lock()  # which cannot be copied

        def fit(self, matrix: csr_array) -> None: ...

    with pytest.raises(InputError, match="can be copied"):
        NoiseFinder(Once(), folds=2).fit(random_clicks(9, 9, 0.5))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InputError("500 clicks are needed"), "Fragile without fold 2 of 3: 500 clicks are needed"),
        (ZeroDivisionError("by 0"), "Fragile failed without fold 2 of 3: ZeroDivisionError: by 0"),
    ],
)
def test_a_base_model_that_fails_without_a_fold_is_named(error: Exception, message: str) -> None:
    class Fragile:
        n_fits = 0

        def fit(self, matrix: csr_array) -> None:
            Fragile.n_fits += 1
            if Fragile.n_fits == 2:
                raise error
            self.user_factors, self.item_factors = np.ones((matrix.shape[0], 1)), np.ones((matrix.shape[1], 1))

    with pytest.raises(prorec.ProrecError, match=message):
        NoiseFinder(Fragile(), folds=3).fit(random_clicks(20, 20, 0.5))


# ── later clicks ────────────────────────────────────────────────────────────────────────────────────


def test_later_clicks_of_known_users(club: prorec.data.cinema.Cinema) -> None:
    parts = prorec.split_by_user(club.interactions, (0.8, 0.2), seed=0)
    finder = NoiseFinder(folds=5).fit(parts.train)
    table = finder.score(parts.test)
    assert set(table["basis"].to_pylist()) == {"models"}
    is_mistake = parts.test.columns["origin"] == 2
    assert detection_metrics(table["noise_probability"].to_numpy(), is_mistake)["auroc"] > 0.8
    seen = finder.score(parts.train)
    assert set(seen["basis"].to_pylist()) == {"seen"}
    np.testing.assert_array_equal(seen["noise_probability"].to_numpy(), finder.noise_probability_)


def test_later_clicks_of_new_users_and_unknown_items(club: prorec.data.cinema.Cinema) -> None:
    clicks = club.interactions
    is_old = clicks.user_codes < 300
    old, new = (
        Interactions.from_table(clicks.to_table("pandas").loc[which, ["user", "item"]]) for which in (is_old, ~is_old)
    )
    finder = NoiseFinder(folds=5).fit(old)
    table = finder.score(new, "pyarrow")
    known = table["noise_probability"].is_valid().to_numpy()
    assert [basis == "unknown item" for basis in table["basis"].to_pylist()] == (~known).tolist()
    # Pairs come in the order of users and items, here as there.
    mistakes = club.is_mistake[~is_old][known]
    assert detection_metrics(table["noise_probability"].to_numpy(zero_copy_only=False)[known], mistakes)["auroc"] > 0.75
    rows = {"user": [-1, -2, -2, int(old.users[0])], "item": [int(old.items[0])] * 2 + [-7, -7]}
    odd = finder.score(Interactions.from_table(pa.table(rows)), "pandas").set_index(["user", "item"])
    assert odd.loc[(-1, old.items[0]), "basis"] == "popularity", "the only click of a new user"
    assert odd.loc[(-2, -7), "basis"] == odd.loc[(old.users[0], -7), "basis"] == "unknown item"


def test_new_users_with_a_base_model_that_cannot_fold_in(club: prorec.data.cinema.Cinema) -> None:
    class Own:
        def fit(self, matrix: csr_array) -> None:
            self.scores = (matrix @ matrix.T @ matrix).toarray()

        def score(self, rows: np.ndarray) -> np.ndarray:
            return np.asarray(self.scores[rows])

    finder = NoiseFinder(Own(), folds=3).fit(club.interactions)
    items = club.interactions.items[:3].tolist()
    new = Interactions.from_table(pa.table({"user": [-1] * 3, "item": items}))
    assert finder.score(new)["basis"].to_pylist() == ["popularity"] * 3
    with pytest.raises(InputError, match="interactions must be"):
        finder.score(None)


# ── in ProRec ───────────────────────────────────────────────────────────────────────────────────────


def test_a_denoiser_with_cross_fitted_probabilities(club: prorec.data.cinema.Cinema, tmp_path: Path) -> None:
    clicks = club.interactions
    finder = NoiseFinder([NCE(rank=8), SVD(rank=4)], folds=3)
    denoiser = ProRec(NCE(rank=8), noise_method=finder, fdr=0.3).fit(clicks)
    alone = NoiseFinder([NCE(rank=8), SVD(rank=4)], folds=3).fit(clicks)
    np.testing.assert_array_equal(denoiser.noise_probability_, alone.noise_probability_)
    np.testing.assert_array_equal(denoiser.flagged_, alone.flag(fdr=0.3))
    weights = (1 - alone.noise_probability_) ** 2
    np.testing.assert_allclose(denoiser.weights_.data, weights, rtol=1e-5)
    assert denoiser.noise_table().column_names[-2:] == ["percentile_rank", "basis"]
    plan, both = (
        ProRec(NCE(rank=8), noise_method=finder, weighting=weighting, lam=0.25).fit(clicks).weights_.data
        for weighting in ("plan", "both")
    )
    np.testing.assert_allclose(both, plan * weights, rtol=1e-5)
    assert plan.min() >= 0.25
    denoiser.save(tmp_path / "model")
    loaded = prorec.load(tmp_path / "model")
    assert isinstance(loaded, ProRec)
    np.testing.assert_array_equal(loaded.noise_probability_, denoiser.noise_probability_)
    assert loaded.finder_.noise_rate_ == denoiser.finder_.noise_rate_
    later = Interactions.from_table(
        pa.table(
            {"user": [int(clicks.users[0])] * 3 + [-5] * 2, "item": [int(i) for i in clicks.items[[1, 2, 3, 1, 2]]]}
        )
    )
    assert loaded.score(later).equals(denoiser.score(later))


def test_bad_parameters_of_a_denoiser_are_refused(club: prorec.data.cinema.Cinema) -> None:
    for settings, message in (
        ({"noise_method": "guess"}, "noise_method must be"),
        (
            {"noise_method": "plan", "weighting": "probability"},
            "weighting='probability' requires calibrated",
        ),
        ({"noise_method": "cross-fit", "weighting": "none"}, "weighting must be one of"),
        ({"noise_method": "cross-fit", "fdr": 0.0}, "fdr must be above 0 and below 1"),
        ({"noise_method": NoiseFinder(folds=1)}, "folds must be"),
    ):
        with pytest.raises(InputError, match=message):
            ProRec(NCE(rank=8), **settings).fit(club.interactions)
    with pytest.raises(InputError, match="noise_method='cross-fit', the default"):
        ProRec(NCE(rank=8), noise_method="plan").fit(club.interactions).score(club.interactions)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("noise_probability", lambda array: array[:-1]),
        ("percentile_rank", lambda array: array * np.nan),
        ("density_ratio.coefficients", lambda array: array + np.inf),
    ],
)
def test_a_damaged_state_is_refused_by_name(name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    finder = NoiseFinder(SVD(rank=2), folds=2).fit(random_clicks(20, 15, 0.3))
    parameters, arrays = finder_state(finder)
    restored = restore_finder(parameters, arrays, finder.interactions_)
    assert restored.noise_rate_ == finder.noise_rate_
    assert restored.table().equals(finder.table())
    with pytest.raises(DamagedFileError, match=name):
        restore_finder(parameters, arrays | {name: change(arrays[name])}, finder.interactions_)


# ── baselines ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [name for name in SCORERS if name != "NoiseFinder"])
def test_baselines_score_every_click(name: str) -> None:
    clicks = prorec.make_cinema(60, 60, seed=1).interactions
    suspicion = SCORERS[name](clicks, 0)
    assert suspicion.shape == (len(clicks),)
    assert np.isfinite(suspicion).all()
    np.testing.assert_array_equal(suspicion, SCORERS[name](clicks, 0))


@pytest.mark.real_data("ml-100k")
@pytest.mark.parametrize(("kind", "auroc", "ap"), [("uniform", 0.905, 0.68), ("popularity", 0.74, 0.40)])
def test_noise_in_movielens(kind: str, auroc: float, ap: float) -> None:
    train = prorec.split_by_user(prorec.load_dataset("ml-100k"), (0.8, 0.2), seed=0).train
    noisy = prorec.inject_noise(train, 0.2, kind, seed=0)  # type: ignore[arg-type]
    finder = NoiseFinder(folds=10).fit(noisy.interactions)
    metrics = detection_metrics(finder.noise_probability_, noisy.is_noise)
    assert metrics["auroc"] > auroc
    assert metrics["ap"] > ap
    assert metrics["calibration_error"] < 0.03
    assert finder.noise_rate_.estimate == pytest.approx(1 / 6, abs=0.03)


# ── former defects ─────────────────────────────────────────────────────────────────────────────────


def test_a_finder_with_constant_features_can_be_saved(tmp_path: Path) -> None:
    """Every user has four clicks, so the activity has one value."""
    rng = np.random.default_rng(0)
    dense = np.zeros((60, 40), dtype=np.float32)
    for row in dense:
        row[rng.choice(40, 4, replace=False)] = 1
    denoiser = ProRec(NCE(rank=4), noise_method=NoiseFinder(folds=4)).fit(csr_array(dense))
    denoiser.save(tmp_path / "model")
    loaded = prorec.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.noise_probability_, denoiser.noise_probability_)  # type: ignore[attr-defined]


def test_known_clicks_of_users_with_new_ids_get_similar_probabilities() -> None:
    """The base model has a sigmoid link."""
    clicks = prorec.make_cinema(200, 100, seed=2).interactions
    finder = NoiseFinder(CDAE(rank=8, epochs=30), folds=3).fit(clicks)
    rows = {"user": -1 - clicks.user_codes.astype(np.int64), "item": clicks.items[clicks.item_codes]}
    table = finder.score(Interactions.from_table(pa.table(rows)), "pandas").sort_values(
        ["user", "item"], ascending=[False, True]
    )
    assert table.noise_probability.mean() == pytest.approx(finder.noise_probability_.mean(), abs=0.05)
    assert np.corrcoef(table.noise_probability, finder.noise_probability_)[0, 1] > 0.6


def test_a_user_of_the_log_without_clicks_counts_as_new() -> None:
    dense = prorec.make_cinema(150, 120, seed=5).interactions.matrix.toarray()
    dense[7] = 0
    finder = NoiseFinder(folds=3).fit(csr_array(dense))
    later = Interactions.from_table(pa.table({"user": [7, 7, 7], "item": [1, 2, 3]}))
    assert finder.score(later)["basis"].to_pylist() == ["models"] * 3


def test_weights_of_zero_with_every_transport() -> None:
    matrix = random_clicks(20, 15, 0.3)
    matrix.data[:] = 0
    for transport in ("relaxed-users", "relaxed", "sinkhorn"):
        finder = NoiseFinder(SVD(rank=2), folds=3, transport=transport).fit(matrix)
        assert np.isfinite(finder.noise_probability_).all()


def test_a_checkpoint_of_another_noise_finder_is_refused(tmp_path: Path) -> None:
    fits: list[int] = []

    class Own:
        def __init__(self, rank: int) -> None:
            self.rank = rank

        def fit(self, matrix: csr_array) -> None:
            fits.append(self.rank)
            self.user_factors = matrix[:, : self.rank].toarray()
            self.item_factors = np.ones((matrix.shape[1], self.rank))

    clicks = random_clicks(30, 20, 0.3)
    settings = {"weighting": "probability"}
    first = ProRec(SVD(rank=2), noise_method=NoiseFinder(Own(2), folds=2), **settings).fit(clicks, checkpoint=tmp_path)  # type: ignore[arg-type]
    again = ProRec(SVD(rank=2), noise_method=NoiseFinder(Own(2), folds=2, memory=1e6), **settings)  # type: ignore[arg-type]
    np.testing.assert_array_equal(again.fit(clicks, checkpoint=tmp_path).weights_.data, first.weights_.data)
    fits.clear()
    with pytest.raises(InputError, match="checkpoint"):
        ProRec(SVD(rank=2), noise_method=NoiseFinder(Own(3), folds=2), **settings).fit(clicks, checkpoint=tmp_path)  # type: ignore[arg-type]
    assert not fits, "refused before anything is fitted"


def test_a_saved_denoiser_without_noise_parameters_can_be_loaded(tmp_path: Path) -> None:
    ProRec(SVD(rank=2)).fit(random_clicks(30, 20, 0.3)).save(tmp_path)
    path = tmp_path / "model.json"
    about = json.loads(path.read_text())
    for name in ("noise_method", "weighting", "fdr"):
        del about["parameters"][name]
    path.write_text(json.dumps(about))
    assert isinstance(prorec.load(tmp_path), ProRec)


def test_large_logs_have_fewer_folds_and_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    clicks = random_clicks(60, 40, 0.2)
    small = NoiseFinder().fit(clicks)
    monkeypatch.setattr(effort, "LARGE_LOG", clicks.nnz - 1)
    large, chosen = NoiseFinder().fit(clicks), NoiseFinder(WRMF(rank=3), folds=7).fit(clicks)
    assert [finder.n_folds_ for finder in (small, large, chosen)] == [10, 5, 7]
    assert restore_finder(*finder_state(small), small.interactions_).n_folds_ == 10, "whatever the default is later"
    assert [finder.base_models_[0].get_params()["sweeps"] for finder in (small, large, chosen)] == [10, 5, 10]


def test_few_interactions_have_few_folds() -> None:
    denoiser = ProRec(SVD(rank=1), noise_method="cross-fit").fit(
        csr_array(np.array([[1, 1, 0], [0, 1, 1]], dtype=np.float32))
    )
    assert denoiser.finder_.n_folds_ == 4
    with pytest.raises(InputError, match="noise_method must be"):
        ProRec(SVD(rank=1), noise_method=np.ones(2)).fit(random_clicks(9, 9, 0.5))  # type: ignore[arg-type]
