"""Reports, and a real browser that opens them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
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


def read_data(page: Path) -> Any:
    """Return the data that the page's script reads."""
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert match
    return json.loads(match[1])


@pytest.fixture(scope="session")
def cinema_denoiser() -> ProRec:
    """The denoiser of `prorec demo`."""
    return demo_denoiser().fit(make_cinema(seed=0).interactions, track_loss=True)


@pytest.fixture(scope="session")
def cinema_page(cinema_denoiser: ProRec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cinema") / "report.html"
    is_noise = cinema_denoiser.interactions_.columns["origin"] == 2
    write_report(cinema_denoiser, path, title="The cinema: which clicks are noise?", is_noise=is_noise)
    return path


@pytest.fixture(scope="session")
def hostile_denoiser() -> ProRec:
    """A log whose ids, names and categories look like code."""
    rng = np.random.default_rng(0)
    n_users, n_items = 30, 24
    is_clicked = rng.random((n_users, n_items)) < 0.3
    is_clicked[:, 0] = True
    users, items = np.nonzero(is_clicked)
    user_ids = [HOSTILE[index % len(HOSTILE)] + str(index) for index in range(n_users)]
    item_ids = [f"+{index}-{HOSTILE[index % len(HOSTILE)]}" for index in range(n_items)]
    table = {"user": [user_ids[index] for index in users], "item": [item_ids[index] for index in items]}
    clicks = Interactions.from_table(pa.table(table)).with_item_info(
        {item: HOSTILE[index % len(HOSTILE)] for index, item in enumerate(item_ids)},
        {item: [HOSTILE[(index + 1) % len(HOSTILE)]] for index, item in enumerate(item_ids)},
    )
    return ProRec(SVD(rank=3), flag_fraction=0.3, noise_method="plan").fit(clicks)


@pytest.fixture(scope="session")
def hostile_page(hostile_denoiser: ProRec, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    write_report(hostile_denoiser, path, title="</title><script>window.pwned = 4</script>")
    return path


@pytest.fixture(scope="session")
def large_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a log with more flagged clicks than a page can hold."""
    rng = np.random.default_rng(0)
    matrix = random_array((8000, 4000), density=0.0125, format="csr", rng=rng)
    matrix.data[:] = 1
    clicks = Interactions.from_matrix(matrix)
    names = {item: f"A thing with a name of some length, number {item}" for item in clicks.items.tolist()}
    denoiser = ProRec(SVD(rank=4), flag_fraction=0.3, noise_method="plan").fit(clicks.with_item_info(names))
    assert denoiser.flagged_.sum() > 110_000
    path = tmp_path_factory.mktemp("large") / "report.html"
    write_report(denoiser, path, held_out=False)
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, without a window."""
    names = ("chromium", "chromium-browser", "google-chrome")
    executable = next((path for name in names if (path := shutil.which(name))), None)
    if executable is None:
        pytest.skip("there is no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


class OpenPage:
    """A page in the browser, with the messages it wrote and the addresses it requested."""

    def __init__(self, browser: Any, path: Path, **settings: Any) -> None:
        defaults = {"viewport": {"width": 1280, "height": 900}, "accept_downloads": True}
        self.context = browser.new_context(**{**defaults, **settings})
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("dialog", self._dismiss)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def _dismiss(self, dialog: Any) -> None:
        self.messages.append(dialog.message)
        dialog.dismiss()

    def rows(self, table: str = "#clicks") -> list[list[str]]:
        """Return the texts of a table, row by row."""
        script = "rows => rows.map(row => Array.from(row.cells, cell => cell.textContent))"
        rows: list[list[str]] = self.page.eval_on_selector_all(f"{table} tbody tr", script)
        return rows

    def filter_by(self, field: str, value: str) -> str:
        """Fill in a field of the filter, wait for the table to follow, and return the count above the table."""
        before = self.page.inner_text("#click-count")
        self.page.fill(field, value)
        self.page.wait_for_function("text => document.getElementById('click-count').textContent !== text", arg=before)
        return str(self.page.inner_text("#click-count"))

    def column(self, name: str) -> list[str]:
        """Return the texts of one column of the table of clicks."""
        names = self.page.eval_on_selector_all("#clicks thead th", "cells => cells.map(cell => cell.textContent)")
        return [row[names.index(name)] for row in self.rows()]


OpenFunction = Callable[..., OpenPage]


@pytest.fixture
def open_report(browser: Any) -> Iterator[OpenFunction]:
    """Return a function that opens a page. After the test, the page must have written and requested nothing."""
    pages: list[OpenPage] = []

    def open_page(path: Path, **settings: Any) -> OpenPage:
        pages.append(OpenPage(browser, path, **settings))
        return pages[-1]

    yield open_page
    for each in pages:
        each.context.close()
        assert each.messages == []
        assert [address for address in each.requests if not address.startswith(("file:", "blob:", "data:"))] == []
        assert len([address for address in each.requests if address.startswith("file:")]) == 1
