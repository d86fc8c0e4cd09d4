"""NoiseFinder where the noise is known; what it marks, refuses, keeps, and says of clicks that come later."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import prorec
from prorec import InputError, Interactions, NoiseFinder, NotFittedError, ProRec, detection_metrics
from prorec.models import CDAE, EASE, NCE, SVD, Popularity
from prorec.noise import noise_rate
from reproduction.baselines import SCORERS


@pytest.fixture(scope="module", autouse=True)
def _rough_intervals() -> Iterator[None]:
    """Drawing users again takes longer than small logs do, and changes nothing but the interval: see test_parts.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_rate, "_N_RESAMPLES", 20)
        yield


@pytest.fixture(scope="module")
def club() -> prorec.data.cinema.Cinema:
    return prorec.make_cinema(400, 300, seed=5)


@pytest.fixture(scope="module")
def finder(club: prorec.data.cinema.Cinema) -> NoiseFinder:
    return NoiseFinder(folds=5).fit(club.interactions)


def random_clicks(n_users: int, n_items: int, share: float, seed: int = 0) -> csr_array:
    return csr_array((np.random.default_rng(seed).random((n_users, n_items)) < share).astype(np.float32))


def test_finds_mistakes_better_than_popularity_does(club: prorec.data.cinema.Cinema, finder: NoiseFinder) -> None:
    found = detection_metrics(finder.noise_probability_, club.is_mistake)
    rare = detection_metrics(-club.interactions.popularity[club.interactions.item_codes], club.is_mistake)
    assert found["auroc"] > 0.8 > rare["auroc"] + 0.1
    assert finder.noise_rate_.low <= finder.noise_rate_.estimate <= finder.noise_rate_.high
    assert finder.percentile_rank_[club.is_mistake].mean() > 2 * finder.percentile_rank_[~club.is_mistake].mean()


@pytest.mark.parametrize("kind", ["uniform", "popularity"])
def test_probabilities_mean_what_they_say(kind: str) -> None:
    clean = prorec.make_cinema(mistake_rate=0.0, seed=1).interactions
    noisy = prorec.inject_noise(clean, 0.1, kind, seed=1)  # type: ignore[arg-type]
    finder = NoiseFinder(folds=10).fit(noisy.interactions)
    found = detection_metrics(finder.noise_probability_, noisy.is_noise)
    assert found["calibration_error"] < 0.03
    assert finder.noise_rate_.estimate == pytest.approx(noisy.is_noise.mean(), abs=0.02)
    line = finder.posterior_.noise_rate_line
    flags = finder.flag(fdr=0.3)
    assert flags.any()
    assert (~noisy.is_noise[flags]).mean() < 0.35
    assert line.uniform > line.by_popularity or kind == "popularity"


def test_a_clean_club_is_left_alone() -> None:
    clean = prorec.make_cinema(mistake_rate=0.0).interactions
    finder = NoiseFinder(folds=5).fit(clean)
    assert finder.noise_rate_.estimate < 0.02
    assert finder.flag(fdr=0.1).mean() <= 0.02


def test_nothing_but_noise_is_told_as_much() -> None:
    finder = NoiseFinder(folds=5).fit(random_clicks(400, 300, 0.1))
    assert finder.noise_rate_.estimate > 0.9


def shop(seed: int, noise: float) -> tuple[csr_array, np.ndarray]:
    """4,000 purchases of 240 customers in six groups, each with 25 items of its own, and which ones are from others'.

    So large a share of draws is from all 150 items. Of the rest many are drawn twice, and count once: there is more
    noise in what comes out.
    """
    rng, bought = np.random.default_rng(seed), np.zeros((240, 150), dtype=np.float32)
    group, own = np.arange(240) % 6, np.arange(150) // 25
    while bought.sum() < 4000:
        who, at_random = rng.integers(240), rng.random() < noise
        place = min(int(rng.exponential(9)), 24)  # the first ones of a group are bought most
        bought[who, rng.integers(150) if at_random else 25 * group[who] + place] = 1
    users, items = bought.nonzero()
    return csr_array(bought), group[users] != own[items]


