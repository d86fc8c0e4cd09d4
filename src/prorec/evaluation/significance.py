"""Significance of a difference between recommenders, paired over users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import check_array, check_float, check_int, safe_repr
from prorec._core.errors import InputError
from prorec._core.random import make_generator
from prorec.evaluation.comparison_table import Comparison as Comparison  # the report takes it from here
from prorec.evaluation.comparison_table import Comparisons

if TYPE_CHECKING:
    from prorec.evaluation.ranking_evaluation import Evaluation

_BLOCK = 4_000_000  # numbers drawn at a time


def compare(
    results: Mapping[str, Evaluation],
    baseline: str,
    *,
    metrics: Iterable[str] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Comparisons:
    """Compare every result with the baseline, user by user.

    Holm's correction is over all comparisons of the call, models times metrics. Pass the metrics that you decide by.

    Parameters
    ----------
    results : mapping
        Evaluations by name, all of the same users.
    baseline : str
        Name of the result that the others are compared with.
    metrics : iterable of str, optional
        Metrics such as `ndcg@5`. The default is all of them.
    level : float, default 0.95
        Confidence level of the bootstrap interval.
    seed : int, default 0
        Seed of the bootstrap.

    Returns
    -------
    Comparisons
        A list with one `Comparison` for each model and metric, which prints as a table, and has `to_table`,
        `to_markdown`, `to_latex` and `to_csv`.

    Raises
    ------
    InputError
        If the baseline is missing, or the results are of different users or metric families.
    """
    if not isinstance(results, Mapping) or not all(hasattr(each, "per_user") for each in results.values()):
        raise InputError(f"results must be what evaluate returned, by name; got {safe_repr(results)}")
    if not isinstance(baseline, str) or baseline not in results:
        raise InputError(f"baseline must be one of the results, {', '.join(results)}; got {safe_repr(baseline)}")
    base = results[baseline]
    others = {name: result for name, result in results.items() if name != baseline}
    if not others:
        raise InputError("results must have at least one entry beside the baseline; there is nothing to compare")
    for name, result in others.items():
        if not np.array_equal(result.users, base.users) or result.family != base.family:
            raise InputError(
                f"results must be of the same users and metric family; {safe_repr(name)} and {safe_repr(baseline)} "
                "differ. Evaluate both on the same test part with the same metrics="
            )
    names = list(base.per_user) if metrics is None else list(metrics)
    pairs = [(model, metric) for model in others for metric in names]
    gains = [others[model].values(metric) - base.values(metric) for model, metric in pairs]
    p_t = [paired_t(gain) for gain in gains]
    p_wilcoxon = [_wilcoxon(gain) for gain in gains]
    columns = zip(pairs, gains, p_t, p_wilcoxon, holm(p_t), holm(p_wilcoxon), strict=True)
    return Comparisons(
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
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """Apply Holm's step-down correction for multiple tests.

    The i-th smallest of m p-values is multiplied by m − i + 1. The results never decrease and are at most 1.

    Parameters
    ----------
    p_values : sequence of float
        p-values of tests that are made together.

    Returns
    -------
    list of float
        Corrected p-values, in the order given.

    Raises
    ------
    InputError
        If a p-value is not between 0 and 1.

    Examples
    --------
    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]  # 3 × .01, then 2 × .03, then max(.06, 1 × .04)
    [0.03, 0.06, 0.06]
    """
    p = _check_vector("p_values", p_values)
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError("p_values must lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1)
    return [float(value) for value in corrected]


def bootstrap_interval(
    values: NDArray[np.float64], *, level: float = 0.95, samples: int = 2_000, seed: int = 0
) -> tuple[float, float]:
    """Compute a percentile bootstrap interval of the mean.

    Parameters
    ----------
    values : array of float
        At least one finite value.
    level : float, default 0.95
        Confidence level.
    samples : int, default 2000
        Number of bootstrap samples.
    seed : int, default 0
        Seed of the samples.

    Returns
    -------
    tuple of float
        Lower and upper end.

    Raises
    ------
    InputError
        If there are no values, or a value is not finite.

    Examples
    --------
    >>> low, high = bootstrap_interval(np.array([0.0, 1.0] * 50))
    >>> 0.38 < low < 0.42 and 0.58 < high < 0.62
    True
    """
    values = _check_vector("values", values)
    if not len(values) or not np.abs(values).max() < 1e300:
        raise InputError("values must have at least one value, and finite ones only")
    samples = check_int("samples", samples, 1)
    level = check_float("level", level, 0, 1)
    rng = make_generator(seed)
    distinct, counts = np.unique(values, return_counts=True)
    # A sample is a count of each distinct value. If those are few, that is much less to draw than n values.
    has_few = len(distinct) < len(values) / 20
    means = np.empty(samples)
    block = max(1, _BLOCK // (len(distinct) if has_few else len(values)))
    for start in range(0, samples, block):
        size = min(block, samples - start)
        if has_few:
            sampled = rng.multinomial(len(values), counts / len(values), size=size)
            means[start : start + size] = sampled @ distinct / len(values)
        else:
            means[start : start + size] = values[rng.integers(len(values), size=(size, len(values)))].mean(axis=1)
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def paired_t(gain: NDArray[np.float64]) -> float:
    """Compute the two-sided p-value of a paired t-test.

    Parameters
    ----------
    gain : array of float
        Differences between the pairs.

    Returns
    -------
    float
        1 for fewer than two pairs or no difference at all; 0 for a difference that is the same for all pairs.
    """
    from scipy.stats import t

    spread = gain.std(ddof=1) if len(gain) > 1 else 0.0
    if spread <= 1e-12 * np.abs(gain).max(initial=0):  # t is undefined without spread
        return 1.0 if len(gain) < 2 or not gain.any() else 0.0
    statistic = gain.mean() / (spread / np.sqrt(len(gain)))
    return float(2 * t.sf(abs(statistic), len(gain) - 1))


def _wilcoxon(gain: NDArray[np.float64]) -> float:
    from scipy.stats import wilcoxon

    return float(wilcoxon(gain).pvalue) if gain.any() else 1.0


def _check_vector(name: str, values: Any) -> NDArray[np.float64]:
    vector = check_array(name, values).astype(np.float64)
    if vector.ndim != 1:
        raise InputError(f"{name} must be a plain list of numbers; got shape {vector.shape}")
    return vector
