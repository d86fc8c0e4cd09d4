"""The verdict: how noisy the log is, how sure that is, what to do next, and what denoising gains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prorec.noise.account_groups import group_accounts
from prorec.noise.flagging import find_larger_fdr
from prorec.noise.posterior import ACCOUNT, MARKED
from prorec.report.findings import Findings
from prorec.report.formatting import format_change, format_count, format_percent
from prorec.report.gain import Gain

_BEST = {
    "plain": "the same model without them",
    "scaled": "the same model with all weights equally small, the best of those without denoising",
    "shuffled": "the same model with the weights at random places, the best of those without denoising",
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
    groups = _Groups.of(findings)
    return Verdict(
        _describe_noise(findings, groups),
        _say_how_sure(findings, groups),
        _say_what_next(findings, groups),
        describe_gain(gain),
    )


@dataclass(frozen=True)
class _Groups:
    """Numbers of clicks and flags by what is known of them."""

    n_extreme_users: int
    n_extreme: int
    n_extreme_flagged: int
    n_trusted: int
    n_suspect: int
    n_others: int
    n_other_flagged: int

    @classmethod
    def of(cls, findings: Findings) -> _Groups:
        """Count the clicks of extreme accounts, the marked ones, and the others, to which the noise rate belongs."""
        n = len(findings.flagged)
        basis = np.zeros(n, dtype=np.int8) if findings.basis is None else findings.basis
        is_extreme, is_marked = basis == ACCOUNT, basis == MARKED
        is_suspect = is_marked & (findings.noise_probability == 1)
        is_other = ~is_extreme & ~is_marked
        return cls(
            n_extreme_users=len(np.unique(findings.interactions.user_codes[is_extreme])),
            n_extreme=int(is_extreme.sum()),
            n_extreme_flagged=int((findings.flagged & is_extreme).sum()),
            n_trusted=int((is_marked & ~is_suspect).sum()),
            n_suspect=int(is_suspect.sum()),
            n_others=int(is_other.sum()),
            n_other_flagged=int((findings.flagged & is_other).sum()),
        )

    @property
    def has_bots(self) -> bool:
        """Whether most flags that nobody marked are those of extreme accounts."""
        return 0 < self.n_extreme_flagged >= self.n_other_flagged

    @property
    def base(self) -> str:
        """The clicks whose share the noise rate is."""
        n = format_count(self.n_others, "click")
        if self.n_trusted or self.n_suspect:
            return f"the {n} that nobody marked"
        return f"the other {n}" if self.n_extreme else f"the {n}"


def _describe_noise(findings: Findings, groups: _Groups) -> str:
    rate = findings.noise_rate
    if rate is None:
        return f"How noisy this log is was not estimated: the paper's method only puts its {groups.base[4:]} in order."
    lead = ""
    if groups.n_extreme:
        accounts = "1 extreme account, which acts like a program, has"
        if groups.n_extreme_users > 1:
            accounts = f"{groups.n_extreme_users:,} extreme accounts, which act like programs, have"
        share = format_percent(groups.n_extreme, len(findings.flagged))
        problem = "Bots are the main problem: " if groups.has_bots else ""
        lead = f"{problem}{accounts} {groups.n_extreme:,} of the {len(findings.flagged):,} clicks ({share}). "
    if groups.n_suspect:
        are = "is" if groups.n_suspect == 1 else "are"
        lead += f"{format_count(groups.n_suspect, 'click')} {are} marked as noise. "
    if not rate.is_identified:
        return (
            f"{lead}This log cannot tell how noisy it is: up to {format_percent(rate.high)} of {groups.base} may be "
            "noise."
        )
    return (
        f"{lead}About {format_percent(rate.estimate)} of {groups.base} are noise: they suit their users no better than "
        "clicks on random items would."
    )


def _say_how_sure(findings: Findings, groups: _Groups) -> str:
    rate, rule, n_flagged = findings.noise_rate, findings.flag_rule, int(findings.flagged.sum())
    share = format_percent(n_flagged, len(findings.flagged))
    flags = f"the {format_count(n_flagged, 'flagged click')} ({share})"
    if rate is None:
        return f"Nothing bounds how many of {flags} are wrong." if n_flagged else "No click stands out from the others."
    if not rate.is_identified:
        reason = "Genuine clicks cannot be told from noise here, as popularity explains most of both"
        if n_flagged:
            are = "is" if n_flagged == 1 else "are"
            return (
                f"{reason}; only {format_count(n_flagged, 'click')} ({share}) {are} flagged.{_speak_of_known(groups)}"
            )
        return f"{reason}, so nothing is flagged."
    interval = f"The share is between {format_percent(rate.low)} and {format_percent(rate.high)} with 95% confidence"
    n_noise = rate.estimate * groups.n_others
    if not groups.n_other_flagged:
        limit = f" with at most {format_percent(rule['fdr'])} wrong" if "fdr" in rule else ""
        return (
            f"{interval}. So about {n_noise:,.0f} clicks are noise, but none of them can be named{limit}"
            f"{'' if n_flagged else ', so nothing is flagged'}; they count less in the weights."
            f"{_speak_of_known(groups)}"
        )
    if groups.n_other_flagged < n_flagged:
        flags = f"the {format_count(groups.n_other_flagged, 'other flagged click')}"
    wrong = "about"
    if "fdr" in rule:
        wrong = "at most about"
    wrong = f"{wrong} {format_percent(_wrong_share(findings))} should be wrong"
    rest = ""
    if "fdr" in rule and n_noise > 2 * groups.n_other_flagged:
        rest = f" Most of the about {n_noise:,.0f} noisy clicks cannot be named; they count less in the weights."
    known = _speak_of_known(groups)
    return f"{interval}; of {flags}, {wrong}.{known}{rest}"


def _speak_of_known(groups: _Groups) -> str:
    """Say which flags depend on no estimate: those of extreme accounts, and those that people made."""
    sentence = ""
    if groups.n_extreme_flagged:
        accounts = f"all of {format_count(groups.n_extreme_users, 'extreme account')}"
        if groups.n_extreme_flagged < groups.n_extreme:
            accounts = f"of {format_count(groups.n_extreme_users, 'extreme account')}"
        no_people = "no person" if groups.n_extreme_users == 1 else "no people"
        are = "it is" if groups.n_extreme_users == 1 else "they are"
        sentence = f" {groups.n_extreme_flagged:,} flags are {accounts}: if {are} {no_people}, none of these is wrong."
    if groups.n_suspect:
        sentence += f" {groups.n_suspect:,} flags are clicks that people marked as noise."
    return sentence


def _say_what_next(findings: Findings, groups: _Groups) -> str:
    rate, rule = findings.noise_rate, findings.flag_rule
    suspicious = ""
    if findings.issues is not None and (n := int(group_accounts(findings.issues, findings.basis).suspicious.sum())):
        accounts = "1 suspicious account, which is" if n == 1 else f"{n:,} suspicious accounts, which are"
        suspicious = (
            f" Look at the {accounts} neither flagged nor down-weighted: the command below removes them too. Take out "
            "of it whoever is a person."
        )
    if rate is not None and groups.has_bots:
        return (
            "Look at the extreme accounts in the list below; if they are no people, --drop of prorec denoise removes "
            f"all flagged clicks.{suspicious}"
        )
    if rate is not None and not rate.is_identified:
        return (
            "Remove nothing on the word of this page; collect more clicks of each user, or mark clicks that you know "
            f"are genuine or noise (--trusted-col, --suspect-col, --suspect-users).{suspicious}"
        )
    if groups.n_other_flagged and rate is not None and _wrong_share(findings) > _MAX_REMOVED_WRONG:
        return (
            "Look at the flagged clicks one by one, and mark each as right or wrong: do not remove them "
            f"all.{suspicious}"
        )
    if groups.n_other_flagged:
        return (
            "Look at a random sample of the flagged clicks and mark each as right or wrong; if few are wrong, "
            f"--drop of prorec denoise removes them all.{suspicious}"
        )
    if rate is None or "fdr" not in rule:
        return f"Collect more clicks: this log is too small to tell suspicious ones from others.{suspicious}"
    if groups.n_suspect or groups.n_extreme_flagged:
        return f"--drop of prorec denoise removes the flagged clicks; remove no others.{suspicious}"
    lowered = findings.noise_probability * rate.low_ratio
    if larger := find_larger_fdr(lowered, rule["fdr"]):
        return (
            f"Remove nothing; for a list of clicks to look at, --fdr {larger.fdr:g} would flag {larger.n_flags:,}, of "
            f"which up to {format_percent(larger.fdr)} may be wrong.{suspicious}"
        )
    return f"Remove nothing: this log is as clean as can be told.{suspicious}"


def _wrong_share(findings: Findings) -> float:
    """Return the share of flags that may be wrong by the rule, or else by the noise probabilities; not of accounts."""
    if "fdr" in findings.flag_rule:
        return findings.flag_rule["fdr"]
    is_other = findings.flagged.copy()
    if findings.basis is not None:
        is_other &= (findings.basis != ACCOUNT) & (findings.basis != MARKED)
    return float(1 - findings.noise_probability[is_other].mean(dtype=np.float64)) if is_other.any() else 0.0


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
    numbers = f"quality ({metric}) changes by {change} (95% interval {low} to {high}) against {_BEST[gain.best]}"
    if gain.net.low > 0:
        return f"Yes: train with the weights. The {numbers}."
    if gain.net.high < 0:
        return f"No: train without the weights, which make recommendations worse. The {numbers}."
    return f"No sure difference: train with the weights or without them. The {numbers}."