@pytest.mark.parametrize("noise", [0.05, 0.12])
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_groups_that_keep_to_themselves(seed: int, noise: float) -> None:
    """Noise was ordered nearly without fault, and its share estimated at 0 to 5% of 17%: most tails were empty."""
    clicks, is_noise = shop(seed, noise)
    finder = NoiseFinder(folds=5).fit(clicks)
    share, truth = finder.noise_rate_, is_noise.mean()
    assert share.estimate == pytest.approx(truth, abs=0.02)
    assert share.low - 0.01 < truth < share.high + 0.01
    assert share.low < share.estimate < share.high
    found = detection_metrics(finder.noise_probability_, is_noise)
    assert found["auroc"] > 0.99
    assert found["calibration_error"] < 0.06
    assert finder.noise_probability_[is_noise].mean() > 0.6


def test_groups_without_noise() -> None:
    clicks, is_noise = shop(6, 0.0)
    assert not is_noise.any()
    share = NoiseFinder(folds=5).fit(clicks).noise_rate_
    assert share.low <= share.estimate < 0.005
    assert share.estimate < share.high < 0.02


def test_the_same_seed_gives_the_same() -> None:
    clicks = prorec.make_cinema(150, 120, seed=5).interactions
    finder, again, other = (
        NoiseFinder(folds=3, **how).fit(clicks)  # type: ignore[arg-type]
        for how in ({}, {"memory": 1e5}, {"seed": 1})
    )
    np.testing.assert_allclose(again.noise_probability_, finder.noise_probability_, atol=1e-5)
    assert not np.array_equal(other.noise_probability_, finder.noise_probability_)


def test_every_click_is_judged_by_models_that_have_not_seen_it() -> None:
    """A model that knows its clicks by heart must not give them away."""

    class ByHeart:
        def fit(self, matrix: csr_array) -> None:
            self.known = np.asarray(matrix.toarray())

        def score(self, rows: np.ndarray) -> np.ndarray:
            return np.asarray(self.known[rows])

    matrix = random_clicks(60, 50, 0.2)
    finder = NoiseFinder(ByHeart(), folds=4).fit(matrix)
    assert finder.percentile_rank_.min() == finder.percentile_rank_.max() == 0.5, (
        "nothing is known of what was left out"
    )


@pytest.mark.parametrize("transport", ["relaxed-users", "relaxed", "sinkhorn"])
@pytest.mark.parametrize("models", [NCE(rank=8), [SVD(rank=4), EASE()], Popularity(), CDAE(rank=4, epochs=2)])
def test_any_model_any_transport(transport: str, models: object) -> None:
    club = prorec.make_cinema(80, 60, seed=2).interactions
    finder = NoiseFinder(models, folds=3, transport=transport).fit(club)  # type: ignore[arg-type]
    assert np.isfinite(finder.noise_probability_).all()
    assert ((finder.noise_probability_ >= 0) & (finder.noise_probability_ <= 1)).all()


def test_who_has_one_click_is_judged_by_popularity_and_marked() -> None:
    lonely = csr_array(np.vstack([random_clicks(50, 40, 0.3).toarray(), np.eye(1, 40, 3)]).astype(np.float32))
    finder = NoiseFinder(folds=3).fit(lonely)
    table = finder.table()
    marked = table.filter(pa.compute.equal(table["basis"], "popularity"))
    assert marked["user"].to_pylist() == [50]
    assert set(table["basis"].to_pylist()) == {"models", "popularity"}
    falling = np.diff(table["noise_probability"].to_numpy())
    assert (falling <= 0).all()


