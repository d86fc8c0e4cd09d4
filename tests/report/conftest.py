"""Reports to look at, and a real browser to look at them with."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import random_array

from prorec import Interactions, ProRec
from prorec.cli.demo import demo_denoiser
from prorec.data.cinema import make_cinema
from prorec.models import SVD
from prorec.report import write_report

HOSTILE = [
    "<script>window.pwned = 1</script>",
    "</script><script>window.pwned = 2</script>",
    '"><img src=x onerror="window.pwned = 3">',
    "<!--<script>",
    "=HYPERLINK(1)",
    "{{ 7 * 7 }}",
    "a,b\nc",
    "‮evil \u2028 name",
]


def data_in(page: Path) -> Any:
    """What the page's script reads."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.fixture(scope="session")
def cinema_denoiser() -> ProRec:
    """What the demo shows."""
    return demo_denoiser().fit(make_cinema(seed=0).interactions, track_loss=True)


@pytest.fixture(scope="session")
def cinema_page(cinema_denoiser: ProRec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cinema") / "report.html"
    is_noise = cinema_denoiser.interactions_.columns["origin"] == 2
    write_report(cinema_denoiser, path, title="The cinema: which clicks are noise?", is_noise=is_noise)
    return path


@pytest.fixture(scope="session")
def hostile_denoiser() -> ProRec:
    """Users, items, names and categories that would like to be something else than text."""
    rng = np.random.default_rng(0)
    n_users, n_items = 30, 24
    given = rng.random((n_users, n_items)) < 0.3
    given[:, 0] = True
    users, items = np.nonzero(given)
    users_called = [HOSTILE[at % len(HOSTILE)] + str(at) for at in range(n_users)]
    items_called = [f"+{at}-{HOSTILE[at % len(HOSTILE)]}" for at in range(n_items)]
    table = {"user": [users_called[at] for at in users], "item": [items_called[at] for at in items]}
    clicks = Interactions.from_table(pa.table(table)).with_item_info(
        {name: HOSTILE[at % len(HOSTILE)] for at, name in enumerate(items_called)},
        {name: [HOSTILE[(at + 1) % len(HOSTILE)]] for at, name in enumerate(items_called)},
    )
    return ProRec(SVD(rank=3), flag_fraction=0.3).fit(clicks)


@pytest.fixture(scope="session")
def hostile_page(hostile_denoiser: ProRec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    write_report(hostile_denoiser, path, title="</title><script>window.pwned = 4</script>")
    return path


@pytest.fixture(scope="session")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More flagged clicks than a page can hold."""
    rng = np.random.default_rng(0)
    matrix = random_array((8000, 4000), density=0.0125, format="csr", rng=rng)
    matrix.data[:] = 1
    clicks = Interactions.from_matrix(matrix)
    names = {item: f"A thing with a name of some length, number {item}" for item in clicks.items.tolist()}
    denoiser = ProRec(SVD(rank=4), flag_fraction=0.3).fit(clicks.with_item_info(names))
    assert denoiser.flagged_.sum() > 110_000
    path = tmp_path_factory.mktemp("large") / "report.html"
    write_report(denoiser, path, held_out=False)
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    found = next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    if found is None:
        pytest.skip("there is no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


class Watched:
    """A page in the browser, and everything that it said or asked for."""

    def __init__(self, browser: Any, path: Path, **how: Any) -> None:
        self.context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "accept_downloads": True, **how}
        )
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked_for: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked_for.append(request.url))
        self.page.goto(path.as_uri())

    def rows(self, table: str = "#clicks") -> list[list[str]]:
        return self.page.eval_on_selector_all(
            f"{table} tbody tr", "rows => rows.map(row => Array.from(row.cells, cell => cell.textContent))"
        )

    def filtered(self, field: str, value: str) -> str:
        """Fill in a field of the filter, and wait for the list to follow; what is said about it."""
        before = self.page.inner_text("#list-count")
        self.page.fill(field, value)
        self.page.wait_for_function("words => document.getElementById('list-count').textContent !== words", arg=before)
        return str(self.page.inner_text("#list-count"))

    def column(self, name: str) -> list[str]:
        names = self.page.eval_on_selector_all("#clicks thead th", "cells => cells.map(cell => cell.textContent)")
        return [row[names.index(name)] for row in self.rows()]


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """A function that opens a page; what was opened is closed, and must have been quiet."""
    all_opened: list[Watched] = []

    def open_page(path: Path, **how: Any) -> Watched:
        watched = Watched(browser, path, **how)
        all_opened.append(watched)
        return watched

    yield open_page
    for watched in all_opened:
        watched.context.close()
        assert watched.said == []
        assert [address for address in watched.asked_for if not address.startswith(("file:", "blob:", "data:"))] == []
        assert len([address for address in watched.asked_for if address.startswith("file:")]) == 1
