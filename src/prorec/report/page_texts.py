"""The texts of the page: notes on the tables, definitions, the main numbers, and the description of the method."""

from __future__ import annotations

import numpy as np

from prorec.noise.injection_checks import describe_checks
from prorec.noise.posterior import ACCOUNT, MARKED
from prorec.report.findings import Findings
from prorec.report.formatting import format_count, format_duration, format_percent
from prorec.report.gain import Gain
from prorec.report.row_selection import RowSelection

DEFINITIONS = {
    "noise": "A click that might as well have been drawn at random, knowing nothing of the user.",
    "noise probability": "The probability that a click is noise. It is calibrated, unless this page says otherwise: of "
    "clicks with 30%, about 30% are noise.",
    "noise rate": "The share of clicks that are noise, among those that nobody marked and that are not of extreme "
    "accounts. Real interests that no model can see look random, too.",
    "extreme account": "An account so active and so unlike people that no model learns from it; its clicks are "
    "flagged.",
    "suspicious account": "An account that looks odd as a whole. Its clicks are neither flagged nor down-weighted for "
    "that.",
    "false discovery rate": "The share of the flags that are wrong.",
    "weight": "How much a click counts when a model is trained, from 0 (as if it were not there) to 1.",
    "transport plan": "A matrix that matches all users with all items by the scores of a model.",
    "row share ρ": "The share of the user's mass in the transport plan that goes to the item.",
    "threshold ρ_κ": "The smallest row share in the upper group of a user's row.",
    "κ": "The number of items in the upper group of a user's row of the plan.",
    "γ": "Entropic regularization: a small γ concentrates the plan on few items, a large γ spreads it.",
    "β": "Steepness: how fast the label of a click rises from 0 to 1 around the threshold.",
    "λ": "Retention: the share of the old weight that relabelling keeps.",
    "percentile rank": "The share of the items without a click of the user that models, trained without this click, "
    "rank above it.",
    "NDCG@10": "How well ten recommended items agree with held-out clicks of the user, from 0 to 1.",
}
"""Definitions of the terms of the page."""
_PLAN_TERMS = frozenset(["transport plan", "row share ρ", "threshold ρ_κ", "κ", "γ", "β", "λ"])
_MODELS = {
    "plain": "without denoising",
    "scaled": "control: all weights equally small",
    "shuffled": "control: the weights in random places",
    "denoised": "with denoising",
}


def list_definitions(findings: Findings) -> dict[str, str]:
    """List the terms of the page; those of the transport plan only if weights come from it.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.

    Returns
    -------
    dict of str to str
        Definitions by term.
    """
    has_plan = not findings.is_calibrated or findings.weighting in ("plan", "both")
    return {term: text for term, text in DEFINITIONS.items() if has_plan or term not in _PLAN_TERMS}


