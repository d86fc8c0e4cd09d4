"""Weights and noise probabilities by the formulas, worked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec.denoise.weighting import plan_noise_probability, update_weights
from prorec.transport import Matching

R = np.array([0.5, 1 / (1 + np.e), np.e / (1 + np.e)])  # margins 0, −.5 and .5, times β = 2
CLEAN = np.array([0.9, 0.2, 0.6], dtype=np.float32)
X, X0 = np.array([1, 0.5, 0.8]), np.array([1, 1, 0.9])


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        ({}, R),
        ({"clean_probability": CLEAN, "weighting": "probability"}, CLEAN),
        ({"clean_probability": CLEAN, "weighting": "both"}, CLEAN * R),
    ],
    ids=["plan", "probability", "both"],
)
def test_weights_by_hand(settings: dict[str, Any], label: np.ndarray) -> None:
    pattern = np.array([0, 2, 1]), np.array([0, 2, 3])
    weights, original = (csr_array((x.astype(np.float32), *pattern), shape=(2, 3)) for x in (X, X0))
    threshold, shares = np.array([0.6, 0.2], dtype=np.float32), np.array([0.6, 0.1, 0.7], dtype=np.float32)
    matching = Matching.from_arrays(weights, np.array([1, 2]), threshold, shares)
    current = update_weights(weights, matching, 2, 0.25, **settings)
    np.testing.assert_allclose(current, 0.25 * X + 0.75 * label * X, rtol=1e-6)
    anchored = update_weights(weights, matching, 2, 0.25, original=original, **settings)
    np.testing.assert_allclose(anchored, 0.25 * X + 0.75 * label * X0, rtol=1e-6)


def test_noise_probability_by_the_plan() -> None:
    # ε/N = .1/20 = .005 against .9·ρ = 0, .005 and .045
    shares = np.array([0, 0.005 / 0.9, 0.05], dtype=np.float32)
    np.testing.assert_allclose(plan_noise_probability(shares, 20), [1, 0.5, 0.1], rtol=1e-6)
