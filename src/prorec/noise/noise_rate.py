"""How noisy is this log? What clicks and controls have in common, where they have least to tell them apart.

Clicks are a mixture: with h = πw, f = h·f₀ + (1 − π)·f₁, where f₀ is the density among controls, w how much more often
than by an even draw noise falls on items of some popularity, and f₁ the density among true clicks. So f/f₀ ≥ h
everywhere, and where true clicks are rarest f/f₀ comes down to h. That is Storey's idea, with a ratio in place of a
p-value.

In each cell of pairs with like popularity of item and activity of user, f/f₀ is counted among the tenth that is least
like a click. Noise may fall on all items alike or in proportion to popularity, h = a + b·popularity, a, b ≥ 0. The line
is laid so that three quarters of the cells' weight are above it, because what is in a cell bounds it from above:
where users or items are hard to know, true clicks are counted as well.

That is not for logs where the worse half of pairs has hardly a true click in it: `level.py` tells, and its answer is
taken there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from prorec.noise.interval import Interval, by_counting
from prorec.noise.level import Level

Vector = NDArray[np.float64]

_TAIL = 0.1
_BELOW = 0.25
_BY_POPULARITY, _BY_ACTIVITY = 20, 2
_LEAST = 100  # controls in a cell
_MUCH_BETTER = 1.4
_DRAWS = 200


@dataclass(frozen=True)
class NoiseRateEstimate:
    """An estimate of the share of noise in a log.

    True clicks that no model can tell from random ones count as noise: a clean log is not estimated at 0 but at its
    floor (docs/noise.md has those of several logs).
    """

    estimate: float
    low: float
    """The lower end of a 95% interval, from drawing users again."""
    high: float
    """The upper end."""

    @classmethod
    def of(cls, found: Interval) -> Self:
        """A share is from 0 to 1."""
        return cls(*(float(np.clip(each, 0.0, 1.0)) for each in found))

    def __str__(self) -> str:
        return f"{self.estimate:.1%} ({self.low:.1%} to {self.high:.1%})"


class Noise(NamedTuple):
    """h: how many clicks of noise there are for each control."""

    even: float
    """a, for noise that falls on all items alike."""
    by_popularity: float
    """b·(mean popularity), for noise in proportion to popularity."""
    mean_popularity: float
    """Of the controls' items."""

    def at(self, popularity: Vector) -> Vector:
        """What h is for items of some popularity."""
        return self.even + self.by_popularity * popularity / self.mean_popularity


class Seen(NamedTuple):
    """What is known of some clicks and their controls."""

    log_ratio: Vector
    popularity: Vector
    users: NDArray[np.int32]
    is_click: NDArray[np.bool_]


def noise_in(seen: Seen, activity: Vector, rng: np.random.Generator) -> tuple[Noise, NoiseRateEstimate]:
    """h, and the share that it comes to.

    Parameters
    ----------
    seen : evidence of clicks and controls
    activity : of each user
    rng : for drawing users again
    """
    mean = max(float(seen.popularity[~seen.is_click].mean()), 1e-12)
    cells = _cells(seen, activity)
    clicks, controls, popularity = cells.counted(np.ones(len(activity)), seen)
    found = _line(clicks, controls, popularity / mean)
    shares = []
    for _ in range(_DRAWS):
        times = rng.poisson(1.0, len(activity)).astype(np.float64)
        shares.append(_line(*cells.counted(times, seen)[:2], popularity / mean).sum())
    estimate = float(found.sum())
    # Cells of drawn users vary more than cells do, and a line below most of them lies lower: hence the middle as zero.
    low, high = estimate + np.quantile(shares, [0.025, 0.975]) - np.median(shares)
    # With next to nothing in a cell, all draws may be equal.
    counted = Interval(estimate, low, high).around(by_counting(estimate, float(controls.sum())))
    return Noise(float(found[0]), float(found[1]), mean), NoiseRateEstimate.of(counted)


def settled(noise: Noise, share: NoiseRateEstimate, level: Level) -> tuple[Noise, NoiseRateEstimate]:
    """The line, or the level of the worse half where that is one.

    Where there are too few clicks to say, the line is taken, and the interval goes as far as the level's.
    """
    if level.is_level:
        share = NoiseRateEstimate.of(level.share)
        return Noise(share.estimate, 0.0, noise.mean_popularity), share
    if level.may_be:
        return noise, NoiseRateEstimate(share.estimate, share.low, min(max(share.high, level.share.high), 1.0))
    return noise, share


