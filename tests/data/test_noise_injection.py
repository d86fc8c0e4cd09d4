from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from prorec import InputError, Interactions, detection_metrics, inject_noise, load_dataset, make_cinema, split_by_user
from tests.strategies import interactions, pairs_of

RATIOS = st.sampled_from([0.0, 0.05, 0.2, 0.5, 1.0])


def free_pairs(data: Interactions, kind: str) -> int:
    """How many pairs noise may go to, counted one by one."""
    taken = pairs_of(data) | held_out_of(data)
    low = set(zip(*np.nonzero(data.disliked.toarray()), strict=True)) if data.disliked is not None else set()
    return sum(
        (user, item) not in taken
        and data.activity[user] > 0
        and (kind != "popularity" or data.popularity[item] > 0)
        and (kind != "disliked" or (user, item) in low)
        for user in range(data.n_users)
        for item in range(data.n_items)
    )


def held_out_of(data: Interactions) -> set[tuple[int, int]]:
    return set() if data.held_out is None else set(zip(*np.nonzero(data.held_out.toarray()), strict=True))


@pytest.mark.parametrize("kind", ["uniform", "popularity", "disliked"])
@given(data=interactions(min_size=2), ratio=RATIOS, seed=st.integers(0, 3))
def test_noise_that_is_added(kind: str, data: Interactions, ratio: float, seed: int) -> None:
    train = split_by_user(data.filter_by_rating(2), (0.6, 0.4)).train
    expected = round(ratio * len(train))
    if expected > free_pairs(train, kind):
        with pytest.raises(InputError, match="ratio asks for"):
            inject_noise(train, ratio, kind, seed)  # type: ignore[arg-type]
        return
    noisy = inject_noise(train, ratio, kind, seed)  # type: ignore[arg-type]
    check_noise(train, noisy.interactions, noisy.is_noise, expected)
    # The clean clicks are all still there, as they were.
    clean = noisy.interactions.select(~noisy.is_noise)
    assert clean.equals(train)
    again = inject_noise(train, ratio, kind, seed)  # type: ignore[arg-type]
    assert again.interactions.equals(noisy.interactions)
    np.testing.assert_array_equal(again.is_noise, noisy.is_noise)


def check_noise(train: Interactions, noisy: Interactions, is_noise: np.ndarray, expected: int) -> None:
    assert is_noise.dtype == bool
    assert is_noise.shape == (len(noisy),)
    assert is_noise.sum() == expected, "exact counts"
    false = set(zip(noisy.user_codes[is_noise].tolist(), noisy.item_codes[is_noise].tolist(), strict=True))
    assert len(false) == expected, "no pair twice"
    assert not false & pairs_of(train), "never on a true pair"
    assert not false & held_out_of(train), "never on a held-out pair"
    assert noisy.users is train.users
    assert noisy.items is train.items
    for user in {user for user, _ in false}:
        own, all_of_them = train.user_codes == user, noisy.user_codes == user
        assert set(noisy.matrix.data[all_of_them]) <= set(train.matrix.data[own]), "weights are the user's own"
        times = noisy.columns["timestamp"][all_of_them]
        assert times.min() >= train.columns["timestamp"][own].min()
        assert times.max() <= train.columns["timestamp"][own].max()


@given(data=interactions(max_users=12, max_items=20, min_size=4), ratio=RATIOS, seed=st.integers(0, 3))
def test_noise_that_is_swapped_in(data: Interactions, ratio: float, seed: int) -> None:
    train = split_by_user(data, (0.7, 0.3)).train
    try:
        noisy = inject_noise(train, ratio, "swap", seed)
    except InputError:
        assume(False)  # small matrices are often too full to swap anything; the test below has none that is
    check_noise(train, noisy.interactions, noisy.is_noise, round(ratio * len(train)))
    np.testing.assert_array_equal(noisy.interactions.activity, train.activity)
    np.testing.assert_array_equal(noisy.interactions.popularity, train.popularity)
    true = pairs_of(noisy.interactions.select(~noisy.is_noise))
    assert true <= pairs_of(train)
    assert len(true) == len(train) - noisy.is_noise.sum()
    assert held_out_of(noisy.interactions) >= pairs_of(train) - true, "what was swapped away is known to be true"


