"""The verdict: how noisy the log is, how sure that is, what to do next, and what denoising gains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prorec.noise.flagging import find_larger_fdr
from prorec.noise.posterior import ACCOUNT
from prorec.report.findings import Findings
from prorec.report.formatting import format_change, format_count, format_percent
from prorec.report.gain import Gain

_BEST = {
    "plain": "the model without weights",
    "scaled": "the model with all weights equally small",
    "shuffled": "the model with the weights in random places",
}
_MAX_REMOVED_WRONG = 0.2
"""Share of wrong flags above which nobody should remove all flagged clicks."""


@dataclass(frozen=True)
class Verdict:
    """First sentences of the report, one for each question."""

    how_noisy: str
    """How noisy the log is."""
    how_sure: str
    """How sure that is."""
    what_next: str
    """Next step."""
    recommendations: str
    """Gain of denoising beyond its controls."""


def make_verdict(findings: Findings, gain: Gain | str) -> Verdict:
    """Write the verdict.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.
    gain : Gain or str
        Gain of denoising, or the reason why it was not measured.

    Returns
    -------
    Verdict
    """
    is_bot_click = np.zeros(len(findings.flagged), dtype=bool) if findings.basis is None else findings.basis == ACCOUNT
    n_bot_clicks, n_flagged = int(is_bot_click.sum()), int(findings.flagged.sum())
    if n_bot_clicks and 2 * int((findings.flagged & is_bot_click).sum()) >= n_flagged:
        n_bots = len(np.unique(findings.interactions.user_codes[is_bot_click]))
        how_noisy = _describe_bots(findings, n_bots, n_bot_clicks)
        what_next = (
            "Look at these accounts in the list below; if they are no people, prorec denoise --drop removes all "
            "flagged clicks."
        )
    else:
        how_noisy, what_next = _describe_noise(findings), _say_what_next(findings, n_flagged)
    return Verdict(how_noisy, _say_how_sure(findings, n_flagged), what_next, describe_gain(gain))


def _describe_bots(findings: Findings, n_bots: int, n_clicks: int) -> str:
    log, rate = findings.interactions, findings.noise_rate
    accounts = f"1 account that acts like a program has {n_clicks:,}"
    if n_bots > 1:
        accounts = f"{n_bots:,} accounts that act like programs have {n_clicks:,}"
    others = "how many of the others are noise, this log cannot tell"
    if rate is not None and rate.is_identified:
        others = f"about {format_percent(rate.estimate)} of the others are noise"
    share = format_percent(n_clicks, len(log))
    return f"Bots are the main problem: {accounts} of the {len(log):,} clicks ({share}), and {others}."


def _describe_noise(findings: Findings) -> str:
    n, rate = format_count(len(findings.interactions), "click"), findings.noise_rate
    if rate is None:
        return f"How noisy this log is was not estimated: the paper's method only puts its {n} in order."
    if not rate.is_identified:
        return f"This log cannot tell how noisy it is: up to {format_percent(rate.high)} of its {n} may be noise."
    return (
        f"About {format_percent(rate.estimate)} of the {n} are noise: they suit their users no better than clicks on "
        "random items would."
    )


def _say_how_sure(findings: Findings, n_flagged: int) -> str:
    rate, rule = findings.noise_rate, findings.flag_rule
    share = format_percent(n_flagged, len(findings.flagged))
    flags = f"the {format_count(n_flagged, 'flagged click')} ({share})"
    if rate is None:
        return f"Nothing bounds how many of {flags} are wrong." if n_flagged else "No click stands out from the others."
    if not rate.is_identified:
        reason = "Genuine clicks cannot be told from noise here, as popularity explains most of both"
        if n_flagged:
            are = "is" if n_flagged == 1 else "are"
            return f"{reason}; only {format_count(n_flagged, 'click')} ({share}) {are} flagged."
        return f"{reason}, so nothing is flagged."
    interval = f"The share is between {format_percent(rate.low)} and {format_percent(rate.high)} with 95% confidence"
    if not n_flagged:
        return f"{interval}, but no group of clicks is surely noise, so nothing is flagged."
    if "fdr" in rule:
        return f"{interval}; of {flags}, at most about {format_percent(rule['fdr'])} should be wrong."
    return f"{interval}; of {flags}, about {format_percent(_wrong_share(findings))} should be wrong."


def _say_what_next(findings: Findings, n_flagged: int) -> str:
    rate, rule = findings.noise_rate, findings.flag_rule
    if rate is not None and not rate.is_identified:
        return (
            "Remove nothing on the word of this page; collect more clicks of each user, or mark clicks that you know "
            "are genuine or noise (--trusted-col, --suspect-col)."
        )
    if n_flagged and rate is not None and _wrong_share(findings) > _MAX_REMOVED_WRONG:
        return "Look at the flagged clicks one by one, and mark each as right or wrong: do not remove them all."
    if n_flagged:
        return (
            "Look at a random sample of the flagged clicks and mark each as right or wrong; if few are wrong, prorec "
            "denoise --drop removes them all."
        )
    if rate is None or "fdr" not in rule:
        return "Collect more clicks: this log is too small to tell suspicious ones from others."
    lowered = findings.noise_probability * rate.low_ratio
    if larger := find_larger_fdr(lowered, rule["fdr"]):
        return (
            f"Remove nothing; for a list of clicks to look at, --fdr {larger.fdr:g} would flag {larger.n_flags:,}, of "
            f"which up to {format_percent(larger.fdr)} may be wrong."
        )
    return "Remove nothing: this log is as clean as can be told."


def _wrong_share(findings: Findings) -> float:
    """Return the share of flags that may be wrong by the rule, or else by the noise probabilities."""
    if "fdr" in findings.flag_rule:
        return findings.flag_rule["fdr"]
    return float(1 - findings.noise_probability[findings.flagged].mean(dtype=np.float64))


def describe_gain(gain: Gain | str) -> str:
    """Say what denoising gains beyond its controls.

    Parameters
    ----------
    gain : Gain or str
        Gain of denoising, or the reason why it was not measured.

    Returns
    -------
    str
    """
    if isinstance(gain, str):
        return f"Whether training with the weights helps was not measured: {gain}."
    base, metric = gain.net.baseline_mean, gain.metric.upper()
    if not base:
        return (
            f"Whether training with the weights helps cannot be said: no model finds a held-out click ({metric} is 0)."
        )
    change, low, high = (format_change(each / base) for each in (gain.net.difference, gain.net.low, gain.net.high))
    numbers = f"{metric} changes by {change} (95% interval {low} to {high}) against {_BEST[gain.best]}"
    if gain.net.low > 0:
        return f"Training with the weights gives better recommendations: {numbers}, the best without denoising."
    if gain.net.high < 0:
        return f"Train without the weights, which make recommendations worse: {numbers}."
    return f"Training with the weights makes no sure difference to recommendations: {numbers}."
