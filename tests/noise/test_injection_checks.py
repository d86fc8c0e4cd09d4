"""Noise injected into pairs of which it is known how much noise they hold."""

from __future__ import annotations

import numpy as np
import pytest

from prorec.noise.injection_checks import InjectionCheck, describe_checks, inject_into_pairs
from prorec.noise.noise_rate import LabeledPairs
from tests.noise.test_noise_rate import make_mixture


def test_injected_noise_raises_the_estimate_by_its_share() -> None:
    for check in inject_into_pairs(make_mixture(0.05, 3), np.random.default_rng(0)):
        assert check.injected == pytest.approx(0.1 / 1.1, abs=1e-3)
        assert check.rise == pytest.approx(check.injected, abs=0.035)
        # N(2, 1) against N(0, 1) has an AUC of .92; popularity adds to that for one kind and does not for the other.
        assert 0.85 < check.auroc < 0.96


def test_flags_are_as_wrong_as_they_may_be() -> None:
    for check in inject_into_pairs(make_mixture(0.15, 3, distance=4.0), np.random.default_rng(0)):
        assert check.fdr in (0.1, 0.2)
        assert 0 < check.wrong_flags < check.fdr + 0.03
        assert check.calibration_error < 0.03


def test_nothing_is_flagged_where_the_log_cannot_tell() -> None:
    pairs = make_mixture(0.15, 3, distance=4.0)
    for check in inject_into_pairs(pairs, np.random.default_rng(0), is_identified=False):
        assert (check.fdr, check.wrong_flags) == (0, 0)


def test_all_clicks_look_like_noise() -> None:
    rng = np.random.default_rng(0)
    pairs = LabeledPairs(rng.normal(0, 0.01, 3_000), np.ones(3_000), np.arange(3_000) < 1_000)
    for check in inject_into_pairs(pairs, rng):
        assert all(np.isfinite(value) for value in (check.auroc, check.rise, check.calibration_error))


def test_sentences() -> None:
    uniform = InjectionCheck("uniform", 0.914, 0.09, 0.1, 0.01, fdr=0.2, wrong_flags=0.153)
    popular = InjectionCheck("popularity", 0.8, 0.09, 0.1, 0.01, fdr=0.0, wrong_flags=0.0)
    text = describe_checks([uniform, popular])
    assert "an AUROC of 0.91 if" in text
    assert "and of 0.80 if on popular items" in text
    assert "to a copy of this log" in text, "nobody's log was changed"