def test_swapping_finds_a_way_around_items_that_nearly_everybody_has() -> None:
    rng = np.random.default_rng(0)
    chance = np.clip(rng.lognormal(-2, 1, 150), 0.02, 0.9)
    chance[0] = 0.9
    data = Interactions.from_matrix(csr_array(rng.random((200, 150)) < chance))
    for seed in range(10):
        assert inject_noise(data, 0.1, "swap", seed).is_noise.sum() == round(0.1 * len(data))
    half = Interactions.from_matrix(csr_array(rng.random((1000, 50)) < 0.5))
    noisy = inject_noise(half, 0.5, "swap")
    assert noisy.is_noise.sum() == round(0.5 * len(half))
    false = pairs_of(noisy.interactions.select(noisy.is_noise))
    assert len(false) == noisy.is_noise.sum()
    assert not false & pairs_of(half)
    full = Interactions.from_matrix(csr_array(rng.random((300, 300)) < 0.9))
    with pytest.raises(InputError, match=r"ratio asks for 16,\d+ false interactions, but only \d,\d+ pairs are free"):
        inject_noise(full, 0.2, "swap")


@pytest.mark.parametrize("ratio", [0.05, 0.2])
def test_swapping_works_on_data_of_usual_density(ratio: float) -> None:
    clicks = make_cinema().interactions
    noisy = inject_noise(clicks, ratio, "swap", seed=1)
    assert noisy.is_noise.sum() == round(ratio * len(clicks))
    np.testing.assert_array_equal(noisy.interactions.popularity, clicks.popularity)


def test_noise_follows_activity_and_popularity() -> None:
    clicks = make_cinema(500, 2000, seed=2).interactions
    false = {}
    for kind in ("uniform", "popularity"):
        noisy = inject_noise(clicks, 0.5, kind, seed=0)
        false[kind] = noisy.interactions.select(noisy.is_noise)
        # Users in proportion to activity, less what those who have nearly everything popular have no room for.
        assert np.corrcoef(false[kind].activity, clicks.activity)[0, 1] > 0.85
    assert np.corrcoef(false["popularity"].popularity, clicks.popularity)[0, 1] > 0.8
    # Uniform over items: popular films get no more than others, less what they have no room for.
    assert np.corrcoef(false["uniform"].popularity, clicks.popularity)[0, 1] < 0.05


def test_draws_and_enumeration_have_the_same_distribution() -> None:
    # User 0 has three clicks of four, items 0..3 have popularity 3, 1, 1, 0 (user 1 has item 0; user 2 items 0 and 1).
    data = Interactions.from_table(pa.table({"user": [0, 0, 1, 2, 2], "item": [0, 2, 0, 0, 1], "timestamp": [0] * 5}))
    from prorec.data.noise_injection import _draw_by_enumeration, _taken_pairs

    listed = [
        int(_draw_by_enumeration(data, _taken_pairs(data), 1, "popularity", np.random.default_rng(at))[0])
        for at in range(2000)
    ]
    drawn = []
    for at in range(2000):
        noisy = inject_noise(data, 0.2, "popularity", seed=at)
        (where,) = np.flatnonzero(noisy.is_noise)
        drawn.append(int(noisy.interactions.user_codes[where] * 3 + noisy.interactions.item_codes[where]))
    # Free: (0,1) weighs 2·1, (1,1) 1·1, (1,2) 1·1, (2,2) 2·1; together 6.
    for counts in (np.bincount(listed, minlength=9), np.bincount(drawn, minlength=9)):
        np.testing.assert_allclose(counts / 2000, np.array([0, 2, 0, 0, 1, 1, 0, 0, 2]) / 6, atol=0.04)


@pytest.mark.parametrize("kind", ["uniform", "popularity"])
def test_nothing_but_the_pair_gives_noise_away(kind: str) -> None:
    clicks = make_cinema(400, 300).interactions
    drawn = np.random.default_rng(0).integers(1, 6, (2, len(clicks)))
    clicks = replace(clicks, columns={**clicks.columns, "rating": drawn[0]}).with_weights(drawn[1])
    noisy = inject_noise(clicks, 0.2, kind, seed=0)  # type: ignore[arg-type]
    data, times = noisy.interactions, noisy.interactions.columns["timestamp"]
    order = np.lexsort([times, data.user_codes])
    same = (np.diff(times[order]) == 0) & (np.diff(data.user_codes[order]) == 0)
    shares_a_time = np.zeros(len(data))
    shares_a_time[order[1:][same]] = 1
    assert set(np.unique(data.columns["rating"][noisy.is_noise])) == {1, 2, 3, 4, 5}
    for score in (data.matrix.data, data.columns["rating"], shares_a_time, times - times.mean()):
        assert abs(detection_metrics(score, noisy.is_noise)["auroc"] - 0.5) < 0.03


