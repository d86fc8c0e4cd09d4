"""The noise rate of a log, with an interval, from the pairs that look least like clicks.

Clicks are a mixture of noise and true clicks: f = h·f₀ + (1 − π)·f₁. Here f, f₀ and f₁ are the densities of the
features among clicks, negatives and true clicks, π is the noise rate, and h is the number of noisy clicks per negative
on items of a given popularity. Noise may fall on all items alike or in proportion to popularity, so
h = a + b·(popularity), and π = a + b·(mean popularity).

Pairs are divided into groups by popularity. q is the rank of a pair among the group's negatives by f/f₀, from 0 for the
pair that looks least like a click. True clicks become rare as q falls to 0, at an unknown speed. So the expected number
of clicks in a bin of group g and rank q, with N negatives of mean popularity P (in units of the overall mean), is

    N·(a + b·P + c_g1·q⁴ + c_g2·q² + c_g3·q + c_g4·q^½)    with all c ≥ 0 and q ≤ ½.

Counts are Poisson. For each noise rate π and share m of it that falls in proportion to popularity, a = π·(1 − m) and
b = π·m, and the best c give the profile likelihood. It is averaged over models with the first one, two, three or all
four powers: more powers take more clicks in the tail for true ones. With a prior that is uniform in π this gives a
posterior. Its mean is the estimate, and the rates of highest density are the interval, which contains sampling error
and the choices of m, c and the model.

Ranks must come from a ratio that was fitted to other users: a ratio fitted to the same pairs ranks clicks up by chance,
and leaves too few with a small q.

The estimate is an upper bound where true clicks look like negatives however small q is. `identifiability.py` tests
that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prorec._core.compilation import njit

Vector = NDArray[np.float64]

_MAX_GROUPS, _MIN_NEGATIVES = 8, 3_000
_QUANTILES = np.array([0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5])
_POWERS = np.array([4.0, 2.0, 1.0, 0.5])
_N_STEPS = 100  # of expectation-maximization
_COVERAGE = 0.95
_RATES = np.append(0, np.geomspace(1e-3, 1, 50))
_FINE_RATES = np.linspace(0, 1, 1001) ** 1.5
_POPULARITY_SHARES = np.array([0.0, 0.5, 1.0])
_PRIOR_OF_SHARES = np.array([0.4, 0.2, 0.4])
"""Noise is usually of one kind. A small rate of the wrong kind would change the order of many clicks."""


@dataclass(frozen=True)
class NoiseRateEstimate:
    """An estimate of the noise rate of a log, with a 95% interval.

    True clicks that no model can separate from random ones count as noise. So the estimate for a clean log is not 0 but
    a floor; docs/noise-promises.md has the floors of several logs.

    Examples
    --------
    >>> print(NoiseRateEstimate(0.1, low=0.08, high=0.13))
    10.0% (8.0% to 13.0%)
    >>> print(NoiseRateEstimate(0.1, low=0.0, high=0.2, is_identified=False))
    at most 20.0%
    """

    estimate: float
    """Share of the interactions that are noise."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    is_identified: bool = True
    """Whether the log can tell its noise rate. Otherwise only the upper end of the interval says something, and the
    estimate is the middle of the rates that noise on all items alike may have."""

    @property
    def low_ratio(self) -> float:
        """Lower end of the interval over the estimate: the factor that turns noise probabilities into lower bounds."""
        return self.low / self.estimate if self.estimate > 0 else 0.0

    def __str__(self) -> str:
        if not self.is_identified:
            return f"at most {self.high:.1%}"
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
    """log f/f₀ of each pair, by a ratio that was fitted to other users."""
    popularity: Vector
    """Popularity of each pair's item in the training part."""
    is_click: NDArray[np.bool_]
    """Whether the pair is a click; otherwise it is a negative."""


class _Counts(NamedTuple):
    """Clicks and negatives of one popularity group, by q; as if there were as many negatives as clicks in all."""

    clicks: Vector
    negatives: Vector
    popular_negatives: Vector
    """Negatives, each counted as often as its popularity is of the overall mean."""


