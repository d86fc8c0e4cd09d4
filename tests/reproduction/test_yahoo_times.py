"""The times of Table 3, in small: every row is run, and the page says what was measured."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from prorec import InputError
from prorec.interactions import Interactions
from prorec.models import NCE
from prorec.transport.emd import check_emd_size
from reproduction import yahoo_times
from reproduction.run_cache import describe_machine
from reproduction.yahoo_shape import YAHOO_COUNTS, make_yahoo_shape
from reproduction.yahoo_times import EMD, METHODS, PAPER, RowTimes, Times, make_times_page, measure_times

COMMAND = "python -m reproduction yahoo-times --out results/"


@pytest.fixture(scope="module")
def clicks() -> Interactions:
    return make_yahoo_shape(0.005).interactions


def cells(page: str) -> dict[str, list[str]]:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"]
    return {row[0]: row[1:] for row in rows[2:]}


def test_every_row_is_timed(clicks: Interactions) -> None:
    said: list[tuple[str, int, int]] = []
    times = measure_times(clicks, 1, lambda *words: said.append(words))
    assert list(times.rows) == list(PAPER) == ["NCE", *METHODS]
    assert times.size == (clicks.n_users, clicks.n_items, len(clicks))
    alone = times.rows["NCE"]
    assert alone.transport == 0
    for name in METHODS:
        seconds = times.rows[name]
        assert seconds.transport > 0
        assert seconds.fits > alone.fits, "two fits, the first of them the same"
        assert seconds.total == seconds.fits + seconds.transport
    assert times.rows["NCE + Sinkhorn"].transport > times.rows["NCE + ProRec"].transport, "up to 20 passes to one"
    assert re.search(r"20 iterations, which leave an error of \S+e-\d\d", times.remarks["NCE + Sinkhorn"])
    assert said[-1][1:] == (5, 5)

    page = make_times_page(times, COMMAND, 0.005, 1)
    table = cells(page)
    assert {name: float(row[3]) for name, row in table.items()} == PAPER
    for name, seconds in times.rows.items():
        assert table[name][:3] == [f"{each:.2f}" for each in (seconds.fits, seconds.transport, seconds.total)]
        assert table[name][4] == "–", "another size than the paper's"
    assert "Seconds are one run" in page
    assert "9,744 users × 231 items" in page
    assert describe_machine() in page
    assert COMMAND in page


def test_the_median_of_those_that_count(clicks: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is ours: each reading is as much later than the one before as the list says."""
    fitted: list[Interactions] = []
    model = NCE(rank=5)

    def fit(_: NCE, interactions: Interactions) -> NCE:
        fitted.append(interactions)
        return model

    monkeypatch.setattr(NCE, "fit", fit)
    model.arrays_ = {"users": clicks.matrix[:, :5].toarray(), "items": clicks.matrix[:231, :5].toarray()}
    monkeypatch.setattr(yahoo_times, "METHODS", {"NCE + ProRec": METHODS["NCE + ProRec"]})
    # Of each run: the first fit, a moment in between, plan to relabelling, the second fit.
    runs = [(90, 1, 90, 90), (1, 1, 10, 2), (5, 1, 30, 6), (3, 1, 20, 4)]
    readings = [reading for fit, pause, plan, again in runs for reading in (pause, fit, pause, plan, again)]
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += readings.pop(0)
        return now

    monkeypatch.setattr(yahoo_times, "time", SimpleNamespace(perf_counter=clock))
    times = measure_times(clicks, 3)
    assert times.rows == {"NCE": RowTimes(3, 0), "NCE + ProRec": RowTimes(3 + 4, 20)}
    assert not readings, "the first run is made, and does not count"
    assert len(fitted) == 8
    assert fitted[0] is clicks
    assert 0.4 < fitted[1].matrix.data.min() < fitted[1].matrix.data.max() <= 1, "the second fit has new weights"


def test_what_is_too_large_for_an_exact_plan_is_said_in_words() -> None:
    with pytest.raises(InputError, match=r"1,948,882 × 46,110") as refused:
        check_emd_size(YAHOO_COUNTS[:2])
    rows = {name: RowTimes(10, 0 if name == "NCE" else 2) for name in PAPER if name != EMD}
    page = make_times_page(Times(YAHOO_COUNTS, rows, {EMD: f"not run: {refused.value}"}), COMMAND, 1, 3)
    table = cells(page)
    assert table[EMD] == ["–", "–", "not run", "723", "–"]
    assert table["NCE"] == ["10.00", "0.00", "10.00", "361", "36.1"]
    assert table["NCE + ProRec"] == ["10.00", "2.00", "12.00", "694", "57.8"]
    assert "ProRec adds 2.00 s to NCE; in the paper, 333 s." in page
    assert "for the exact plan of 1,948,882 × 46,110" in page
    assert "the median of 3 runs" in page


def test_a_row_that_is_refused_does_not_stop_the_others(clicks: Interactions, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(shape: tuple[int, int]) -> None:
        raise InputError("too large")

    monkeypatch.setattr(yahoo_times, "check_emd_size", refuse)
    times = measure_times(clicks, 1)
    assert list(times.rows) == [name for name in PAPER if name != EMD]
    assert "too large" in times.remarks[EMD]
