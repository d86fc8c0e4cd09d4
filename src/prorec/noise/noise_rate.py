"""The noise rate of a log, estimated where clicks look least like clicks.

Clicks are a mixture of noise and true clicks: f = h·f₀ + (1 − π)·f₁. Here f, f₀ and f₁ are the densities of the
features among clicks, negatives and true clicks, and π is the noise rate. h is π times the relative frequency of noise
on items of a given popularity. So f/f₀ ≥ h everywhere, and f/f₀ comes down to h where true clicks are rarest. That is
Storey's estimator, with a density ratio in place of a p-value.

Pairs are divided into cells by the popularity of the item and the activity of the user. The tail of a cell is the tenth
of its pairs that looks least like clicks; its f/f₀ is counted. Noise may fall on all items alike or in proportion to
popularity, so a line h = a + b·popularity with a, b ≥ 0 is fitted to the tails. Each tail bounds h from above, because
true clicks are counted too where users or items are hard to predict. So three quarters of the tails' weight lie above
the line.

`storey_estimator.py` replaces this estimate on logs in which half of all pairs contain hardly any true click.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import gammaincinv

Vector = NDArray[np.float64]

_TAIL = 0.1
_LINE_QUANTILE = 0.25
_POPULARITY_GROUPS, _ACTIVITY_GROUPS = 20, 2
_MIN_NEGATIVES = 100  # in a cell
_MIN_IMPROVEMENT = 1.4
_N_RESAMPLES = 200


@dataclass(frozen=True)
class NoiseRateEstimate:
    """An estimate of the noise rate of a log, with a 95% interval.

    True clicks that no model can separate from random ones count as noise. So the estimate for a clean log is not 0 but
    a floor; docs/noise.md has the floors of several logs.

    Examples
    --------
    >>> print(NoiseRateEstimate(0.1, low=0.08, high=0.13))
    10.0% (8.0% to 13.0%)
    """

    estimate: float
    """Share of the interactions that are noise."""
    low: float
    """Lower end of the interval, from resampling users."""
    high: float
    """Upper end of the interval."""

    def widen(self, other: NoiseRateEstimate) -> Self:
        """Return the estimate with an interval that includes another one.

        Parameters
        ----------
        other : NoiseRateEstimate
            Estimate whose interval is included.

        Returns
        -------
        NoiseRateEstimate
        """
        return type(self)(self.estimate, min(self.low, other.low), max(self.high, other.high))

    def clip(self) -> Self:
        """Return the estimate and its interval, limited to [0, 1]."""
        return type(self)(*(float(np.clip(each, 0.0, 1.0)) for each in (self.estimate, self.low, self.high)))

    def __str__(self) -> str:
        return f"{self.estimate:.1%} ({self.low:.1%} to {self.high:.1%})"


class NoiseRateLine(NamedTuple):
    """h = a + b·popularity: the number of noisy clicks per negative, if there are as many negatives as clicks."""

    uniform: float
    """a: the rate of noise that falls on all items alike."""
    by_popularity: float
    """b·(mean popularity): the rate of noise that falls on items in proportion to their popularity."""
    mean_popularity: float
    """Mean popularity of the negatives' items."""

    def at(self, popularity: Vector) -> Vector:
        """Return h for items of the given popularity."""
        return self.uniform + self.by_popularity * popularity / self.mean_popularity


class LabeledPairs(NamedTuple):
    """Clicks and negatives with their log density ratio."""

    log_ratio: Vector
    """log f/f₀ of each pair."""
    popularity: Vector
    """Popularity of each pair's item in the training part."""
    users: NDArray[np.int32]
    """Row of each pair's user."""
    is_click: NDArray[np.bool_]
    """Whether the pair is a click; otherwise it is a negative."""


def estimate_by_tails(
    pairs: LabeledPairs, activity: Vector, rng: np.random.Generator
) -> tuple[NoiseRateLine, NoiseRateEstimate]:
    """Estimate the noise rate from the tails of all cells.

    Parameters
    ----------
    pairs : LabeledPairs
        Clicks and negatives.
    activity : array
        Number of interactions of each user.
    rng : numpy.random.Generator
        Generator for the bootstrap over users.

    Returns
    -------
    NoiseRateLine
        The fitted line h.
    NoiseRateEstimate
        The noise rate a + b·(mean popularity), with a bootstrap interval.
    """
    mean_popularity = max(float(pairs.popularity[~pairs.is_click].mean()), 1e-12)
    tails = _assign_tails(pairs, activity)
    clicks, negatives, popularity = _count_tails(tails, pairs, np.ones(len(activity)))
    line = _fit_line(clicks, negatives, popularity / mean_popularity)
    resampled = []
    for _ in range(_N_RESAMPLES):
        user_weights = rng.poisson(1.0, len(activity)).astype(np.float64)
        counts = _count_tails(tails, pairs, user_weights)[:2]
        resampled.append(_fit_line(*counts, popularity / mean_popularity).sum())
    estimate = float(line.sum())
    # Resampled tails vary more, and a line below most of them lies lower, so the interval is centered at the median.
    low, high = estimate + np.quantile(resampled, [0.025, 0.975]) - np.median(resampled)
    # If the tails are nearly empty, all resamples may be equal.
    counted = poisson_interval(estimate, float(negatives.sum()))
    rate = NoiseRateEstimate(estimate, low, high).widen(counted).clip()
    return NoiseRateLine(float(line[0]), float(line[1]), mean_popularity), rate


