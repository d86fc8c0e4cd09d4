# ruff: noqa: E501
"""The pictures of a report, each with one sentence that says what it shows in these data, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.stats import spearmanr

from prorec.evaluation.detection import detection_metrics
from prorec.report.findings import Findings
from prorec.report.formatting import format_count, format_date, format_percent, truncate
from prorec.report.svg import Chart, histogram, percent, rows_chart, short

_BINS = 40
_DOTS = 1200  # users: more only make the page heavy
_LETTERS = 60  # of a name in a sentence
_FEW = 30  # interactions: a mean of fewer says nothing
_CATEGORIES = 15
_PERIODS = 24


@dataclass(frozen=True)
class Picture:
    """A chart, what it shows, and its numbers as a table."""

    key: str
    title: str
    sentence: str
    chart: Markup
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def make_charts(findings: Findings) -> Iterator[Picture]:
    """Those that can be drawn from these data."""
    makers: list[Callable[[Findings], Picture | None]] = [
        _weights,
        _probabilities,
        _percentiles,
        _reliability,
        _kappa,
        _popularity,
        _categories,
        _time,
        _loss,
    ]
    for make in makers:
        picture = make(findings)
        if picture is not None:
            yield picture


# ── distributions ───────────────────────────────────────────────────────────────────────────────────


def _weights(findings: Findings) -> Picture:
    before = findings.known.matrix.data
    kept = float(findings.weights.sum(dtype=np.float64) / before.sum(dtype=np.float64))
    of_each = np.divide(findings.weights, before, out=np.ones_like(before), where=before > 0)
    low, high = np.quantile(of_each, [0.25, 0.75])
    sentence = (
        f"Of the weight of all clicks, {format_percent(kept)} was kept. A quarter of the clicks kept {format_percent(low)} of theirs or "
        f"less, a quarter {format_percent(high)} or more."
    )
    most = max(float(before.max()), float(findings.weights.max()))
    title, label = "What clicks weigh now", "weight after relabelling"
    return _two_groups(findings, "weights", title, sentence, findings.weights, most, label)


def _probabilities(findings: Findings) -> Picture:
    values = findings.probability
    likely = int((values > 0.5).sum())
    sentence = f"Half of the clicks have a noise probability of {format_percent(float(np.median(values)))} or less; "
    if findings.is_calibrated:
        verb = "is" if likely == 1 else "are"
        sentence += f"{format_count(likely, 'click')} ({format_percent(likely, len(values))}) {verb} more likely noise than not."
    else:
        sentence += "it is good for putting clicks in order, not calibrated, and does not say how much noise there is."
    title = "How probable it is that a click is noise"
    return _two_groups(findings, "probabilities", title, sentence, values, 1.0, "noise probability")


def _percentiles(findings: Findings) -> Picture | None:
    if findings.percentiles is None:
        return None
    best = float((findings.percentiles < 0.1).mean())
    worse = float((findings.percentiles >= 0.5).mean())
    sentence = (
        "Each click is placed among what its user has not clicked on, by models that have not seen it: "
        f"{format_percent(best)} stand in the best tenth, where random draws would be 10%, and {format_percent(worse)} in the worse "
        "half, where half of the noise is."
    )
    title = "Where clicks stand among everything else"
    label = "share of the user's other items that stand above"
    return _two_groups(findings, "percentiles", title, sentence, findings.percentiles, 1.0, label)


def _two_groups(
    findings: Findings, key: str, title: str, sentence: str, values: NDArray[np.float32], high: float, label: str
) -> Picture:
    """A histogram, the flagged in another colour on top of the others."""
    edges, of_flagged = histogram(values[findings.flagged], _BINS, 0.0, high)
    _, of_others = histogram(values[~findings.flagged], _BINS, 0.0, high)
    total = of_flagged + of_others
    chart = Chart((0.0, high), (0.0, float(total.max()) or 1.0), label, "clicks")
    rows = []
    for left, right, red, all_here in zip(edges[:-1], edges[1:], of_flagged, total, strict=True):
        within = f"{left:.3g} to {right:.3g}"
        if all_here:
            words = f"{within}: {format_count(int(all_here), 'click')}, {int(red):,} flagged"
            chart.bar(left, right, 0, float(all_here - red), "main", words)
            if red:
                chart.bar(left, right, float(all_here - red), float(all_here), "flag", words)
        rows.append([within, f"{all_here:,}", f"{red:,}"])
    return Picture(key, title, sentence, chart.drawn(title), [label, "clicks", "flagged"], rows)


# ── against the truth ───────────────────────────────────────────────────────────────────────────────


def _reliability(findings: Findings) -> Picture | None:
    truth = findings.is_noise
    if truth is None or truth.all() or not truth.any():
        return None
    place = np.minimum((findings.probability * 10).astype(np.int64), 9)
    number = np.bincount(place, minlength=10)
    said = np.bincount(place, weights=findings.probability, minlength=10)
    noise = np.bincount(place, weights=truth, minlength=10)
    found = detection_metrics(findings.probability, truth)
    chart = Chart(
        (0, 1),
        (0, 1),
        "noise probability, mean of a bin",
        "share that is noise",
        x_ticks=[(at / 5, percent(at / 5)) for at in range(6)],
        y_format="percent",
    )
    chart.line([0, 1], [0, 1], "ideal")
    rows, points = [], []
    for at in np.flatnonzero(number >= _FEW):
        n, mean, part = int(number[at]), float(said[at] / number[at]), float(noise[at] / number[at])
        half = 1.96 * float(np.sqrt(part * (1 - part) / n))
        chart.whisker(mean, max(part - half, 0), min(part + half, 1), "flag")
        points.append((mean, part, n))
        rows.append([format_percent(mean), format_percent(part), f"{n:,}"])
    if points:
        chart.line([x for x, _, _ in points], [y for _, y, _ in points], "flag")
        for mean, part, n in points:
            chart.dot(
                mean,
                part,
                "flag",
                f"{format_count(n, 'click')} of {format_percent(mean)}: {format_percent(part)} are noise",
                4,
            )
    sentence = (
        f"The truth is known here: {format_percent(float(truth.mean()))} of the clicks are noise. The probability is off by "
        f"{100 * found['calibration_error']:.1f} points on average, and noise gets a larger one than another click "
        f"{format_percent(found['auroc'])} of the time."
    )
    title = "Is the probability right?"
    columns = ["noise probability", "share that is noise", "clicks"]
    return Picture("reliability", title, sentence, chart.drawn(title), columns, rows)


# ── who and what ────────────────────────────────────────────────────────────────────────────────────


def _kappa(findings: Findings) -> Picture | None:
    activity = findings.known.activity
    rows_in = np.flatnonzero(activity)
    x, y = activity[rows_in].astype(np.float64), np.maximum(findings.kappa[rows_in], 1).astype(np.float64)
    if len(x) < 2:
        return None
    limits = (float(x.min()), float(max(x.max(), x.min() * 2))), (float(y.min()), float(max(y.max(), y.min() * 2)))
    chart = Chart(*limits, "clicks of a user", "κ, items in the upper group", log=True)
    shown = np.random.default_rng(0).permutation(len(x))[:_DOTS]
    for at in np.sort(shown):
        chart.dot(x[at], y[at], "dim")
    middles, medians, rows = [], [], []
    edges = np.unique(np.quantile(x, np.linspace(0, 1, 9)))
    for low, high in pairwise(edges):
        inside = (x >= low) & ((x < high) | (high == edges[-1]))
        if inside.any():
            quartiles = np.quantile(y[inside], [0.25, 0.5, 0.75])
            middles.append(float(np.median(x[inside])))
            medians.append(float(quartiles[1]))
            within = _span(np.ceil(low), high if high == edges[-1] else np.ceil(high) - 1)
            rows.append([within, f"{inside.sum():,}", *(f"{each:,.0f}" for each in quartiles)])
    chart.line(middles, medians, "main")
    for middle, median in zip(middles, medians, strict=True):
        chart.dot(middle, median, "main", f"{middle:,.0f} clicks: median κ {median:,.0f}", 3.5)
    together = float(spearmanr(x, y).statistic) if x.min() < x.max() and y.min() < y.max() else 0.0
    if abs(together) < 0.1:
        link = "does not go with how much somebody clicks"
    else:
        link = f"{'grows' if together > 0 else 'falls'} with how much somebody clicks"
    some = f" {len(shown):,} of {len(x):,} users are drawn." if len(shown) < len(x) else ""
    sentence = (
        f"Of {findings.n_items:,} items, the median user has {np.median(y):,.0f} above the threshold, and "
        f"{np.median(x):,.0f} clicks. That number {link} (rank correlation {together:.2f}).{some}"
    )
    title = "How many items a user's threshold lets in"
    columns = ["clicks of a user", "users", "κ, lower quartile", "median", "upper quartile"]
    return Picture("kappa", title, sentence, chart.drawn(title), columns, rows)


def _popularity(findings: Findings) -> Picture | None:
    popularity = findings.known.popularity[findings.known.item_codes]
    edges = np.unique(np.quantile(popularity, np.linspace(0, 1, 11)))
    if len(edges) < 3:
        return None
    place = np.clip(np.searchsorted(edges, popularity, side="right") - 1, 0, len(edges) - 2)
    groups = _Groups.of(findings, place, len(edges) - 1)
    ends = np.ceil(edges[1:]) - 1  # a group ends before the next one begins, but for the last
    ends[-1] = edges[-1]
    names = [_span(np.ceil(low), end) for low, end in zip(edges[:-1], ends, strict=True)]
    last = len(names) - 1
    where = [(at, short(float(np.ceil(each)))) for at, each in enumerate(edges)]
    chart = groups.columns(names, where, "clicks on the item, in groups of about as many clicks")
    low, high = groups.means[0], groups.means[last]
    sentence = (
        f"Clicks on the least popular items ({names[0]} clicks) have a mean noise probability of {format_percent(low)}, those "
        f"on the most popular ({names[last]}) {format_percent(high)}."
    )
    title = "Noise by how popular the item is"
    return groups.picture("popularity", title, sentence, chart.drawn(title), "clicks on the item", names)


def _span(low: float, high: float) -> str:
    return f"{low:,.0f}–{high:,.0f}" if low < high else f"{low:,.0f}"


def _categories(findings: Findings) -> Picture | None:
    given = findings.known.item_categories
    names = sorted({name for each in given or () for name in each})
    if given is None or len(names) < 2:
        return None
    at = {name: place for place, name in enumerate(names)}
    of_item = np.bincount(findings.known.item_codes, minlength=findings.known.n_items)
    sum_of_item = np.bincount(findings.known.item_codes, findings.probability, minlength=findings.known.n_items)
    flags_of_item = np.bincount(findings.known.item_codes, findings.flagged, minlength=findings.known.n_items)
    items = np.repeat(np.arange(len(given)), [len(each) for each in given])
    places = np.array([at[name] for each in given for name in each], dtype=np.int64)
    groups = _Groups(*(
        np.bincount(places, values[items], minlength=len(names)) for values in (of_item, sum_of_item, flags_of_item)
    ))  # fmt: skip
    enough = groups.enough()
    order = enough[np.argsort(-groups.means[enough], kind="stable")]
    if len(order) < 2:
        return None
    top = order if len(order) <= _CATEGORIES else np.concatenate([order[: _CATEGORIES - 5], order[-5:]])
    titles = [f"{names[each]}: {format_count(int(groups.number[each]), 'click')}" for each in top]
    title = "Noise by category"
    chart = rows_chart(
        title,
        [names[each] for each in top],
        groups.means[top].tolist(),
        [format_percent(each) for each in groups.means[top]],
        titles,
    )
    some = "" if len(top) == len(order) else f" The ten highest and five lowest of {len(order):,} are drawn."
    high, low = format_percent(groups.means[order[0]]), format_percent(groups.means[order[-1]])
    sentence = (
        f"The mean noise probability is highest in {truncate(names[order[0]], _LETTERS)} ({high}) and lowest in "
        f"{truncate(names[order[-1]], _LETTERS)} ({low}).{some}"
    )
    if high == low:
        sentence = f"The mean noise probability is about the same in all categories ({high}).{some}"
    shown = groups.at(order)
    return shown.picture("categories", title, sentence, chart, "category", [names[each] for each in order])


def _time(findings: Findings) -> Picture | None:
    if findings.times is None or findings.times.max() <= findings.times.min():
        return None
    begin, end = float(findings.times.min()), float(findings.times.max())
    edges = np.linspace(begin, end, _PERIODS + 1)
    place = np.clip(np.searchsorted(edges, findings.times, side="right") - 1, 0, _PERIODS - 1)
    groups = _Groups.of(findings, place, _PERIODS)
    names = [_moment(at, end - begin) for at in edges[:-1]]
    where = [(at, names[at]) for at in range(0, _PERIODS, 6)]
    chart = groups.columns(names, where, "time")
    enough = groups.enough()
    most, least = enough[np.argmax(groups.means[enough])], enough[np.argmin(groups.means[enough])]
    pale = f" Faint: fewer than {_FEW} clicks." if len(enough) < (groups.number > 0).sum() else ""
    high, low = format_percent(groups.means[most]), format_percent(groups.means[least])
    sentence = (
        f"From {format_date(begin)} to {format_date(end)}, the mean noise probability was highest in the period from {names[most]} on "
        f"({high}), and lowest in that from {names[least]} on ({low}).{pale}"
    )
    if high == low:
        sentence = f"From {format_date(begin)} to {format_date(end)}, the mean noise probability was about the same ({high}).{pale}"
    title = "Noise over time"
    return groups.picture("time", title, sentence, chart.drawn(title), "from", names)


def _moment(seconds: float, span: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    days = span / 86400
    return moment.strftime("%b %Y" if days > 31 * _PERIODS else "%d %b %Y" if days > _PERIODS else "%d %b %H:%M")


@dataclass(frozen=True)
class _Groups:
    """Interactions in groups: how many, the sum of their noise probabilities, how many are flagged."""

    number: NDArray[Any]
    total: NDArray[Any]
    flags: NDArray[Any]

    @classmethod
    def of(cls, findings: Findings, place: NDArray[np.int64], n: int) -> _Groups:
        counted = (
            np.bincount(place, weights, minlength=n) for weights in (None, findings.probability, findings.flagged)
        )
        return cls(*counted)

    def at(self, places: NDArray[np.int64]) -> _Groups:
        return _Groups(self.number[places], self.total[places], self.flags[places])

    @property
    def means(self) -> NDArray[np.float64]:
        return np.asarray(self.total / np.maximum(self.number, 1))

    def columns(self, names: Sequence[str], where: Sequence[tuple[float, str]], label: str) -> Chart:
        high = float(self.means.max()) or 1.0
        chart = Chart(
            (0, len(names)), (0, high), label, "mean noise probability", x_ticks=where, y_format="percent"
        )  # fmt: skip
        enough = set(self.enough().tolist())
        for at, (name, mean, number) in enumerate(zip(names, self.means, self.number, strict=True)):
            if number:
                words = f"{name}: {format_percent(mean)} of {format_count(int(number), 'click')}"
                chart.bar(at, at + 1, 0, float(mean), "main" if at in enough else "dim", words)
        return chart

    def enough(self) -> NDArray[np.int64]:
        """Those that are large enough for their mean to say anything; the largest at least."""
        return np.flatnonzero(self.number >= min(_FEW, self.number.max()))

    def picture(self, key: str, title: str, sentence: str, chart: Markup, what: str, names: Sequence[str]) -> Picture:
        rows = [
            [name, f"{number:,.0f}", format_percent(mean), f"{flags:,.0f}"]
            for name, number, mean, flags in zip(names, self.number, self.means, self.flags, strict=True)
        ]
        return Picture(key, title, sentence, chart, [what, "clicks", "mean noise probability", "flagged"], rows)


# ── the run ─────────────────────────────────────────────────────────────────────────────────────────


def _loss(findings: Findings) -> Picture | None:
    steps: list[tuple[str, float]] = []
    for each in findings.history:
        losses = (each.loss_before, each.loss_relabeled, each.loss_refitted)
        for name, loss in zip(("before", "relabelled", "learned again"), losses, strict=True):
            if loss is None or (name == "before" and steps):  # which is where the last round ended
                continue
            step = name if len(findings.history) == 2 else f"round {each.number}, {name}"
            words = "first fit" if not steps else step
            steps.append((words, float(loss.total)))
    values = [value for _, value in steps]
    if len(steps) < 2 or max(map(abs, values)) < 1e-6:  # nothing but rounding
        return None
    chart = Chart(
        (0, len(steps)),
        (min(0.0, *values), max(0.0, *values) or 1.0),
        "step",
        "loss",
        x_ticks=[(at + 0.5, name if len(steps) <= 3 else str(at)) for at, (name, _) in enumerate(steps)],
    )
    for at, (name, value) in enumerate(steps):
        chart.bar(at + 0.15, at + 0.85, 0, value, "main", f"{name}: {_plain(value)}")
    rises = [f"{name} (by {format_percent(now - then, abs(then))})" for (name, now), then in zip(steps[1:], values, strict=False)
             if now > then * (1 + 1e-9)]  # fmt: skip
    verdict = f"it went up in {', '.join(rises)}" if rises else "no step made it larger"
    sentence = (
        f"The loss that Algorithm 1 brings down went from {_plain(values[0])} to {_plain(values[-1])}; {verdict}."
    )
    title = "Loss, step by step"
    rows = [[name, f"{_plain(value)}"] for name, value in steps]
    return Picture("loss", title, sentence, chart.drawn(title), ["step", "loss"], rows)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}"
