"""The tables of suspicious accounts and items in the page."""

from __future__ import annotations

from dataclasses import dataclass

from prorec.noise.issue_sentences import describe_item, describe_user, most_suspicious
from prorec.noise.issues import MIN_COUNTED_SCORE
from prorec.report.findings import Findings
from prorec.report.formatting import truncate

_MAX_ROWS = 50
_NAME_LENGTH = 200


@dataclass(frozen=True)
class IssueRow:
    """A suspicious account or item."""

    name: str
    """Id of the account, or name of the item."""
    score: float
    """Score from 0 to 1."""
    n_clicks: int
    """Activity of the account, or popularity of the item."""
    reason: str
    """Reason, in a sentence."""


@dataclass(frozen=True)
class IssueTable:
    """The most suspicious accounts or items."""

    key: str
    """Name for the page's script: `accounts` or `items`."""
    title: str
    """Heading."""
    role: str
    """Heading of the first column."""
    note: str
    """Sentence below the heading."""
    rows: list[IssueRow]
    """Rows, the most suspicious first."""

    @property
    def has_alert(self) -> bool:
        """Whether a score is so high that there is an alert."""
        return any(row.score > MIN_COUNTED_SCORE for row in self.rows)


def make_issue_tables(findings: Findings) -> list[IssueTable]:
    """Make the tables of suspicious accounts and items.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.

    Returns
    -------
    list of IssueTable
        Accounts and items; empty without cross-fitting.
    """
    issues = findings.issues
    if issues is None:
        return []
    log = issues.interactions
    names = log.items if log.item_names is None else log.item_names
    accounts = [
        _make_row(str(log.users[user]), score, int(log.activity[user]), describe_user(issues, user))
        for user, score in most_suspicious(issues, "users", _MAX_ROWS)
    ]
    items = [
        _make_row(str(names[item]), score, int(log.popularity[item]), describe_item(issues, item))
        for item, score in most_suspicious(issues, "items", _MAX_ROWS)
    ]
    return [
        IssueTable("accounts", "Accounts", "user", _make_note(accounts, "account", "finder.users()"), accounts),
        IssueTable("items", "Items", "item", _make_note(items, "item", "finder.items()"), items),
    ]


def _make_row(name: str, score: float, n_clicks: int, reason: str) -> IssueRow:
    return IssueRow(truncate(name, _NAME_LENGTH), score, n_clicks, reason)


def _make_note(rows: list[IssueRow], noun: str, method: str) -> str:
    if not rows:
        return f"No {noun} is suspicious."
    note = "The score, from 0 to 1, orders suspicions; it is not a calibrated probability."
    return f"{note} The table has {len(rows)} rows; {method} has all." if len(rows) == _MAX_ROWS else note
