"""The report in a real browser, if this machine has one."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pacsv
import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import expect
from scipy.sparse import csr_array, lil_array

from prorec import Interactions, NoiseFinder, ProRec, inject_noise, make_cinema
from prorec.models import NCE, SVD
from prorec.noise import draw_flagged, read_verdicts
from prorec.report import write_report
from tests.report.conftest import HOSTILE, OpenFunction, OpenPage


def percent(text: str) -> float:
    return float(text.strip("<>%")) / 100


def test_sections_are_visible(open_report: OpenFunction, cinema_page: Path) -> None:
    report = open_report(cinema_page)
    assert report.page.title() == "The cinema: which clicks are noise?"
    for part in ("verdict", "issues", "suspicious", "user", "charts", "details", "terms"):
        assert report.page.is_visible(f"#{part}")
    assert "51,753" in report.page.inner_text("#verdict")
    assert report.page.locator(".answers dd").count() == 4
    assert report.page.locator("#charts figure").count() == 5
    assert report.page.locator("#details figure").count() == 4


def test_the_paper_s_quantities_are_details(open_report: OpenFunction, cinema_page: Path) -> None:
    page = open_report(cinema_page).page
    before = page.inner_text("#verdict") + page.inner_text("#issues") + page.inner_text("#suspicious")
    before += page.inner_text("#user") + page.inner_text("#charts")
    for sign in ("ρ", "κ", "γ", "λ", "row share", "threshold"):
        assert sign not in before
    # The plan does not make the weights of this page, so its terms are not explained.
    assert "λ" not in page.inner_text("#terms")
    assert "transport plan" not in page.inner_text("#terms")
    for header in page.locator("#user-shares thead th").all()[1:]:
        assert header.get_attribute("title")
    titles = [each.get_attribute("title") for each in page.locator("#clicks thead th[title]").all()]
    assert titles == page.locator("#terms dd").all_inner_texts()[1:2], "that of the noise probability"


def test_paints_in_less_than_two_seconds(open_report: OpenFunction, large_page: Path) -> None:
    report = open_report(large_page)
    report.page.wait_for_selector("#clicks tbody tr")
    painted = report.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert 0 < painted < 2000


def test_filter_and_sort_a_hundred_thousand_clicks(open_report: OpenFunction, large_page: Path) -> None:
    report = open_report(large_page)
    assert percent(report.column("noise probability")[0]) >= percent(report.column("noise probability")[-1])
    n_flagged = int(report.page.inner_text("#click-count").split()[0].replace(",", ""))
    assert 100_000 <= n_flagged <= 115_000
    report.page.click("#clicks thead button:has-text('item')")
    names = report.column("item")
    assert names == sorted(names, key=lambda name: int(name.split()[-1]))
    report.filter_by("#by-item", "number 77")
    assert report.rows()
    assert all("number 77" in name for name in report.column("item"))
    assert len(report.rows()) <= 20


def test_find_a_user(open_report: OpenFunction, cinema_page: Path, cinema_denoiser: ProRec) -> None:
    report, interactions = open_report(cinema_page), cinema_denoiser.interactions_
    assert interactions.item_names is not None
    assert interactions.item_categories is not None
    page, row = report.page, 310
    page.fill("#find-user", str(interactions.users[row]))
    assert page.get_attribute("#find-user", "aria-expanded") == "true"
    page.press("#find-user", "Enter")
    assert page.inner_text("#user-details h3 >> nth=0") == f"User {interactions.users[row]}"
    assert page.get_attribute("#find-user", "aria-expanded") == "false"

    own = slice(interactions.matrix.indptr[row], interactions.matrix.indptr[row + 1])
    shown = report.rows("#user-clicks")
    order = np.argsort(-cinema_denoiser.noise_probability_[own], kind="stable")
    items = interactions.item_codes[own][order]
    assert [each[0] for each in shown] == [interactions.item_names[item] for item in items]
    assert [each[1] for each in shown] == [", ".join(interactions.item_categories[item]) for item in items]
    assert [float(each[4]) for each in shown] == pytest.approx(cinema_denoiser.weights_.data[own][order], rel=0.01)
    assert [each[5].startswith("flagged") for each in shown] == cinema_denoiser.flagged_[own][order].tolist()
    assert page.is_hidden("#user-shares")
    page.click("#user-plan summary")
    plan = report.rows("#user-shares")
    shares = cinema_denoiser.matching_.row_shares[own][order]
    assert [float(each[1]) for each in plan] == pytest.approx(shares, rel=0.06)  # two digits of small numbers
    assert float(plan[0][2]) == pytest.approx(cinema_denoiser.thresholds_.value[row], rel=0.01)
    assert [float(each[4]) for each in plan] == pytest.approx(cinema_denoiser.weights_.data[own][order], rel=0.01)

    after = [
        interactions.item_names[item]
        for item in cinema_denoiser.recommend([interactions.users[row]], 10).item_positions[0]
    ]
    before = [
        interactions.item_names[item]
        for item in NCE(rank=20).fit(interactions).recommend([interactions.users[row]], 10).item_positions[0]
    ]
    lists = page.eval_on_selector_all(
        "#recommendations ol", "lists => lists.map(l => Array.from(l.children, c => c.textContent))"
    )
    for names, others, texts, mark in ((before, after, lists[0], " (removed)"), (after, before, lists[1], " (new)")):
        for name, text in zip(names, texts, strict=True):
            assert text.startswith(name)
            assert (mark in text) == (name not in others)


def read_cells(report: OpenPage, selector: str) -> list[tuple[str, float, float, str]]:
    """Return the user, the weight, the opacity and the class of each click in a matrix, in order of the rows."""
    script = "cells => cells.map(cell => [cell.textContent, cell.getAttribute('fill-opacity'), cell.className.baseVal])"
    cells = []
    for title, opacity, css_class in report.page.eval_on_selector_all(f"{selector} .cell.on", script):
        user, _, rest = title.partition(", ")
        cells.append((user, float(rest.rpartition(": ")[2]), float(opacity), css_class))
    return cells


def test_matrix_of_a_user(open_report: OpenFunction, cinema_page: Path, cinema_denoiser: ProRec) -> None:
    report, interactions = open_report(cinema_page), cinema_denoiser.interactions_
    assert interactions.item_names is not None
    user = report.page.inner_text("#user-details h3 >> nth=0").removeprefix("User ")
    row = int(interactions.user_positions([int(user)])[0])
    weights = interactions.with_weights(cinema_denoiser.weights_.data).matrix
    flagged = interactions.with_weights(cinema_denoiser.flagged_.astype(np.float32)).matrix
    position = {name: index for index, name in enumerate(interactions.item_names)}
    assert report.page.locator(".sides figure").count() == 1, "all weights were 1 before"
    titles = report.page.eval_on_selector_all(".cell.on title", "titles => titles.map(title => title.textContent)")
    assert sum(title.startswith(f"{user}, ") for title in titles) == min(interactions.activity[row], 24)
    cells = read_cells(report, ".sides figure")
    for title, (_, _, opacity, css_class) in zip(titles, cells, strict=True):
        user_id, _, rest = title.partition(", ")
        name, _, value = rest.rpartition(": ")
        pair = int(interactions.user_positions([int(user_id)])[0]), position[name]
        assert float(value) == pytest.approx(weights[pair], rel=0.01)
        assert ("flagged" in css_class) == (flagged[pair] == 1)
        assert opacity == 1 or not flagged[pair]
    # The scale is that of the row: its largest weight is dark, and its smallest pale, unless it is flagged.
    for owner in {cell[0] for cell in cells}:
        own = [cell for cell in cells if cell[0] == owner]
        values = [cell[1] for cell in own]
        assert max(cell[2] for cell in own) == 1
        for _, value, opacity, css_class in own:
            if "flagged" not in css_class and max(values) > min(values) + 0.05:  # weights have three digits
                shade = 0.25 + 0.75 * (value - min(values)) / (max(values) - min(values))
                assert opacity == pytest.approx(shade, abs=0.03)
    colors = report.page.eval_on_selector_all(
        ".sides .cell.on", "cells => Array.from(new Set(cells.map(cell => getComputedStyle(cell).fill)))"
    )
    assert len(colors) == 2, "a flagged click has a colour of its own"


def test_matrices_before_and_after(open_report: OpenFunction, tmp_path: Path) -> None:
    weights = csr_array(np.array([[0.5, 1, 0, 1], [1, 0, 0.25, 1], [1, 1, 1, 0.75]]))
    denoiser = ProRec(SVD(rank=1), noise_method="plan").fit(weights)
    write_report(denoiser, tmp_path / "report.html", held_out=False)
    report = open_report(tmp_path / "report.html")
    report.page.fill("#find-user", "0")
    report.page.press("#find-user", "Enter")
    for index, matrix in enumerate((denoiser.interactions_.matrix, denoiser.weights_)):
        cells = read_cells(report, f".sides figure:nth-child({index + 1})")
        own = [cell[1] for cell in cells if cell[0] == "0"]
        assert sorted(own) == pytest.approx(sorted(matrix[[0]].data), rel=0.01)


def test_labels_of_matrices_are_whole(open_report: OpenFunction, cinema_page: Path) -> None:
    page = open_report(cinema_page, viewport={"width": 390, "height": 844}, is_mobile=True).page
    texts = page.locator("svg.matrix text")
    assert not [text for text in texts.all_text_contents() if text.endswith("…")]
    box = page.locator("svg.matrix").bounding_box()
    assert box is not None
    for text in texts.all():
        inner = text.bounding_box()
        assert inner is not None
        assert box["x"] - 1 <= inner["x"]
        assert inner["x"] + inner["width"] <= box["x"] + box["width"] + 1
        assert box["y"] - 1 <= inner["y"]


def test_accounts_and_items(open_report: OpenFunction, tmp_path: Path) -> None:
    noisy = inject_noise(make_cinema(300, 200, seed=1).interactions, 0.01, "bots", seed=1).interactions
    denoiser = ProRec(NCE(rank=8), noise_method=NoiseFinder(folds=2)).fit(noisy)
    write_report(denoiser, tmp_path / "report.html", held_out=False)
    report = open_report(tmp_path / "report.html")
    alert = report.page.locator("#alerts li", has_text="Extreme accounts")
    assert alert.inner_text().split("\n")[-1].startswith("3 accounts act like programs: ")
    assert report.page.inner_text(".answers dd >> nth=0").startswith("Bots are the main problem: 3 extreme accounts")
    alert.locator("a").click()
    expect(report.page.locator("#issues-extreme")).to_be_in_viewport()
    rows = report.rows("#issues-extreme")
    n_clicks = [int(row[1].replace(",", "")) for row in rows]
    assert n_clicks == sorted(noisy.activity[-3:].tolist(), reverse=True)
    assert [row[2] for row in rows] == [row[1] for row in rows], "all flagged"
    # The list of clicks has one line for each of them, and then the most suspicious clicks of others.
    count = report.page.inner_text("#click-count")
    assert count.startswith(f"3 extreme accounts with {sum(n_clicks):,} clicks, and ")
    listed = report.rows()
    assert sorted(row[0] for row in listed[:3]) == sorted(f"all {row[1]} clicks of {row[0]}" for row in rows)
    assert not {row[1] for row in listed[3:]} & {row[0] for row in rows}
    assert all(row[-2] for row in listed), "each has a reason"
    exported = export_rows(report, tmp_path)
    flagged = [row for row in exported if row["flagged"] == "true"]
    assert sum(row["user"] in {each[0] for each in rows} for row in flagged) == sum(n_clicks), "all of their clicks"
    report.page.select_option("#which", "flagged")
    expect(report.page.locator("#click-count")).to_contain_text(f"{denoiser.flagged_.sum():,} clicks")
    header = "#issues-extreme thead th >> nth=1"
    report.page.click(f"{header} >> button")
    report.page.click(f"{header} >> button")
    assert report.page.get_attribute(header, "aria-sort") == "ascending"
    assert [int(row[1].replace(",", "")) for row in report.rows("#issues-extreme")] == sorted(n_clicks)
    user, reason = report.rows("#issues-extreme")[-1][0], report.rows("#issues-extreme")[-1][-1]
    report.page.click("#issues-extreme tbody tr:last-child button.link")
    assert report.page.inner_text("#user-details h3 >> nth=0") == f"User {user}"
    assert reason in report.page.inner_text("#user-details"), "the section of the user says why"


def test_click_on_a_user_shows_the_user(open_report: OpenFunction, cinema_page: Path) -> None:
    report = open_report(cinema_page)
    user = report.column("user")[3]
    report.page.click("#clicks tbody tr:nth-child(4) button.link")
    assert report.page.inner_text("#user-details h3 >> nth=0") == f"User {user}"


def test_a_user_with_very_many_clicks(open_report: OpenFunction, tmp_path: Path) -> None:
    matrix = lil_array((40, 150_000))
    matrix[0, :] = 1
    matrix[1:, :20] = 1
    write_report(
        ProRec(SVD(rank=1), noise_method="plan").fit(csr_array(matrix)), tmp_path / "report.html", held_out=False
    )
    report = open_report(tmp_path / "report.html")
    report.page.fill("#find-user", "0")
    report.page.press("#find-user", "Enter")
    assert report.page.inner_text("#user-details h3 >> nth=0") == "User 0"
    assert "150,000 clicks" in report.page.inner_text("#user-details p >> nth=0")
    assert len(report.rows("#user-clicks")) == 500


def test_keyboard(open_report: OpenFunction, cinema_page: Path) -> None:
    page = open_report(cinema_page).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus("#find-user")
    page.keyboard.type("9")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("#find-user", "aria-activedescendant") == "option-2"
    user = page.inner_text("#option-2").split()[0]
    page.keyboard.press("Enter")
    assert page.inner_text("#user-details h3 >> nth=0") == f"User {user}"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Escape")
    assert page.is_hidden("#user-options")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the next user
    assert page.inner_text("#user-details h3 >> nth=0") != f"User {user}"


def test_sort(open_report: OpenFunction, cinema_page: Path) -> None:
    report = open_report(cinema_page)
    descending = [percent(text) for text in report.column("noise probability")]
    assert descending == sorted(descending, reverse=True)
    report.page.click("#clicks thead button:has-text('noise probability')")
    ascending = [percent(text) for text in report.column("noise probability")]
    assert ascending == sorted(ascending)
    assert ascending[0] < descending[0]
    assert report.page.get_attribute("#clicks th[data-key=probability]", "aria-sort") == "ascending"
    report.page.click("#clicks thead button:has-text('user')")
    users = [int(text) for text in report.column("user")]
    assert users == sorted(users)
    report.page.click("#last-page")
    assert int(report.column("user")[-1]) > users[-1]
    assert report.page.is_disabled("#next-page")


def test_filter(open_report: OpenFunction, cinema_page: Path, cinema_denoiser: ProRec) -> None:
    report, interactions = open_report(cinema_page), cinema_denoiser.interactions_
    assert interactions.item_names is not None
    assert interactions.item_categories is not None
    n_flagged = int(cinema_denoiser.flagged_.sum())
    assert report.page.inner_text("#click-count").startswith(f"{n_flagged:,} clicks")
    flagged, probability = cinema_denoiser.flagged_, cinema_denoiser.noise_probability_
    least = float(np.quantile(probability[flagged], 0.7).round(3))
    expected = int((flagged & (probability >= least)).sum())
    assert report.filter_by("#min-probability", str(least)).startswith(f"{expected:,} clicks")
    in_drama = np.array(["Drama" in each for each in interactions.item_categories])[interactions.item_codes]
    report.page.select_option("#by-category", label="Drama")
    expected = int((flagged & (probability >= least) & in_drama).sum())
    expect(report.page.locator("#click-count")).to_contain_text(f"{expected:,} click")
    assert all("Drama" in each for each in report.column("category"))
    report.page.select_option("#which", "all")
    word = report.column("item")[0].split()[1]
    is_match = np.array([word in name for name in interactions.item_names])[interactions.item_codes]
    count = report.filter_by("#by-item", word.upper())
    assert count.startswith(f"{int((is_match & in_drama & (probability >= least)).sum()):,} click")
    assert report.filter_by("#by-item", "no film is called this").startswith("0 clicks")
    assert report.page.is_disabled("#export")


def export_rows(report: OpenPage, folder: Path) -> list[dict[str, str]]:
    with report.page.expect_download() as download:
        report.page.click("#export")
    path = folder / "selection.csv"
    download.value.save_as(path)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_export(open_report: OpenFunction, cinema_page: Path, cinema_denoiser: ProRec, tmp_path: Path) -> None:
    report, interactions = open_report(cinema_page), cinema_denoiser.interactions_
    assert interactions.item_names is not None
    assert interactions.item_categories is not None
    report.filter_by("#by-user", "31")
    rows = export_rows(report, tmp_path)
    chosen = (
        np.array(["31" in str(user) for user in interactions.users])[interactions.user_codes] & cinema_denoiser.flagged_
    )
    assert len(rows) == chosen.sum() > 0
    positions = interactions.pair_positions(
        interactions.user_positions([int(row["user"]) for row in rows]),
        interactions.item_positions([int(row["item"]) for row in rows]),
    )
    assert sorted(positions) == np.flatnonzero(chosen).tolist()
    assert [float(row["noise_probability"]) for row in rows] == pytest.approx(
        cinema_denoiser.noise_probability_[positions]
    )
    assert [float(row["weight"]) for row in rows] == pytest.approx(cinema_denoiser.weights_.data[positions])
    assert [float(row["row_share"]) for row in rows] == pytest.approx(cinema_denoiser.matching_.row_shares[positions])
    assert {row["flagged"] for row in rows} == {"true"}


def find_click(interactions: Interactions, user: str, name: str) -> int:
    """Return the position of the click of a user on an item of a name."""
    assert interactions.item_names is not None
    row = int(interactions.user_positions([int(user)])[0])
    own = np.arange(interactions.matrix.indptr[row], interactions.matrix.indptr[row + 1])
    return int(own[interactions.item_names[interactions.item_codes[own]] == name][0])


def test_verdicts(open_report: OpenFunction, cinema_page: Path, cinema_denoiser: ProRec, tmp_path: Path) -> None:
    report, interactions = open_report(cinema_page), cinema_denoiser.interactions_
    page = report.page
    assert page.is_disabled("#export-verdicts")
    page.click("#clicks tbody tr:nth-child(1) [data-verdict=genuine]")
    chosen = report.column("user")[0], report.column("item")[0]
    page.select_option("#which", "sample")
    expect(page.locator("#click-count")).to_contain_text("29 clicks")
    page.click("#clicks tbody tr:nth-child(2) >> text=right")
    page.click("#clicks tbody tr:nth-child(3) >> text=right")
    page.click("#clicks tbody tr:nth-child(3) >> text=right")
    page.click("#clicks tbody tr:nth-child(4) >> text=wrong")
    page.click("#clicks tbody tr:nth-child(4) >> text=right")
    page.click("#clicks tbody tr:nth-child(4) >> text=right")
    page.click("#next-page")
    page.click("#previous-page")
    assert page.locator("#clicks tbody tr:nth-child(4) [aria-pressed=true]").count() == 0
    assert page.get_attribute("#clicks tbody tr:nth-child(2) [data-verdict=noise]", "aria-pressed") == "true"
    assert page.inner_text("#verdict-count").startswith("2 verdicts, ")
    drawn = np.isin(np.arange(len(interactions)), draw_flagged(cinema_denoiser.flagged_))
    n_drawn = 1 + int(drawn[find_click(interactions, *chosen)])
    assert f"{n_drawn} of 29 in the random sample" in page.inner_text("#verdict-count")
    with page.expect_download() as download:
        page.click("#export-verdicts")
    path = tmp_path / "verdicts.csv"
    download.value.save_as(path)
    verdicts = read_verdicts(pacsv.read_csv(path), interactions)
    assert len(verdicts.positions) == 2
    assert sorted(verdicts.is_noise.tolist()) == [False, True]
    assert verdicts.is_drawn.tolist() == drawn[verdicts.positions].tolist()
    position = verdicts.positions[~verdicts.is_noise][0]
    assert interactions.item_names is not None
    names = (
        str(interactions.users[interactions.user_codes[position]]),
        interactions.item_names[interactions.item_codes[position]],
    )
    assert names == chosen


def test_verdicts_on_hostile_names(open_report: OpenFunction, hostile_page: Path) -> None:
    page = open_report(hostile_page).page
    page.select_option("#which", "all")
    expect(page.locator("#click-count")).to_contain_text(f"{page.evaluate('nClicks')} clicks, of 30 users")
    page.click("#last-page")
    buttons = page.locator("#clicks tbody tr:not(.flagged) >> nth=0").locator(".verdict-button").all_inner_texts()
    assert buttons == ["noise", "genuine"], "without a flag, nothing is right or wrong"
    page.evaluate("for (let click = 0; click < nClicks; click++) verdicts.set(click, 'noise')")
    rows = list(csv.DictReader(page.evaluate("makeVerdictCsv()").splitlines(keepends=True)))
    assert len(rows) == page.evaluate("nClicks")
    assert {row["verdict"] for row in rows} == {"noise"}
    for row in rows:
        assert not row["name"].startswith(("=", "+", "-", "@"))
    assert page.evaluate("window.pwned") is None


def test_hostile_names_stay_text(open_report: OpenFunction, hostile_page: Path, tmp_path: Path) -> None:
    report = open_report(hostile_page)
    page = report.page
    for _ in range(5):
        page.click("#next-user")
    page.select_option("#which", "all")
    page.fill("#find-user", "<")
    assert page.evaluate("window.pwned") is None
    assert page.title() == "</title><script>window.pwned = 4</script>"
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    expect(page.locator("#click-count")).to_contain_text("of 30 users")
    cells: set[str] = set()
    while True:
        cells |= {cell for row in report.rows() for cell in row}
        if page.is_disabled("#next-page"):
            break
        page.click("#next-page")
    assert set(HOSTILE) <= cells
    assert page.evaluate("window.pwned") is None


def test_exported_cells_are_not_formulas(open_report: OpenFunction, hostile_page: Path, tmp_path: Path) -> None:
    report = open_report(hostile_page)
    rows = export_rows(report, tmp_path)
    assert {row["name"] for row in rows} >= {"'=HYPERLINK(1)", "a,b\nc", HOSTILE[0]}
    cell = report.page.evaluate("text => csvCell(text)", "x;=HYPERLINK(1)")
    assert cell == '"x;=HYPERLINK(1)"', "some spreadsheets separate cells by semicolons"
    for text in (" =1+1", "＝1+1", "@SUM(1)"):
        assert report.page.evaluate("text => csvCell(text)", text) == f'"\'{text}"'
    assert report.page.evaluate("text => csvCell(text)", "-5") == "-5"
    for row in rows:
        for name in ("user", "item", "name", "categories"):
            assert not row[name].startswith(("=", "+", "-", "@"))


def test_theme(open_report: OpenFunction, cinema_page: Path) -> None:
    page = open_report(cinema_page, color_scheme="light").page
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.click("#theme")
    assert page.inner_text("#theme") == "Theme: light"
    assert page.evaluate(background) == light
    page.click("#theme")
    dark = page.evaluate(background)
    assert dark != light
    page.click("#theme")
    assert page.evaluate(background) == light
    assert open_report(cinema_page, color_scheme="dark").page.evaluate(background) == dark


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility(open_report: OpenFunction, cinema_page: Path, scheme: str) -> None:
    page = open_report(cinema_page, color_scheme=scheme).page
    violations = Axe().run(page).response["violations"]
    assert [(each["id"], [node["html"][:200] for node in each["nodes"]][:3]) for each in violations] == []


def test_fits_on_a_phone(open_report: OpenFunction, cinema_page: Path) -> None:
    page = open_report(cinema_page, viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # The contents come before the controls: the filter is closed, and the theme at the end.
    assert page.is_hidden("#filters")
    top = {name: page.locator(name).bounding_box() for name in ("#clicks", "#export", "#theme", ".answers")}
    y = {name: box["y"] for name, box in top.items() if box is not None}
    assert y[".answers"] < 400
    assert y["#clicks"] < y["#export"] < y["#theme"]
    # A card has the item and its probability on the first line, the user and the verdict on the second.
    card = page.locator("#clicks tbody tr >> nth=0")
    parts = (".name", ".main-number", ".fact >> nth=0", ".verdict", ".why")
    name, number, user, verdict, why = (card.locator(f"td{each}").bounding_box() or {} for each in parts)
    assert abs(name["y"] - number["y"]) < 8
    assert name["y"] + name["height"] <= user["y"] + 2
    assert user["y"] < verdict["y"] + verdict["height"] <= why["y"] + 2
    cut = """all => all.filter(each => getComputedStyle(each).display !== "inline"
        && each.scrollWidth > each.clientWidth + 1).map(each => each.textContent)"""
    assert page.eval_on_selector_all(".sections a, summary, td, th, dt, dd, button", cut) == [], "no label is cut"


def test_print_hides_controls(open_report: OpenFunction, cinema_page: Path) -> None:
    page = open_report(cinema_page, color_scheme="dark").page
    page.emulate_media(media="print")
    assert page.is_hidden("#filters")
    assert page.is_hidden("#theme")
    assert page.locator("#suspicious button.verdict-button:visible").count() == 0
    assert page.is_visible(".answers")
    assert page.is_visible("#clicks td.why >> nth=0")
    assert page.is_visible("#chart-weights svg")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_charts_without_javascript(open_report: OpenFunction, cinema_page: Path) -> None:
    page = open_report(cinema_page, java_script_enabled=False).page
    assert page.is_hidden("#clicks")
    assert page.is_hidden("#filter-box")
    assert page.is_hidden("#user")
    assert page.is_hidden("#theme")
    assert page.is_visible(".answers")
    assert page.is_visible("#issues")
    assert page.is_visible("#chart-weights svg")
    assert page.is_visible("#suspicious noscript p")


SCREENSHOTS: dict[str, dict[str, Any]] = {
    "report": {"viewport": {"width": 1280, "height": 1300}},
    "report-dark": {"viewport": {"width": 1280, "height": 1000}, "color_scheme": "dark"},
    "report-phone": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
}


@pytest.mark.parametrize("name", SCREENSHOTS)
def test_screenshots(open_report: OpenFunction, cinema_page: Path, tmp_path: Path, name: str) -> None:
    """Take the pictures of the manual; `make screenshots` writes them to docs/figures."""
    page = open_report(cinema_page, **SCREENSHOTS[name]).page
    if name == "report-dark":
        page.evaluate("document.getElementById('user').scrollIntoView({behavior: 'instant'})")
    path = Path(os.environ.get("PROREC_SCREENSHOTS", tmp_path)) / f"{name}.png"
    page.screenshot(path=path)
    assert 20_000 < path.stat().st_size < 1_000_000