def test_tiny_and_odd_logs_have_finite_answers() -> None:
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
    ("how", "clicks", "words"),
    [
        ({}, random_clicks(4, 3, 0.5), "folds must be at most"),
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
def test_bad_input(how: dict[str, object], clicks: csr_array, words: str) -> None:
    with pytest.raises(InputError, match=words):
        NoiseFinder(**how).fit(clicks)  # type: ignore[arg-type]


def test_nothing_before_fit() -> None:
    for ask in (
        lambda: NoiseFinder().flag(fdr=0.1),
        lambda: NoiseFinder().table(),
        lambda: NoiseFinder().percentile_rank_,
    ):
        with pytest.raises(NotFittedError, match=r"not fitted yet; call NoiseFinder\.fit"):
            ask()


def test_a_model_that_cannot_be_fitted_again() -> None:
    class Once:
        def __init__(self) -> None:
            self.lock = threading.Lock()  # which cannot be copied

        def fit(self, matrix: csr_array) -> None: ...

    with pytest.raises(InputError, match="can be copied"):
        NoiseFinder(Once(), folds=2).fit(random_clicks(9, 9, 0.5))


# ── clicks that come later ──────────────────────────────────────────────────────────────────────────


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
    table = finder.score(new)
    known = table["noise_probability"].is_valid().to_numpy()
    assert [basis == "unknown item" for basis in table["basis"].to_pylist()] == (~known).tolist()
    # Pairs come in the order of users and items, here as there.
    mistakes = club.is_mistake[~is_old][known]
    assert detection_metrics(table["noise_probability"].to_numpy(zero_copy_only=False)[known], mistakes)["auroc"] > 0.75
    rows = {"user": [-1, -2, -2, int(old.users[0])], "item": [int(old.items[0])] * 2 + [-7, -7]}
    odd = finder.score(Interactions.from_table(pa.table(rows)), "pandas").set_index(["user", "item"])
    assert odd.loc[(-1, old.items[0]), "basis"] == "popularity", "the only click of a new user"
    assert odd.loc[(-2, -7), "basis"] == odd.loc[(old.users[0], -7), "basis"] == "unknown item"


def test_a_model_that_only_knows_its_users(club: prorec.data.cinema.Cinema) -> None:
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
        finder.score(None)  # type: ignore[arg-type]


# ── in a denoiser ───────────────────────────────────────────────────────────────────────────────────


def test_a_denoiser_with_cross_fitted_probabilities(club: prorec.data.cinema.Cinema, tmp_path: Path) -> None:
    clicks = club.interactions
    finder = NoiseFinder([NCE(rank=8), SVD(rank=4)], folds=3)
    denoiser = ProRec(NCE(rank=8), noise_method=finder, weighting="probability", lam=0.25, fdr=0.3).fit(clicks)
    alone = NoiseFinder([NCE(rank=8), SVD(rank=4)], folds=3).fit(clicks)
    np.testing.assert_array_equal(denoiser.noise_probability_, alone.noise_probability_)
    np.testing.assert_array_equal(denoiser.flagged_, alone.flag(fdr=0.3))
    np.testing.assert_allclose(denoiser.weights_.data, 0.25 + 0.75 * (1 - alone.noise_probability_), rtol=1e-6)
    assert denoiser.noise_table().column_names[-2:] == ["percentile_rank", "basis"]
    both = ProRec(NCE(rank=8), noise_method=finder, weighting="both").fit(clicks)
    plan = ProRec(NCE(rank=8)).fit(clicks)
    r = 2 * plan.weights_.data - 1
    np.testing.assert_allclose(both.weights_.data, 0.5 + 0.5 * r * (1 - alone.noise_probability_), rtol=1e-4)
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


def test_what_a_denoiser_refuses(club: prorec.data.cinema.Cinema) -> None:
    for how, words in (
        ({"noise_method": "guess"}, "noise_method must be"),
        ({"weighting": "probability"}, "weighting='probability' requires .* noise_method='cross-fit'"),
        ({"noise_method": "cross-fit", "weighting": "none"}, "weighting must be one of"),
        ({"noise_method": "cross-fit", "fdr": 0.0}, "fdr must be above 0 and below 1"),
        ({"noise_method": NoiseFinder(folds=1)}, "folds must be"),
    ):
        with pytest.raises(InputError, match=words):
            ProRec(NCE(rank=8), **how).fit(club.interactions)
    with pytest.raises(InputError, match="needs noise_method='cross-fit'"):
        ProRec(NCE(rank=8)).fit(club.interactions).score(club.interactions)


# ── beside the others ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", [name for name in SCORERS if name != "NoiseFinder"])
def test_rivals_answer_for_each_click(name: str) -> None:
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
    found = detection_metrics(finder.noise_probability_, noisy.is_noise)
    assert found["auroc"] > auroc
    assert found["ap"] > ap
    assert found["calibration_error"] < 0.03
    assert finder.noise_rate_.estimate == pytest.approx(1 / 6, abs=0.03)


# ── what went wrong once ────────────────────────────────────────────────────────────────────────────


def test_a_log_with_little_variety_can_be_kept(tmp_path: Path) -> None:
    """Everybody has four clicks: columns of one value are part of what is learned."""
    rng = np.random.default_rng(0)
    dense = np.zeros((60, 40), dtype=np.float32)
    for row in dense:
        row[rng.choice(40, 4, replace=False)] = 1
    denoiser = ProRec(NCE(rank=4), noise_method=NoiseFinder(folds=4)).fit(csr_array(dense))
    denoiser.save(tmp_path / "model")
    loaded = prorec.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.noise_probability_, denoiser.noise_probability_)  # type: ignore[attr-defined]


