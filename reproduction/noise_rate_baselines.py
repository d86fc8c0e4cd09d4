"""Estimators of the noise rate from the literature, for comparison with that of `NoiseFinder`.

All of them estimate the share of a known component, here negatives, in a mixture, here clicks. They get the same
out-of-user density ratios as `NoiseFinder` does. They assume that noise falls on all items alike, as negatives do.

References
----------
J. D. Storey. A direct approach to false discovery rates. Journal of the Royal Statistical Society B 64(3), 2002.
S. Garg, Y. Wu, A. Smola, S. Balakrishnan and Z. Lipton. Mixture proportion estimation and PU learning: a modern
approach. NeurIPS 2021. D. Ivanov. DEDPUL: difference-of-estimated-densities-based positive-unlabeled learning. ICMLA
2020.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from prorec.noise.noise_rate import LabeledPairs

Vector = NDArray[np.float64]

_CUT = 0.5  # of Storey's p-values
_DELTA, _MARGIN = 0.1, 0.01  # δ and γ of best-bin estimation, as in the authors' code
_N_DENSITY_BINS = 100
_RATES = np.linspace(0, 1, 1001)


def estimate_by_storey(clicks: Vector, negatives: Vector) -> float:
    """Estimate the noise rate as the share of p-values above ½, times 2.

    Parameters
    ----------
    clicks, negatives : array
        How much each click and each negative looks like noise.

    Returns
    -------
    float

    Examples
    --------
    Three of four clicks look unlike all negatives, and the other one is in their lower half:

    >>> estimate_by_storey(np.array([-9.0, -9.0, -9.0, 1.5]), np.arange(4.0))
    0.0
    >>> estimate_by_storey(np.array([-9.0, -9.0, -9.0, 2.5]), np.arange(4.0))
    0.5
    """
    # Negatives look like noise. A click's p-value is the share of the negatives that look less like noise.
    p_values = np.searchsorted(np.sort(negatives), clicks, "left") / len(negatives)
    return min(float((p_values > _CUT).mean()) / (1 - _CUT), 1.0)


def estimate_by_best_bin(clicks: Vector, negatives: Vector) -> float:
    """Estimate the noise rate as the lowest ratio of clicks to negatives above a cut-off (BBE).

    Parameters
    ----------
    clicks, negatives : array
        How much each click and each negative looks like noise.

    Returns
    -------
    float
        The ratio at the cut-off whose upper confidence bound is lowest.
    """
    cuts = np.unique(negatives)
    share_of_clicks, share_of_negatives = (
        1 - np.searchsorted(np.sort(values), cuts, "left") / len(values) for values in (clicks, negatives)
    )
    error = sum(np.sqrt(np.log(4 / _DELTA) / (2 * len(values))) for values in (clicks, negatives))
    best = int(np.argmin((share_of_clicks + (1 + _MARGIN) * error) / share_of_negatives))
    return min(float(share_of_clicks[best] / share_of_negatives[best]), 1.0)


def estimate_by_density_difference(clicks: Vector, negatives: Vector) -> float:
    """Estimate the noise rate from the ratio of the densities of negatives and clicks (DEDPUL).

    For a noise rate α the mean probability of noise is the mean of min(1, α·f₀/f) over clicks. It is α up to the true
    rate and falls short of it above; the estimate is where the difference bends most.

    Parameters
    ----------
    clicks, negatives : array
        How much each click and each negative looks like noise.

    Returns
    -------
    float
    """
    edges = np.unique(np.quantile(clicks, np.linspace(0, 1, _N_DENSITY_BINS + 1)))[1:-1]
    of_clicks, of_negatives = (
        np.bincount(np.searchsorted(edges, values, "right"), minlength=len(edges) + 1) / len(values)
        for values in (clicks, negatives)
    )
    ratio = of_negatives / of_clicks  # a bin between quantiles of clicks has clicks
    monotone = isotonic_regression(ratio, weights=of_clicks).x
    difference = _RATES - np.minimum(1, _RATES[:, None] * monotone) @ of_clicks
    step = 10  # a hundredth: finer second differences are rounding errors
    bends = difference[2 * step :] - 2 * difference[step:-step] + difference[: -2 * step]
    return float(_RATES[step + int(np.argmax(bends))])


ESTIMATORS: Mapping[str, Callable[[Vector, Vector], float]] = {
    "Storey": estimate_by_storey,
    "BBE": estimate_by_best_bin,
    "DEDPUL": estimate_by_density_difference,
}


def estimate_noise_rates(pairs: LabeledPairs) -> dict[str, float]:
    """Return the noise rate by each estimator.

    Parameters
    ----------
    pairs : LabeledPairs
        Clicks and negatives with their out-of-user log ratios.

    Returns
    -------
    dict of float
    """
    noise_score = -pairs.log_ratio
    clicks, negatives = noise_score[pairs.is_click], noise_score[~pairs.is_click]
    return {name: estimate(clicks, negatives) for name, estimate in ESTIMATORS.items()}
