from __future__ import annotations

import numpy as np
import pytest

from prorec import InputError, make_cinema, split_by_user
from prorec.data import cinema
from prorec.data.cinema import EXPLORATION, MISTAKE, TASTE
from prorec.data.films import GENRES, RELATED


def test_the_planted_truth_holds_for_every_click() -> None:
    club = make_cinema()
    clicks = club.interactions
    assert clicks.item_categories is not None
    for user, film, origin in zip(clicks.user_codes, clicks.item_codes, clicks.columns["origin"], strict=True):
        likes = {GENRES[at] for at in np.flatnonzero(club.tastes[user])}
        genres = set(clicks.item_categories[film])
        assert bool(likes & genres) == (origin == TASTE)
        related = {other for taste in likes for other in RELATED[taste]} - likes
        if origin == EXPLORATION:
            assert genres & related
        if origin == MISTAKE and len(likes | related) < len(GENRES):
            assert not genres & related
    np.testing.assert_array_equal(club.is_mistake, clicks.columns["origin"] == MISTAKE)


def test_rates_and_sizes_are_the_requested_ones() -> None:
    club = make_cinema(2000, 1500, mistake_rate=0.2, exploration_rate=0.1, seed=3)
    origin = club.interactions.columns["origin"]
    assert club.interactions.matrix.shape == (2000, 1500)
    assert (origin == MISTAKE).mean() == pytest.approx(0.2, abs=0.002)
    assert (origin == EXPLORATION).mean() == pytest.approx(0.1, abs=0.002)
    # Also where users run out of films they like.
    tight = make_cinema(1000, 100).interactions.columns["origin"]
    assert (tight == MISTAKE).mean() == pytest.approx(0.1, abs=0.002)
    assert not make_cinema(100, 100, mistake_rate=0).is_mistake.any()
    np.testing.assert_allclose(club.tastes.sum(axis=1), 1, rtol=1e-5)
    assert (np.count_nonzero(club.tastes, axis=1) >= 1).all()


def test_marginals_have_long_tails_like_real_data() -> None:
    clicks = make_cinema(seed=5).interactions
    popularity = np.sort(clicks.popularity)[::-1]
    top_tenth = popularity[: len(popularity) // 10].sum() / popularity.sum()
    assert 0.35 < top_tenth < 0.6, "MovieLens-100k: .47"
    assert 30 < np.median(clicks.activity) < 50, "MovieLens-100k: 39.5"
    assert clicks.activity.min() >= 3


def test_the_same_seed_gives_the_same_club_and_another_another() -> None:
    one, same, other = make_cinema(300, 200, seed=1), make_cinema(300, 200, seed=1), make_cinema(300, 200, seed=2)
    assert one.interactions.equals(same.interactions)
    np.testing.assert_array_equal(one.tastes, same.tastes)
    assert not one.interactions.equals(other.interactions)


def test_many_users_are_made_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    make_block = cinema._make_block

    def watched(n_users: int, *rest: object) -> object:
        sizes.append(n_users)
        return make_block(n_users, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(cinema, "_make_block", watched)
    clicks = make_cinema(40_000, 1000).interactions
    assert sorted(sizes) == [7_232, 16_384, 16_384]  # on all cores, whichever begins first
    assert clicks.n_users == 40_000
    assert clicks.activity.min() >= 1


@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ((1000, 800), {"n_clicks": 25_000}),
        ((20_000, 461), {"n_clicks": 500_001, "mistake_rate": 0.2, "exploration_rate": 0.1, "seed": 1}),
        ((33_000, 300), {"n_clicks": 165_000, "mistake_rate": 0.5, "exploration_rate": 0.5}),
        ((300, 200), {"n_clicks": 3_333, "mistake_rate": 0, "exploration_rate": 0}),
        ((300, 200), {"n_clicks": 3_333, "mistake_rate": 1, "exploration_rate": 0}),
        ((50, 700), {"n_clicks": 7_000}),
    ],
    ids=["one block", "two", "least activity", "taste", "mistakes", "more films than users"],
)
def test_an_exact_number_of_clicks(sizes: tuple[int, int], options: dict[str, float]) -> None:
    club = make_cinema(*sizes, **options)  # type: ignore[arg-type]
    clicks = club.interactions
    assert (clicks.matrix.shape, len(clicks)) == (sizes, options["n_clicks"])
    assert clicks.matrix.has_canonical_format
    origins = np.bincount(clicks.columns["origin"], minlength=3)
    mistakes, exploration = options.get("mistake_rate", 0.1), options.get("exploration_rate", 0.15)
    assert abs(origins[MISTAKE] - mistakes * len(clicks)) <= 1
    assert abs(origins[EXPLORATION] - exploration * len(clicks)) <= 1
    assert clicks.activity.min() >= 1
    assert clicks.popularity.min() >= 1
    # What is true of every click is so here too, for those that were placed on purpose as well.
    has = np.array([[genre in of for genre in GENRES] for of in clicks.item_categories or ()])
    likes = club.tastes > 0
    liked = (has[clicks.item_codes] & likes[clicks.user_codes]).any(axis=1)
    np.testing.assert_array_equal(liked, clicks.columns["origin"] == TASTE)
    near = np.array([[other in RELATED[genre] for other in GENRES] for genre in GENRES])
    related = (likes @ near > 0) & ~likes
    explores = (has[clicks.item_codes] & related[clicks.user_codes]).any(axis=1)
    of_all = (likes | related).all(axis=1)[clicks.user_codes]
    assert explores[clicks.columns["origin"] == EXPLORATION].all()
    assert not explores[(clicks.columns["origin"] == MISTAKE) & ~of_all].any()