def poisson_interval(rate: float, exposure: float) -> NoiseRateEstimate:
    """Return Garwood's 95% interval of a Poisson rate: quantiles of Γ(k) and Γ(k + 1) for a count k.

    A bootstrap cannot replace it: if no click was counted, no resample has any.

    Parameters
    ----------
    rate : float
        Count divided by exposure.
    exposure : float
        Count that a rate of 1 would give.

    Returns
    -------
    NoiseRateEstimate
        Not clipped to [0, 1].

    Examples
    --------
    >>> print(f"{poisson_interval(0.0, 100).high:.4f}")
    0.0369
    """
    count = rate * exposure
    low = float(gammaincinv(count, 0.025)) / exposure if count > 1e-3 else 0.0  # below that, it is 0 to all digits
    return NoiseRateEstimate(rate, min(low, rate), float(gammaincinv(count + 1, 0.975)) / exposure)


def _assign_tails(pairs: LabeledPairs, activity: Vector) -> NDArray[np.int64]:
    """Return the number of the tail that each pair is in, or −1; cells with few negatives have no tail."""
    n_negatives = int((~pairs.is_click).sum())
    max_cells = max(1, min(_POPULARITY_GROUPS * _ACTIVITY_GROUPS, n_negatives // (3 * _MIN_NEGATIVES)))
    n_activity_groups = _ACTIVITY_GROUPS if max_cells >= 2 * _ACTIVITY_GROUPS else 1
    n_popularity_groups = max(1, max_cells // n_activity_groups)
    user_activity = activity[pairs.users]
    group = n_activity_groups * _quantile_groups(
        pairs.popularity, pairs.popularity[~pairs.is_click], n_popularity_groups
    ) + _quantile_groups(user_activity, user_activity[pairs.is_click], n_activity_groups)
    tails, n_tails = np.full(len(group), -1), 0
    for each in np.unique(group):
        inside = group == each
        negatives = pairs.log_ratio[inside & ~pairs.is_click]
        if len(negatives) >= min(_MIN_NEGATIVES, n_negatives):
            tails[inside & (pairs.log_ratio <= np.quantile(negatives, _TAIL))] = n_tails
            n_tails += 1
    return tails


def _quantile_groups(values: Vector, reference: Vector, n_groups: int) -> NDArray[np.int64]:
    """Return the group of each value; groups have about equally many of the reference values."""
    edges = np.unique(np.quantile(reference, np.linspace(0, 1, n_groups + 1)))
    groups = np.searchsorted(edges, values, "right") - 1
    return np.asarray(np.clip(groups, 0, max(len(edges) - 2, 0)), dtype=np.int64)


def _count_tails(tails: NDArray[np.int64], pairs: LabeledPairs, user_weights: Vector) -> tuple[Vector, Vector, Vector]:
    """Return clicks, negatives and the mean popularity of the negatives in each tail, with weighted users.

    Negatives are counted as if there were as many of them in all as clicks.
    """
    weights, n_tails = user_weights[pairs.users], int(tails.max()) + 1

    def count(is_counted: NDArray[np.bool_], values: Vector) -> Vector:
        chosen = is_counted & (tails >= 0)
        return np.asarray(np.bincount(tails[chosen], values[chosen], n_tails), dtype=np.float64)

    clicks, negatives = count(pairs.is_click, weights), count(~pairs.is_click, weights)
    popularity = count(~pairs.is_click, pairs.popularity * weights) / np.maximum(negatives, 1e-12)
    scale = float(weights[pairs.is_click].sum()) / max(float(weights[~pairs.is_click].sum()), 1e-12)
    return clicks, negatives * scale, popularity


def _fit_line(clicks: Vector, negatives: Vector, popularity: Vector) -> Vector:
    """Fit (a, b·mean popularity) by quantile regression on the tails' rates.

    One of the two alone is fitted unless both together fit much better: a small rate of the wrong kind, which may arise
    by chance, would change the order of many clicks.
    """
    is_counted = negatives > 0
    if not is_counted.any():
        return np.zeros(2)
    rates, weights = clicks[is_counted] / negatives[is_counted], np.sqrt(negatives[is_counted])
    design = np.column_stack([np.ones(len(rates)), popularity[is_counted]])
    uniform, by_popularity, both = (
        _quantile_regression(design[:, columns], rates, weights) for columns in ([0], [1], [0, 1])
    )
    alone = uniform if uniform[1] <= by_popularity[1] else by_popularity
    if alone[1] > _MIN_IMPROVEMENT * both[1]:
        return both[0]
    return np.append(alone[0], 0) if alone is uniform else np.append(0, alone[0])


def _quantile_regression(design: Vector, rates: Vector, weights: Vector) -> tuple[Vector, float]:
    """Return nonnegative coefficients and the loss, by linear programming."""
    n, n_coefficients = design.shape
    cost = np.concatenate([np.zeros(n_coefficients), _LINE_QUANTILE * weights, (1 - _LINE_QUANTILE) * weights])
    solution = linprog(cost, A_eq=np.hstack([design, np.eye(n), -np.eye(n)]), b_eq=rates, bounds=(0, None))
    return np.asarray(solution.x[:n_coefficients]), float(solution.fun)
