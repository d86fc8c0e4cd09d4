"""Estimators of the noise rate on mixtures of known shares."""

from __future__ import annotations

import numpy as np
import pytest

from prorec.noise.noise_rate import LabeledPairs
from reproduction.noise_rate_baselines import ESTIMATORS, estimate_noise_rates


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5])
def test_mixtures_of_normal_distributions(name: str, rate: float) -> None:
    rng = np.random.default_rng(0)
    n_noise = round(20_000 * rate)
    clicks = np.append(rng.normal(3, 1, n_noise), rng.normal(-3, 1, 20_000 - n_noise))
    assert ESTIMATORS[name](clicks, rng.normal(3, 1, 40_000)) == pytest.approx(rate, abs=0.03)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_clicks_that_are_all_noise(name: str) -> None:
    rng = np.random.default_rng(1)
    assert ESTIMATORS[name](rng.normal(0, 1, 5_000), rng.normal(0, 1, 10_000)) > 0.9


def test_all_get_the_log_ratio_the_other_way_round() -> None:
    rng = np.random.default_rng(2)
    log_ratio = np.concatenate([rng.normal(4, 1, 9_000), rng.normal(-4, 1, 21_000)])
    rates = estimate_noise_rates(LabeledPairs(log_ratio, np.ones(30_000), np.arange(30_000) < 10_000))
    assert rates == pytest.approx(dict.fromkeys(ESTIMATORS, 0.1), abs=0.02)