def test_the_same_clicks_under_new_names_are_judged_alike() -> None:
    """Also by a model whose scores go through a sigmoid."""
    clicks = prorec.make_cinema(200, 100, seed=2).interactions
    finder = NoiseFinder(CDAE(rank=8, epochs=30), folds=3).fit(clicks)
    rows = {"user": -1 - clicks.user_codes.astype(np.int64), "item": clicks.items[clicks.item_codes]}
    table = finder.score(Interactions.from_table(pa.table(rows)), "pandas").sort_values(
        ["user", "item"], ascending=[False, True]
    )
    assert table.noise_probability.mean() == pytest.approx(finder.noise_probability_.mean(), abs=0.05)
    assert np.corrcoef(table.noise_probability, finder.noise_probability_)[0, 1] > 0.6


def test_somebody_in_the_log_without_clicks_is_as_good_as_new() -> None:
    dense = random_clicks(60, 40, 0.2).toarray()
    dense[7] = 0
    finder = NoiseFinder(folds=3).fit(csr_array(dense))
    later = Interactions.from_table(pa.table({"user": [7, 7, 7], "item": [1, 2, 3]}))
    assert finder.score(later)["basis"].to_pylist() == ["models"] * 3


def test_no_weight_at_all_in_a_plan_with_marginals() -> None:
    matrix = random_clicks(20, 15, 0.3)
    matrix.data[:] = 0
    for transport in ("relaxed-users", "relaxed", "sinkhorn"):
        finder = NoiseFinder(SVD(rank=2), folds=3, transport=transport).fit(matrix)
        assert np.isfinite(finder.noise_probability_).all()


def test_a_checkpoint_knows_whose_noise_it_is(tmp_path: Path) -> None:
    fits: list[int] = []

    class Own:
        def __init__(self, rank: int) -> None:
            self.rank = rank

        def fit(self, matrix: csr_array) -> None:
            fits.append(self.rank)
            self.user_factors = matrix[:, : self.rank].toarray()
            self.item_factors = np.ones((matrix.shape[1], self.rank))

    clicks = random_clicks(30, 20, 0.3)
    how = {"weighting": "probability", "rounds": 2, "tolerance": 0.0}
    first = ProRec(SVD(rank=2), noise_method=NoiseFinder(Own(2), folds=2), **how).fit(clicks, checkpoint=tmp_path)  # type: ignore[arg-type]
    again = ProRec(SVD(rank=2), noise_method=NoiseFinder(Own(2), folds=2, memory=1e6), **how)  # type: ignore[arg-type]
    np.testing.assert_array_equal(again.fit(clicks, checkpoint=tmp_path).weights_.data, first.weights_.data)
    fits.clear()
    with pytest.raises(InputError, match="checkpoint"):
        ProRec(SVD(rank=2), noise_method=NoiseFinder(Own(3), folds=2), **how).fit(clicks, checkpoint=tmp_path)  # type: ignore[arg-type]
    assert not fits, "refused before anything is fitted"


def test_a_denoiser_from_before_there_was_this_can_be_loaded(tmp_path: Path) -> None:
    ProRec(SVD(rank=2)).fit(random_clicks(30, 20, 0.3)).save(tmp_path)
    path = tmp_path / "model.json"
    about = json.loads(path.read_text())
    for name in ("noise_method", "weighting", "fdr"):
        del about["parameters"][name]
    path.write_text(json.dumps(about))
    assert isinstance(prorec.load(tmp_path), ProRec)


def test_few_interactions_have_few_folds() -> None:
    denoiser = ProRec(SVD(rank=1), noise_method="cross-fit").fit(
        csr_array(np.array([[1, 1, 0], [0, 1, 1]], dtype=np.float32))
    )
    assert denoiser.finder_.folds == 4
    with pytest.raises(InputError, match="noise_method must be"):
        ProRec(SVD(rank=1), noise_method=np.ones(2)).fit(random_clicks(9, 9, 0.5))
