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
from prorec.report.facts import Facts, facts_of
from prorec.report.pictures import Picture, pictures_of
from prorec.report.words import as_seconds, day, share

pytestmark = pytest.mark.xdist_group("report")


@pytest.fixture(scope="module")
def facts(cinema_denoiser: ProRec) -> Facts:
    return facts_of(cinema_denoiser, cinema_denoiser.interactions_.columns["origin"] == 2)


@pytest.fixture(scope="module")
def pictures(facts: Facts) -> dict[str, Picture]:
    return {picture.key: picture for picture in pictures_of(facts)}


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
def test_histograms_count_everything_once(pictures: dict[str, Picture], facts: Facts, key: str) -> None:
    rows = pictures[key].rows
    assert sum(number(row[1]) for row in rows) == len(facts.known)
    assert sum(number(row[2]) for row in rows) == facts.flagged.sum()
    # Bars are as high as the counts: the tallest reaches the top of the axis.
    heights = [
        float(each) for each in re.findall(r'<rect class="main"[^>]*height="([\d.]+)"', str(pictures[key].chart))
    ]
    counts = [number(row[1]) - number(row[2]) for row in rows if number(row[1])]
    assert np.corrcoef(heights, counts)[0, 1] > 0.999


def test_the_sentence_about_weights(pictures: dict[str, Picture], facts: Facts) -> None:
    assert share(float(facts.weights.mean())) in pictures["weights"].sentence


def test_reliability_against_a_loop(pictures: dict[str, Picture], facts: Facts) -> None:
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    assert facts.is_noise is not None
    for probability, is_noise in zip(facts.probability.tolist(), facts.is_noise.tolist(), strict=True):
        bins[min(int(probability * 10), 9)].append((probability, is_noise))
    expected = [
        [share(float(np.mean([p for p, _ in each]))), share(float(np.mean([n for _, n in each]))), f"{len(each):,}"]
        for _, each in sorted(bins.items())
        if len(each) >= 30
    ]
    assert pictures["reliability"].rows == expected
    assert share(float(facts.is_noise.mean())) in pictures["reliability"].sentence


def test_categories_against_a_loop(pictures: dict[str, Picture], facts: Facts) -> None:
    seen: dict[str, list[float]] = defaultdict(list)
    assert facts.known.item_categories is not None
    for item, probability in zip(facts.known.item_codes, facts.probability, strict=True):
        for name in facts.known.item_categories[item]:
            seen[name].append(float(probability))
    table = {row[0]: row for row in pictures["categories"].rows}
    assert table.keys() == {name for name, values in seen.items() if len(values) >= 30}
    for name, row in table.items():
        assert number(row[1]) == len(seen[name])
        assert row[2] == share(float(np.mean(seen[name])))
    highest = max(table, key=lambda name: np.mean(seen[name]))
    assert f"highest in {highest} " in pictures["categories"].sentence


def test_groups_by_popularity_and_time_hold_every_click(pictures: dict[str, Picture], facts: Facts) -> None:
    for key in ("popularity", "time"):
        rows = pictures[key].rows
        assert sum(number(row[1]) for row in rows) == len(facts.known)
        assert sum(number(row[3]) for row in rows) == facts.flagged.sum()
    assert facts.times is not None
    assert day(float(facts.times.min())) in pictures["time"].sentence


def test_kappa_has_every_user(pictures: dict[str, Picture], facts: Facts) -> None:
    assert sum(number(row[1]) for row in pictures["kappa"].rows) == (facts.known.activity > 0).sum()
    assert str(pictures["kappa"].chart).count('class="dim"') == facts.known.n_users


def test_loss_is_the_history(pictures: dict[str, Picture], facts: Facts) -> None:
    first, last = facts.history[0], facts.history[-1]
    assert first.loss_refitted is not None
    assert last.loss_refitted is not None
    assert f"{first.loss_refitted.total:,.0f}" in pictures["loss"].sentence
    assert f"{last.loss_refitted.total:,.0f}" in pictures["loss"].sentence


def test_without_what_is_not_known(facts: Facts) -> None:
    known = replace(facts.known, item_names=None, item_categories=None, columns={})
    bare = replace(facts, known=known, percentiles=None, noise_share=None, times=None, is_noise=None)
    keys = [picture.key for picture in pictures_of(bare)]
    assert keys == "weights probabilities kappa popularity loss".split()
    assert "not calibrated" in next(each for each in pictures_of(bare) if each.key == "probabilities").sentence


def test_the_smallest_log_there_is() -> None:
    facts = facts_of(ProRec(SVD(rank=1)).fit(csr_array(np.array([[1.0, 1], [1, 0]]))))
    for picture in pictures_of(facts):
        assert "nan" not in picture.sentence
        assert "nan" not in str(picture.chart)


def test_times() -> None:
    dates = np.array(["2021-06-24T12:52:12", "2022-01-01"], dtype="datetime64[s]")
    seconds = as_seconds(dates)
    assert seconds is not None
    assert day(seconds[0]) == "24 June 2021"
    assert np.array_equal(as_seconds(seconds.astype(np.int64)), seconds)
    assert np.array_equal(as_seconds(seconds.astype(np.int64) * 1000), seconds)
    assert as_seconds(np.array([1, 2, 3])) is None  # an order, not a time
    assert as_seconds(np.array(["a"], dtype=object)) is None
