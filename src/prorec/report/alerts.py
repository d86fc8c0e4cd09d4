"""Alerts: what else stands out in a log, each in one sentence with a count and a place in the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prorec.noise.account_groups import group_accounts
from prorec.noise.issue_sentences import count_odd_clicks, describe_user
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
    is_problem: bool = True
    """Whether somebody should look at it; otherwise it is only good to know."""


def make_alerts(findings: Findings, n_rows: int | None, n_left_out: int = 0) -> list[Alert]:
    """Write the alerts about a log.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.
    n_rows : int or None
        Number of rows of the log that were used, if it is known.
    n_left_out : int, default 0
        Number of rows that cannot be used and were left out.

    Returns
    -------
    list of Alert
        The most important first.
    """
    left_out = []
    if n_left_out:
        were = "row cannot be used and was" if n_left_out == 1 else "rows cannot be used and were"
        share = "" if n_rows is None else f" ({format_percent(n_left_out, n_left_out + n_rows)} of the file)"
        left_out = [Alert("Rows left out", f"{n_left_out:,} {were} left out{share}.", "log")]
    return [*left_out, *_account_alerts(findings), *_item_alerts(findings), *_data_alerts(findings, n_rows)]


def _account_alerts(findings: Findings) -> Iterator[Alert]:
    """Yield one alert for each kind of account; nobody is in two of them."""
    issues = findings.issues
    if issues is None:
        return
    extreme, suspicious = group_accounts(issues, findings.basis)
    tests = suspicious & issues.is_test
    copies = suspicious & (issues.user_scores["cloned_history"] > MIN_COUNTED_SCORE) & ~tests
    regular = suspicious & (issues.user_scores["regular_times"] > MIN_COUNTED_SCORE) & ~tests & ~copies
    others = suspicious & ~tests & ~copies & ~regular
    log, n = issues.interactions, len(issues.interactions)
    is_all_flagged = bool(findings.flagged[extreme[log.user_codes]].all())
    left_out = f"left out of the fit{', and all flagged' if is_all_flagged else ''}"
    kept = "neither flagged nor down-weighted for that"
    for label, users, one, many, done in (
        ("Extreme accounts", extreme, "acts like a program", "act like programs", left_out),
        ("Test accounts", tests, "looks like a test", "look like tests", kept),
        ("Copies", copies, "has nearly all items of another account", "have nearly all items of another account", kept),
        ("Regular times", regular, "clicked at regular times", "clicked at regular times", kept),
        ("Odd accounts", others, "looks odd", "look odd", kept),
    ):
        if n_users := int(users.sum()):
            clicks = format_count(int(log.activity[users].sum()), "click")
            share = format_percent(int(log.activity[users].sum()), n)
            verb = one if n_users == 1 else many
            counts = f"{format_count(n_users, 'account')} {verb}: {clicks} ({share}), {done}."
            target = "issues-extreme" if users is extreme else "issues-suspicious"
            yield Alert(label, f"{counts} {_name_accounts(findings, np.flatnonzero(users))}", target)


def _name_accounts(findings: Findings, users: NDArray[np.intp]) -> str:
    """Return a sentence with the ids of accounts, the most active first."""
    log = findings.interactions
    order = users[np.argsort(-log.activity[users], kind="stable")]
    names = [truncate(str(log.users[user]), _NAME_LENGTH) for user in order[:_N_NAMED]]
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    if len(users) > _N_NAMED:
        return f"The most active are {listed}."
    if len(users) > 1:
        return f"They are {listed}."
    reason = describe_user(findings.issues, int(users[0])) if findings.issues is not None else ""
    return f"It is {listed}. {reason}".rstrip()


def _item_alerts(findings: Findings) -> Iterator[Alert]:
    issues = findings.issues
    if issues is None:
        return
    pushed, burst = (issues.item_scores[name] > MIN_COUNTED_SCORE for name in ("pushed_item", "item_burst"))
    if n_items := int(pushed.sum()):
        n_odd, popularity = count_odd_clicks(issues), issues.interactions.popularity
        items = np.flatnonzero(pushed)
        items = items[np.argsort(-n_odd[items], kind="stable")]
        verb = "has" if n_items == 1 else "have"
        much = f"more of {'its' if n_items == 1 else 'their'} clicks than chance explains"
        if (2 * n_odd[items] > popularity[items]).all():
            much = f"most of {'its' if n_items == 1 else 'their'} clicks"
        names = (
            findings.interactions.items
            if findings.interactions.item_names is None
            else (findings.interactions.item_names)
        )
        listed = ", ".join(
            f"{truncate(str(names[item]), _NAME_LENGTH)} ({n_odd[item]:,} of {popularity[item]:,})"
            for item in items[:_N_NAMED]
        )
        more = ", …" if n_items > _N_NAMED else ""
        yield Alert(
            "Suspicious items",
            f"{format_count(n_items, 'item')} {verb} {much} from accounts that act like programs or look odd: "
            f"{listed}{more}.",
            "issues-items",
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
        yield Alert("Repeats", sentence, "log", is_problem=False)
    n_users, n_single = int(np.count_nonzero(log.activity)), int((log.activity == 1).sum())
    if n_single >= _MIN_SINGLE_SHARE * n_users:
        share = format_percent(n_single, n_users)
        users = f"{format_count(n_single, 'user')} ({share})"
        sentence = f"{users} with a single click each, which only the popularity of the item can judge."
        yield Alert("Too little data", sentence, "log", is_problem=False)
    if findings.issues is not None and not findings.issues.can_tell:
        sentence = (
            f"The items of {format_count(n_users, 'user')} go together hardly more than random ones, so nobody is "
            "suspected for random clicks."
        )
        yield Alert("Too little data", sentence, "log", is_problem=False)
    if rate is not None and not rate.is_identified:
        sentence = (
            f"Apart from popularity, the {format_count(len(log), 'click')} hardly differ from random ones, so this log "
            "cannot tell its noise."
        )
        yield Alert("Popularity explains it", sentence, "charts")
