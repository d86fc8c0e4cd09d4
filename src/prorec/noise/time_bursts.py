"""Bursts in time: users and items with many clicks in a time that is short by the rhythm of the log.

Times are measured in two ways: as a share of the log's duration, and as a share of the log's clicks up to that time.
The width of a window is the larger of both, so that neither a busy hour of the whole log nor a slow season is a burst.
The scan statistic of a user or an item with n clicks is the largest log-likelihood ratio k·log(k/e) − (k − e) over all
windows, for k clicks where e = n·width are expected.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prorec._core.compilation import njit
from prorec._core.parallel import N_CORES, map_in_order
from prorec.interactions import Interactions
from prorec.noise.click_times import click_times
from prorec.noise.grouping import group_positions

Scores = NDArray[np.float64]

_MIN_CLICKS = 4  # in a burst
_MIN_USER_CLICKS = 10
_GROWTH = 1.3  # from one window size to the next
_MAX_WIDTH = 0.02
_MIN_USER_DEVIATIONS = 5.0
_MIN_SPREAD = 0.1
_GROUPS_PER_PIECE = 512


class Scan(NamedTuple):
    """The strongest burst of each user or of each item."""

    ratio: Scores
    """Log-likelihood ratio; 0 if there is no burst."""
    start: Scores
    """First time in the burst."""
    end: Scores
    """Last time in the burst."""


def score_bursts(interactions: Interactions) -> tuple[Scores, Scores]:
    """Score users and items by their clicks in a short time.

    An item is compared with the other items of the log. A user is compared with the other users, and takes the score of
    an item's burst that it is part of, times the share of its clicks at that time.

    Parameters
    ----------
    interactions : Interactions
        The log.

    Returns
    -------
    users, items : ndarray of float64
        Scores from 0 to 1; 0 in logs without times.
    """
    times = click_times(interactions)
    users, items = np.zeros(interactions.n_users), np.zeros(interactions.n_items)
    if times is None or not len(times) or np.ptp(times) <= 0:
        return users, items
    groups = (interactions.item_codes, interactions.n_items), (interactions.user_codes, interactions.n_users)
    by_item, by_user = map_in_order(lambda side: scan_times(times, *groups[side]), 2, N_CORES)
    items = _score_items(by_item.ratio, len(times))
    users = np.maximum(
        _score_users(by_user.ratio, interactions.activity), _join_bursts(interactions, times, by_item, items)
    )
    return users, items


def scan_times(times: Scores, groups: NDArray[np.integer], n_groups: int) -> Scan:
    """Find the strongest burst of each group of clicks.

    Parameters
    ----------
    times : ndarray of float64
        Time of each click.
    groups : ndarray of int
        User or item of each click.
    n_groups : int
        Number of users or items.

    Returns
    -------
    Scan
    """
    by_time = np.argsort(times, kind="stable")
    order, starts = group_positions(groups, n_groups, by_time)
    all_times = times[by_time]
    before, until = (np.searchsorted(all_times, times[order], side) for side in ("left", "right"))
    ratio, first, last = np.zeros(n_groups), np.zeros(n_groups, dtype=np.int64), np.zeros(n_groups, dtype=np.int64)
    windows = times[order], before, until, starts, np.ptp(times)
    pieces = range(0, n_groups, _GROUPS_PER_PIECE)

    def work(index: int) -> None:
        _scan_groups(*windows, pieces[index], min(pieces[index] + _GROUPS_PER_PIECE, n_groups), ratio, first, last)

    for _ in map_in_order(work, len(pieces), N_CORES):
        pass
    return Scan(ratio, times[order][first], times[order][last])


@njit(cache=True, nogil=True)
def _scan_groups(times, before, until, starts, duration, begin, end, ratio, first, last):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Write the strongest burst of some groups; of equal ones the last of the smallest."""
    for group in range(begin, end):
        size = starts[group + 1] - starts[group]
        k = _MIN_CLICKS
        while k <= size:
            best, position = 0.0, 0
            for start in range(starts[group], starts[group + 1] - k + 1):
                stop = start + k - 1
                width = max((until[stop] - before[start]) / len(times), (times[stop] - times[start]) / duration)
                expected = size * width
                if width <= _MAX_WIDTH and k > expected:
                    value = k * np.log(k / expected) - (k - expected)
                    if value >= best:
                        best, position = value, start
            if best > ratio[group]:
                ratio[group], first[group], last[group] = best, position, position + k - 1
            k = int(np.ceil(k * _GROWTH))


def _score_items(ratio: Scores, n_clicks: int) -> Scores:
    """Score items by how far their scan statistic is beyond chance and beyond that of 99% of the items."""
    usual = max(np.log(n_clicks) + 3, 1.5 * float(np.quantile(ratio, 0.99)))
    return np.asarray(1 - np.exp(-np.maximum(ratio - usual, 0) / 3))


def _score_users(ratio: Scores, activity: NDArray[np.int64]) -> Scores:
    """Score users by their scan statistic for each click, in deviations from the median user."""
    is_compared = activity >= _MIN_USER_CLICKS
    if not is_compared.any():
        return np.zeros(len(ratio))
    strength = ratio / np.maximum(activity, 1)
    middle = float(np.median(strength[is_compared]))
    spread = max(1.4826 * float(np.median(np.abs(strength[is_compared] - middle))), _MIN_SPREAD)
    deviations = np.where(is_compared, (strength - middle) / spread, 0.0)
    return np.asarray(1 - np.exp(-np.maximum(deviations - _MIN_USER_DEVIATIONS, 0) / 2))


def _join_bursts(interactions: Interactions, times: Scores, by_item: Scan, items: Scores) -> Scores:
    """Return for each user the largest score of a burst that it is part of, times its share of clicks at that time."""
    scores = np.zeros(interactions.n_users)
    for item in np.flatnonzero(items > 0):
        start, end = by_item.start[item], by_item.end[item]
        is_inside = (times >= start) & (times <= end)
        members = interactions.user_codes[is_inside & (interactions.item_codes == item)]
        # The window holds the clicks on the item; the same users' other clicks lie around it.
        is_near = (times >= 2 * start - end) & (times <= 2 * end - start)
        n_near = np.bincount(interactions.user_codes[is_near], minlength=interactions.n_users)[members]
        scores[members] = np.maximum(scores[members], items[item] * n_near / interactions.activity[members])
    return scores
