"""Keep interactions of which at most a given share is noise, by conformal p-values against negatives.

The hypothesis about a click is that it is noise. A noisy click and a negative of the same user are exchangeable: both
are items that the user did not choose, scored by models that were not trained on them, with the rest of the user's
history. So the rank of a noisy click among negatives is uniform, and

    p = (1 + number of negatives that look at least as much like a click) / (1 + number of negatives)

is a p-value. For noise in proportion to popularity negatives count with weights in proportion to popularity. The larger
of the two p-values holds for both kinds, and for mixtures of them.

The procedure of Benjamini and Hochberg then bounds the expected share of noise among the clicks that are kept. It
counts on all clicks being noise; multiplying by an upper bound of the noise rate makes it sharper.

References
----------
Y. Benjamini and Y. Hochberg. Controlling the false discovery rate. Journal of the Royal Statistical Society B 57(1),
1995. S. Bates, E. Candès, L. Lei, Y. Romano and M. Sesia. Testing for outliers with conformal p-values. Annals of
Statistics 51(1), 2023.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_float
from prorec._core.errors import InputError
from prorec.noise.noise_rate import NoiseRateLine
from prorec.noise.pair_features import PairFeatures

Vector = NDArray[np.float64]


def conformal_p_values(clicks: Vector, negatives: Vector, popularity: Vector) -> NDArray[np.float32]:
    """Return the p-value of each click for the hypothesis that it is noise.

    Parameters
    ----------
    clicks, negatives : array
        How much each click and each negative looks like a click, by the same function.
    popularity : array
        Popularity of each negative's item.

    Returns
    -------
    array
        The larger of the p-values for noise on all items alike and for noise in proportion to popularity.

    Examples
    --------
    >>> conformal_p_values(np.array([0.0, 2.5, 9.0]), np.array([1.0, 2.0, 3.0]), np.ones(3)).round(2)
    array([1.  , 0.5 , 0.25], dtype=float32)
    """
    order = np.argsort(negatives)
    n_below = np.searchsorted(negatives[order], clicks, "left")
    p_values = np.zeros(len(clicks))
    mean_popularity = max(float(popularity.sum()) / max(len(popularity), 1), 1e-12)
    for weights in (np.ones(len(negatives)), popularity / mean_popularity):
        below = np.append(0, np.cumsum(weights[order]))
        p_values = np.maximum(p_values, (1 + below[-1] - below[n_below]) / (1 + below[-1]))
    return np.clip(p_values, 0, 1).astype(np.float32)


def compute_p_values(
    features: PairFeatures, log_ratio: Vector, is_counted: NDArray[np.bool_], n_clicks: int, line: NoiseRateLine
) -> NDArray[np.float32]:
    """Return the p-value of each click for being noise; 1 if only popularity is known of it.

    Parameters
    ----------
    features : PairFeatures
        Features of clicks, followed by negatives.
    log_ratio : array
        log f/f₀ of each pair, by a ratio that was fitted to other users.
    is_counted : array of bool
        Whether each pair counts; negatives that were sampled for trusted clicks do not.
    n_clicks : int
        Number of clicks.
    line : NoiseRateLine
        h for items of any popularity.

    Returns
    -------
    array
    """
    likeness = log_ratio - np.log(np.maximum(line.at(features.popularity), 1e-12))
    negatives = n_clicks + np.flatnonzero((is_counted & ~features.is_cold)[n_clicks:])
    p_values = conformal_p_values(likeness[:n_clicks], likeness[negatives], features.popularity[negatives])
    return np.where(features.is_cold[:n_clicks], np.float32(1), p_values)


def keep_interactions(p_values: NDArray[np.float32], max_noise: float, noise_rate: float = 1.0) -> NDArray[np.bool_]:
    """Return the largest set of interactions whose expected share of noise is at most a given one.

    Parameters
    ----------
    p_values : array
        Results of `conformal_p_values`.
    max_noise : float
        Share of the kept interactions that may be noise; above 0 and below 1.
    noise_rate : float, default 1.0
        Upper bound of the share of all interactions that are noise.

    Returns
    -------
    array of bool
        Whether each interaction is kept. All are, if there is not more noise than allowed in all of them.

    Raises
    ------
    InputError
        If `max_noise` is out of range.

    Examples
    --------
    >>> keep_interactions(np.array([0.01, 0.5, 0.02, 0.9], dtype=np.float32), 0.1)
    array([ True, False,  True, False])
    """
    if not 0 < check_float("max_noise", max_noise) < 1:
        raise InputError(
            f"max_noise must be above 0 and below 1; got {max_noise:g}. It is the share of noise to allow."
        )
    ranked = np.sort(p_values.astype(np.float64))
    n = len(ranked)
    allowed = np.flatnonzero(ranked * n * min(noise_rate, 1.0) <= max_noise * np.arange(1, n + 1))
    if not len(allowed):
        return np.zeros(n, dtype=bool)
    return np.asarray(p_values <= ranked[allowed[-1]])