def list_facts(
    findings: Findings, gain: Gain | str, n_rows: int | None, seconds: float | None, n_left_out: int = 0
) -> dict[str, str]:
    """List the main numbers of the log and the run.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.
    gain : Gain or str
        Gain of denoising, or the reason why it was not measured.
    n_rows : int or None
        Number of rows of the log, if it is known.
    seconds : float or None
        Duration of the work; by default, the time of transport plans and fits.
    n_left_out : int, default 0
        Number of rows that were left out.

    Returns
    -------
    dict of str to str
        Values by name, as texts.
    """
    log, rate = findings.interactions, findings.noise_rate
    facts = {} if n_rows is None else {"rows": f"{n_rows:,}"}
    if n_left_out:
        facts["rows left out"] = f"{n_left_out:,}, which cannot be used"
    facts["clicks"] = f"{len(log):,}, {format_percent(len(log), log.n_users * log.n_items)} of all user–item pairs"
    for name, counts in (("users", log.activity), ("items", log.popularity)):
        n_single = int((counts == 1).sum())
        facts[name] = f"{len(counts):,}, with {np.median(counts):,g} clicks in the median; {n_single:,} with one click"
    if rate is not None:
        is_extreme = np.zeros(len(log), dtype=bool) if findings.basis is None else findings.basis == ACCOUNT
        is_marked = np.zeros(len(log), dtype=bool) if findings.basis is None else findings.basis == MARKED
        base = int((~is_extreme & ~is_marked).sum())
        of = f" of the {base:,} clicks that nobody marked" if is_marked.any() else f" of the other {base:,} clicks"
        facts["noise rate"] = format_percent(rate.estimate) if rate.is_identified else "not known"
        facts["noise rate"] += of if base < len(log) else ""
        if is_extreme.any():
            facts["clicks of extreme accounts"] = f"{int(is_extreme.sum()):,}"
        facts["95% interval"] = f"{format_percent(rate.low)} to {format_percent(rate.high)}"
    facts["flagged clicks"] = f"{int(findings.flagged.sum()):,}"
    if isinstance(gain, Gain):
        facts |= {f"{gain.metric.upper()} {_MODELS[name]}": f"{mean:.4f}" for name, mean in gain.means.items()}
    label = "time taken"
    if seconds is None:
        label = "time of plans and fits"
        seconds = sum(each.transport_seconds + each.fit_seconds for each in findings.history)
    return facts | {label: format_duration(seconds)}


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
    start = ""
    if findings.basis is not None and (findings.basis == ACCOUNT).any():
        start = (
            "An extreme account has one line. Then come the flagged clicks of other users, and the most suspicious of "
            "those that are not flagged. "
        )
    note = (
        f"{start}Mark a flag as right, if the click is noise, or wrong, if it is genuine; "
        "prorec audit reads the exported marks, and bounds the share of wrong flags by those of the random sample."
    )
    if not findings.flagged.any():
        note = "Nothing is flagged; the most suspicious clicks come first."
    elif not findings.is_calibrated:
        note += " The noise probability only orders the clicks; it is not calibrated."
    if not selection.is_complete:
        n_held, n_flagged = len(selection.positions), int(findings.flagged[selection.positions].sum())
        note += (
            f" This page holds {n_held:,} of {len(findings.interactions):,} clicks, among them {n_flagged:,} of "
            f"{int(findings.flagged.sum()):,} flagged clicks: the most suspicious clicks, and all other clicks of "
            f"{format_count(len(selection.complete_users), 'user')} who have many of those."
        )
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
    note = (
        f"Type the beginning of an id. Users with the most {order} come first in the list; the user shown at the start "
        "is an example with few clicks."
    )
    if not selection.is_complete:
        note += " Users without suspicious clicks are not in this page; denoiser.explain(user) shows every user."
    return note


def describe_method(findings: Findings) -> list[str]:
    """Describe how clicks are judged and weighted in this run, and the transport plan (Eq. 7, 20, 22 and 23).

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.

    Returns
    -------
    list of str
        Two or more paragraphs.
    """
    mass = "in proportion to its clicks" if findings.marginals == "popularity" else "of the same amount"
    if findings.threshold == "personal":
        threshold = "The threshold ρ_κ splits the sorted row shares of a user into two groups, by least squares."
    elif findings.threshold == "none":
        threshold = "There is no threshold: ρ_κ is 0."
    else:
        threshold = f"The threshold ρ_κ is the κ-th largest row share of a user, with κ = {findings.threshold}."
    plan = (
        f"A transport plan ({findings.transport}) matches all users with all items by the scores of a recommender that "
        f"learned from all clicks; each user sends and each item receives mass {mass}. {threshold}"
    )
    relabelling = (
        "Relabelling multiplies the weight of a click by λ + (1 − λ)/(1 + e^(−β(ρ − ρ_κ))): by "
        f"{format_percent((1 + findings.lam) / 2)} at the threshold, by less below it, though by at least "
        f"{format_percent(findings.lam)}, and by more above it."
    )
    if not findings.is_calibrated:
        return [
            f"{plan} {relabelling}",
            "The noise probability comes from the same plan, of a model that was trained on the clicks. It orders the "
            "clicks, but does not tell how many of them are noise.",
        ]
    paragraphs = [
        "The noise probability of a click comes from models that were trained without it, and is calibrated on the "
        "whole log. A real interest that no model can see looks random, too: look at the clicks before you delete them."
    ]
    if findings.injection_checks:
        paragraphs.append(describe_checks(findings.injection_checks))
    if findings.weighting != "plan":
        paragraphs.append(
            "The weight of a click is (1 − p)², with its noise probability p. Where the log cannot tell its noise, "
            "weights are 1 but for bots and marked clicks."
        )
    is_relabelled = findings.weighting in ("plan", "both")
    return [*paragraphs, f"{plan} {relabelling}" if is_relabelled else f"{plan} Here it only describes the clicks."]
