"""What a report needs to know beyond the denoiser: what recommendation gained, and what was recommended before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.errors import InputError
from prorec._core.progress import Progress
from prorec.denoise.controls import make_control
from prorec.denoise.denoiser import ProRec
from prorec.evaluation.comparison import compare_on_splits
from prorec.evaluation.significance import Comparison, compare
from prorec.models.wrap import wrap

_LIST = 10


@dataclass(frozen=True)
class Gain:
    """What the model scores on a held-out part with denoising and without."""

    metric: str
    n_users: int
    denoised: Comparison
    """With denoising, against the model alone."""
    alike: Comparison
    """With all weights made smaller by the same factor, against the model alone: that is not denoising."""
    beyond: Comparison
    """With denoising, against weights made smaller."""


def measure_gain(denoiser: ProRec, progress: Progress | None = None) -> Gain | str:
    """Fit on 70% of every user's interactions, judge by the rest; or why that cannot be done on these data."""
    known = denoiser.interactions_
    k = min(_LIST, known.n_items)
    # Where weights don't come from the noise probability, there is no need to find that on the split again.
    again = replace(denoiser, noise_method="plan") if denoiser.weighting == "plan" else replace(denoiser)
    models: dict[str, Any] = {
        "the model alone": wrap(denoiser.model),
        "denoised": again,
        "weights alike": make_control(again),
    }
    try:
        found = compare_on_splits(models, known, n_seeds=1, k=k, progress=progress)
    except InputError as error:
        return str(error)
    metric = f"ndcg@{k}"
    by_name = {each.model: each for each in found.comparisons if each.metric == metric}
    (beyond,) = compare(
        {name: found.results[name] for name in ("weights alike", "denoised")}, "weights alike", metrics=[metric]
    )
    return Gain(metric, found.n_users, by_name["denoised"], by_name["weights alike"], beyond)


@dataclass(frozen=True)
class RecommendationLists:
    """What some users are recommended, as positions of items, best first; −1 behind a list that ends early."""

    before: NDArray[np.int32]
    """By the model alone, users × k."""
    after: NDArray[np.int32]
    """By the model that learned from the denoised weights."""


def recommend_before_and_after(
    denoiser: ProRec, rows: NDArray[np.int64], progress: Progress | None = None
) -> RecommendationLists | None:
    """The lists of users in some rows, before and after; nothing, if the denoiser was fitted without a last model."""
    if not denoiser.is_refitted_ or not len(rows):
        return None
    report = progress or (lambda *_: None)
    report("fitting without denoising", 0, 1)
    known = denoiser.interactions_
    plain: Any = replace(wrap(denoiser.model))  # type: ignore[type-var]
    plain.fit(known)
    report("fitting without denoising", 1, 1)
    k = min(_LIST, known.n_items)
    users = known.users[rows]
    before, after = (
        np.asarray(model.recommend(users, k).item_positions, dtype=np.int32) for model in (plain, denoiser)
    )
    return RecommendationLists(before, after)
