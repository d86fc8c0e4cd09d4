"""Extreme accounts: kept out of the fit of NoiseFinder, reported, and scored afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import prorec
from prorec import DamagedFileError, InputError, Interactions, NoiseFinder, ProRec, inject_noise, make_cinema
from prorec.data.noisy_interactions import NoisyInteractions
from prorec.noise.finder_state import finder_state, restore_finder

N_BOTS, N_TESTS = 2, 3


@pytest.fixture(scope="module")
def shop() -> NoisyInteractions:
    """Random clicks among the clicks of 600 people."""
    clean = make_cinema(600, 500, mistake_rate=0.0, seed=3).interactions
    return inject_noise(replace(clean, columns={}), 0.1, seed=1)


@pytest.fixture(scope="module")
def with_bots(shop: NoisyInteractions) -> Interactions:
    """The shop with two bots that clicked nine tenths of the catalogue, and three tests of a third of it each."""
    rng, clicks = np.random.default_rng(0), shop.interactions
    matrix = clicks.matrix.toarray()
    bots = (rng.random((N_BOTS, clicks.n_items)) < 0.9).astype(np.float32)
    tests = np.zeros((N_TESTS, clicks.n_items), dtype=np.float32)
    for index, row in enumerate(tests):
        row[150 * index : 150 * index + 170] = 1
    return Interactions.from_matrix(csr_array(np.vstack([matrix, bots, tests])))


@pytest.fixture(scope="module")
def alone(shop: NoisyInteractions) -> NoiseFinder:
    return NoiseFinder(folds=5).fit(Interactions.from_matrix(shop.interactions.matrix))


@pytest.fixture(scope="module")
def finder(with_bots: Interactions) -> NoiseFinder:
    return NoiseFinder(folds=5).fit(with_bots)


def test_five_accounts_do_not_blind_the_finder(
    shop: NoisyInteractions, alone: NoiseFinder, finder: NoiseFinder, with_bots: Interactions
) -> None:
    n, n_people = len(shop.interactions), shop.interactions.n_users
    np.testing.assert_array_equal(np.flatnonzero(finder.issues_.is_extreme), n_people + np.arange(N_BOTS + N_TESTS))
    assert len(with_bots) - n > 0.05 * n, "these accounts are a large part of the log"
    # The folds differ, because there are more users.
    assert np.abs(finder.noise_probability_[:n] - alone.noise_probability_).mean() < 0.015
    assert finder.noise_rate_.estimate == pytest.approx(alone.noise_rate_.estimate, abs=0.01)
    flags, flags_alone = finder.flag(fdr=0.4), alone.flag(fdr=0.4)
    assert flags_alone.any()
    assert (flags[:n] != flags_alone).mean() < 0.02
    assert flags[n:].all()
    assert finder.noise_probability_[n:].min() > 0.98
    assert 0 < np.count_nonzero(finder.flag(n=100)) <= 100


def test_tables_of_users_and_items(finder: NoiseFinder, with_bots: Interactions) -> None:
    users = finder.users("pandas")
    assert set(users["user"][:5]) == set(with_bots.users[-5:])
    assert users["extreme"][:5].all()
    assert not users["extreme"][5:].any()
    assert finder.items().num_rows == with_bots.n_items
    table = finder.table("pandas")
    assert set(table.loc[table["basis"] == "account", "user"]) == set(with_bots.users[-5:])
    assert "5 extreme accounts" in finder._summary()["kept out of the fit"]


def test_later_clicks_of_extreme_accounts_are_noise(finder: NoiseFinder, with_bots: Interactions) -> None:
    bot = with_bots.n_users - N_TESTS - 1
    unseen = np.flatnonzero(with_bots.matrix[[bot]].toarray().ravel() == 0)[:5]
    later = Interactions.from_table(pa.table({"user": [bot] * 5 + [0], "item": [*unseen, unseen[0]]}))
    rows = finder.score(later, "pandas")
    is_bot = rows["user"] == bot
    assert (rows.loc[is_bot, "basis"] == "account").all()
    assert (rows.loc[is_bot, "noise_probability"] > 0.98).all()
    assert (rows.loc[~is_bot, "basis"] != "account").all()


def test_saved_finders_keep_their_issues(finder: NoiseFinder, with_bots: Interactions) -> None:
    parameters, arrays = finder_state(finder)
    restored = restore_finder(parameters, arrays, with_bots)
    assert restored.users().equals(finder.users())
    assert restored.items().equals(finder.items())
    later = Interactions.from_table(pa.table({"user": [1, 2, 3, 601], "item": [7, 8, 9, 10]}))
    np.testing.assert_allclose(
        restored.score(later, "pandas")["noise_probability"], finder.score(later, "pandas")["noise_probability"]
    )
    for name in ("is_extreme", "user_issue.account", "item_issue.pushed_item", "popularity"):
        with pytest.raises(DamagedFileError, match="damaged"):
            restore_finder(parameters, arrays | {name: arrays[name][:-1]}, with_bots)


def test_denoisers_flag_and_save_extreme_accounts(with_bots: Interactions, tmp_path: Path) -> None:
    denoiser = ProRec(prorec.models.NCE(rank=8), noise_method=NoiseFinder(folds=3), fdr=0.2).fit(with_bots)
    is_extreme = denoiser.finder_.issues_.is_extreme[with_bots.user_codes]
    assert denoiser.flagged_[is_extreme].all()
    np.testing.assert_array_equal(denoiser.flagged_, denoiser.finder_.flag(fdr=0.2))
    denoiser.save(tmp_path / "model")
    loaded = prorec.load(tmp_path / "model")
    assert isinstance(loaded, ProRec)
    assert loaded.finder_.users().equals(denoiser.finder_.users())
    np.testing.assert_array_equal(loaded.flagged_, denoiser.flagged_)


def test_nothing_but_bots_is_called_noise_or_unknown() -> None:
    rng = np.random.default_rng(0)
    finder = NoiseFinder(folds=3).fit(csr_array((rng.random((200, 150)) < 0.4).astype(np.float32)))
    assert finder.noise_rate_.high > 0.9
    assert not finder.issues_.can_tell


def test_nothing_left_without_bots_is_refused() -> None:
    people, bots = np.zeros((300, 400), dtype=np.float32), np.zeros((60, 400), dtype=np.float32)
    people[np.arange(300), np.arange(300)] = 1
    for seed, row in enumerate(bots):
        row[np.random.default_rng(seed).permutation(400)[:90]] = 1
    with pytest.raises(InputError, match="60 of 360 accounts look like bots or tests, which leaves 300 inter"):
        NoiseFinder(folds=3).fit(csr_array(np.vstack([people, bots])))


def test_times_that_are_row_numbers_make_nobody_a_bot() -> None:
    clicks = make_cinema(200, 150).interactions
    rows = np.concatenate([np.arange(each) for each in clicks.activity]).astype(np.float64)
    issues = prorec.noise.find_issues(replace(clicks, columns={"timestamp": rows}))
    assert not issues.user_scores["regular_times"].any()
    assert not issues.is_extreme.any()
