"""Reasons why single clicks are suspicious, in words that can be checked by counting in the log."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.noise.issue_sentences import describe_user
from prorec.noise.posterior import ACCOUNT, MARKED
from prorec.report.findings import Findings
from prorec.report.formatting import format_count, format_percent

_MAX_REASONS = 10_000  # nobody reads more
_MAX_VISITED = 30_000_000  # interactions of other users that are looked at, which takes seconds
N_UNFLAGGED = 200
"""Clicks that are not flagged, but explained."""


def explain_clicks(findings: Findings, positions: NDArray[np.int64]) -> dict[int, str]:
    """Say why clicks are suspicious: the flagged ones, and the most suspicious ones of the others.

    A click of an extreme account has the account's reason. For any other, the item's other users are compared with
    those of the user's other items, by the share of their other clicks that is on the user's items.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.
    positions : ndarray
        Positions of the clicks that a page holds, in the order of `interactions.matrix.data`.

    Returns
    -------
    dict of int to str
        A sentence for each click, by its index in `positions`. Of very many flagged clicks the most suspicious ones
        have a sentence.
    """
    log, basis = findings.interactions, findings.basis
    is_flagged = findings.flagged[positions]
    by_noise = np.argsort(-findings.noise_probability[positions], kind="stable")
    flagged, unflagged = by_noise[is_flagged[by_noise]], by_noise[~is_flagged[by_noise]]
    reasons, others = {}, []
    for index in [*flagged[:_MAX_REASONS].tolist(), *unflagged[:N_UNFLAGGED].tolist()]:
        position = positions[index]
        if basis is not None and basis[position] == MARKED:
            is_suspect = findings.noise_probability[position] == 1
            reasons[index] = "Marked as noise by people." if is_suspect else "Marked as genuine by people."
        elif basis is not None and basis[position] == ACCOUNT and findings.issues is not None:
            reasons[index] = describe_user(findings.issues, int(log.user_codes[position]))
        else:
            others.append(index)
    chosen = np.array(others, dtype=np.int64)
    sentences = compare_with_other_items(log.matrix, log.user_codes[positions[chosen]], positions[chosen])
    return reasons | {others[row]: sentence for row, sentence in sentences.items()}


def compare_with_other_items(
    matrix: csr_array, users: NDArray[np.integer], positions: NDArray[np.int64], max_visited: int = _MAX_VISITED
) -> dict[int, str]:
    """Compare the users of an item with those of the user's other items.

    For a user u with items A and an item i of these, let V be the other users of i. The share of i is the number of
    clicks of V on A without i, divided by the number of clicks of V without those on i.

    Parameters
    ----------
    matrix : csr_array
        Interactions, users × items; all of them count, whatever their weight.
    users, positions : ndarray
        Row of each click, and its position in `matrix.data`.
    max_visited : int
        Maximum number of interactions of other users to look at. The first users are explained.

    Returns
    -------
    dict of int to str
        A sentence for each click, by its index in `positions`.

    Examples
    --------
    >>> clicks = csr_array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1]])
    >>> compare_with_other_items(clicks, np.array([0]), np.array([2]))[0]
    'Its 1 other user shares no other item with this user; users of each of the 2 other items share some.'
    """
    by_item = csr_array(csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape).T)
    popularity, activity = np.diff(by_item.indptr), np.diff(matrix.indptr)
    first_seen, first = np.unique(users, return_index=True)
    sentences: dict[int, str] = {}
    n_visited = 0
    for user in first_seen[np.argsort(first)].tolist():
        start, end = matrix.indptr[user], matrix.indptr[user + 1]
        items = matrix.indices[start:end]
        n_visited += int(popularity[items].sum())
        if n_visited > max_visited:
            break
        rows = by_item[items]
        is_other = rows.indices != user
        item = np.repeat(np.arange(len(items)), np.diff(rows.indptr))[is_other]
        other_users, inverse, n_common = np.unique(rows.indices[is_other], return_inverse=True, return_counts=True)
        # The item itself is neither among the common clicks nor among the other clicks.
        common = np.bincount(item, n_common[inverse] - 1, len(items))
        total = np.bincount(item, activity[other_users][inverse] - 1, len(items))
        share = common / np.maximum(total, 1)
        for index in np.flatnonzero(users == user).tolist():
            own = int(positions[index] - start)
            n_larger = int(np.count_nonzero(share > share[own]))
            n_others = int(popularity[items[own]]) - 1
            sentences[index] = _describe_shares(len(items) - 1, n_others, float(share[own]), n_larger)
    return sentences


def _describe_shares(n_items: int, n_others: int, share: float, n_larger: int) -> str:
    """Describe an item by its other users; `n_larger` of the user's other items have a larger share."""
    if not n_items:
        return "The only click of this user."
    if not n_others:
        return "No other user has this item."
    users = f"Its {format_count(n_others, 'other user')} {'shares' if n_others == 1 else 'share'}"
    compared = f"{'the' if n_items == 1 else 'each of the'} {format_count(n_items, 'other item')}"
    if n_larger < n_items:
        compared = f"{n_larger:,} of the {format_count(n_items, 'other item')}"
    shared = f"{format_percent(share)} of their other clicks" if share else "no other item"
    if 2 * n_larger > n_items:
        return f"{users} {shared} with this user; users of {compared} share {'more' if share else 'some'}."
    return f"{users} {shared} with this user, which is not unusual: the models doubt this item for other reasons."
