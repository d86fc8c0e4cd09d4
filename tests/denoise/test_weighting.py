"""Weights and noise probabilities by the formulas, and penalties that suit the size of the weights."""

from __future__ import annotations

import numpy as np
import pytest

import prorec
from prorec.denoise.weighting import make_neutral, plan_noise_probability, typical_weight
from prorec.models import BPR, EASE, NCE, SVD, VAE, WRMF, Model, Popularity

CLUB = prorec.make_cinema(300, 120, seed=3).interactions
ONES = np.ones(len(CLUB), dtype=np.float32)
HALVES = ONES / np.float32(2)


def test_noise_probability_by_the_plan() -> None:
    # ε/N = .1/20 = .005 against .9·ρ = 0, .005 and .045
    shares = np.array([0, 0.005 / 0.9, 0.05], dtype=np.float32)
    np.testing.assert_allclose(plan_noise_probability(shares, 20), [1, 0.5, 0.1], rtol=1e-6)


def test_typical_weights_by_hand() -> None:
    original = np.array([1, 1, 0.5, 0.5], dtype=np.float32)
    assert typical_weight(original / np.float32(4), original) == 0.25
    assert typical_weight(np.array([1, 0, 0, 0.5], dtype=np.float32), original) == 1  # removed noise does not count
    # (1·1 + .5·.5) / 1.5, of weights that were 1
    assert typical_weight(np.array([1, 0.5], dtype=np.float32), original[:2]) == pytest.approx(1.25 / 1.5)
    assert typical_weight(np.zeros(4, dtype=np.float32), original) == 1


@pytest.mark.parametrize(
    ("model", "tolerance"),
    [
        (NCE(rank=8, regularization=100.0), 0.0),
        (WRMF(rank=8, alpha=5.0, regularization=10.0, sweeps=60), 0.002),
        (SVD(rank=8), 0.0),
        (Popularity(), 0.0),
        (EASE(regularization=50.0, weight_meaning="value"), 0.0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Model) else "",
)
def test_a_tuned_model_stays_tuned(model: Model, tolerance: float) -> None:
    """With all weights halved, a neutral penalty leaves the recommendations as they are; the own penalty does not."""
    halved = CLUB.with_weights(HALVES)
    whole = model.fit(CLUB).recommend(CLUB.users, k=10).item_positions
    neutral = make_neutral(model, HALVES, ONES).fit(halved)
    assert np.mean(neutral.recommend(CLUB.users, k=10).item_positions != whole) <= tolerance
    assert model.get_params() == type(model)(**model.get_params()).get_params(), "the model itself stays as it is"


@pytest.mark.parametrize("model", [NCE(rank=8, regularization=1e4), WRMF(rank=8, alpha=5.0, regularization=10.0)])
def test_the_own_penalty_is_not_neutral(model: Model) -> None:
    halved = CLUB.with_weights(HALVES)
    whole, half = (model.fit(data).recommend(CLUB.users, k=10).item_positions for data in (CLUB, halved))
    assert np.mean(whole != half) > 0.1


def test_penalties_of_models_without_a_rule_stay() -> None:
    assert make_neutral(VAE(), HALVES, ONES) == VAE()
    assert make_neutral(BPR(), HALVES, ONES) == BPR()  # its penalty is on each step, and steps are fewer
    assert make_neutral(NCE(), ONES * 0, ONES) == NCE()
    tiny = make_neutral(NCE(regularization=1e9), ONES * np.float32(1e-20), ONES)
    assert isinstance(tiny, NCE)
    assert tiny.regularization == pytest.approx(1), "nothing is left to adapt to below a weight of .001"
