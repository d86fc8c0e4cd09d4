from __future__ import annotations

from typing import get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from prorec import InputError, Interactions, inject_noise, make_cinema, split_by_user
from prorec.data.account_injection import ACCOUNT_KINDS, AccountKind
from tests.strategies import interactions


@pytest.mark.parametrize("kind", ACCOUNT_KINDS)
@given(data=interactions(min_size=2), ratio=st.sampled_from([0.0, 0.3, 1.0, 2.0]), seed=st.integers(0, 3))
def test_accounts_are_added_and_marked(kind: AccountKind, data: Interactions, ratio: float, seed: int) -> None:
    train = split_by_user(data, (0.6, 0.4)).train
    noisy = inject_noise(train, ratio, kind, seed)
    result = noisy.interactions
    n_accounts = round(ratio * np.count_nonzero(train.activity))
    assert result.n_users == train.n_users + n_accounts
    np.testing.assert_array_equal(noisy.is_injected_user, np.arange(result.n_users) >= train.n_users)
    np.testing.assert_array_equal(noisy.is_noise, noisy.is_injected_user[result.user_codes])
    assert (result.activity[noisy.is_injected_user] > 0).all()
    assert len(set(result.users.tolist())) == result.n_users
    kept = result.select(~noisy.is_noise)
    np.testing.assert_array_equal(kept.matrix[: train.n_users].toarray(), train.matrix.toarray())
    for name, values in train.columns.items():
        np.testing.assert_array_equal(kept.columns[name], values)
    times = result.columns["timestamp"]
    assert times.min() >= train.columns["timestamp"].min()
    assert times.max() <= train.columns["timestamp"].max()
    assert inject_noise(train, ratio, kind, seed).interactions.equals(result)


def history(noisy: Interactions, user: int) -> np.ndarray:
    own = slice(noisy.matrix.indptr[user], noisy.matrix.indptr[user + 1])
    return noisy.item_codes[own][np.argsort(noisy.columns["timestamp"][own], kind="stable")]


def test_bots_click_over_the_whole_catalogue_at_regular_times() -> None:
    clicks = make_cinema().interactions
    noisy = inject_noise(clicks, 0.05, "bots")
    activity = noisy.interactions.activity[noisy.is_injected_user]
    assert len(activity) == 50
    assert activity.min() >= np.quantile(clicks.activity, 0.99) - 1
    assert activity.max() <= 0.95 * clicks.n_items
    own = noisy.interactions.user_codes == np.flatnonzero(noisy.is_injected_user)[0]
    gaps = np.diff(np.sort(noisy.interactions.columns["timestamp"][own]))
    assert np.ptp(gaps) <= 1
    popularity = noisy.interactions.select(noisy.is_noise).popularity
    assert abs(np.corrcoef(popularity, clicks.popularity)[0, 1]) < 0.15


def test_test_accounts_repeat_few_items_or_walk_in_item_order() -> None:
    noisy = inject_noise(make_cinema().interactions, 0.02, "tests")
    accounts = np.flatnonzero(noisy.is_injected_user)
    repeated = [set(history(noisy.interactions, user).tolist()) for user in accounts[::2]]
    assert len(set.union(*repeated)) <= 12
    assert all(6 <= len(each) <= 12 for each in repeated)
    n_items = noisy.interactions.n_items
    for user in accounts[1::2]:
        steps = np.diff(np.sort(noisy.interactions.item_codes[noisy.interactions.user_codes == user]))
        assert np.count_nonzero(steps != 1) <= 1, "a walk may pass the end of the catalogue once"
        assert 20 <= len(steps) + 1 <= min(200, n_items)


def test_attackers_click_the_target_and_differ_in_fillers() -> None:
    clicks = make_cinema().interactions
    popularity = {}
    for kind in ("random-attack", "average-attack", "bandwagon-attack"):
        noisy = inject_noise(clicks, 0.05, kind)
        (target,) = noisy.target_items
        assert clicks.popularity[target] <= np.median(clicks.popularity)
        attackers = noisy.interactions.matrix[noisy.is_injected_user].toarray() > 0
        assert attackers[:, target].all()
        assert attackers.sum(axis=1).min() >= np.median(clicks.activity)
        popularity[kind] = attackers @ clicks.popularity / attackers.sum(axis=1)
    top = np.argsort(-clicks.popularity, kind="stable")[:5]
    assert attackers[:, top].all(), "bandwagon attackers click the most popular items"
    assert popularity["random-attack"].mean() < popularity["bandwagon-attack"].mean()
    assert popularity["random-attack"].mean() < popularity["average-attack"].mean()


def test_bursts_are_short_and_clones_are_alike() -> None:
    clicks = make_cinema().interactions
    noisy = inject_noise(clicks, 0.05, "bursts")
    times = noisy.interactions.columns["timestamp"]
    assert np.ptp(times[noisy.is_noise]) <= np.ptp(times) / 1000 + 1
    noisy = inject_noise(clicks, 0.05, "clones")
    matrix = (noisy.interactions.matrix.toarray() > 0).astype(int)
    clones = matrix[noisy.is_injected_user]
    shared = (clones @ matrix[~noisy.is_injected_user].T).max(axis=1) / clones.sum(axis=1)
    assert (shared >= 0.85).all()
    assert (shared < 1).any()


@pytest.mark.parametrize("dtype", ["int64", "float64", "datetime64[s]", "datetime64[ns]"])
def test_times_keep_their_type(dtype: str) -> None:
    days = np.array([10, 20, 30, 40]).astype(dtype)
    data = Interactions.from_table(pa.table({"user": [1, 1, 2, 2], "item": [1, 2, 3, 4], "timestamp": days}))
    noisy = inject_noise(data, 1.0, "bots").interactions
    assert noisy.columns["timestamp"].dtype == data.columns["timestamp"].dtype


def test_text_ids_and_held_out_pairs_are_extended() -> None:
    table = pa.table({"user": ["ann", "ann", "bob", "injected-0"], "item": ["a", "b", "a", "c"]})
    data = Interactions.from_table(table)
    data = data.with_held_out(Interactions.from_table(pa.table({"user": ["bob"], "item": ["c"]})))
    noisy = inject_noise(data, 1.0, "clones")
    assert noisy.interactions.n_users == len(set(noisy.interactions.users)) == 6
    assert noisy.interactions.held_out is not None
    assert noisy.interactions.held_out.shape == (6, 3)
    assert "3 injected users" in repr(noisy)


def test_bad_input_is_refused() -> None:
    data = Interactions.from_matrix(csr_array(np.eye(3)))
    with pytest.raises(InputError, match="ratio asks for"):
        inject_noise(data, 1e12, "bots")
    with pytest.raises(InputError, match="there is no interaction"):
        inject_noise(data.select(np.zeros(3, dtype=bool)), 0.1, "tests")
    with pytest.raises(InputError, match="ratio must be"):
        inject_noise(data, -1, "clones")
    largest = Interactions.from_matrix(csr_array(np.eye(2)), users=[0, 2**63 - 1])
    with pytest.raises(InputError, match="use text as ids"):
        inject_noise(largest, 1.0, "tests")
    assert set(get_args(AccountKind)) == set(ACCOUNT_KINDS)
