"""Sentences about single accounts and items: why each is suspicious."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prorec.noise.issues import MIN_COUNTED_SCORE, Issues

_MIN_NAMED_SCORE = 0.5
_MIN_NAMED_COVERAGE = 0.1
_USER_REASONS = {
    "random_history": "clicked items that go together no more than random items do",
    "regular_times": "clicked at regular times",
    "catalogue_walk": "clicked one item after the other in the order of the catalogue",
    "cloned_history": "shares nearly all of its items with another account",
    "burst": "clicked far more in a short time than others",
}


def describe_user(issues: Issues, user: int) -> str:
    """Say why an account is extreme or suspicious.

    Parameters
    ----------
    issues : Issues
        Issues of a log.
    user : int
        Row of the user.

    Returns
    -------
    str
        One sentence.

    Examples
    --------
    >>> import prorec
    >>> noisy = prorec.inject_noise(prorec.load_dataset("cinema"), 0.01, "clones", seed=1)
    >>> issues = prorec.noise.find_issues(noisy.interactions)
    >>> describe_user(issues, noisy.interactions.n_users - 1)
    'Shares nearly all of its items with another account.'
    """
    reasons = [text for name, text in _USER_REASONS.items() if issues.user_scores[name][user] >= _MIN_NAMED_SCORE]
    coverage = issues.interactions.activity[user] / issues.interactions.n_items
    if reasons and coverage >= _MIN_NAMED_COVERAGE:
        reasons.insert(0, f"clicked {coverage:.0%} of the catalogue")
    if issues.has_test_name[user]:
        reasons.insert(0, "is called like a test account")
    return _join(reasons or ["has several weak signs of a program"])


def describe_item(issues: Issues, item: int) -> str:
    """Say why an item is suspicious.

    Parameters
    ----------
    issues : Issues
        Issues of a log.
    item : int
        Column of the item.

    Returns
    -------
    str
        One sentence. It says "most" only of more than half of the item's clicks.
    """
    pushed, burst = (issues.item_scores[name][item] for name in ("pushed_item", "item_burst"))
    reasons = []
    if pushed >= _MIN_NAMED_SCORE or pushed > burst:
        n, n_odd = int(issues.interactions.popularity[item]), int(count_odd_clicks(issues)[item])
        if not n_odd:
            reasons.append("has more users with random items than chance explains")
        else:
            much = "most of its clicks" if 2 * n_odd > n else "more clicks than chance explains"
            reasons.append(f"has {much} from accounts that act like programs or look odd ({n_odd:,} of {n:,})")
    if burst >= _MIN_NAMED_SCORE or not reasons:
        reasons.append("was clicked far more in a short time than others")
    return _join(reasons)


def count_odd_clicks(issues: Issues) -> NDArray[np.int64]:
    """Count each item's clicks from extreme and suspicious accounts.

    Parameters
    ----------
    issues : Issues
        Issues of a log.

    Returns
    -------
    ndarray of int64
    """
    log = issues.interactions
    is_odd = (issues.is_extreme | issues.is_suspicious)[log.user_codes]
    return np.bincount(log.item_codes[is_odd], minlength=log.n_items)


def list_users(issues: Issues, is_listed: NDArray[np.bool_]) -> list[int]:
    """Return some accounts, the most active first.

    Parameters
    ----------
    issues : Issues
        Issues of a log.
    is_listed : ndarray of bool
        Whether to list each user, such as `group_accounts` has it.

    Returns
    -------
    list of int
        Rows of the users.
    """
    users = np.flatnonzero(is_listed)
    return [int(each) for each in users[np.argsort(-issues.interactions.activity[users], kind="stable")]]


def list_items(issues: Issues) -> list[int]:
    """Return the suspicious items, the highest score first.

    Parameters
    ----------
    issues : Issues
        Issues of a log.

    Returns
    -------
    list of int
        Columns of the items with a score above 0.9.
    """
    scores = np.maximum.reduce(list(issues.item_scores.values()))
    order = np.lexsort((-issues.interactions.popularity, -scores.round(2)))
    return [int(each) for each in order if scores[each] > MIN_COUNTED_SCORE]


def _join(reasons: list[str]) -> str:
    text = reasons[0] if len(reasons) == 1 else f"{', '.join(reasons[:-1])}, and {reasons[-1]}"
    return f"{text[0].upper()}{text[1:]}."
