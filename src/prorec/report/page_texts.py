"""The texts of the page: cards with the main numbers, notes on the tables, and the description of the method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prorec.noise.flagging import flag_interactions
from prorec.noise.injection_checks import describe_checks
from prorec.report.findings import Findings
from prorec.report.formatting import format_change, format_count, format_duration, format_percent
from prorec.report.gain import Gain
from prorec.report.row_selection import RowSelection


@dataclass(frozen=True)
class Card:
    """A number of the overview."""

    label: str
    """Name of the number."""
    value: str
    """The number, as a text."""
    note: str
    """Explanation below the number."""
    is_wide: bool = False
    """Whether the card is as wide as two."""


def make_cards(findings: Findings, gain: Gain | str, seconds: float | None) -> list[Card]:
    """Make the cards of the overview.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.
    gain : Gain or str
        Gain of denoising, or the reason why it was not measured.
    seconds : float or None
        Duration of the work; by default, the time of transport plans and fits.

    Returns
    -------
    list of Card
        In the order of the page.
    """
    interactions = findings.interactions
    n, n_users, n_items = len(interactions), interactions.n_users, interactions.n_items
    label = "Time taken"
    if seconds is None:
        label = "Time of plans and fits"
        seconds = sum(each.transport_seconds + each.fit_seconds for each in findings.history)
    rounds = f"{format_count(findings.history[-1].number, 'round')} of relabelling"
    return [
        Card("Interactions", f"{n:,}", f"{format_percent(n, n_users * n_items)} of all user–item pairs"),
        Card("Users", f"{n_users:,}", f"median: {np.median(interactions.activity):,g} interactions"),
        Card("Items", f"{n_items:,}", f"median: {np.median(interactions.popularity):,g} interactions"),
        Card(label, format_duration(seconds), rounds),
        _make_noise_card(findings),
        _make_flag_card(findings),
        _make_gain_card(gain),
    ]


def _make_noise_card(findings: Findings) -> Card:
    rate = findings.noise_rate
    if rate is None:
        return Card("Noise rate", "not estimated", "this report is of --noise-method plan; the default estimates it")
    if not rate.is_identified:
        note = (
            "apart from popularity the clicks of this log hardly differ from random ones: popularity explains most of "
            "them, or a large part of them is noise"
        )
        return Card("Noise rate, upper bound", f"at most {format_percent(rate.high)}", note)
    interval = f"95% interval {format_percent(rate.low)} to {format_percent(rate.high)}"
    note = f"share of clicks that might as well be random; {interval}"
    return Card("Noise rate, estimated", format_percent(rate.estimate), note)


def _make_flag_card(findings: Findings) -> Card:
    n, n_flagged = len(findings.interactions), int(findings.flagged.sum())
    if not n_flagged:
        return Card("Flagged", "0", _explain_no_flags(findings))
    if "fdr" in findings.flag_rule:
        rule = f"at most about {format_percent(findings.flag_rule['fdr'])} of the flags should be wrong"
    else:
        limit = format_percent(findings.flag_rule["fraction"])
        rule = f"at most {limit}, without ties: clicks to look at, not a verdict"
    n_users = len(np.unique(findings.interactions.user_codes[findings.flagged]))
    note = f"{format_percent(n_flagged, n)} of all clicks, of {format_count(n_users, 'user')}; {rule}"
    return Card("Flagged", f"{n_flagged:,}", note)


def _explain_no_flags(findings: Findings) -> str:
    """Return the reason why nothing is flagged, and the smallest larger `fdr` that would flag something."""
    if findings.noise_rate is None or "fdr" not in findings.flag_rule:
        return "the log is too small to tell suspicious clicks from others"
    if not findings.noise_rate.is_identified:
        return "this log cannot tell its noise"
    allowed, lowered = findings.flag_rule["fdr"], findings.noise_probability * findings.noise_rate.low_ratio
    reason = f"no group of clicks is surely at least {format_percent(1 - allowed)} noise"
    for fdr in (0.2, 0.3, 0.4, 0.5):
        n_flagged = int(flag_interactions(lowered, fdr=fdr).sum())
        if fdr > allowed and n_flagged:
            return f"{reason}; --fdr {fdr:g} would flag {n_flagged:,}"
    return reason


def _make_gain_card(gain: Gain | str) -> Card:
    label = "Gain in recommendation quality"
    if isinstance(gain, str):
        return Card(label, "not measured", gain, is_wide=True)
    metric, base = gain.metric.upper(), gain.denoised.baseline_mean
    if not base:
        note = f"the model without denoising recommends no held-out item to anybody ({metric} is 0)"
        return Card(label, "not measurable", note, is_wide=True)
    differences = (gain.denoised.difference, gain.denoised.low, gain.denoised.high, gain.control.difference)
    value, low, high, control = (format_change(each / base) for each in differences)
    if gain.beyond_control.low > 0:
        verdict = f"so that {format_change(gain.beyond_control.difference / base)} is due to denoising"
    elif gain.beyond_control.high < 0:
        verdict = "which is more than denoising gains"
    else:
        verdict = "which is not significantly different"
    note = (
        f"{metric} on held-out clicks of {format_count(gain.n_users, 'user')}, 95% interval {low} to {high}; scaling "
        f"all weights alike gains {control}, {verdict}"
    )
    return Card(label, value, note, is_wide=True)


def make_table_note(findings: Findings, selection: RowSelection) -> str:
    """Write the note on the table of suspicious clicks.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.
    selection : RowSelection
        Interactions that the page holds.

    Returns
    -------
    str
    """
    note = "Click on a user to see all clicks of this user."
    if not selection.is_complete:
        n_held, n_flagged = len(selection.positions), int(findings.flagged[selection.positions].sum())
        note += (
            f" This page holds {n_held:,} of {len(findings.interactions):,} clicks, among them {n_flagged:,} of "
            f"{int(findings.flagged.sum()):,} flagged clicks: the most suspicious clicks, and all other clicks of "
            f"{format_count(len(selection.complete_users), 'user')} who have many of those."
        )
    if not findings.flagged.any():
        note += " Nothing is flagged; the most suspicious clicks come first."
    elif not findings.is_calibrated:
        note += " The noise probability orders the clicks; it is not calibrated."
    return note


def make_user_note(findings: Findings, selection: RowSelection) -> str:
    """Write the note on the search for a user.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.
    selection : RowSelection
        Interactions that the page holds.

    Returns
    -------
    str
    """
    order = "flagged clicks" if findings.flagged.any() else "expected noise"
    note = f"Type the beginning of an id. Users with the most {order} come first."
    if not selection.is_complete:
        note += " Users without suspicious clicks are not in this page; denoiser.explain(user) shows every user."
    return note


def describe_method(findings: Findings) -> list[str]:
    """Describe Algorithm 1 with the settings of this run (Eq. 7, 20, 22 and 23), and the noise probability.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.

    Returns
    -------
    list of str
        Two or three paragraphs.
    """
    mass = "in proportion to its clicks" if findings.marginals == "popularity" else "of the same amount"
    if findings.threshold == "personal":
        threshold = "The threshold ρ_κ splits the sorted row shares of a user into two groups, by least squares."
    elif findings.threshold == "none":
        threshold = "There is no threshold: ρ_κ is 0."
    else:
        threshold = f"The threshold ρ_κ is the κ-th largest row share of a user, with κ = {findings.threshold}."
    algorithm = (
        f"A recommender learns from all clicks. A transport plan ({findings.transport}) matches all users with all "
        f"items by the recommender's scores; each user sends and each item receives mass {mass}. The row share ρ of a "
        f"click is the share of the user's mass that goes to the item. {threshold} A round of relabelling multiplies "
        f"the weight of a click by λ + (1 − λ)/(1 + e^(−β(ρ − ρ_κ))): by {format_percent((1 + findings.lam) / 2)} at "
        f"the threshold, by less below it, though by at least {format_percent(findings.lam)}, and by more above it."
    )
    if findings.is_calibrated:
        checks = [describe_checks(findings.injection_checks)] if findings.injection_checks else []
        return [
            algorithm,
            "The noise probability of a click comes from models that were trained without it, and is calibrated on the "
            "whole log: of clicks with 30%, about 30% might as well be random. A real interest that no model can see "
            "looks random, too. Look at the clicks before you delete them.",
            *checks,
        ]
    return [
        algorithm,
        "The noise probability comes from the same plan, of a model that was trained on the clicks. It orders the "
        "clicks, but does not tell how many of them are noise.",
    ]
