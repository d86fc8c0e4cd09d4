"""Test whether a log can tell its noise.

Noise that falls on items in proportion to their popularity can be told from true clicks only by what is known beyond
popularity. Where only popularity separates clicks from negatives, a true click on a popular item and such noise look
the same: every click on a popular item may be noise, and the estimate of `noise_rate.py` is an upper bound. That is so
for logs in which most users have one or two clicks.

The test is the AUC of clicks against negatives of the same popularity. It was .71 or more in MovieLens, AMusic, AToy,
the cinema and Gowalla with up to 20% of noise added, where flags are right. It was .68 or less in the same logs cut
into histories of two clicks each, and in purchase logs made by popularity, where they would be wrong.

Noise lowers the AUC as well: with a noise rate of h it is (1 − h)·(AUC of true clicks) + h/2. Where users have many
clicks, a low AUC is more likely due to noise than to a lack of evidence, and the AUC of true clicks is tested instead,
with the lower end of h.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prorec.interactions import Interactions
from prorec.noise.noise_rate import LabeledPairs, NoiseRateEstimate, NoiseRateLine, Vector, estimate_noise_rate

MIN_AUC = 0.7
"""AUC of clicks against negatives of the same popularity, below which a log cannot tell its noise."""
_LONG_HISTORY = 20
"""Clicks of a user that are evidence enough to tell true clicks from noise."""
_MAX_NOISE_RATE = 0.4
"""Noise rate above which even long histories do not tell noise from taste that no model can predict."""
_MAX_STRATA, _MIN_PAIRS = 30, 20


def find_typical_history(interactions: Interactions) -> float:
    """Return the number of interactions of the user of a typical interaction: the median over interactions.

    Parameters
    ----------
    interactions : Interactions

    Returns
    -------
    float

    Examples
    --------
    >>> import prorec
    >>> find_typical_history(prorec.load_dataset("cinema"))
    74.0
    """
    return float(np.median(interactions.activity[interactions.user_codes]))


def auc_within_popularity(pairs: LabeledPairs) -> float:
    """Return the AUC of clicks against negatives of about the same popularity.

    Parameters
    ----------
    pairs : LabeledPairs
        Clicks and negatives.

    Returns
    -------
    float
        Mean over strata of popularity, weighted by their clicks; ½ if no stratum has enough pairs.

    Examples
    --------
    Popularity tells clicks from negatives, and nothing else does:

    >>> popularity = np.repeat([1.0, 9.0], 100)
    >>> is_click = np.concatenate([np.arange(100) < 20, np.arange(100) < 80])
    >>> auc_within_popularity(LabeledPairs(np.log(popularity), popularity, is_click))
    0.5
    """
    values = np.unique(pairs.popularity[pairs.is_click])
    if len(values) > _MAX_STRATA:
        values = np.unique(np.quantile(pairs.popularity[pairs.is_click], np.linspace(0, 1, _MAX_STRATA + 1)[:-1]))
    stratum = np.searchsorted(values, pairs.popularity, "right")
    total, weight = 0.0, 0
    for own in (stratum == number for number in np.unique(stratum)):
        n_clicks = int(pairs.is_click[own].sum())
        n_negatives = int(own.sum()) - n_clicks
        if min(n_clicks, n_negatives) >= _MIN_PAIRS:
            total += n_clicks * compute_auc(pairs.log_ratio[own], pairs.is_click[own])
            weight += n_clicks
    return total / weight if weight else 0.5


def restrict_to_identified(
    pairs: LabeledPairs, line: NoiseRateLine, noise_rate: NoiseRateEstimate, typical_history: float
) -> tuple[NoiseRateLine, NoiseRateEstimate]:
    """Replace the estimate by an upper bound if the log cannot tell its noise.

    Then nothing speaks for one noise rate below the bound rather than another. The line is the mean over these rates
    for noise that falls on all items alike. The other kind would take every popular item for noise.

    Parameters
    ----------
    pairs : LabeledPairs
        Clicks and negatives.
    line, noise_rate : NoiseRateLine, NoiseRateEstimate
        Results of `estimate_noise_rate`.
    typical_history : float
        Number of clicks of the user of a typical click.

    Returns
    -------
    NoiseRateLine, NoiseRateEstimate
        The same, if the log can tell its noise.
    """
    auc = auc_within_popularity(pairs)
    if typical_history >= _LONG_HISTORY and noise_rate.estimate <= _MAX_NOISE_RATE:
        auc = (auc - noise_rate.low / 2) / (1 - noise_rate.low)
    if auc >= MIN_AUC:
        return line, noise_rate
    _, uniform = estimate_noise_rate(pairs, only_uniform=True)
    mean, high = uniform.high / 2, max(noise_rate.high, uniform.high)
    return NoiseRateLine(mean, 0.0, line.mean_popularity), NoiseRateEstimate(mean, 0.0, high, is_identified=False)


def compute_auc(values: Vector, label: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve.

    Parameters
    ----------
    values : array
        Scores, with mean ranks for ties.
    label : array of bool
        Whether each score should be high; at least one should be, and at least one should not.

    Returns
    -------
    float

    Examples
    --------
    >>> compute_auc(np.array([0.1, 0.3, 0.2]), np.array([False, True, True]))
    1.0
    """
    n_true = int(label.sum())
    n_false = len(label) - n_true
    _, tie, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[tie]
    return float((ranks[label].sum() - n_true * (n_true + 1) / 2) / (n_true * n_false))
