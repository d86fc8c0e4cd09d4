"""Detection metrics: how well a score finds noise, on data where the noise is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_array, check_float, check_int
from prorec._core.errors import InputError


def detection_metrics(
    noise_probability: Any,
    is_noise: Any,
    *,
    budget: int | None = None,
    at_hit_ratio: float = 0.9,
    bins: int = 10,
) -> dict[str, float]:
    """Measure a noise score against the truth.

    Parameters
    ----------
    noise_probability : array of float
        Score of each interaction, high for noise. Any finite numbers are allowed.
    is_noise : array of bool
        Whether each interaction is noise. Some must be, and some must not.
    budget : int, optional
        Number of interactions that can be checked, those with the highest scores. The default is the number of noisy
        interactions.
    at_hit_ratio : float, default 0.9
        Share of the noise that must be flagged, for `false_flag_rate`.
    bins : int, default 10
        Number of bins of equal width, for `calibration_error`.

    Returns
    -------
    dict of str to float
        auroc
            Probability that a random noisy interaction scores higher than a random clean one; ties count half.
        ap
            Average precision: Σ (R_t − R_{t−1})·P_t over the thresholds t, with precision P and recall R.
        precision_at_budget
            Share of noise among the `budget` highest scores. If the budget ends among equal scores, the expected share
            when such ties are broken at random.
        hit_ratio
            Share of the noise that is among the `budget` highest scores.
        lift
            `precision_at_budget` divided by `base_rate`, which is the precision of random picks.
        false_flag_rate
            Share of the clean interactions that are flagged when the share `at_hit_ratio` of the noise is flagged.
        base_rate
            Share of noise.
        calibration_error
            Mean of `|mean score − share of noise|` over bins, weighted by size. Only if all scores are in [0, 1].

    Raises
    ------
    InputError
        If the arrays differ in length, a score is not finite, or all or no interactions are noise.

    Examples
    --------
    >>> metrics = detection_metrics([0.9, 0.8, 0.3, 0.1], [True, False, True, False])
    >>> metrics["auroc"], metrics["precision_at_budget"], metrics["lift"], metrics["false_flag_rate"]
    (0.75, 0.5, 1.0, 0.5)
    """
    scores = check_array("noise_probability", noise_probability).astype(np.float64)
    labels = check_array("is_noise", is_noise).astype(np.float64)
    if scores.ndim != 1 or scores.shape != labels.shape:
        raise InputError(
            f"noise_probability and is_noise must be lists of the same length; got {scores.shape} and {labels.shape}"
        )
    if not np.isfinite(scores).all():
        position = int(np.argmin(np.isfinite(scores)))
        raise InputError(f"noise_probability must be finite; noise_probability[{position}] is {scores[position]}")
    if not np.isin(labels, (0, 1)).all():
        raise InputError("is_noise must be true or false for each interaction")
    truth = labels.astype(bool)
    n_noise, n = int(truth.sum()), len(truth)
    if not 0 < n_noise < n:
        raise InputError(
            f"is_noise must be true for some interactions and false for others; {n_noise} of {n} are noise"
        )
    budget = n_noise if budget is None else check_int("budget", budget, 1, n, "the number of interactions")
    at_hit_ratio = check_float("at_hit_ratio", at_hit_ratio, 0, 1)
    bins = check_int("bins", bins, 1, 1_000_000)

    n_flagged, n_found = _count_by_threshold(scores, truth)
    recall = n_found / n_noise
    false_flags = (n_flagged - n_found) / (n - n_noise)
    found_at_budget = float(np.interp(budget, np.append(0, n_flagged), np.append(0, n_found)))
    base_rate = n_noise / n
    metrics = {
        "auroc": float(np.trapezoid(np.append(0, recall), np.append(0, false_flags))),
        "ap": float(np.sum(np.diff(recall, prepend=0) * n_found / n_flagged)),
        "precision_at_budget": found_at_budget / budget,
        "hit_ratio": found_at_budget / n_noise,
        "lift": found_at_budget / budget / base_rate,
        "false_flag_rate": float(false_flags[np.argmax(recall >= at_hit_ratio - 1e-12)]),
        "base_rate": base_rate,
    }
    if scores.min() >= 0 and scores.max() <= 1:
        metrics["calibration_error"] = compute_calibration_error(scores, truth, bins)
    return metrics


def _count_by_threshold(
    scores: NDArray[np.float64], truth: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count, for each distinct score from the highest, the interactions with at least that score and their noise."""
    order = np.argsort(-scores, kind="stable")
    last_of_tie = np.append(np.diff(scores[order]) != 0, True)
    return np.flatnonzero(last_of_tie) + 1, np.cumsum(truth[order])[last_of_tie]


def compute_calibration_error(scores: NDArray[np.floating], truth: NDArray[Any], bins: int = 10) -> float:
    """Return the mean distance of the scores from the share of noise, over bins of equal width.

    Parameters
    ----------
    scores : array
        Noise probability of each interaction.
    truth : array
        Whether each interaction is noise, or the probability that it is.
    bins : int, default 10
        Number of bins.

    Returns
    -------
    float

    Examples
    --------
    >>> compute_calibration_error(np.array([0.5, 0.5, 0.9]), np.array([False, True, True])).__round__(3)
    0.033
    """
    bin_index = np.minimum((scores * bins).astype(np.int64), bins - 1)
    gap = np.bincount(bin_index, weights=scores - truth, minlength=bins)
    return float(np.abs(gap).sum() / len(scores))
