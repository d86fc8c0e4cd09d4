"""How well does a score find the noise? Judged where the noise is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_float, check_int
from prorec._core.errors import InputError


def detection_metrics(
    noise_probability: Any,
    is_noise: Any,
    *,
    budget: int | None = None,
    at_hit_ratio: float = 0.9,
    bins: int = 10,
) -> dict[str, float]:
    """Judge a noise score against the truth.

    Parameters
    ----------
    noise_probability : a score for each interaction, high for noise; any finite numbers will do
    is_noise : for each interaction, whether it is noise; some must be and some must not
    budget : how many interactions can be looked at, the most suspicious first; by default, as many as are noise
    at_hit_ratio : the share of noise to be found, for `false_flag_rate`
    bins : of equal width, for `calibration_error`

    Returns
    -------
    dict with

    auroc
        Chance that a random noisy interaction scores higher than a random clean one (ties count half).
    ap
        Average precision: Σ (R_t − R_{t−1}) P_t over the thresholds t, P and R the precision and recall there.
    precision_at_budget
        Share of noise among the `budget` most suspicious; where the cut falls among equal scores, the
        share expected from breaking the tie at random.
    hit_ratio
        Share of all noise that is among the `budget` most suspicious.
    lift
        `precision_at_budget` over `base_rate`: how much better than picking at random.
    false_flag_rate
        Share of clean interactions that must be flagged, too, to flag the share `at_hit_ratio` of the noise.
    base_rate
        Share of noise.
    calibration_error
        Mean over bins, weighted by size, of `|mean score − share of noise|`; only where all scores lie in [0, 1].

    >>> found = detection_metrics([0.9, 0.8, 0.3, 0.1], [True, False, True, False])
    >>> found["auroc"], found["precision_at_budget"], found["lift"], found["false_flag_rate"]
    (0.75, 0.5, 1.0, 0.5)
    """
    try:
        scores, given = np.asarray(noise_probability, dtype=np.float64), np.asarray(is_noise, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"scores must be numbers, and is_noise true or false: {error}") from error
    if scores.ndim != 1 or scores.shape != given.shape:
        raise InputError(f"scores and truth must be two lists of the same length, got {scores.shape}, {given.shape}")
    if not np.isfinite(scores).all():
        raise InputError(f"scores must be finite numbers; number {int(np.argmin(np.isfinite(scores)))} is not")
    if not np.isin(given, (0, 1)).all():
        raise InputError("is_noise must be true or false for each interaction")
    truth = given.astype(bool)
    n_noise, n = int(truth.sum()), len(truth)
    if not 0 < n_noise < n:
        raise InputError(f"{n_noise} of {n} interactions are noise: there must be some of each kind to tell them apart")
    budget = n_noise if budget is None else check_int("budget", budget, 1, n, "the number of interactions")
    at_hit_ratio = check_float("at_hit_ratio", at_hit_ratio, 0, 1)
    bins = check_int("bins", bins, 1, 1_000_000)

    flagged, caught = _curve(scores, truth)
    recall = caught / n_noise
    false_flags = (flagged - caught) / (n - n_noise)
    at_budget = float(np.interp(budget, np.append(0, flagged), np.append(0, caught)))
    base_rate = n_noise / n
    metrics = {
        "auroc": float(np.trapezoid(np.append(0, recall), np.append(0, false_flags))),
        "ap": float(np.sum(np.diff(recall, prepend=0) * caught / flagged)),
        "precision_at_budget": at_budget / budget,
        "hit_ratio": at_budget / n_noise,
        "lift": at_budget / budget / base_rate,
        "false_flag_rate": float(false_flags[np.argmax(recall >= at_hit_ratio - 1e-12)]),
        "base_rate": base_rate,
    }
    if scores.min() >= 0 and scores.max() <= 1:
        metrics["calibration_error"] = _calibration_error(scores, truth, bins)
    return metrics


def _curve(scores: NDArray[np.float64], truth: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each distinct score, from the highest: how many score that much or more, and how many of them are noise."""
    order = np.argsort(-scores, kind="stable")
    last_of_tie = np.append(np.diff(scores[order]) != 0, True)
    return np.flatnonzero(last_of_tie) + 1, np.cumsum(truth[order])[last_of_tie]


def _calibration_error(scores: NDArray[np.float64], truth: NDArray[np.bool_], bins: int) -> float:
    place = np.minimum((scores * bins).astype(np.int64), bins - 1)
    gap = np.bincount(place, weights=scores - truth, minlength=bins)
    return float(np.abs(gap).sum() / len(scores))
