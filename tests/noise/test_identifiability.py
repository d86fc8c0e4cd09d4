"""Logs that cannot tell their noise."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import prorec
from prorec import Interactions, NoiseFinder
from prorec.noise.identifiability import MIN_AUC, auc_within_popularity, restrict_to_identified
from prorec.noise.noise_rate import LabeledPairs, estimate_noise_rate
from tests.noise.test_noise_rate import make_mixture


def make_purchases(seed: int = 0) -> Interactions:
    """Return purchases by popularity, one to four for each customer."""
    rng = np.random.default_rng(seed)
    popularity = 1 / (np.arange(400) + 5.0)
    users = np.repeat(np.arange(4_000), rng.integers(1, 5, size=4_000))
    items = rng.choice(400, size=len(users), p=popularity / popularity.sum())
    return Interactions.from_table(pa.table({"user": users, "item": items}))


@pytest.fixture(scope="module")
def purchases() -> NoiseFinder:
    return NoiseFinder(prorec.models.SVD(rank=4), folds=3).fit(make_purchases())


def test_purchases_by_popularity_have_an_upper_bound_and_no_flags(purchases: NoiseFinder) -> None:
    rate = purchases.noise_rate_
    assert not rate.is_identified
    assert rate.low == 0
    assert str(rate) == f"at most {rate.high:.1%}"
    for fdr in (0.1, 0.4, 0.9):
        assert not purchases.flag(fdr=fdr).any()
    assert not purchases.keep(0.05).any(), "nothing shows that a purchase is genuine"
    assert purchases.posterior_.noise_rate_line.by_popularity == 0, "popular purchases are not taken for noise"
    assert "at most" in repr(purchases) or "at most" in purchases._repr_html_()


def test_injected_noise_is_scored_as_purchases_are(purchases: NoiseFinder) -> None:
    """By popularity alone, which finds noise on rare items, and knows nothing of noise on popular ones."""
    uniform, by_popularity = purchases.injection_checks_
    assert uniform.auroc > 0.7
    assert by_popularity.auroc < 0.6
    assert set(purchases.table()["basis"].to_pylist()) == {"popularity"}


def test_a_film_club_can_tell_its_noise() -> None:
    finder = NoiseFinder(prorec.models.SVD(rank=4), folds=3).fit(prorec.make_cinema(300, 200, seed=1).interactions)
    assert finder.noise_rate_.is_identified


def test_the_auc_is_within_popularity() -> None:
    rng = np.random.default_rng(0)
    popularity = rng.integers(1, 6, size=20_000).astype(float)
    is_click = rng.random(20_000) < popularity / 8
    x = rng.normal(is_click * 1.0)
    pairs = LabeledPairs(x + 9 * popularity, popularity, is_click)
    expected = [
        (x[is_click & (popularity == p)][:, None] > x[~is_click & (popularity == p)]).mean() for p in range(1, 6)
    ]
    weights = [np.count_nonzero(is_click & (popularity == p)) for p in range(1, 6)]
    assert auc_within_popularity(pairs) == pytest.approx(np.average(expected, weights=weights))
    few = LabeledPairs(np.zeros(4), np.ones(4), np.arange(4) < 2)
    assert auc_within_popularity(few) == 0.5


def test_the_estimate_is_replaced_only_where_popularity_explains_all() -> None:
    clear = make_mixture(0.1, 0)
    estimate = estimate_noise_rate(clear)
    assert restrict_to_identified(clear, *estimate, 3) == estimate
    blind = clear._replace(log_ratio=np.log(clear.popularity))
    line, rate = restrict_to_identified(blind, *estimate_noise_rate(blind), 99)
    assert not rate.is_identified
    assert rate.low == line.by_popularity == 0 < line.uniform < rate.high


def test_much_noise_is_told_where_histories_are_long() -> None:
    noisy = make_mixture(0.3, 0, distance=1.0)
    estimate = estimate_noise_rate(noisy)
    assert auc_within_popularity(noisy) < MIN_AUC
    assert restrict_to_identified(noisy, *estimate, 30) == estimate
    assert not restrict_to_identified(noisy, *estimate, 3)[1].is_identified
