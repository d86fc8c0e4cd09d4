"""The noise rate and its interval, on mixtures with a known rate."""

from __future__ import annotations

import numpy as np
import pytest

from prorec.noise.noise_rate import LabeledPairs, NoiseRateEstimate, estimate_noise_rate


def make_mixture(
    noise_rate: float, seed: int, *, by_popularity: bool = False, n: int = 20_000, distance: float = 2.0
) -> LabeledPairs:
    """Return pairs whose f/f₀ is known up to the noise rate.

    x is N(distance, 1) for true clicks, and N(0, 1) for negatives and noise. The popularity of negatives is Γ(1); that
    of true clicks is Γ(2), which is Γ(1) in proportion to popularity.
    """
    rng = np.random.default_rng(seed)
    is_noise = rng.random(n) < noise_rate
    of_noise = rng.gamma(2.0 if by_popularity else 1.0, 20.0, size=n)
    of_clicks = np.where(is_noise, of_noise, rng.gamma(2.0, 20.0, size=n))
    popularity = np.concatenate([of_clicks, rng.gamma(1.0, 20.0, size=2 * n)])
    x = np.concatenate([rng.normal(np.where(is_noise, 0.0, distance)), rng.normal(size=2 * n)])
    genuine = popularity / 20 * np.exp(distance * x - distance**2 / 2)
    h = noise_rate * (popularity / 20 if by_popularity else 1.0)
    return LabeledPairs(np.log((1 - noise_rate) * genuine + h + 1e-12), popularity, np.arange(3 * n) < n)


@pytest.mark.parametrize("by_popularity", [False, True])
@pytest.mark.parametrize("noise_rate", [0.0, 0.05, 0.2, 0.5])
def test_estimate_of_a_known_mixture(noise_rate: float, by_popularity: bool) -> None:
    line, estimated = estimate_noise_rate(make_mixture(noise_rate, 1, by_popularity=by_popularity))
    assert estimated.estimate == pytest.approx(noise_rate, abs=0.02, rel=0.1)
    assert estimated.low <= estimated.estimate <= estimated.high
    assert line.uniform + line.by_popularity == pytest.approx(estimated.estimate)
    if noise_rate:
        assert (line.by_popularity > line.uniform) == by_popularity


def test_interval_contains_the_rate_nine_times_out_of_ten() -> None:
    """Forty mixtures of 1,500 to 12,000 clicks, of easy and hard clicks and of both kinds of noise."""
    n_covered = 0
    for seed in range(40):
        rate = (0.05, 0.1, 0.2, 0.3)[seed % 4]
        pairs = make_mixture(
            rate, seed, by_popularity=seed % 8 > 3, n=1_500 * 2 ** (seed % 4), distance=(1.5, 3.0)[seed // 8 % 2]
        )
        estimated = estimate_noise_rate(pairs)[1]
        n_covered += estimated.low <= rate <= estimated.high
    assert n_covered >= 36


def test_few_clicks_have_a_wide_interval() -> None:
    narrow, wide = (estimate_noise_rate(make_mixture(0.1, 5, n=n))[1] for n in (40_000, 400))
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_no_click_in_the_tail_leaves_an_upper_bound() -> None:
    is_click = np.arange(900) < 300
    pairs = LabeledPairs(np.where(is_click, 5.0, -5.0), np.ones(900), is_click)
    _, noise_rate = estimate_noise_rate(pairs)
    assert noise_rate.low < 0.005
    assert 0.01 < noise_rate.high < 0.1


def test_random_clicks_are_all_noise() -> None:
    rng = np.random.default_rng(0)
    pairs = LabeledPairs(rng.normal(size=30_000), np.ones(30_000), np.arange(30_000) < 10_000)
    assert estimate_noise_rate(pairs)[1].high > 0.97


def test_ties_and_two_pairs_have_finite_estimates() -> None:
    for n in (1, 50):
        pairs = LabeledPairs(np.zeros(2 * n), np.ones(2 * n), np.arange(2 * n) < n)
        _, noise_rate = estimate_noise_rate(pairs)
        assert 0 <= noise_rate.low <= noise_rate.estimate <= noise_rate.high <= 1


def test_lower_bound_of_probabilities() -> None:
    assert NoiseRateEstimate(0.2, 0.15, 0.3).low_ratio == pytest.approx(0.75)
    assert NoiseRateEstimate(0.0, 0.0, 0.3).low_ratio == 0
