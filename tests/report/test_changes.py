"""Changes since an earlier report."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec import InputError, ProRec
from prorec.models import SVD
from prorec.noise.noise_rate import NoiseRateEstimate
from prorec.report.changes import list_changes, read_earlier_report, subtract_rates
from prorec.report.findings import collect_findings

RATE = NoiseRateEstimate(0.1, low=0.08, high=0.13)
SUMMARY: dict[str, Any] = {"interactions": 200, "flagged_pairs": 10, "noise_rate": asdict(RATE), "fdr": 0.1}


def differences(summary: dict[str, Any], rate: NoiseRateEstimate | None = RATE) -> dict[str, str]:
    """Compare a log of 100 clicks, 10 of them flagged."""
    denoiser = ProRec(SVD(rank=1), noise_method="plan").fit(csr_array(np.ones((10, 10))))
    findings = replace(collect_findings(denoiser), flagged=np.arange(100) < 10, noise_rate=rate)
    return {change.name: change.difference for change in list_changes(findings, read_earlier_report(summary))}


def test_differences() -> None:
    assert differences(SUMMARY) == {
        "clicks": "−50.0%",
        "flagged": "+5.0 points",
        "noise rate": "+0.0 points (−3.6 points to +3.6 points): no sure change",
    }
    more = NoiseRateEstimate(0.2, low=0.18, high=0.22)
    assert differences(SUMMARY, more)["noise rate"].endswith("more noise")
    less = NoiseRateEstimate(0.02, low=0.01, high=0.03)
    assert differences(SUMMARY, less)["noise rate"].endswith("less noise")


def test_noise_rates_that_are_not_known() -> None:
    assert differences(SUMMARY, replace(RATE, is_identified=False))["noise rate"] == "not known"
    assert "noise rate" not in differences(SUMMARY, None)
    assert "noise rate" not in differences({**SUMMARY, "noise_rate": None})


def test_interval_covers_the_difference_as_often_as_it_says() -> None:
    """Two shares of 400 draws each, with Wald intervals."""
    rng = np.random.default_rng(0)

    def estimate(share: float) -> NoiseRateEstimate:
        found = rng.binomial(400, share) / 400
        half = 1.96 * np.sqrt(found * (1 - found) / 400)
        return NoiseRateEstimate(found, low=found - half, high=found + half)

    covered = 0
    for _ in range(1000):
        _, low, high = subtract_rates(estimate(0.2), estimate(0.15))
        covered += low <= 0.05 <= high
    assert 0.93 < covered / 1000 < 0.97


@pytest.mark.parametrize(
    "summary",
    [
        None,
        [],
        "text",
        {},
        {**SUMMARY, "interactions": 0},
        {**SUMMARY, "interactions": "200"},
        {**SUMMARY, "flagged_pairs": 201},
        {**SUMMARY, "noise_rate": 0.1},
        {**SUMMARY, "noise_rate": {**asdict(RATE), "high": "a"}},
        {**SUMMARY, "noise_rate": {**asdict(RATE), "high": float("nan")}},
        {"interactions": 200, "flagged_rows": 10, "noise_rate": None},
    ],
)
def test_other_json_is_refused(summary: Any) -> None:
    with pytest.raises(InputError):
        read_earlier_report(summary)