def test_an_exact_number_of_clicks_has_long_tails_too() -> None:
    clicks = make_cinema(20_000, 5_000, n_clicks=400_000).interactions
    popularity = np.sort(clicks.popularity)[::-1]
    assert 0.5 < popularity[:500].sum() / popularity.sum() < 0.8
    log_activity = np.log(clicks.activity)
    assert 12 < np.median(clicks.activity) < 16, "below the mean of 20"
    assert 0.6 < log_activity.std() < 0.93, "as the usual activity, less what the least cuts off"
    assert clicks.activity.max() > 200


def test_the_number_of_cores_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for cores in (1, 3):
        monkeypatch.setattr(cinema, "N_CORES", cores)
        made.append((make_cinema(40_000, 300, n_clicks=400_000), make_cinema(40_000, 300)))
    for one, other in zip(*made, strict=True):
        assert one.interactions.equals(other.interactions)
        np.testing.assert_array_equal(one.tastes, other.tastes)


def test_a_seed_means_what_it_has_always_meant() -> None:
    clicks = make_cinema(300, 250).interactions
    assert len(clicks) == 9_128
    places = np.arange(len(clicks))
    assert int((clicks.item_codes * places).sum()) == 5_001_580_287
    assert int((clicks.columns["origin"] * places).sum()) == 14_673_497


def test_titles_are_distinct() -> None:
    names = make_cinema(50, 3000).interactions.item_names
    assert names is not None
    bare = [name.rsplit(" (", 1)[0] for name in names]
    assert len(set(bare)) == 3000


def test_the_truth_survives_a_split() -> None:
    club = make_cinema(200, 150)
    parts = split_by_user(club.interactions, (0.5, 0.2, 0.3))
    np.testing.assert_array_equal(parts.train.columns["origin"] == MISTAKE, club.is_mistake[parts.part == 0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_users": 0}, "n_users must be a whole number from 1 to .*; got 0"),
        ({"n_items": 10}, "n_items must be a whole number from 42 to .*; got 10"),
        ({"mistake_rate": 0.6, "exploration_rate": 0.5}, "sum to at most 1"),
        ({"mistake_rate": -0.1}, "mistake_rate must be a finite number from 0 to 1; got -0.1"),
        ({"n_users": 10.5}, "n_users must be a whole number"),
        ({"seed": -1}, "seed must be a whole number of at least 0; got -1"),
        ({"n_clicks": 2.5}, "n_clicks must be a whole number of at least 1; got 2.5"),
        ({"n_clicks": 4_999}, "n_clicks must be from 5,000 to 320,000 for 1,000 users and 800 films.*; got 4,999"),
        ({"n_clicks": 320_001}, "n_clicks must be from 5,000 to 320,000 for .*; got 320,001"),
        ({"n_users": 100, "n_clicks": 799}, "n_clicks must be from 800 to 32,000 .* one for each film.*; got 799"),
        (
            {"n_clicks": 320_000},
            "n_clicks must be fewer: of 320,000 clicks of 1,000 users on 800 films",
        ),
        ({"n_users": 2, "n_clicks": 640}, "n_clicks must be "),
    ],
)
def test_bad_sizes_and_shares_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_cinema(**options)  # type: ignore[arg-type]
