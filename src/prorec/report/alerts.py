"""Alerts: what else stands out in a log, each in one sentence with a count and a place in the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prorec.noise.issues import MIN_COUNTED_SCORE
from prorec.report.findings import Findings
from prorec.report.formatting import format_count, format_percent, truncate

_N_NAMED, _NAME_LENGTH = 5, 40
_MIN_SINGLE_SHARE = 0.1
"""Share of users with one click, from which the log has too little data for an alert."""


@dataclass(frozen=True)
class Alert:
    """Something that stands out."""

    label: str
    """Name of the problem."""
    sentence: str
    """Sentence with a count."""
    target: str
    """Id of the part of the page that shows it."""


def make_alerts(findings: Findings, n_rows: int | None) -> list[Alert]:
    """Write the alerts about a log.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.
    n_rows : int or None
        Number of rows of the log, if it is known.

    Returns
    -------
    list of Alert
        The most important first.
    """
    return [*_account_alerts(findings), *_item_alerts(findings), *_data_alerts(findings, n_rows)]


def _account_alerts(findings: Findings) -> Iterator[Alert]:
    """Yield one alert for each kind of account; nobody is in two of them."""
    issues = findings.issues
    if issues is None:
        return
    has = {name: scores > MIN_COUNTED_SCORE for name, scores in issues.user_scores.items()}
    tests = has["catalogue_walk"]
    bots = (issues.is_extreme | has["regular_times"]) & ~tests
    copies = has["cloned_history"] & ~bots & ~tests
    others = (has["random_history"] | has["burst"]) & ~copies & ~bots & ~tests
    activity, n = issues.interactions.activity, len(issues.interactions)
    for label, users, one, many in (
        ("Bots", bots, "acts like a program", "act like programs"),
        ("Test accounts", tests, "walks through the catalogue in order", "walk through the catalogue in order"),
        ("Copies", copies, "has nearly all items of another account", "have nearly all items of another account"),
        ("Odd accounts", others, "clicks at random or in a burst", "click at random or in bursts"),
    ):
        if n_users := int(users.sum()):
            clicks = format_count(int(activity[users].sum()), "click")
            share = format_percent(int(activity[users].sum()), n)
            verb = one if n_users == 1 else many
            counts = f"{format_count(n_users, 'account')} {verb}: {clicks} ({share})."
            yield Alert(label, f"{counts} {_name_accounts(findings, np.flatnonzero(users))}", "issues-accounts")


def _name_accounts(findings: Findings, users: NDArray[np.intp]) -> str:
    """Return a sentence with the ids of accounts, the most active first."""
    log = findings.interactions
    order = users[np.argsort(-log.activity[users], kind="stable")]
    names = [truncate(str(log.users[user]), _NAME_LENGTH) for user in order[:_N_NAMED]]
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    if len(users) > _N_NAMED:
        return f"The most active are {listed}."
    return f"They are {listed}." if len(users) > 1 else f"It is {listed}."


def _item_alerts(findings: Findings) -> Iterator[Alert]:
    issues = findings.issues
    if issues is None:
        return
    pushed, burst = (issues.item_scores[name] > MIN_COUNTED_SCORE for name in ("pushed_item", "item_burst"))
    if n_items := int(pushed.sum()):
        verb = "has most of its" if n_items == 1 else "have most of their"
        yield Alert(
            "Pushed items", f"{format_count(n_items, 'item')} {verb} clicks from suspicious accounts.", "issues-items"
        )
    if n_items := int((burst & ~pushed).sum()):
        verb = "was" if n_items == 1 else "were"
        yield Alert(
            "Bursts",
            f"{format_count(n_items, 'item')} {verb} clicked far more in a short time than others.",
            "issues-items",
        )


def _data_alerts(findings: Findings, n_rows: int | None) -> Iterator[Alert]:
    """Yield alerts about the log as a whole."""
    log, rate = findings.interactions, findings.noise_rate
    if n_rows is not None and (n_repeats := n_rows - len(log)) > 0:
        verb = "repeats" if n_repeats == 1 else "repeat"
        sentence = f"{format_count(n_repeats, 'row')} {verb} a user and an item; each pair counts once."
        yield Alert("Repeats", sentence, "log")
    n_users, n_single = int(np.count_nonzero(log.activity)), int((log.activity == 1).sum())
    if n_single >= _MIN_SINGLE_SHARE * n_users:
        share = format_percent(n_single, n_users)
        users = f"{format_count(n_single, 'user')} ({share})"
        sentence = f"{users} with a single click each, which only the popularity of the item can judge."
        yield Alert("Too little data", sentence, "log")
    if findings.issues is not None and not findings.issues.can_tell:
        sentence = (
            f"The items of {format_count(n_users, 'user')} go together hardly more than random ones, so nobody is "
            "suspected for random clicks."
        )
        yield Alert("Too little data", sentence, "log")
    if rate is not None and not rate.is_identified:
        sentence = (
            f"Apart from popularity, the {format_count(len(log), 'click')} hardly differ from random ones, so this log "
            "cannot tell its noise."
        )
        yield Alert("Popularity explains it", sentence, "charts")
