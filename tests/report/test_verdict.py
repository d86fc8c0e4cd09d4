"""The verdict: its numbers, and that each kind of result has its own sentences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec import Interactions, NoiseFinder, ProRec, inject_noise, make_cinema
from prorec.evaluation.significance import Comparison
from prorec.models import SVD
from prorec.noise.flagging import flag_interactions
from prorec.noise.noise_rate import NoiseRateEstimate
from prorec.noise.posterior import ACCOUNT, MARKED
from prorec.report.findings import Findings, collect_findings
from prorec.report.gain import Gain
from prorec.report.verdict import describe_gain, make_verdict

N_USERS, N_ITEMS = 60, 40


@pytest.fixture(scope="module")
def plan_findings() -> Findings:
    is_clicked = np.random.default_rng(0).random((N_USERS, N_ITEMS)) < 0.25
    log = Interactions.from_matrix(csr_array(is_clicked.astype(float)))
    return collect_findings(ProRec(SVD(rank=2), noise_method="plan").fit(log))


@pytest.fixture
def findings(plan_findings: Findings) -> Findings:
    """A log with a noise rate of 12%, and two clicks of a noise probability of .95."""
    n = len(plan_findings.interactions)
    probability = np.full(n, 0.1, dtype=np.float32)
    probability[:2] = 0.95
    return replace(
        plan_findings,
        noise_probability=probability,
        flagged=probability > 0.5,
        basis=np.zeros(n, dtype=np.int8),
        noise_rate=NoiseRateEstimate(0.12, low=0.09, high=0.15),
        flag_rule={"fdr": 0.1},
    )


def test_flagged_clicks(findings: Findings) -> None:
    verdict = make_verdict(findings, "nobody asked")
    n = len(findings.interactions)
    assert verdict.how_noisy.startswith(f"About 12% of the {n:,} clicks are noise")
    assert "between 9.0% and 15% with 95% confidence" in verdict.how_sure
    assert "of the 2 flagged clicks" in verdict.how_sure
    assert "at most about 10% should be wrong" in verdict.how_sure
    assert "random sample" in verdict.what_next
    assert "--drop" in verdict.what_next
    assert verdict.recommendations == "Whether training with the weights helps was not measured: nobody asked."


def test_a_fraction_of_flags_has_the_mean_of_its_probabilities(findings: Findings) -> None:
    verdict = make_verdict(replace(findings, flag_rule={"fraction": 0.003}), "")
    assert "of the 2 flagged clicks" in verdict.how_sure
    assert "about 5.0% should be wrong" in verdict.how_sure
    assert "--drop" in verdict.what_next


def test_flags_that_are_often_wrong_are_not_to_be_removed(findings: Findings) -> None:
    often = replace(findings, flag_rule={"fdr": 0.6})
    by_fraction = replace(findings, flag_rule={"fraction": 0.9}, flagged=findings.noise_probability > 0)
    for each in (often, by_fraction):
        verdict = make_verdict(each, "")
        assert "one by one" in verdict.what_next
        assert "--drop" not in verdict.what_next


def test_nothing_flagged_names_the_least_larger_fdr(findings: Findings) -> None:
    nothing = np.zeros_like(findings.flagged)
    probability = findings.noise_probability.copy()
    probability[:7] = 0.9
    verdict = make_verdict(replace(findings, flagged=nothing, noise_probability=probability), "")
    lowered = probability * (0.09 / 0.12)
    least = next(fdr for fdr in (0.2, 0.3, 0.4, 0.5) if flag_interactions(lowered, fdr=fdr).any())
    assert least == 0.4
    assert "nothing is flagged" in verdict.how_sure
    assert verdict.what_next.startswith("Remove nothing")
    assert f"--fdr 0.4 would flag {flag_interactions(lowered, fdr=0.4).sum():,}" in verdict.what_next
    clean = replace(findings, flagged=nothing, noise_probability=np.full_like(probability, 0.01))
    assert make_verdict(clean, "").what_next == "Remove nothing: this log is as clean as can be told."


def test_a_log_that_cannot_tell_its_noise(findings: Findings) -> None:
    unknown = replace(findings, noise_rate=NoiseRateEstimate(0.2, low=0.0, high=0.4, is_identified=False))
    verdict = make_verdict(replace(unknown, flagged=np.zeros_like(findings.flagged)), "")
    assert verdict.how_noisy.startswith("This log cannot tell how noisy it is: up to 40%")
    assert verdict.how_sure.endswith("so nothing is flagged.")
    assert "Remove nothing" in verdict.what_next
    assert "--trusted-col" in verdict.what_next
    assert make_verdict(unknown, "").how_sure.endswith("; only 2 clicks (0.33%) are flagged."), "marked ones"


@pytest.mark.parametrize("is_identified", [True, False])
def test_bots_come_first_if_most_flags_are_theirs(findings: Findings, is_identified: bool) -> None:
    users = findings.interactions.user_codes
    basis = np.where(np.isin(users, [3, 8]), ACCOUNT, 0).astype(np.int8)
    rate = NoiseRateEstimate(0.12, low=0.09, high=0.15, is_identified=is_identified)
    with_bots = replace(findings, basis=basis, flagged=findings.flagged | (basis == ACCOUNT), noise_rate=rate)
    verdict = make_verdict(with_bots, "")
    n_clicks = int(np.isin(users, [3, 8]).sum())
    assert verdict.how_noisy.startswith("Bots are the main problem: 2 extreme accounts, which act like programs, have ")
    assert f"have {n_clicks:,} of the {len(users):,} clicks" in verdict.how_noisy
    n_others = len(users) - n_clicks
    assert (f"About 12% of the other {n_others:,} clicks are noise" in verdict.how_noisy) == is_identified
    assert ("This log cannot tell" in verdict.how_noisy) != is_identified
    assert verdict.what_next.startswith("Look at the extreme accounts")
    assert f"{n_clicks:,} flags are all of 2 extreme accounts" in verdict.how_sure
    assert "none of these is wrong" in verdict.how_sure
    n_rest = int((findings.flagged & (basis != ACCOUNT)).sum())
    if is_identified:
        assert f"of the {n_rest} other flagged clicks, at most about 10% should be wrong" in verdict.how_sure
    few = np.where(np.arange(len(users)) == 50, ACCOUNT, 0).astype(np.int8)
    many = replace(with_bots, basis=few, flagged=np.arange(len(users)) < 100)
    assert "Bots" not in make_verdict(many, "").how_noisy


def test_bots_of_a_real_fit() -> None:
    noisy = inject_noise(make_cinema(300, 200, seed=1).interactions, 0.01, "bots", seed=1).interactions
    verdict = make_verdict(collect_findings(ProRec(SVD(rank=4), noise_method=NoiseFinder(folds=2)).fit(noisy)), "")
    n_clicks = int(noisy.activity[-3:].sum())
    start = f"Bots are the main problem: 3 extreme accounts, which act like programs, have {n_clicks:,} of the "
    assert verdict.how_noisy.startswith(f"{start}{len(noisy):,} clicks")


def test_noise_that_cannot_be_named_is_counted(findings: Findings) -> None:
    nothing = replace(findings, flagged=np.zeros_like(findings.flagged))
    n_noise = 0.12 * len(findings.flagged)
    sentence = make_verdict(nothing, "").how_sure
    assert f"about {n_noise:,.0f} clicks are noise, but none of them can be named with at most 10% wrong" in sentence
    assert "so nothing is flagged; they count less in the weights" in sentence
    some = make_verdict(findings, "").how_sure
    assert f"Most of the about {n_noise:,.0f} noisy clicks cannot be named" in some


def test_marked_clicks_are_no_part_of_the_noise_rate(findings: Findings) -> None:
    marked = findings.interactions.user_codes == 5
    probability = np.where(marked, np.float32(1), findings.noise_probability)
    basis = np.where(marked, MARKED, 0).astype(np.int8)
    flagged = findings.flagged | marked
    verdict = make_verdict(replace(findings, basis=basis, flagged=flagged, noise_probability=probability), "")
    n_marked = int(marked.sum())
    assert (
        f"{n_marked} clicks are marked as noise. About 12% of the {len(marked) - n_marked:,} clicks that nobody "
        in (verdict.how_noisy)
    )
    assert f"{n_marked} flags are clicks that people marked as noise" in verdict.how_sure


def test_the_paper_s_method_estimates_nothing(plan_findings: Findings) -> None:
    verdict = make_verdict(plan_findings, "")
    assert "was not estimated" in verdict.how_noisy
    assert verdict.how_sure.startswith("Nothing bounds how many of the ")
    nothing = replace(plan_findings, flagged=np.zeros_like(plan_findings.flagged))
    assert make_verdict(nothing, "").what_next.startswith("Collect more clicks")


def make_gain(mean: float, low: float, high: float, best: str = "scaled") -> Gain:
    net = Comparison("denoised", "ndcg@10", mean, 0.2, mean - 0.2, low, high, *([0.5] * 4))
    return Gain("ndcg@10", 100, {"plain": 0.19, "scaled": 0.2, "shuffled": 0.18, "denoised": mean}, best, net)


@pytest.mark.parametrize(
    ("gain", "start", "numbers"),
    [
        (
            make_gain(0.21, 0.002, 0.02),
            "Yes: train with the weights.",
            "+5.0% (95% interval +1.0% to +10.0%)",
        ),
        (make_gain(0.21, -0.002, 0.02), "No sure difference", "+5.0% (95% interval −1.0% to"),
        (make_gain(0.19, -0.02, -0.002), "No: train without the weights", "−5.0% (95% interval −10.0% to −1.0%)"),
    ],
)
def test_gain_is_net_of_the_best_control(gain: Gain, start: str, numbers: str) -> None:
    sentence = describe_gain(gain)
    assert sentence.startswith(start)
    assert numbers in sentence
    assert "against the same model with all weights equally small" in sentence


def test_gain_that_cannot_be_measured() -> None:
    zero = make_gain(0.0, 0.0, 0.0)
    sentence = describe_gain(replace(zero, net=replace(zero.net, baseline_mean=0.0)))
    assert "cannot be said" in sentence
