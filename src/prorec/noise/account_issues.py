"""Issues of accounts and items: bots, test accounts, cloned histories, bursts and pushed items."""

from __future__ import annotations

import numpy as np

from prorec._core.errors import InputError
from prorec._core.random import make_generator
from prorec.interactions import Interactions
from prorec.noise.catalogue_walks import score_catalogue_walks
from prorec.noise.extreme_accounts import EXTREME_SCORE, find_extreme_accounts
from prorec.noise.issues import MIN_COUNTED_SCORE, Issues
from prorec.noise.pushed_items import score_pushed_items
from prorec.noise.random_histories import score_histories, sigmoid
from prorec.noise.regular_times import score_regular_times
from prorec.noise.time_bursts import score_bursts

_LOG_PRIOR_ODDS = -np.log(19.0)  # few accounts of a log are no people


def find_issues(interactions: Interactions, *, seed: int = 0) -> Issues:
    """Score accounts that behave like bots or tests, cloned histories, bursts, and items pushed by few accounts.

    docs/issue-types.md explains each issue and how well it is found.

    Parameters
    ----------
    interactions : Interactions
        The log; with a column `timestamp`, times are scored too.
    seed : int, default 0
        Seed of the synthetic accounts.

    Returns
    -------
    Issues

    Raises
    ------
    InputError
        If there is no interaction.

    Examples
    --------
    >>> import prorec
    >>> noisy = prorec.inject_noise(prorec.load_dataset("cinema"), 0.01, "bots")
    >>> issues = find_issues(noisy.interactions)
    >>> issues.users().column_names[:6]
    ['user', 'activity', 'account', 'random_history', 'regular_times', 'catalogue_walk']
    >>> int(issues.is_extreme.sum())
    10
    """
    if not len(interactions):
        raise InputError("there is no interaction; finding issues needs at least one")
    rng = make_generator(seed)
    regular, walks = score_regular_times(interactions), score_catalogue_walks(interactions)
    program_score = np.maximum(regular, walks)
    is_extreme = find_extreme_accounts(interactions, program_score, rng)
    histories = score_histories(interactions, is_extreme, rng)
    suspicion = sigmoid(histories.log_odds)
    # An extreme account clicked nearly everything, so it pushes no item.
    suspicion[is_extreme] = suspicion[~is_extreme].mean() if not is_extreme.all() else 0.5
    pushed, log_odds = score_pushed_items(interactions, suspicion)
    random_history = sigmoid(histories.log_odds + log_odds + _LOG_PRIOR_ODDS)
    if not histories.can_tell:
        random_history, pushed = np.zeros_like(random_history), np.zeros_like(pushed)
    random_history[is_extreme & (program_score <= MIN_COUNTED_SCORE)] = EXTREME_SCORE
    burst, item_burst = score_bursts(interactions)
    clones = np.clip((histories.overlap - 0.5) / 0.4, 0.0, 1.0)
    scores = {
        "random_history": random_history,
        "regular_times": regular,
        "catalogue_walk": walks,
        "cloned_history": clones,
        "burst": burst,
    }
    account = 1 - np.prod([1 - each for each in scores.values()], axis=0)
    items = {"pushed_item": pushed, "item_burst": item_burst}
    return Issues(interactions, {"account": account} | scores, items, is_extreme, histories.can_tell)
