"""Is one recommender better than another, or was it chance? Paired over users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_float, check_int
from prorec._core.errors import InputError
from prorec._core.random import make_generator

if TYPE_CHECKING:
    from prorec.evaluation.ranking_evaluation import Evaluation

_BLOCK = 4_000_000  # numbers drawn at a time


@dataclass(frozen=True)
class Comparison:
    """One recommender against the baseline, by one metric."""

    model: str
    metric: str
    mean: float
    baseline_mean: float
    difference: float
    """Mean over users of the difference; above 0 the model is better."""
    low: float
    """Lower end of the bootstrap interval of the difference."""
    high: float
    """Upper end of it."""
    p_t: float
    """Of the paired t test, two-sided."""
    p_wilcoxon: float
    """Of Wilcoxon's signed-rank test, two-sided."""
    p_t_holm: float
    """`p_t` after Holm's correction for all comparisons made together."""
    p_wilcoxon_holm: float
    """`p_wilcoxon` after Holm's correction."""


def compare(
    results: Mapping[str, Evaluation],
    baseline: str,
    *,
    metrics: Iterable[str] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> list[Comparison]:
    """Compare every result with the baseline, user by user.

    Holm's correction is over all comparisons made here, models times metrics: name the metrics you mean to judge by.

    Parameters
    ----------
    results : evaluations by name, all of the same users
    baseline : the name of the one that the others are compared with
    metrics : names such as `ndcg@5`; by default all
    level : of the bootstrap interval
    """
    if baseline not in results:
        raise InputError(f"the baseline {baseline!r} is not among the results: {', '.join(results)}")
    base = results[baseline]
    others = {name: result for name, result in results.items() if name != baseline}
    if not others:
        raise InputError("there is nothing to compare with the baseline")
    for name, result in others.items():
        if not np.array_equal(result.users, base.users) or result.family != base.family:
            raise InputError(f"{name!r} and {baseline!r} were not evaluated on the same users and definitions")
    names = list(base.per_user) if metrics is None else list(metrics)
    pairs = [(model, metric) for model in others for metric in names]
    gains = [others[model].values(metric) - base.values(metric) for model, metric in pairs]
    p_t = [paired_t(gain) for gain in gains]
    p_w = [_wilcoxon(gain) for gain in gains]
    columns = zip(pairs, gains, p_t, p_w, holm(p_t), holm(p_w), strict=True)
    return [
        Comparison(
            model,
            metric,
            others[model].mean[metric],
            base.mean[metric],
            float(gain.mean()),
            *bootstrap_interval(gain, level=level, seed=seed),
            *p_values,
        )
        for (model, metric), gain, *p_values in columns
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the i-th smallest of m p-values times m − i + 1, never decreasing, at most 1.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]  # 3 × .01, then 2 × .03, then max(.06, 1 × .04)
    [0.03, 0.06, 0.06]
    """
    p = _one_row("p-values", p_values)
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError("p-values must lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1)
    return [float(value) for value in corrected]


def bootstrap_interval(
    values: NDArray[np.float64], *, level: float = 0.95, samples: int = 2_000, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean.

    >>> low, high = bootstrap_interval(np.array([0.0, 1.0] * 50))
    >>> 0.38 < low < 0.42 and 0.58 < high < 0.62
    True
    """
    values = _one_row("values", values)
    if not len(values) or not np.abs(values).max() < 1e300:
        raise InputError("an interval needs at least one value, and finite ones")
    samples = check_int("samples", samples, 1)
    level = check_float("level", level, 0, 1)
    rng = make_generator(seed)
    distinct, counts = np.unique(values, return_counts=True)
    # A sample is a count of each distinct value: where those are few, that is much less to draw than n users.
    has_few = len(distinct) < len(values) / 20
    means = np.empty(samples)
    block = max(1, _BLOCK // (len(distinct) if has_few else len(values)))
    for begin in range(0, samples, block):
        size = min(block, samples - begin)
        if has_few:
            drawn = rng.multinomial(len(values), counts / len(values), size=size)
            means[begin : begin + size] = drawn @ distinct / len(values)
        else:
            means[begin : begin + size] = values[rng.integers(len(values), size=(size, len(values)))].mean(axis=1)
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def _one_row(name: str, values: Any) -> NDArray[np.float64]:
    try:
        row = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers: {error}") from error
    if row.ndim != 1:
        raise InputError(f"{name} must be a plain list of numbers, not of shape {row.shape}")
    return row


def paired_t(gain: NDArray[np.float64]) -> float:
    """Two-sided p of a paired t-test, of the differences."""
    from scipy.stats import t

    spread = gain.std(ddof=1) if len(gain) > 1 else 0.0
    if spread <= 1e-12 * np.abs(gain).max(initial=0):
        # No spread, no t: a difference that is the same for all is either none or beyond chance.
        return 1.0 if len(gain) < 2 or not gain.any() else 0.0
    statistic = gain.mean() / (spread / np.sqrt(len(gain)))
    return float(2 * t.sf(abs(statistic), len(gain) - 1))


def _wilcoxon(gain: NDArray[np.float64]) -> float:
    from scipy.stats import wilcoxon

    return float(wilcoxon(gain).pvalue) if gain.any() else 1.0