@pytest.mark.parametrize("dtype", ["int64", "float64", "datetime64[s]", "datetime64[ns]", "datetime64[D]"])
def test_times_of_any_kind(dtype: str) -> None:
    days = np.array([10, 20, 30, 40]).astype(dtype)
    data = Interactions.from_table(pa.table({"user": [1, 1, 2, 2], "item": [1, 2, 3, 4], "timestamp": days}))
    noisy = inject_noise(data, 0.5).interactions
    assert noisy.columns["timestamp"].dtype == data.columns["timestamp"].dtype
    assert (noisy.columns["timestamp"][noisy.user_codes == 1] >= days[2]).all()


def test_free_pairs_are_enumerated_if_draws_hardly_find_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # Two items that everybody has, and few others: nearly every draw by popularity falls on a taken pair.
    everybody, few = np.arange(400), np.arange(0, 400, 50)
    users = np.concatenate([everybody, everybody, few])
    items = np.concatenate([0 * everybody, 0 * everybody + 1, few + 2])
    data = Interactions.from_table(pa.table({"user": users, "item": items}))
    monkeypatch.setattr("prorec.data.noise_injection._BLOCK", 50 * data.n_items)
    noisy = inject_noise(data, 3.0, "popularity")
    assert noisy.is_noise.sum() == 3 * len(data)
    with pytest.raises(InputError, match="ratio asks for"):
        inject_noise(data, 1e9)
    idle = Interactions.from_matrix(csr_array(np.array([[1, 0, 1], [0, 0, 0]])))
    with pytest.raises(InputError, match="ratio asks for 2 false interactions, but only 1 pairs are free"):
        inject_noise(idle, 1.0)  # the other free ones are of a user who does nothing


def test_other_columns_are_dropped() -> None:
    noisy = inject_noise(make_cinema(100, 100).interactions, 0.1)
    assert set(noisy.interactions.columns) == {"timestamp"}


def test_bad_input_is_refused() -> None:
    data = Interactions.from_table(pa.table({"user": [1, 2], "item": [1, 2]}))
    for ratio in (-0.1, float("nan"), float("inf")):
        with pytest.raises(InputError, match="ratio must be a finite number of at least 0"):
            inject_noise(data, ratio)
    with pytest.raises(InputError, match=r"ratio must be a finite number from 0 to 1; got 1\.5"):
        inject_noise(data, 1.5, "swap")
    with pytest.raises(InputError, match="kind must be one of"):
        inject_noise(data, 0.1, "salt")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="needs pairs that were rated low"):
        inject_noise(data, 0.5, "disliked")
    with pytest.raises(InputError, match="1 of 2 interactions could not be swapped"):
        inject_noise(data, 0.5, "swap")
    watched_by_most = make_cinema(100, 100).interactions
    with pytest.raises(InputError, match=r"only [\d,]+ could be. Lower the ratio"):
        inject_noise(watched_by_most, 1.0, "swap")


@pytest.mark.real_data("ml-100k")
@pytest.mark.parametrize("kind", ["uniform", "popularity", "swap", "disliked"])
def test_on_movielens(kind: str) -> None:
    parts = split_by_user(load_dataset("ml-100k"), (0.5, 0.2, 0.3))
    noisy = inject_noise(parts.train, 0.2, kind)  # type: ignore[arg-type]
    assert noisy.is_noise.sum() == round(0.2 * len(parts.train))
    false = pairs_of(noisy.interactions.select(noisy.is_noise))
    assert not false & (pairs_of(parts.train) | pairs_of(parts.valid) | pairs_of(parts.test))
    if kind == "disliked":
        low = load_dataset("ml-100k", min_rating=None)
        pairs = zip(low.users[low.user_codes], low.items[low.item_codes], strict=True)
        ratings = dict(zip(pairs, low.columns["rating"], strict=True))
        assert {ratings[parts.train.users[u], parts.train.items[i]] for u, i in false} <= {1, 2, 3}