def estimate_noise_rate(pairs: LabeledPairs, *, only_uniform: bool = False) -> tuple[NoiseRateLine, NoiseRateEstimate]:
    """Estimate the noise rate and how it depends on popularity.

    Parameters
    ----------
    pairs : LabeledPairs
        Clicks and negatives, at least one of each.
    only_uniform : bool, default False
        Whether noise is known to fall on all items alike.

    Returns
    -------
    NoiseRateLine
        Posterior mean of h.
    NoiseRateEstimate
        Posterior mean and 95% interval of the noise rate.

    Examples
    --------
    A tenth of the clicks are distributed as negatives are, the others look different:

    >>> rng = np.random.default_rng(0)
    >>> log_ratio = np.concatenate([rng.normal(4, 1, 9_000), rng.normal(-4, 1, 21_000)])
    >>> pairs = LabeledPairs(log_ratio, np.ones(30_000), np.arange(30_000) < 10_000)
    >>> estimate = estimate_noise_rate(pairs)[1]
    >>> estimate.low < 0.1 < estimate.high
    True
    """
    mean_popularity = max(float(pairs.popularity[~pairs.is_click].mean()), 1e-12)
    groups = _count_groups(pairs, mean_popularity)
    shares = _POPULARITY_SHARES[:1] if only_uniform else _POPULARITY_SHARES
    log_likelihood = deviation = np.zeros((len(_POWERS), len(shares), len(_RATES)))
    for group in groups:
        profile, deviations = _profile_likelihood(*group, _QUANTILES, _POWERS, shares, _RATES)
        log_likelihood, deviation = log_likelihood + profile, deviation + deviations
    # Counts of one user's clicks vary more than Poisson counts.
    n_free = len(groups) * (len(_QUANTILES) - 1 - len(_POWERS))
    log_likelihood /= max(1.0, float(deviation.ravel()[log_likelihood.argmax()]) / n_free)
    likelihood = np.exp(log_likelihood - log_likelihood.max()).sum(axis=0)
    likelihood = np.stack([np.interp(_FINE_RATES, _RATES, each) for each in likelihood])
    posterior = likelihood * np.outer(_PRIOR_OF_SHARES[: len(shares)], np.gradient(_FINE_RATES))
    posterior /= posterior.sum()
    of_rates = posterior.sum(axis=0)
    estimate, by_popularity = float(of_rates @ _FINE_RATES), float(shares @ posterior @ _FINE_RATES)
    # The shortest 95%: the interval of a log without noise begins at 0.
    density = of_rates / np.gradient(_FINE_RATES)
    by_density = np.argsort(-density, kind="stable")
    n_inside = int(np.searchsorted(np.cumsum(of_rates[by_density]), _COVERAGE)) + 1
    inside = _FINE_RATES[by_density[:n_inside]]
    low, high = inside.min(), inside.max()
    line = NoiseRateLine(max(estimate - by_popularity, 0.0), by_popularity, mean_popularity)
    return line, NoiseRateEstimate(estimate, min(float(low), estimate), max(float(high), estimate))


def _count_groups(pairs: LabeledPairs, mean_popularity: float) -> list[_Counts]:
    """Count clicks and negatives by popularity group and q."""
    is_negative = ~pairs.is_click
    n_groups = int(np.clip(is_negative.sum() // _MIN_NEGATIVES, 1, _MAX_GROUPS))
    edges = np.unique(np.quantile(pairs.popularity[is_negative], np.linspace(0, 1, n_groups + 1)[1:-1]))
    group_of = np.searchsorted(edges, pairs.popularity, "right")
    scale = pairs.is_click.sum() / is_negative.sum()
    groups = []
    for group in range(len(edges) + 1):
        own = group_of == group
        negatives = np.sort(pairs.log_ratio[own & is_negative])
        if not len(negatives):
            continue
        # q is the share of smaller negatives: it reaches a quantile above the negative that completes this share.
        n_smaller = np.searchsorted(np.arange(len(negatives) + 1) / len(negatives), _QUANTILES[1:])
        bins = np.searchsorted(negatives[n_smaller - 1], pairs.log_ratio[own], "left")
        counts: list[Vector] = [
            np.bincount(bins[chosen[own]], weights[own & chosen], len(_QUANTILES))[: len(_QUANTILES) - 1].astype(
                np.float64
            )
            for chosen, weights in (
                (pairs.is_click, np.ones(len(own))),
                (is_negative, np.full(len(own), scale)),
                (is_negative, pairs.popularity * (scale / mean_popularity)),
            )
        ]
        groups.append(_Counts(*counts))
    return groups


@njit(cache=True, nogil=True)
def _profile_likelihood(  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    clicks, negatives, popular_negatives, quantiles, powers, popularity_shares, rates
):
    """Return models × shares × rates: the log-likelihood with the best c, by expectation-maximization, and χ²."""
    n_bins, n_powers = len(clicks), len(powers)
    shapes = np.empty((n_bins, n_powers))
    for index in range(n_bins):
        shapes[index] = negatives[index] * ((quantiles[index] + quantiles[index + 1]) / 2) ** powers
    totals = np.maximum(shapes.sum(axis=0), 1e-12)
    profile, deviations = np.empty((2, n_powers, len(popularity_shares), len(rates)))
    start = clicks.sum() / max(negatives.sum(), 1e-12) + 1e-6
    for model in range(n_powers):
        for row, share in enumerate(popularity_shares):
            for column, rate in enumerate(rates):
                coefficients, updates = np.full(model + 1, start), np.empty(model + 1)
                for step in range(_N_STEPS + 1):
                    log_likelihood, deviation = 0.0, 0.0
                    updates[:] = 0.0
                    for index in range(n_bins):
                        noise = rate * ((1 - share) * negatives[index] + share * popular_negatives[index])
                        expected = noise + 1e-9
                        for power in range(model + 1):
                            expected += shapes[index, power] * coefficients[power]
                        for power in range(model + 1):
                            updates[power] += shapes[index, power] * clicks[index] / expected
                        if step == _N_STEPS:
                            log_likelihood += clicks[index] * np.log(expected) - expected
                            deviation += (clicks[index] - expected) ** 2 / max(expected, 0.5)
                    if step < _N_STEPS:
                        for power in range(model + 1):
                            coefficients[power] *= updates[power] / totals[power]
                profile[model, row, column], deviations[model, row, column] = log_likelihood, deviation
    return profile, deviations
