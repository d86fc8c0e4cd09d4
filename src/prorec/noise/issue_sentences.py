"""Sentences about single accounts and items: why each is suspicious."""

from __future__ import annotations

import numpy as np

from prorec.noise.issues import Issues

_MIN_NAMED_SCORE = 0.5
_MIN_NAMED_COVERAGE = 0.1
_USER_REASONS = {
    "random_history": "clicked items that go together no more than random items do",
    "regular_times": "clicked at regular times",
    "catalogue_walk": "clicked one item after the other in the order of the catalogue",
    "cloned_history": "shares nearly all of its items with another account",
    "burst": "clicked far more in a short time than others",
}
_ITEM_REASONS = {
    "pushed_item": "has most of its clicks from suspicious accounts",
    "item_burst": "was clicked far more in a short time than others",
}


def describe_user(issues: Issues, user: int) -> str:
    """Say why an account is suspicious.

    Parameters
    ----------
    issues : Issues
        Issues of a log.
    user : int
        Row of the user.

    Returns
    -------
    str
        One sentence, or two for an extreme account.

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
    sentence = _join(reasons or ["slightly suspicious for several reasons"])
    return f"{sentence} Kept out of the fit." if issues.is_extreme[user] else sentence


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
        One sentence.
    """
    scores = {name: issues.item_scores[name][item] for name in _ITEM_REASONS}
    reasons = [_ITEM_REASONS[name] for name, score in scores.items() if score >= _MIN_NAMED_SCORE]
    return _join(reasons or [_ITEM_REASONS[max(scores, key=lambda name: scores[name])]])


def most_suspicious(issues: Issues, kind: str, limit: int) -> list[tuple[int, float]]:
    """Return the most suspicious accounts or items.

    Parameters
    ----------
    issues : Issues
        Issues of a log.
    kind : {"users", "items"}
        Accounts or items.
    limit : int
        Maximum number.

    Returns
    -------
    list of tuple
        Row or column and score, of at least 0.5: extreme accounts, then by score, then by number of interactions.
    """
    log = issues.interactions
    if kind == "users":
        scores, n_clicks, is_first = issues.user_scores["account"], log.activity, issues.is_extreme
    else:
        scores, n_clicks = np.maximum.reduce(list(issues.item_scores.values())), log.popularity
        is_first = np.zeros(len(scores), dtype=bool)
    order = np.lexsort((-n_clicks, -scores.round(2), ~is_first))[:limit]
    return [(int(each), float(scores[each])) for each in order if scores[each] >= _MIN_NAMED_SCORE]


def _join(reasons: list[str]) -> str:
    text = reasons[0] if len(reasons) == 1 else f"{', '.join(reasons[:-1])}, and {reasons[-1]}"
    return f"{text[0].upper()}{text[1:]}."
