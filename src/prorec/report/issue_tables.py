"""The tables of suspicious accounts and items in the page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prorec.noise.account_groups import group_accounts
from prorec.noise.issue_sentences import describe_item, describe_user, list_items, list_users
from prorec.report.findings import Findings
from prorec.report.formatting import format_percent, truncate

_MAX_ROWS = 50
_NAME_LENGTH = 200
_SUSPICIOUS = (
    "These accounts look odd. Their clicks are neither flagged nor down-weighted for that, and --drop keeps them. "
    "Models may find the clicks of such an account genuine: copies of an account predict one another, and a busy "
    "person may look odd as a whole. Look at each account; the command below the verdict removes those that it names."
)
_EXTREME = (
    "These accounts act like programs. They are left out of the fit, their clicks are flagged and have almost no "
    "weight, and --drop removes them."
)


@dataclass(frozen=True)
class IssueRow:
    """An account or an item that stands out."""

    name: str
    """Id of the account, or name of the item."""
    n_clicks: int
    """Activity of the account, or popularity of the item."""
    n_flagged: int
    """Number of flagged clicks."""
    noise: float
    """Mean noise probability of the clicks."""
    reason: str
    """Reason, in a sentence."""

    @property
    def noise_text(self) -> str:
        """The mean noise probability in percent."""
        return format_percent(self.noise)


@dataclass(frozen=True)
class IssueTable:
    """Accounts or items that stand out."""

    key: str
    """Name for the page's script: `extreme`, `suspicious` or `items`."""
    title: str
    """Heading."""
    role: str
    """Heading of the first column."""
    note: str
    """Sentences below the heading."""
    rows: list[IssueRow]
    """Rows, the most active accounts and the most suspicious items first."""


def make_issue_tables(findings: Findings) -> list[IssueTable]:
    """Make the tables of extreme accounts, suspicious accounts and suspicious items.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.

    Returns
    -------
    list of IssueTable
        Empty without cross-fitting.
    """
    issues = findings.issues
    if issues is None:
        return []
    log, groups = issues.interactions, group_accounts(issues, findings.basis)
    names = log.items if log.item_names is None else log.item_names
    noise = [
        np.bincount(codes, findings.noise_probability, n) / np.maximum(np.bincount(codes, minlength=n), 1)
        for codes, n in ((log.user_codes, log.n_users), (log.item_codes, log.n_items))
    ]
    flags = [
        np.bincount(codes[findings.flagged], minlength=n)
        for codes, n in ((log.user_codes, log.n_users), (log.item_codes, log.n_items))
    ]

    def make_row(side: int, at: int) -> IssueRow:
        name, n_clicks = (names[at], log.popularity[at]) if side else (log.users[at], log.activity[at])
        reason = describe_item(issues, at) if side else describe_user(issues, at)
        return IssueRow(
            truncate(str(name), _NAME_LENGTH), int(n_clicks), int(flags[side][at]), float(noise[side][at]), reason
        )

    extreme, suspicious = list_users(issues, groups.extreme), list_users(issues, groups.suspicious)
    items = list_items(issues)
    return [
        IssueTable(
            "extreme",
            "Extreme accounts",
            "user",
            _make_note(_EXTREME, len(extreme), "No account is extreme.", "finder.users()"),
            [make_row(0, user) for user in extreme[:_MAX_ROWS]],
        ),
        IssueTable(
            "suspicious",
            "Suspicious accounts",
            "user",
            _make_note(_SUSPICIOUS, len(suspicious), "No account is suspicious.", "finder.users()"),
            [make_row(0, user) for user in suspicious[:_MAX_ROWS]],
        ),
        IssueTable(
            "items",
            "Suspicious items",
            "item",
            _make_note("", len(items), "No item is suspicious.", "finder.items()"),
            [make_row(1, item) for item in items[:_MAX_ROWS]],
        ),
    ]


def _make_note(note: str, n_rows: int, nothing: str, method: str) -> str:
    if not n_rows:
        return nothing
    return f"{note} The table has {_MAX_ROWS} of {n_rows:,}; {method} has all." if n_rows > _MAX_ROWS else note
