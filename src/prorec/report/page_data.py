"""The data that the page's script reads: columns over users, items and clicks, as JSON.

A column of numbers is stored as base64 of its bytes, which is small, exact and fast to read.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.noise.account_groups import group_accounts
from prorec.noise.flag_audit import draw_flagged
from prorec.noise.issue_sentences import describe_user
from prorec.report.click_reasons import explain_clicks
from prorec.report.findings import Findings
from prorec.report.formatting import truncate
from prorec.report.gain import RecommendationLists
from prorec.report.page_texts import DEFINITIONS
from prorec.report.row_selection import RowSelection
from prorec.report.user_matrices import drop_popular_items, find_neighbors

_N_NEIGHBORS = 7  # with the user eight rows, as in the paper's figure
_MAX_PAIRS = 50_000_000  # pairs of users who share an item; visiting them takes seconds
_NAME_LENGTH = 200  # nobody reads more, and the page must stay small
_END_OF_LIST, _NO_LIST = -1, -2
_DTYPES = {"float32": "<f4", "float64": "<f8", "int32": "<i4", "uint8": "<u1"}
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def make_page_data(findings: Findings, selection: RowSelection, lists: RecommendationLists | None) -> dict[str, Any]:
    """Collect the data that the page's script reads.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.
    selection : RowSelection
        Interactions that the page holds. Users and items are those of the selection.
    lists : RecommendationLists or None
        Recommendations for `selection.complete_users`.

    Returns
    -------
    dict
        Ready for `to_script_json`. `users.start` has the position of each user's first click.
    """
    interactions, positions = findings.interactions, selection.positions
    users, n_selected = np.unique(interactions.user_codes[positions], return_counts=True)
    is_complete = np.isin(users, selection.complete_users)
    recommended = np.zeros(0, dtype=np.int32) if lists is None else np.unique([lists.before, lists.after])
    items = np.union1d(interactions.item_codes[positions], recommended[recommended >= 0]).astype(np.int64)
    is_below = findings.row_shares < findings.thresholds[interactions.user_codes]
    weights_before = interactions.matrix.data[positions]

    def count_by_user(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(interactions.user_codes[mask], minlength=interactions.n_users)[users]

    def pack_lists(columns: NDArray[np.int32]) -> dict[str, str]:
        packed = np.full((len(users), columns.shape[1]), _NO_LIST, dtype=np.int32)
        packed[is_complete] = np.where(columns >= 0, np.searchsorted(items, columns), _END_OF_LIST)
        return pack_column(packed, "int32")

    def pack_clicks(values: NDArray[Any] | None, dtype: str) -> dict[str, str] | None:
        return None if values is None else pack_column(values[positions], dtype)

    names, categories = interactions.item_names, interactions.item_categories
    category_names = sorted({name for each in categories or () for name in each})
    category_index = {name: index for index, name in enumerate(category_names)}
    return {
        "isComplete": selection.is_complete,
        "nItems": findings.n_items,
        "nNeighbors": _N_NEIGHBORS,
        "k": 0 if lists is None else lists.before.shape[1],
        "categories": [truncate(name, _NAME_LENGTH) for name in category_names],
        "definitions": DEFINITIONS,
        "sample": _draw_sample(findings, positions),
        "reasons": explain_clicks(findings, positions),
        "accounts": _describe_accounts(findings, users),
        "users": {
            "id": _to_texts(interactions.users[users]),
            "activity": pack_column(interactions.activity[users], "int32"),
            "nFlagged": pack_column(count_by_user(findings.flagged), "int32"),
            "nBelow": pack_column(count_by_user(is_below), "int32"),
            "kappa": pack_column(findings.kappa[users], "int32"),
            "threshold": pack_column(findings.thresholds[users], "float32"),
            "start": pack_column(np.append(0, np.cumsum(n_selected)), "int32"),
            "isComplete": pack_column(is_complete, "uint8"),
            "neighbors": pack_column(_find_page_neighbors(interactions.matrix, users, is_complete), "int32"),
            "before": None if lists is None else pack_lists(lists.before),
            "after": None if lists is None else pack_lists(lists.after),
        },
        "items": {
            "id": _to_texts(interactions.items[items]),
            "name": None if names is None else [truncate(str(name), _NAME_LENGTH) for name in names[items]],
            "categories": [[category_index[name] for name in categories[item]] for item in items]
            if categories is not None and category_names
            else None,
        },
        "clicks": {
            "item": pack_column(np.searchsorted(items, interactions.item_codes[positions]), "int32"),
            "probability": pack_clicks(findings.noise_probability, "float32"),
            "weight": pack_clicks(findings.weights, "float32"),
            "weightBefore": None if (weights_before == 1).all() else pack_column(weights_before, "float32"),
            "rowShare": pack_clicks(findings.row_shares, "float32"),
            "percentileRank": pack_clicks(findings.percentile_ranks, "float32"),
            "time": pack_clicks(findings.times, "float64"),
            "flagged": pack_clicks(findings.flagged, "uint8"),
        },
    }


def _describe_accounts(findings: Findings, users: NDArray[np.int32]) -> dict[int, dict[str, str]]:
    """Return the group and the reason of each extreme or suspicious account, by its index in the page."""
    issues = findings.issues
    if issues is None:
        return {}
    groups = group_accounts(issues, findings.basis)
    return {
        index: {"group": name, "reason": describe_user(issues, int(user))}
        for name, group in zip(groups._fields, groups, strict=True)
        for index, user in enumerate(users.tolist())
        if group[user]
    }


def pack_column(values: NDArray[Any], dtype: str) -> dict[str, str]:
    """Encode a column of numbers for the page's script.

    Parameters
    ----------
    values : ndarray
        The numbers, of any shape.
    dtype : {"float32", "float64", "int32", "uint8"}
        Type of the numbers in the page.

    Returns
    -------
    dict
        `dtype`, and `bytes` in base64 with the least significant byte first.

    Examples
    --------
    >>> pack_column(np.array([1, 2]), "uint8")
    {'dtype': 'uint8', 'bytes': 'AQI='}
    """
    raw = np.ascontiguousarray(values, dtype=_DTYPES[dtype]).tobytes()
    return {"dtype": dtype, "bytes": base64.b64encode(raw).decode("ascii")}


def to_script_json(contents: Any) -> Markup:
    r"""Write JSON that cannot end the script element around it, whatever names it has.

    Parameters
    ----------
    contents : Any
        Anything that `json.dumps` takes.

    Returns
    -------
    Markup

    Examples
    --------
    >>> to_script_json(["</script>"])
    Markup('["\\u003c/script\\u003e"]')
    """
    text = json.dumps(contents, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_ESCAPES))


def _draw_sample(findings: Findings, positions: NDArray[np.int64]) -> list[int]:
    """Draw flagged clicks for the reader to check, unless the page holds only some of the flagged clicks."""
    n_flagged = int(findings.flagged.sum())
    if not n_flagged or findings.sample_note or int(findings.flagged[positions].sum()) < n_flagged:
        return []
    return [int(each) for each in np.searchsorted(positions, draw_flagged(findings.flagged))]


def _to_texts(ids: NDArray[Any]) -> list[str]:
    """Convert ids to texts, because JavaScript rounds integers above 2^53."""
    return [str(each) for each in ids.tolist()]


def _find_page_neighbors(
    matrix: csr_array, users: NDArray[np.int32], is_complete: NDArray[np.bool_]
) -> NDArray[np.int32]:
    """Find the neighbours of each complete user among the complete users, as positions in `users`."""
    complete = np.flatnonzero(is_complete)
    neighbors = np.full((len(users), _N_NEIGHBORS), -1, dtype=np.int32)
    if len(complete):
        part = drop_popular_items(csr_array(matrix[users[complete]]), _MAX_PAIRS)
        indices = find_neighbors(part, np.arange(len(complete)), _N_NEIGHBORS)
        neighbors[complete] = np.where(indices >= 0, complete[indices], -1)
    return neighbors
