"""The charts of a report, each described by its data, axes, caption and table of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec.evaluation.detection import detection_metrics
from prorec.report.chart_types import AxesPlot, Axis, BarList, Bars, Chart, Color, Intervals, Line, Points, format_tick
from prorec.report.findings import Findings
from prorec.report.formatting import format_count, format_date, format_percent, truncate

_N_BINS = 40
_N_POINTS = 1200  # more dots make the page large and show no more
_NAME_LENGTH = 60
_MIN_CLICKS = 30  # the mean of a smaller group says nothing
_N_HIGHEST, _N_LOWEST = 10, 5
_N_PERIODS = 24


Describer = Callable[[Findings], Chart | None]
"""Function that describes a chart, if the findings have the data."""


def make_charts(findings: Findings) -> tuple[list[Chart], list[Chart]]:
    """Describe all charts for which the findings have the data.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.

    Returns
    -------
    pictures, details : list of Chart
        Charts of the noise, and charts of weights and of the paper's quantities, each in the order of the page.
    """
    pictures: tuple[Describer, ...] = (
        _describe_probabilities,
        _describe_popularity,
        _describe_times,
        _describe_categories,
        _describe_reliability,
    )
    details: tuple[Describer, ...] = (describe_weights, _describe_percentile_ranks, describe_thresholds, describe_loss)
    first, second = (
        [chart for describe in describers if (chart := describe(findings)) is not None]
        for describers in (pictures, details)
    )
    return first, second


def describe_weights(findings: Findings) -> Chart:
    """Describe the histogram of the weights.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.

    Returns
    -------
    Chart
    """
    before = findings.interactions.matrix.data
    mass_kept = float(findings.weights.sum(dtype=np.float64) / before.sum(dtype=np.float64))
    ratio = np.divide(findings.weights, before, out=np.ones_like(before), where=before > 0)
    low, high = (format_percent(value) for value in np.quantile(ratio, [0.25, 0.75]))
    caption = (
        f"Denoising kept {format_percent(mass_kept)} of the total weight. A quarter of the clicks kept {low} of "
        f"their weight or less, a quarter kept {high} or more."
    )
    largest = max(float(before.max()), float(findings.weights.max()))
    return _describe_histogram(findings, "weights", "Weights of clicks", caption, findings.weights, largest, "weight")


def _describe_probabilities(findings: Findings) -> Chart:
    values = findings.noise_probability
    n_likely = int((values > 0.5).sum())
    caption = f"Half of the clicks have a noise probability of {format_percent(float(np.median(values)))} or less. "
    if findings.is_calibrated:
        verb = "is" if n_likely == 1 else "are"
        likely = f"{format_count(n_likely, 'click')} ({format_percent(n_likely, len(values))})"
        caption += f"{likely} {verb} more likely noise than not."
    else:
        caption += "The probability is not calibrated: it orders the clicks, but does not tell how many are noise."
    title, label = "Noise probability of clicks", "noise probability"
    return _describe_histogram(findings, "probabilities", title, caption, values, 1.0, label)


def _describe_percentile_ranks(findings: Findings) -> Chart | None:
    values = findings.percentile_ranks
    if values is None:
        return None
    best, worse = (format_percent(float(mask.mean())) for mask in (values < 0.1, values >= 0.5))
    caption = (
        "Models that were trained without a click rank it among the items that its user has not clicked on. "
        f"{best} of the clicks are in the best tenth, which would hold 10% of random clicks, and {worse} are in the "
        "worse half, which holds half of the noise."
    )
    title, label = "Percentile ranks of clicks", "share of the user's unobserved items that rank higher"
    return _describe_histogram(findings, "percentiles", title, caption, values, 1.0, label)


def _describe_histogram(
    findings: Findings, key: str, title: str, caption: str, values: NDArray[np.float32], high: float, label: str
) -> Chart:
    """Describe a histogram from 0 to `high`. Flagged clicks are at the bottom: few clicks are hard to see on top."""
    edges = np.linspace(0.0, high, _N_BINS + 1)
    bins = np.clip((values.astype(np.float64) / (high or 1) * _N_BINS).astype(np.int64), 0, _N_BINS - 1)
    n_clicks, n_flagged = (np.bincount(each, minlength=_N_BINS) for each in (bins, bins[findings.flagged]))
    ranges = [f"{left:.3g} to {right:.3g}" for left, right in pairwise(edges)]
    rows = [[name, f"{n:,}", f"{flagged:,}"] for name, n, flagged in zip(ranges, n_clicks, n_flagged, strict=True)]
    tooltips = [f"{name}: {n} {'click' if n == '1' else 'clicks'}, {flagged} flagged" for name, n, flagged in rows]
    zero, total = np.zeros(_N_BINS), int(n_flagged.sum())
    left, right = edges[:-1], edges[1:]
    others = f"not flagged: {len(values) - total:,}"
    marks = [
        Bars("flag", left, right, zero, n_flagged, label=f"flagged: {total:,}", tooltips=tooltips),
        Bars("main", left, right, n_flagged, n_clicks, label=others, tooltips=tooltips),
    ]
    plot = AxesPlot(Axis(label, 0.0, high), Axis("clicks", 0.0, float(n_clicks.max()) or 1.0), marks)
    return Chart(key, title, caption, plot, [label, "clicks", "flagged"], rows)


def _describe_reliability(findings: Findings) -> Chart | None:
    """Describe the reliability diagram: the noise rate in bins of the noise probability."""
    is_noise = findings.is_noise
    if is_noise is None or is_noise.all() or not is_noise.any():
        return None
    bins = np.minimum((findings.noise_probability * 10).astype(np.int64), 9)
    n_clicks, probability_sum, n_noise = (
        np.bincount(bins, values, minlength=10) for values in (None, findings.noise_probability, is_noise)
    )
    large = np.flatnonzero(n_clicks >= _MIN_CLICKS)
    n, x, y = n_clicks[large], probability_sum[large] / n_clicks[large], n_noise[large] / n_clicks[large]
    half_width = 1.96 * np.sqrt(y * (1 - y) / n)
    rows = [[format_percent(p), format_percent(rate), f"{count:,}"] for p, rate, count in zip(x, y, n, strict=True)]
    tooltips = [f"{count} clicks with a probability of {p}: {rate} are noise" for p, rate, count in rows]
    marks = [
        Line("ideal", [0, 1], [0, 1]),
        Intervals("flag", x, np.maximum(y - half_width, 0), np.minimum(y + half_width, 1)),
        Line("flag", x, y),
        Points("flag", x, y, 4, tooltips=tooltips),
    ]
    x_axis = Axis("mean noise probability of a bin", 0, 1, is_percent=True)
    plot = AxesPlot(x_axis, Axis("noise rate of the bin", 0, 1, is_percent=True), marks)
    metrics = detection_metrics(findings.noise_probability, is_noise)
    caption = (
        f"It is known here that {format_percent(float(is_noise.mean()))} of the clicks are noise. The probability is "
        f"wrong by {100 * metrics['calibration_error']:.1f} percentage points on average. A noisy click has a higher "
        f"probability than a clean one {format_percent(metrics['auroc'])} of the time."
    )
    columns = ["noise probability", "noise rate", "clicks"]
    return Chart("reliability", "Reliability of the noise probability", caption, plot, columns, rows)


def describe_thresholds(findings: Findings, max_points: int = _N_POINTS) -> Chart | None:
    """Describe each user's κ against the user's activity, with the median in eight groups of users.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.
    max_points : int, default 1200
        Maximum number of users shown as dots. Of more users, a random sample is shown; medians are over all users.

    Returns
    -------
    Chart or None
        None for fewer than two users with clicks.
    """
    activity = findings.interactions.activity
    active = np.flatnonzero(activity)
    x, y = activity[active].astype(np.float64), np.maximum(findings.kappa[active], 1).astype(np.float64)
    if len(x) < 2:
        return None
    shown = np.sort(np.random.default_rng(0).permutation(len(x))[:max_points])
    medians, rows = [], []
    _, codes, names = _split_by_quantiles(x, 8)
    for index, name in enumerate(names):
        group = codes == index
        if group.any():
            quartiles = np.quantile(y[group], [0.25, 0.5, 0.75])
            medians.append((float(np.median(x[group])), float(quartiles[1])))
            rows.append([name, f"{group.sum():,}", *(f"{each:,.0f}" for each in quartiles)])
    median_x, median_y = [each[0] for each in medians], [each[1] for each in medians]
    number = f"{len(shown):,} of {len(x):,} users, at random" if len(shown) < len(x) else f"{len(x):,} users"
    tooltips = [f"{a:,.0f} clicks: median κ {b:,.0f}" for a, b in medians]
    marks = [
        Points("dim", x[shown], y[shown], label=number),
        Line("main", median_x, median_y, label="medians of groups of users"),
        Points("main", median_x, median_y, 3.5, tooltips=tooltips),
    ]
    x_axis = Axis("clicks of a user", x.min(), max(x.max(), 2 * x.min()), is_log=True)
    y_axis = Axis("κ, items in the upper group", y.min(), max(y.max(), 2 * y.min()), is_log=True)
    plot = AxesPlot(x_axis, y_axis, marks)
    from scipy.stats import spearmanr  # slow to import

    correlation = float(spearmanr(x, y).statistic) if x.min() < x.max() and y.min() < y.max() else 0.0
    trend = "does not depend on" if abs(correlation) < 0.1 else "grows with" if correlation > 0 else "falls with"
    caption = (
        f"The median user has {np.median(x):,.0f} clicks and a threshold that puts {np.median(y):,.0f} of "
        f"{findings.n_items:,} items into the upper group. This number {trend} the number of clicks (rank correlation "
        f"{correlation:.2f})." + (f" The chart shows {number}." if len(shown) < len(x) else "")
    )
    columns = ["clicks of a user", "users", "κ, lower quartile", "median", "upper quartile"]
    return Chart("kappa", "Items above each user's threshold", caption, plot, columns, rows)


def _describe_popularity(findings: Findings) -> Chart | None:
    popularity = findings.interactions.popularity[findings.interactions.item_codes]
    edges, codes, names = _split_by_quantiles(popularity, 10)
    if len(names) < 2:
        return None
    groups = _Groups.count(findings, names, codes)
    low, high = (format_percent(groups.means[index]) for index in (0, -1))
    caption = (
        f"Clicks on the least popular items ({names[0]} clicks) have a mean noise probability of {low}, clicks on the "
        f"most popular items ({names[-1]}) one of {high}."
    )
    ticks = [(index, format_tick(float(np.ceil(edge)))) for index, edge in enumerate(edges)]
    plot = groups.plot("clicks on the item, in groups with about as many clicks", ticks)
    return groups.chart("popularity", "Noise by popularity of the item", caption, plot, "clicks on the item")


def _describe_times(findings: Findings) -> Chart | None:
    times = findings.times
    if times is None or times.max() <= times.min():
        return None
    edges = np.linspace(float(times.min()), float(times.max()), _N_PERIODS + 1)
    codes = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, _N_PERIODS - 1)
    days = (edges[-1] - edges[0]) / 86400
    pattern = "%b %Y" if days > 31 * _N_PERIODS else "%d %b %Y" if days > _N_PERIODS else "%d %b %H:%M"
    names = [datetime.fromtimestamp(start, UTC).strftime(pattern) for start in edges[:-1]]
    groups = _Groups.count(findings, names, codes)
    large = groups.find_large()
    most, least = large[np.argmax(groups.means[large])], large[np.argmin(groups.means[large])]
    high, low = format_percent(groups.means[most]), format_percent(groups.means[least])
    caption = f"From {format_date(edges[0])} to {format_date(edges[-1])}, the mean noise probability was "
    if high == low:
        caption += f"about the same ({high})."
    else:
        caption += (
            f"highest in the period from {names[most]} on ({high}) and lowest in the period from {names[least]} on "
            f"({low})."
        )
    if len(large) < (groups.n_clicks > 0).sum():
        caption += f" Periods with fewer than {_MIN_CLICKS} clicks are faint."
    plot = groups.plot("time", [(index, names[index]) for index in range(0, _N_PERIODS, 6)])
    return groups.chart("time", "Noise over time", caption, plot, "from")


def _describe_categories(findings: Findings) -> Chart | None:
    """Describe the mean noise probability of each category; an item may have several."""
    interactions = findings.interactions
    categories = interactions.item_categories
    names = sorted({name for each in categories or () for name in each})
    if categories is None or len(names) < 2:
        return None
    index = {name: position for position, name in enumerate(names)}
    items = np.repeat(np.arange(len(categories)), [len(each) for each in categories])
    codes = np.array([index[name] for each in categories for name in each], dtype=np.int64)
    sums = [
        np.bincount(codes, np.bincount(interactions.item_codes, values, interactions.n_items)[items], len(names))
        for values in (None, findings.noise_probability, findings.flagged)
    ]
    groups = _Groups(names, *sums)
    groups = groups.select(groups.find_large())
    groups = groups.select(np.argsort(-groups.means, kind="stable"))
    n = len(groups.names)
    if n < 2:
        return None
    order = np.arange(n)
    is_cut = n > _N_HIGHEST + _N_LOWEST
    shown = groups.select(np.concatenate([order[:_N_HIGHEST], order[-_N_LOWEST:]]) if is_cut else order)
    texts = [format_percent(mean) for mean in shown.means]
    tooltips = [
        f"{name}: {format_count(int(count), 'click')}" for name, count in zip(shown.names, shown.n_clicks, strict=True)
    ]
    first, last = truncate(groups.names[0], _NAME_LENGTH), truncate(groups.names[-1], _NAME_LENGTH)
    caption = f"The mean noise probability is highest in {first} ({texts[0]}) and lowest in {last} ({texts[-1]})."
    if texts[0] == texts[-1]:
        caption = f"The mean noise probability is about the same in all categories ({texts[0]})."
    if is_cut:
        caption += f" The chart shows the ten highest and the five lowest of {n:,} categories."
    plot = BarList(shown.names, shown.means.tolist(), texts, tooltips)
    return groups.chart("categories", "Noise by category", caption, plot, "category")


def describe_loss(findings: Findings) -> Chart | None:
    """Describe the loss of Algorithm 1 after the first fit, each relabelling and each refit.

    Parameters
    ----------
    findings : Findings
        Results of a denoiser.

    Returns
    -------
    Chart or None
        None if the loss was not recorded, or is 0.
    """
    steps: list[tuple[str, float]] = []
    for each in findings.history:
        for name, loss in (("relabelled", each.loss_relabeled), ("refitted", each.loss_refitted)):
            if loss is not None:
                step = name if len(findings.history) == 2 else f"round {each.number}, {name}"
                steps.append((step if steps else "first fit", float(loss.total)))
    names, values = [name for name, _ in steps], [value for _, value in steps]
    if len(steps) < 2 or max(map(abs, values)) < 1e-6:  # nothing but rounding errors
        return None
    position = np.arange(len(steps))
    texts = [f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}" for value in values]
    tooltips = [f"{name}: {text}" for name, text in zip(names, texts, strict=True)]
    ticks = [(index + 0.5, name if len(steps) <= 3 else str(index)) for index, name in enumerate(names)]
    zero = np.zeros(len(steps))
    bars = Bars("main", position + 0.15, position + 0.85, zero, np.array(values), tooltips=tooltips)
    y = Axis("loss", min(0.0, *values), max(0.0, *values) or 1.0)
    plot = AxesPlot(Axis("step", 0, len(steps), named_ticks=ticks), y, [bars])
    increases = [
        f"{name} (by {format_percent(after - before, abs(before))})"
        for name, (before, after) in zip(names[1:], pairwise(values), strict=True)
        if after > before * (1 + 1e-9)
    ]
    verdict = f"It went up in these steps: {', '.join(increases)}." if increases else "No step increased it."
    caption = f"The loss that Algorithm 1 minimises went from {texts[0]} to {texts[-1]}. {verdict}"
    rows = [list(each) for each in zip(names, texts, strict=True)]
    return Chart("loss", "Loss after each step", caption, plot, ["step", "loss"], rows)


@dataclass(frozen=True)
class _Groups:
    """Clicks in groups, and the mean noise probability of each group."""

    names: Sequence[str]
    n_clicks: NDArray[Any]
    probability_sum: NDArray[Any]
    n_flagged: NDArray[Any]

    @classmethod
    def count(cls, findings: Findings, names: Sequence[str], codes: NDArray[np.int64]) -> _Groups:
        """Count the clicks of each group; `codes` has the group of each click."""
        values = (None, findings.noise_probability, findings.flagged)
        return cls(names, *(np.bincount(codes, weights, minlength=len(names)) for weights in values))

    @property
    def means(self) -> NDArray[np.float64]:
        return np.asarray(self.probability_sum / np.maximum(self.n_clicks, 1))

    def find_large(self) -> NDArray[np.int64]:
        """Return the groups whose mean is meaningful; the largest group in any case."""
        return np.flatnonzero(self.n_clicks >= min(_MIN_CLICKS, self.n_clicks.max()))

    def select(self, indices: NDArray[np.int64]) -> _Groups:
        columns = (self.n_clicks, self.probability_sum, self.n_flagged)
        return _Groups([self.names[index] for index in indices], *(each[indices] for each in columns))

    def plot(self, label: str, ticks: Sequence[tuple[float, str]]) -> AxesPlot:
        """Describe one bar for each group, faint if the group is small."""
        large = self.find_large()
        small = np.setdiff1d(np.flatnonzero(self.n_clicks), large)
        groups: list[tuple[NDArray[np.int64], Color]] = [(large, "main"), (small, "dim")]
        marks = []
        for indices, color in groups:
            tooltips = [
                f"{self.names[index]}: {format_percent(self.means[index])} of "
                f"{format_count(int(self.n_clicks[index]), 'click')}"
                for index in indices
            ]
            zero = np.zeros(len(indices))
            marks.append(Bars(color, indices, indices + 1, zero, self.means[indices], tooltips=tooltips))
        y = Axis("mean noise probability", 0, float(self.means.max()) or 1.0, is_percent=True)
        return AxesPlot(Axis(label, 0, len(self.names), named_ticks=ticks), y, marks)

    def chart(self, key: str, title: str, caption: str, plot: AxesPlot | BarList, first_column: str) -> Chart:
        """Describe a chart with the table of the groups."""
        columns = zip(self.names, self.n_clicks, self.means, self.n_flagged, strict=True)
        rows = [
            [name, f"{count:,.0f}", format_percent(mean), f"{flagged:,.0f}"] for name, count, mean, flagged in columns
        ]
        return Chart(key, title, caption, plot, [first_column, "clicks", "mean noise probability", "flagged"], rows)


def _split_by_quantiles(values: NDArray[Any], n: int) -> tuple[NDArray[np.float64], NDArray[np.int64], list[str]]:
    """Split integers into at most `n` groups of about the same size; return edges, the group of each, and names."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, n + 1)))
    codes = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    starts = np.ceil(edges[:-1])
    ends = np.append(starts[1:] - 1, edges[-1])  # a group ends before the next one starts
    pairs = zip(starts, ends, strict=False)  # equal values have one edge and no group
    names = [f"{low:,.0f}–{high:,.0f}" if low < high else f"{low:,.0f}" for low, high in pairs]
    return edges, codes, names
