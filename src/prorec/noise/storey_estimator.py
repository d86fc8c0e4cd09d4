"""Storey's estimator of the noise rate, for logs in which half of all pairs contain hardly any true click.

`noise_rate.py` estimates from small tails, which suits logs with true clicks nearly everywhere. If users keep to groups
of items of their own, the lower half of the pairs contains hardly any true click. Then f/f₀ is constant there, at h,
and the half as a whole says more than its tails, which are nearly empty in a small log.

Pairs are ranked by a density ratio that was fitted to other users. A ratio fitted to the same pairs overfits: it ranks
clicks up by chance, and leaves too few in the lower half (by a sixth in a log of 4,000 clicks, and by a third in the
last tenth).

Let C be the number of clicks in the lower half of the pairs, and E the number of negatives there, counted as if there
were as many negatives as clicks in all. Storey's estimate at ½ is h = C/E. Let C′ and E′ be the counts in the fifth
above that half. True clicks are rarer in the lower half than there, so the rise d = C′/E′ − C/E is near 0 only if they
add little to C. (In logs without noise, C/E was a sixth to a third of C′/E′, and a half to a fifth of d.) The standard
error of d is s = √(C′/E′² + C/E²). f/f₀ counts as constant if d − s ≤ 0.05. If only d − 2s ≤ 0.05, there are too few
clicks to decide.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prorec.noise.density_ratio import FeatureMatrix, fit_density_ratio
from prorec.noise.noise_rate import NoiseRateEstimate, NoiseRateLine, Vector, poisson_interval

_LOWER, _NEXT = 0.5, 0.7
_MAX_RISE = 0.05
"""d was −.02 to .04 in logs of groups and of random clicks, and .06 to .5 in MovieLens-100k, AMusic, AToy, the cinema
and parts of them."""
_CLICKS_PER_PART = 15_000  # with more, overfitting does not matter
_N_RESAMPLES = 200


class StoreyEstimate(NamedTuple):
    """The noise rate according to the lower half of the pairs, and whether it applies."""

    noise_rate: NoiseRateEstimate
    """Clicks per negative in the lower half, not clipped to [0, 1]."""
    is_constant: bool
    """Whether f/f₀ is constant there, so that the estimate applies."""
    may_be_constant: bool
    """Whether f/f₀ is constant there or there are too few clicks to decide."""


def estimate_by_lower_half(
    features: FeatureMatrix, users: NDArray[np.int32], is_click: NDArray[np.bool_], rng: np.random.Generator
) -> StoreyEstimate:
    """Estimate the noise rate from the lower half of the pairs, ranked by a ratio fitted to other users.

    Parameters
    ----------
    features : array, pairs × features
        Features of clicks and negatives.
    users : array of int
        Row of each pair's user.
    is_click : array of bool
        Whether each pair is a click; the others are negatives.
    rng : numpy.random.Generator
        Generator for dividing users into parts and for the bootstrap over users.

    Returns
    -------
    StoreyEstimate
    """
    n_users = int(users.max()) + 1
    n_parts = max(2, int(is_click.sum()) // _CLICKS_PER_PART)
    part = rng.integers(n_parts, size=n_users)[users]
    halves = [part == number for number in (0, 1)]
    if not all(is_click[own].any() and (~is_click[own]).any() for own in halves):
        return StoreyEstimate(NoiseRateEstimate(0.0, 0.0, 1.0), is_constant=False, may_be_constant=True)
    log_ratio = np.zeros(len(users))
    for own, others in (halves, halves[::-1]):
        log_ratio[own] = fit_density_ratio(features[others], is_click[others]).log_ratio(features[own])
    negatives = log_ratio[~is_click & (part < 2)]
    middle, upper = np.quantile(negatives, [_LOWER, _NEXT])
    regions = log_ratio <= middle, (log_ratio > middle) & (log_ratio <= upper), np.ones_like(is_click)
    counts = np.array(
        [
            np.bincount(users[region & label & (part < 2)], minlength=n_users)
            for region in regions
            for label in (is_click, ~is_click)
        ]
    )
    rate, expected = _rates(counts.sum(axis=1))
    resampled, _ = _rates(counts @ rng.poisson(1.0, (n_users, _N_RESAMPLES)))
    counted = poisson_interval(float(rate[0]), float(expected[0]))
    low, high = np.quantile(resampled[0], [0.025, 0.975])
    rise, error = rate[1] - rate[0], np.sqrt((rate / expected).sum())
    return StoreyEstimate(
        NoiseRateEstimate(counted.estimate, low, high).widen(counted),
        is_constant=bool(rise - error <= _MAX_RISE),
        may_be_constant=bool(rise - 2 * error <= _MAX_RISE),
    )


def choose_noise_rate(
    line: NoiseRateLine, noise_rate: NoiseRateEstimate, storey: StoreyEstimate
) -> tuple[NoiseRateLine, NoiseRateEstimate]:
    """Choose between the estimate from the tails and that from the lower half.

    Parameters
    ----------
    line, noise_rate : NoiseRateLine, NoiseRateEstimate
        Results of `estimate_by_tails`.
    storey : StoreyEstimate
        Result of `estimate_by_lower_half`.

    Returns
    -------
    NoiseRateLine, NoiseRateEstimate
        Those of the lower half if f/f₀ is constant there, else those of the tails. If there are too few clicks to
        decide, the interval of the tails extends to the upper end of the other.
    """
    if storey.is_constant:
        noise_rate = storey.noise_rate.clip()
        return NoiseRateLine(noise_rate.estimate, 0.0, line.mean_popularity), noise_rate
    if storey.may_be_constant:
        high = max(noise_rate.high, storey.noise_rate.high)
        return line, NoiseRateEstimate(noise_rate.estimate, noise_rate.low, min(high, 1.0))
    return line, noise_rate


def _rates(counts: NDArray[np.int64]) -> tuple[Vector, Vector]:
    """Return C/E and E of the lower half and of the fifth above it.

    `counts` has clicks and negatives of the lower half, of the fifth above it, and of all pairs.
    """
    clicks, negatives = counts[0::2].astype(np.float64), counts[1::2].astype(np.float64)
    expected = np.maximum(negatives[:2] * clicks[2] / np.maximum(negatives[2], 1.0), 1e-12)
    return clicks[:2] / expected, expected
