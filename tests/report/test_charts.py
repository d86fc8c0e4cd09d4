"""Numbers, shapes and captions of the charts, checked against plain loops over the data."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec import ProRec
from prorec.models import SVD
from prorec.report.chart_types import Chart
from prorec.report.charts import make_charts
from prorec.report.findings import Findings, collect_findings
from prorec.report.formatting import format_date, format_percent, to_epoch_seconds
from prorec.report.svg import BOTTOM, HEIGHT, TOP, draw_svg


@pytest.fixture(scope="module")
def findings(cinema_denoiser: ProRec) -> Findings:
    return collect_findings(cinema_denoiser, cinema_denoiser.interactions_.columns["origin"] == 2)


@pytest.fixture(scope="module")
def charts(findings: Findings) -> dict[str, Chart]:
    pictures, details = make_charts(findings)
    return {chart.key: chart for chart in [*pictures, *details]}


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_all_charts_are_made(findings: Findings, charts: dict[str, Chart]) -> None:
    pictures, details = ([chart.key for chart in each] for each in make_charts(findings))
    assert pictures == "probabilities popularity time categories reliability".split()
    assert details == "weights percentiles kappa loss".split()
    for chart in charts.values():
        assert chart.caption.endswith(".")
        assert "nan" not in (chart.caption + str(draw_svg(chart))).lower().replace("finance", "")
        assert all(len(row) == len(chart.columns) for row in chart.rows)


@pytest.mark.parametrize("key", ["weights", "probabilities", "percentiles"])
def test_histograms_count_each_click_once(charts: dict[str, Chart], findings: Findings, key: str) -> None:
    rows = charts[key].rows
    assert sum(number(row[1]) for row in rows) == len(findings.interactions)
    assert sum(number(row[2]) for row in rows) == findings.flagged.sum()
    # Heights of the bars are proportional to the counts; the tallest, flagged clicks included, is as high as the axes.
    bars = re.findall(r'<rect class="main"[^>]*height="([\d.]+)"', str(draw_svg(charts[key])))
    counts = [number(row[1]) - number(row[2]) for row in rows if number(row[1]) > number(row[2])]
    tallest = max(number(row[1]) for row in rows)
    assert [float(each) for each in bars] == pytest.approx(
        [(HEIGHT - TOP - BOTTOM) * each / tallest for each in counts], abs=0.06
    )


def test_caption_of_weights(charts: dict[str, Chart], findings: Findings) -> None:
    ordered = np.sort(findings.weights)
    kept, low, high = (
        format_percent(float(each))
        for each in (findings.weights.mean(), ordered[len(ordered) // 4], ordered[3 * len(ordered) // 4])
    )
    caption = charts["weights"].caption
    assert f"kept {kept} of the total weight" in caption
    assert f"kept {low} of their weight or less" in caption
    assert f"kept {high} or more" in caption


def test_groups_hold_what_their_names_say(charts: dict[str, Chart], findings: Findings) -> None:
    popularity = findings.interactions.popularity[findings.interactions.item_codes]
    for name, clicks, mean, _ in charts["popularity"].rows:
        low, _, high = name.replace(",", "").partition("–")
        inside = (popularity >= int(low)) & (popularity <= int(high or low))
        assert number(clicks) == inside.sum()
        assert mean == format_percent(float(findings.noise_probability[inside].mean()))
    for name, users, *_ in charts["kappa"].rows:
        low, _, high = name.replace(",", "").partition("–")
        inside = (findings.interactions.activity >= int(low)) & (findings.interactions.activity <= int(high or low))
        assert number(users) == inside.sum()


def test_equal_groups_have_no_highest(findings: Findings) -> None:
    flat = replace(findings, noise_probability=np.full_like(findings.noise_probability, 0.25), is_noise=None)
    captions = {each.key: each.caption for each in make_charts(flat)[0]}
    assert "about the same in all categories (25%)" in captions["categories"]
    assert "about the same (25%)" in captions["time"]
    assert captions["probabilities"].startswith("Half of the clicks have a noise probability of 25% or less")


def test_reliability_against_a_loop(charts: dict[str, Chart], findings: Findings) -> None:
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    assert findings.is_noise is not None
    for probability, is_noise in zip(findings.noise_probability.tolist(), findings.is_noise.tolist(), strict=True):
        bins[min(int(probability * 10), 9)].append((probability, is_noise))
    expected = [
        [
            format_percent(float(np.mean([p for p, _ in each]))),
            format_percent(float(np.mean([n for _, n in each]))),
            f"{len(each):,}",
        ]
        for _, each in sorted(bins.items())
        if len(each) >= 30
    ]
    assert charts["reliability"].rows == expected
    assert format_percent(float(findings.is_noise.mean())) in charts["reliability"].caption


def test_categories_against_a_loop(charts: dict[str, Chart], findings: Findings) -> None:
    probabilities: dict[str, list[float]] = defaultdict(list)
    assert findings.interactions.item_categories is not None
    for item, probability in zip(findings.interactions.item_codes, findings.noise_probability, strict=True):
        for name in findings.interactions.item_categories[item]:
            probabilities[name].append(float(probability))
    table = {row[0]: row for row in charts["categories"].rows}
    assert table.keys() == {name for name, values in probabilities.items() if len(values) >= 30}
    for name, row in table.items():
        assert number(row[1]) == len(probabilities[name])
        assert row[2] == format_percent(float(np.mean(probabilities[name])))
    highest = max(table, key=lambda name: np.mean(probabilities[name]))
    assert f"highest in {highest} " in charts["categories"].caption


def test_groups_by_popularity_and_time_hold_every_click(charts: dict[str, Chart], findings: Findings) -> None:
    for key in ("popularity", "time"):
        rows = charts[key].rows
        assert sum(number(row[1]) for row in rows) == len(findings.interactions)
        assert sum(number(row[3]) for row in rows) == findings.flagged.sum()
    assert findings.times is not None
    assert format_date(float(findings.times.min())) in charts["time"].caption


def test_kappa_has_every_user(charts: dict[str, Chart], findings: Findings) -> None:
    assert sum(number(row[1]) for row in charts["kappa"].rows) == (findings.interactions.activity > 0).sum()
    assert str(draw_svg(charts["kappa"])).count('class="dim"') == findings.interactions.n_users


def test_loss_is_the_history(charts: dict[str, Chart], findings: Findings) -> None:
    first, last = findings.history[0], findings.history[-1]
    assert first.loss_refitted is not None
    assert last.loss_refitted is not None
    assert f"{first.loss_refitted.total:,.0f}" in charts["loss"].caption
    assert f"{last.loss_refitted.total:,.0f}" in charts["loss"].caption


def test_charts_without_optional_data(findings: Findings) -> None:
    interactions = replace(findings.interactions, item_names=None, item_categories=None, columns={})
    bare = replace(
        findings, interactions=interactions, percentile_ranks=None, noise_rate=None, times=None, is_noise=None
    )
    pictures, details = make_charts(bare)
    assert [chart.key for chart in pictures] == "probabilities popularity".split()
    assert [chart.key for chart in details] == "weights kappa loss".split()
    assert "not calibrated" in pictures[0].caption


def test_smallest_log() -> None:
    findings = collect_findings(ProRec(SVD(rank=1), noise_method="plan").fit(csr_array(np.array([[1.0, 1], [1, 0]]))))
    for chart in [*make_charts(findings)[0], *make_charts(findings)[1]]:
        assert "nan" not in chart.caption
        assert "nan" not in str(draw_svg(chart))


def test_epoch_seconds() -> None:
    dates = np.array(["2021-06-24T12:52:12", "2022-01-01"], dtype="datetime64[s]")
    seconds = to_epoch_seconds(dates)
    assert seconds is not None
    assert format_date(seconds[0]) == "24 June 2021"
    for number in (seconds.astype(np.int64), seconds.astype(np.int64) * 1000):
        np.testing.assert_array_equal(to_epoch_seconds(number), seconds)
    assert to_epoch_seconds(np.array([1, 2, 3])) is None  # an order, not a time
    assert to_epoch_seconds(np.array([2**40], dtype="datetime64[s]")) is None  # in the year 36812
    assert to_epoch_seconds(np.array(["NaT", "2021-01-01"], dtype="datetime64[s]")) is None
    assert to_epoch_seconds(np.array(["a"], dtype=object)) is None
