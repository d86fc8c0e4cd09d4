"""What is drawn and said is what the data has: counted again, by plain loops."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec import ProRec
from prorec.models import SVD
from prorec.report.charts import Picture, make_charts
from prorec.report.findings import Findings, collect_findings
from prorec.report.formatting import format_date, format_percent, to_epoch_seconds
from prorec.report.svg import HEIGHT


@pytest.fixture(scope="module")
def findings(cinema_denoiser: ProRec) -> Findings:
    return collect_findings(cinema_denoiser, cinema_denoiser.interactions_.columns["origin"] == 2)


@pytest.fixture(scope="module")
def pictures(findings: Findings) -> dict[str, Picture]:
    return {picture.key: picture for picture in make_charts(findings)}


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_all_of_them(pictures: dict[str, Picture]) -> None:
    assert list(pictures) == (
        "weights probabilities percentiles reliability kappa popularity categories time loss".split()
    )
    for picture in pictures.values():
        assert picture.sentence.endswith(".")
        assert "nan" not in (picture.sentence + str(picture.chart)).lower().replace("finance", "")
        assert all(len(row) == len(picture.columns) for row in picture.rows)


@pytest.mark.parametrize("key", ["weights", "probabilities", "percentiles"])
def test_histograms_count_everything_once(pictures: dict[str, Picture], findings: Findings, key: str) -> None:
    rows = pictures[key].rows
    assert sum(number(row[1]) for row in rows) == len(findings.known)
    assert sum(number(row[2]) for row in rows) == findings.flagged.sum()
    # Bars are as high as the counts: the tallest, with what is flagged, from the bottom of the axes to the top.
    bars = re.findall(r'<rect class="main"[^>]*height="([\d.]+)"', str(pictures[key].chart))
    counts = [number(row[1]) - number(row[2]) for row in rows if number(row[1])]
    tallest = max(number(row[1]) for row in rows)
    assert [float(each) for each in bars] == pytest.approx(
        [(HEIGHT - 60) * each / tallest for each in counts], abs=0.06
    )


def test_the_sentence_about_weights(pictures: dict[str, Picture], findings: Findings) -> None:
    ordered = np.sort(findings.weights)
    kept, low, high = (
        format_percent(float(each))
        for each in (findings.weights.mean(), ordered[len(ordered) // 4], ordered[3 * len(ordered) // 4])
    )
    assert pictures["weights"].sentence == (
        f"Of the weight of all clicks, {kept} was kept. A quarter of the clicks kept {low} of theirs or less, a "
        f"quarter {high} or more."
    )


def test_groups_are_what_they_are_called(pictures: dict[str, Picture], findings: Findings) -> None:
    popularity = findings.known.popularity[findings.known.item_codes]
    for name, clicks, mean, _ in pictures["popularity"].rows:
        low, _, high = name.replace(",", "").partition("–")
        inside = (popularity >= int(low)) & (popularity <= int(high or low))
        assert number(clicks) == inside.sum()
        assert mean == format_percent(float(findings.probability[inside].mean()))
    for name, users, *_ in pictures["kappa"].rows:
        low, _, high = name.replace(",", "").partition("–")
        inside = (findings.known.activity >= int(low)) & (findings.known.activity <= int(high or low))
        assert number(users) == inside.sum()


def test_where_nothing_differs_nothing_is_called_highest(findings: Findings) -> None:
    flat = replace(findings, probability=np.full_like(findings.probability, 0.25), is_noise=None)
    sentences = {each.key: each.sentence for each in make_charts(flat)}
    assert "about the same in all categories (25%)" in sentences["categories"]
    assert "about the same (25%)" in sentences["time"]
    assert sentences["probabilities"].startswith("Half of the clicks have a noise probability of 25% or less")


def test_reliability_against_a_loop(pictures: dict[str, Picture], findings: Findings) -> None:
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    assert findings.is_noise is not None
    for probability, is_noise in zip(findings.probability.tolist(), findings.is_noise.tolist(), strict=True):
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
    assert pictures["reliability"].rows == expected
    assert format_percent(float(findings.is_noise.mean())) in pictures["reliability"].sentence


def test_categories_against_a_loop(pictures: dict[str, Picture], findings: Findings) -> None:
    seen: dict[str, list[float]] = defaultdict(list)
    assert findings.known.item_categories is not None
    for item, probability in zip(findings.known.item_codes, findings.probability, strict=True):
        for name in findings.known.item_categories[item]:
            seen[name].append(float(probability))
    table = {row[0]: row for row in pictures["categories"].rows}
    assert table.keys() == {name for name, values in seen.items() if len(values) >= 30}
    for name, row in table.items():
        assert number(row[1]) == len(seen[name])
        assert row[2] == format_percent(float(np.mean(seen[name])))
    highest = max(table, key=lambda name: np.mean(seen[name]))
    assert f"highest in {highest} " in pictures["categories"].sentence


def test_groups_by_popularity_and_time_hold_every_click(pictures: dict[str, Picture], findings: Findings) -> None:
    for key in ("popularity", "time"):
        rows = pictures[key].rows
        assert sum(number(row[1]) for row in rows) == len(findings.known)
        assert sum(number(row[3]) for row in rows) == findings.flagged.sum()
    assert findings.times is not None
    assert format_date(float(findings.times.min())) in pictures["time"].sentence


def test_kappa_has_every_user(pictures: dict[str, Picture], findings: Findings) -> None:
    assert sum(number(row[1]) for row in pictures["kappa"].rows) == (findings.known.activity > 0).sum()
    assert str(pictures["kappa"].chart).count('class="dim"') == findings.known.n_users


def test_loss_is_the_history(pictures: dict[str, Picture], findings: Findings) -> None:
    first, last = findings.history[0], findings.history[-1]
    assert first.loss_refitted is not None
    assert last.loss_refitted is not None
    assert f"{first.loss_refitted.total:,.0f}" in pictures["loss"].sentence
    assert f"{last.loss_refitted.total:,.0f}" in pictures["loss"].sentence


def test_without_what_is_not_known(findings: Findings) -> None:
    known = replace(findings.known, item_names=None, item_categories=None, columns={})
    bare = replace(findings, known=known, percentiles=None, noise_rate=None, times=None, is_noise=None)
    keys = [picture.key for picture in make_charts(bare)]
    assert keys == "weights probabilities kappa popularity loss".split()
    assert "not calibrated" in next(each for each in make_charts(bare) if each.key == "probabilities").sentence


def test_the_smallest_log_there_is() -> None:
    findings = collect_findings(ProRec(SVD(rank=1)).fit(csr_array(np.array([[1.0, 1], [1, 0]]))))
    for picture in make_charts(findings):
        assert "nan" not in picture.sentence
        assert "nan" not in str(picture.chart)


def test_times() -> None:
    dates = np.array(["2021-06-24T12:52:12", "2022-01-01"], dtype="datetime64[s]")
    seconds = to_epoch_seconds(dates)
    assert seconds is not None
    assert format_date(seconds[0]) == "24 June 2021"
    assert np.array_equal(to_epoch_seconds(seconds.astype(np.int64)), seconds)
    assert np.array_equal(to_epoch_seconds(seconds.astype(np.int64) * 1000), seconds)
    assert to_epoch_seconds(np.array([1, 2, 3])) is None  # an order, not a time
    assert to_epoch_seconds(np.array([2**40], dtype="datetime64[s]")) is None  # in the year 36812
    assert to_epoch_seconds(np.array(["NaT", "2021-01-01"], dtype="datetime64[s]")) is None
    assert to_epoch_seconds(np.array(["a"], dtype=object)) is None
