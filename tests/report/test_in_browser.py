"""The report as a person uses it: in a real browser, where there is one."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from scipy.sparse import csr_array, lil_array

from prorec import ProRec
from prorec.models import NCE, SVD
from prorec.report import write_report
from tests.report.conftest import HOSTILE


def percent(text: str) -> float:
    return float(text.strip("<>%")) / 100


def test_opens_quietly(opened: Any, cinema_page: Path) -> None:
    watched = opened(cinema_page)
    assert watched.page.title() == "The cinema: which clicks are noise?"
    for part in ("glance", "list", "user", "pictures", "made"):
        assert watched.page.is_visible(f"#{part}")
    assert "51,753" in watched.page.inner_text("#glance")
    assert watched.page.locator("#pictures figure").count() == 9


def test_paints_in_less_than_two_seconds(opened: Any, large_page: Path) -> None:
    watched = opened(large_page)
    watched.page.wait_for_selector("#clicks tbody tr")
    painted = watched.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert 0 < painted < 2000


def test_a_hundred_thousand_flags_can_be_searched_and_sorted(opened: Any, large_page: Path) -> None:
    watched = opened(large_page)
    assert percent(watched.column("noise probability")[0]) >= percent(watched.column("noise probability")[-1])
    n_flagged = int(watched.page.inner_text("#list-count").split()[0].replace(",", ""))
    assert 100_000 <= n_flagged <= 115_000
    watched.page.click("#clicks thead button:has-text('item')")
    names = watched.column("item")
    assert names == sorted(names, key=lambda name: int(name.split()[-1]))
    watched.filtered("#by-item", "number 77")
    assert watched.rows()
    assert all("number 77" in name for name in watched.column("item"))
    assert len(watched.rows()) <= 20


def test_find_a_user(opened: Any, cinema_page: Path, cinema_denoiser: ProRec) -> None:
    watched, known = opened(cinema_page), cinema_denoiser.interactions_
    page, row = watched.page, 310
    page.fill("#find", str(known.users[row]))
    assert page.get_attribute("#find", "aria-expanded") == "true"
    page.press("#find", "Enter")
    assert page.inner_text("#person h3 >> nth=0") == f"User {known.users[row]}"
    assert page.get_attribute("#find", "aria-expanded") == "false"

    own = slice(known.matrix.indptr[row], known.matrix.indptr[row + 1])
    shown = watched.rows("#own")
    order = np.argsort(-cinema_denoiser.noise_probability_[own], kind="stable")
    items = known.item_codes[own][order]
    assert [each[0] for each in shown] == [known.item_names[item] for item in items]
    assert [each[1] for each in shown] == [", ".join(known.item_categories[item]) for item in items]
    assert [float(each[6]) for each in shown] == pytest.approx(cinema_denoiser.weights_.data[own][order], rel=0.01)
    assert float(shown[0][4]) == pytest.approx(cinema_denoiser.thresholds_.value[row], rel=0.01)

    after = [known.item_names[item] for item in cinema_denoiser.recommend([known.users[row]], 10).item_positions[0]]
    before = [
        known.item_names[item] for item in NCE(rank=20).fit(known).recommend([known.users[row]], 10).item_positions[0]
    ]
    lists = page.eval_on_selector_all(
        "#lists ol", "lists => lists.map(l => Array.from(l.children, c => c.textContent))"
    )
    for names, others, told, word in ((before, after, lists[0], " (left)"), (after, before, lists[1], " (entered)")):
        for name, text in zip(names, told, strict=True):
            assert text.startswith(name)
            assert (word in text) == (name not in others)


def test_matrices_around_a_user(opened: Any, cinema_page: Path, cinema_denoiser: ProRec) -> None:
    watched, known = opened(cinema_page), cinema_denoiser.interactions_
    user = watched.page.inner_text("#person h3 >> nth=0").removeprefix("User ")
    row = int(known.user_positions([int(user)])[0])
    weights = known.with_weights(cinema_denoiser.weights_.data).matrix
    position = {name: at for at, name in enumerate(known.item_names)}
    for at, matrix in enumerate((known.matrix, weights)):
        titles = watched.page.eval_on_selector_all(
            f".sides figure:nth-child({at + 1}) .cell.on title", "titles => titles.map(title => title.textContent)"
        )
        assert sum(title.startswith(f"{user}, ") for title in titles) == min(known.activity[row], 24)
        for title in titles:
            who, _, rest = title.partition(", ")
            name, _, value = rest.rpartition(": ")
            pair = int(known.user_positions([int(who)])[0]), position[name]
            assert float(value) == pytest.approx(matrix[pair], rel=0.01)


def test_the_user_of_a_row_is_shown(opened: Any, cinema_page: Path) -> None:
    watched = opened(cinema_page)
    who = watched.column("user")[3]
    watched.page.click("#clicks tbody tr:nth-child(4) button")
    assert watched.page.inner_text("#person h3 >> nth=0") == f"User {who}"


def test_a_user_with_very_many_clicks(opened: Any, tmp_path: Path) -> None:
    matrix = lil_array((40, 150_000))
    matrix[0, :] = 1
    matrix[1:, :20] = 1
    write_report(ProRec(SVD(rank=1)).fit(csr_array(matrix)), tmp_path / "report.html", held_out=False)
    watched = opened(tmp_path / "report.html")
    watched.page.fill("#find", "0")
    watched.page.press("#find", "Enter")
    assert watched.page.inner_text("#person h3 >> nth=0") == "User 0"
    assert "150,000 clicks" in watched.page.inner_text("#person p >> nth=0")
    assert len(watched.rows("#own")) == 500


def test_by_keyboard_alone(opened: Any, cinema_page: Path) -> None:
    page = opened(cinema_page).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#find")
    page.keyboard.type("9")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("#find", "aria-activedescendant") == "option-2"
    wanted = page.inner_text("#option-2").split()[0]
    page.keyboard.press("Enter")
    assert page.inner_text("#person h3 >> nth=0") == f"User {wanted}"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    assert page.is_hidden("#found")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the next user
    assert page.inner_text("#person h3 >> nth=0") != f"User {wanted}"


def test_sort(opened: Any, cinema_page: Path) -> None:
    watched = opened(cinema_page)
    falling = [percent(text) for text in watched.column("noise probability")]
    assert falling == sorted(falling, reverse=True)
    watched.page.click("#clicks thead button:has-text('noise probability')")
    rising = [percent(text) for text in watched.column("noise probability")]
    assert rising == sorted(rising)
    assert rising[0] < falling[0]
    assert watched.page.get_attribute("#clicks th[data-key=probability]", "aria-sort") == "ascending"
    watched.page.click("#clicks thead button:has-text('user')")
    users = [int(text) for text in watched.column("user")]
    assert users == sorted(users)
    watched.page.click("#last")
    assert int(watched.column("user")[-1]) > users[-1]
    assert watched.page.is_disabled("#next")


def test_filter(opened: Any, cinema_page: Path, cinema_denoiser: ProRec) -> None:
    watched, known = opened(cinema_page), cinema_denoiser.interactions_
    n_flagged = int(cinema_denoiser.flagged_.sum())
    assert watched.page.inner_text("#list-count").startswith(f"{n_flagged:,} clicks")
    flagged, probability = cinema_denoiser.flagged_, cinema_denoiser.noise_probability_
    least = float(np.quantile(probability[flagged], 0.7).round(3))
    expected = int((flagged & (probability >= least)).sum())
    assert watched.filtered("#at-least", str(least)).startswith(f"{expected:,} clicks")
    in_drama = np.array(["Drama" in each for each in known.item_categories])[known.item_codes]
    watched.page.select_option("#by-category", label="Drama")
    expected = int((flagged & (probability >= least) & in_drama).sum())
    expect(watched.page.locator("#list-count")).to_contain_text(f"{expected:,} click")
    assert all("Drama" in each for each in watched.column("category"))
    watched.page.select_option("#which", "all")
    word = watched.column("item")[0].split()[1]
    named = np.array([word in name for name in known.item_names])[known.item_codes]
    words = watched.filtered("#by-item", word.upper())
    assert words.startswith(f"{int((named & in_drama & (probability >= least)).sum()):,} click")
    assert watched.filtered("#by-item", "no film is called this").startswith("0 clicks")
    assert watched.page.is_disabled("#export")


def exported(watched: Any, folder: Path) -> list[dict[str, str]]:
    with watched.page.expect_download() as download:
        watched.page.click("#export")
    path = folder / "selection.csv"
    download.value.save_as(path)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_export(opened: Any, cinema_page: Path, cinema_denoiser: ProRec, tmp_path: Path) -> None:
    watched, known = opened(cinema_page), cinema_denoiser.interactions_
    watched.filtered("#by-user", "31")
    rows = exported(watched, tmp_path)
    chosen = np.array(["31" in str(user) for user in known.users])[known.user_codes] & cinema_denoiser.flagged_
    assert len(rows) == chosen.sum() > 0
    places = known.pair_positions(
        known.user_positions([int(row["user"]) for row in rows]),
        known.item_positions([int(row["item"]) for row in rows]),
    )
    assert sorted(places) == np.flatnonzero(chosen).tolist()
    assert [float(row["noise_probability"]) for row in rows] == pytest.approx(
        cinema_denoiser.noise_probability_[places]
    )
    assert [float(row["weight"]) for row in rows] == pytest.approx(cinema_denoiser.weights_.data[places])
    assert [float(row["plan_value"]) for row in rows] == pytest.approx(cinema_denoiser.matching_.row_shares[places])
    assert {row["flagged"] for row in rows} == {"true"}


def test_hostile_names_are_text(opened: Any, hostile_page: Path, tmp_path: Path) -> None:
    watched = opened(hostile_page)
    page = watched.page
    for _ in range(5):
        page.click("#user-next")
    page.select_option("#which", "all")
    page.fill("#find", "<")
    assert page.evaluate("window.pwned") is None
    assert page.title() == "</title><script>window.pwned = 4</script>"
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    expect(page.locator("#list-count")).to_contain_text("of 30 users")
    seen = set()
    while True:
        seen |= {cell for row in watched.rows() for cell in row}
        if page.is_disabled("#next"):
            break
        page.click("#next")
    assert set(HOSTILE) <= seen
    assert page.evaluate("window.pwned") is None


def test_exported_cells_are_no_formulas(opened: Any, hostile_page: Path, tmp_path: Path) -> None:
    watched = opened(hostile_page)
    rows = exported(watched, tmp_path)
    assert {row["name"] for row in rows} >= {"'=HYPERLINK(1)", "a,b\nc", HOSTILE[0]}
    cell = watched.page.evaluate("text => csvCell(text)", "x;=HYPERLINK(1)")
    assert cell == '"x;=HYPERLINK(1)"', "a semicolon may be somebody's separator"
    for text in (" =1+1", "＝1+1", "@SUM(1)"):
        assert watched.page.evaluate("text => csvCell(text)", text) == f'"\'{text}"'
    assert watched.page.evaluate("text => csvCell(text)", "-5") == "-5"
    for row in rows:
        for name in ("user", "item", "name", "categories"):
            assert not row[name].startswith(("=", "+", "-", "@"))


def test_theme(opened: Any, cinema_page: Path) -> None:
    page = opened(cinema_page, color_scheme="light").page
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(paper)
    page.click("#theme")
    assert page.inner_text("#theme") == "Theme: light"
    assert page.evaluate(paper) == light
    page.click("#theme")
    dark = page.evaluate(paper)
    assert dark != light
    page.click("#theme")
    assert page.evaluate(paper) == light
    assert opened(cinema_page, color_scheme="dark").page.evaluate(paper) == dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_that_axe_objects_to(opened: Any, cinema_page: Path, scheme: str) -> None:
    page = opened(cinema_page, color_scheme=scheme).page
    found = Axe().run(page).response["violations"]
    assert [(each["id"], [node["html"][:200] for node in each["nodes"]][:3]) for each in found] == []


def test_fits_on_a_phone(opened: Any, cinema_page: Path) -> None:
    page = opened(cinema_page, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("getComputedStyle(document.querySelector('#clicks tr:nth-child(1)')).display") == "block"


def test_prints_without_what_paper_cannot_do(opened: Any, cinema_page: Path) -> None:
    page = opened(cinema_page, color_scheme="dark").page
    page.emulate_media(media="print")
    assert page.is_hidden("#filters")
    assert page.is_hidden("#theme")
    assert page.is_visible("#picture-weights svg")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_without_script_there_are_still_numbers(opened: Any, cinema_page: Path) -> None:
    page = opened(cinema_page, java_script_enabled=False).page
    assert page.is_hidden("#list")
    assert page.is_visible("#picture-weights svg")
    assert page.is_visible("noscript p")


PICTURES = {
    "report": {"viewport": {"width": 1280, "height": 1000}},
    "report-dark": {"viewport": {"width": 1280, "height": 1000}, "color_scheme": "dark"},
    "report-phone": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
}


@pytest.mark.parametrize("name", PICTURES)
def test_screenshots(opened: Any, cinema_page: Path, tmp_path: Path, name: str) -> None:
    """Takes the pictures of the docs; `make screenshots` has them put where those are."""
    page = opened(cinema_page, **PICTURES[name]).page
    if name == "report-dark":
        page.evaluate("document.getElementById('user').scrollIntoView({behavior: 'instant'})")
    path = Path(os.environ.get("PROREC_SCREENSHOTS", tmp_path)) / f"{name}.png"
    page.screenshot(path=path)
    assert 20_000 < path.stat().st_size < 1_000_000