class _Cells(NamedTuple):
    cell: NDArray[np.int64]
    """Of each pair; −1 where it is in none."""
    in_tail: NDArray[np.bool_]
    """Whether it is among what is least like a click there."""
    n_cells: int

    def counted(self, times: Vector, seen: Seen) -> tuple[Vector, Vector, Vector]:
        """Clicks and controls in each cell's tail, as if there were as many of each, and these controls' popularity."""
        weights = times[seen.users]
        both = [seen.is_click, ~seen.is_click]
        of_all = [float(weights[kind].sum()) for kind in both]
        n_clicks, n_controls = (self._sum(weights, self.in_tail & kind) for kind in both)
        popularity = self._sum(seen.popularity * weights, self.in_tail & ~seen.is_click)
        scale = of_all[0] / max(of_all[1], 1e-12)
        return n_clicks, n_controls * scale, popularity / np.maximum(n_controls, 1e-12)

    def _sum(self, weights: Vector, which: NDArray[np.bool_]) -> Vector:
        chosen = which & (self.cell >= 0)
        return np.asarray(np.bincount(self.cell[chosen], weights[chosen], self.n_cells), dtype=np.float64)


def _cells(seen: Seen, activity: Vector) -> _Cells:
    n_controls = int((~seen.is_click).sum())
    n_cells = max(1, min(_BY_POPULARITY * _BY_ACTIVITY, n_controls // (3 * _LEAST)))
    by_activity = _BY_ACTIVITY if n_cells >= 2 * _BY_ACTIVITY else 1
    by_popularity = max(1, n_cells // by_activity)
    of_user = activity[seen.users]
    group = _groups(seen.popularity, seen.popularity[~seen.is_click], by_popularity) * by_activity
    group += _groups(of_user, of_user[seen.is_click], by_activity)
    cell, in_tail = np.full(len(group), -1), np.zeros(len(group), dtype=bool)
    count = 0
    for each in np.unique(group):
        inside = group == each
        controls = seen.log_ratio[inside & ~seen.is_click]
        if len(controls) < min(_LEAST, n_controls):
            continue
        cell[inside] = count
        in_tail |= inside & (seen.log_ratio <= np.quantile(controls, _TAIL))
        count += 1
    return _Cells(cell, in_tail, count)


def _groups(values: Vector, of: Vector, count: int) -> NDArray[np.int64]:
    """Groups of like values, about as many of `of` in each."""
    edges = np.unique(np.quantile(of, np.linspace(0, 1, count + 1)))
    places = np.searchsorted(edges, values, "right") - 1
    return np.asarray(np.clip(places, 0, max(len(edges) - 2, 0)), dtype=np.int64)


def _line(clicks: Vector, controls: Vector, popularity: Vector) -> Vector:
    """The line a + b·popularity, a and b ≥ 0, with a quarter of the cells' weight below it: quantile regression.

    One of the two alone is taken where both together don't fit much better: a little of the wrong kind of noise, which
    chance may give, puts many clicks out of order.
    """
    there = controls > 0
    if not there.any():
        return np.zeros(2)
    rates, weights = clicks[there] / controls[there], np.sqrt(controls[there])
    lines = np.column_stack([np.ones(len(rates)), popularity[there]])
    both, loss = _quantile_regression(lines, rates, weights)
    alone = [_quantile_regression(lines[:, [kind]], rates, weights) for kind in (0, 1)]
    kind = 0 if alone[0][1] <= alone[1][1] else 1
    if alone[kind][1] > _MUCH_BETTER * loss:
        return both
    found = np.zeros(2)
    found[kind] = alone[kind][0][0]
    return found


def _quantile_regression(lines: Vector, rates: Vector, weights: Vector) -> tuple[Vector, float]:
    n, n_slopes = lines.shape
    cost = np.concatenate([np.zeros(n_slopes), _BELOW * weights, (1 - _BELOW) * weights])
    solved = linprog(cost, A_eq=np.hstack([lines, np.eye(n), -np.eye(n)]), b_eq=rates, bounds=(0, None))
    return np.asarray(solved.x[:n_slopes]), float(solved.fun)
