"""Conformal p-values and the interactions that are kept by them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import prorec
from prorec import InputError, NoiseFinder
from prorec.models import SVD
from prorec.noise.keeping import conformal_p_values, keep_interactions


@given(st.integers(0, 1000))
def test_p_value_is_a_share_of_negatives(seed: int) -> None:
    rng = np.random.default_rng(seed)
    clicks, negatives = rng.integers(0, 6, size=8).astype(float), rng.integers(0, 6, size=12).astype(float)
    popularity = rng.integers(1, 9, size=12).astype(float)
    relative = popularity / popularity.mean()
    for value, p in zip(clicks, conformal_p_values(clicks, negatives, popularity), strict=True):
        at_least = negatives >= value
        expected = max((1 + at_least.sum()) / 13, (1 + relative[at_least].sum()) / 13)
        assert p == pytest.approx(min(expected, 1), rel=1e-6)


def test_kept_are_those_of_benjamini_and_hochberg() -> None:
    """The example of their paper's section 3.1: four of fifteen hypotheses are rejected at 5%."""
    p_values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719]
    p = np.array([*p_values, 0.6528, 0.7590, 1.0], dtype=np.float32)
    assert keep_interactions(p, 0.05).sum() == 4
    assert keep_interactions(p, 0.05, noise_rate=0.01).all()
    with pytest.raises(InputError, match="max_noise must be above 0 and below 1"):
        keep_interactions(p, 0.0)


def test_p_values_of_random_clicks_are_uniform() -> None:
    """Where all clicks are noise, no p-value is too small more often than it should be."""
    clicks = csr_array((np.random.default_rng(1).random((300, 120)) < 0.1).astype(np.float32))
    finder = NoiseFinder(SVD(rank=4), folds=5).fit(clicks)
    for level in (0.02, 0.1, 0.3, 0.6):
        assert (finder.noise_p_value_ <= level).mean() < level + 0.02
    assert finder.keep(0.2).mean() < 0.02


def test_kept_interactions_are_genuine_in_the_mean_over_seeds() -> None:
    shares, kept = [], []
    for seed in range(4):
        clean = prorec.make_cinema(250, 150, seed=seed, mistake_rate=0.0).interactions
        noisy = prorec.inject_noise(clean, 0.2, "popularity" if seed % 2 else "uniform", seed=seed)
        keep = NoiseFinder(SVD(rank=4), folds=4, seed=seed).fit(noisy.interactions).keep(0.05)
        shares.append(noisy.is_noise[keep].mean())
        kept.append(keep[~noisy.is_noise].mean())
    assert np.mean(shares) <= 0.05
    assert np.mean(kept) > 0.3
