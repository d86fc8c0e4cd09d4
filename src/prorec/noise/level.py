"""Where clicks that look unlike clicks can't be told from controls at all, there are noise and nothing else.

`noise_rate.py` reads its line off the tenth of each cell least like a click. That is for logs where true clicks
are found nearly everywhere. Where users keep to groups of items of their own, hardly a true click is in all of the
worse half of pairs. There f/f₀ is level, at h; and the half as a whole tells more than its tails, cell by cell, which
are nearly empty in a small log, so that a line below most of them lies at 0.

Pairs are ordered by a ratio that was learned from other users. One learned from the same pairs finds differences
between noise and controls that are chance, and puts clicks where there happen to be many: too few are left in the
worse half, by a sixth in a log of 4,000 clicks, and in its last tenth by a third.

With C clicks in the worse half, and E controls, as if there were as many of these as of clicks, h = C/E: Storey's
estimate at ½. What true clicks add to it is told by the fifth of all controls that comes next, C′ and E′. They are
rarer in the worse half than there, so d = C′/E′ − C/E is near 0 only where they add little: in logs without noise C/E
was a sixth to a third of C′/E′, and a half to a fifth of d. With its standard error s = √(C′/E′² + C/E²), f/f₀ is
taken to be level if d − s ≤ 0.05; and if only d − 2s is, there are too few clicks to say.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prorec.noise.interval import Interval, by_counting
from prorec.noise.ratio import DensityRatio

Vector = NDArray[np.float64]

_HALF, _NEXT = 0.5, 0.7
_RISE = 0.05
"""d was −.02 to .04 in logs of groups and of random clicks; in MovieLens-100k, AMusic, AToy, the cinema and parts of
them .06 to .5."""
_LEARN_FROM = 15_000  # clicks in either part: with more, what is learned by heart does not matter
_DRAWS = 200


class Level(NamedTuple):
    """How many clicks there are for each control in the worse half of pairs."""

    share: Interval
    is_level: bool
    """Whether it is so in what comes next, too: then this is the share of noise."""
    may_be: bool
    """Whether there are too few clicks to say that it is not."""


def level_in(
    features: NDArray[np.float64], users: NDArray[np.int32], is_click: NDArray[np.bool_], rng: np.random.Generator
) -> Level:
    """What the worse half says, ordered by what was learned from other users.

    Parameters
    ----------
    features : pairs × features
    users : of each pair
    is_click : whether it is one, or a control
    rng : for dealing users into parts, and drawing them again
    """
    n_users = int(users.max()) + 1
    n_parts = max(2, int(is_click.sum()) // _LEARN_FROM)
    part = rng.integers(n_parts, size=n_users)[users]
    two = [part == number for number in (0, 1)]
    if not all(is_click[mine].any() and (~is_click[mine]).any() for mine in two):
        return Level(Interval(0.0, 0.0, 1.0), is_level=False, may_be=True)  # next to nothing is there
    order = np.zeros(len(users))
    for mine, others in (two, two[::-1]):
        order[mine] = DensityRatio.fitted(features[others], is_click[others]).log_ratio(features[mine])
    judged = part < 2
    return _read(order[judged], users[judged], is_click[judged], n_users, rng)


def _read(
    order: Vector, users: NDArray[np.int32], is_click: NDArray[np.bool_], n_users: int, rng: np.random.Generator
) -> Level:
    half, after = np.quantile(order[~is_click], [_HALF, _NEXT])
    is_worse, is_next = order <= half, (order > half) & (order <= after)
    everything = np.ones_like(is_worse)
    counts = np.array(
        [
            np.bincount(users[which & kind], minlength=n_users)
            for which in (is_worse, is_next, everything)
            for kind in (is_click, ~is_click)
        ]
    )
    rate, expected = _rates(counts.sum(axis=1))
    drawn, _ = _rates(counts @ rng.poisson(1.0, (n_users, _DRAWS)))
    counted = by_counting(float(rate[0]), float(expected[0]))
    share = Interval(counted.estimate, *np.quantile(drawn[0], [0.025, 0.975])).around(counted)
    rise, error = rate[1] - rate[0], np.sqrt((rate / expected).sum())
    return Level(share, bool(rise - error <= _RISE), bool(rise - 2 * error <= _RISE))


def _rates(counts: NDArray[np.int64]) -> tuple[Vector, Vector]:
    """C/E and E of the worse half, and of what comes next."""
    clicks, controls = counts[0::2].astype(np.float64), counts[1::2].astype(np.float64)
    expected = np.maximum(controls[:2] * clicks[2] / np.maximum(controls[2], 1.0), 1e-12)
    return clicks[:2] / expected, expected
