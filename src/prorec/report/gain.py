"""Comparison of the model with and without denoising: ranking metrics on a held-out part, and recommendations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.errors import InputError
from prorec._core.progress import Progress
from prorec.denoise.controls import equalize_weights, make_control, shuffle_weights
from prorec.denoise.denoiser import ProRec
from prorec.evaluation.comparison import compare_on_splits
from prorec.evaluation.significance import Comparison, compare
from prorec.models.wrap import resolve_model

_K = 10


@dataclass(frozen=True)
class Gain:
    """Difference that denoising makes to a ranking metric on a held-out part."""

    metric: str
    """Name of the metric, such as `ndcg@10`."""
    n_users: int
    """Number of users with held-out interactions."""
    means: dict[str, float]
    """Mean of the metric for `plain`, the model without denoising, its controls `scaled` and `shuffled`, and
    `denoised`."""
    best: str
    """The best of the others."""
    net: Comparison
    """The model with denoising, compared with the best of the others."""


def measure_gain(denoiser: ProRec, progress: Progress | None = None) -> Gain | str:
    """Measure the gain of denoising on 30% of every user's interactions, after fits on the other 70%.

    The controls have side effects of denoising without denoising: all weights are equally small, or change places at
    random. What denoising gains is what it gains beyond the best of them.

    Parameters
    ----------
    denoiser : ProRec
        A fitted denoiser; it is not changed.
    progress : Progress, optional
        Function that is told of the progress of the four fits.

    Returns
    -------
    Gain or str
        The reason, as a text, if these interactions cannot be split.
    """
    k = min(_K, denoiser.interactions_.n_items)
    unfitted = replace(denoiser)
    models: dict[str, Any] = {
        "plain": resolve_model(denoiser.model, denoiser.interactions_.matrix.shape),
        "scaled": make_control(unfitted, equalize_weights),
        "shuffled": make_control(unfitted, shuffle_weights),
        "denoised": unfitted,
    }
    try:
        results = compare_on_splits(models, denoiser.interactions_, n_seeds=1, k=k, progress=progress).results
    except InputError as error:
        return str(error)
    metric = f"ndcg@{k}"
    means = {name: result.mean[metric] for name, result in results.items()}
    best = max((name for name in means if name != "denoised"), key=lambda name: means[name])
    (net,) = compare({name: results[name] for name in (best, "denoised")}, best, metrics=[metric])
    return Gain(metric, len(results[best].users), means, best, net)


@dataclass(frozen=True)
class RecommendationLists:
    """Recommendations for some users: columns of items, best first; −1 after a list that ends early."""

    before: NDArray[np.int32]
    """Recommendations of the model without denoising, users × k."""
    after: NDArray[np.int32]
    """Recommendations of the model with denoising, users × k."""


def recommend_before_and_after(
    denoiser: ProRec, rows: NDArray[np.int64], progress: Progress | None = None
) -> RecommendationLists | None:
    """Recommend items with and without denoising, after one more fit of the model on the original weights.

    Parameters
    ----------
    denoiser : ProRec
        A fitted denoiser; it is not changed.
    rows : ndarray
        Rows of the users to recommend to.
    progress : Progress, optional
        Function that is told of the progress of the fit.

    Returns
    -------
    RecommendationLists or None
        None if there are no users, or no model because the denoiser was fitted with `refit=False`.
    """
    if not denoiser.is_refitted_ or not len(rows):
        return None
    report = progress or (lambda *_: None)
    report("Fitting the model without denoising", 0, 1)
    interactions = denoiser.interactions_
    plain: Any = replace(resolve_model(denoiser.model, interactions.matrix.shape))  # type: ignore[type-var]
    plain.fit(interactions)
    report("Fitting the model without denoising", 1, 1)
    users, k = interactions.users[rows], min(_K, interactions.n_items)
    before, after = (
        np.asarray(model.recommend(users, k).item_positions, dtype=np.int32) for model in (plain, denoiser)
    )
    return RecommendationLists(before, after)
