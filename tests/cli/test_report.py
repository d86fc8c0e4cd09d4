"""`prorec report` and `prorec denoise --report`: from a csv to a page."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import prorec
from tests.cli.shell import run
from tests.report.conftest import read_data


def item_names(clicks: prorec.Interactions) -> list[str]:
    assert clicks.item_names is not None
    return list(clicks.item_names)


def item_categories(clicks: prorec.Interactions) -> list[str]:
    assert clicks.item_categories is not None
    return ["|".join(each) for each in clicks.item_categories]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with times, and a file about its items."""
    club = prorec.make_cinema(120, 90, seed=3).interactions
    where = tmp_path_factory.mktemp("log")
    log = {
        "user_id": club.users[club.user_codes],
        "item_id": club.items[club.item_codes],
        "time": club.columns["timestamp"],
    }
    pacsv.write_csv(pa.table(log), where / "clicks.csv")
    items = {
        "item_id": club.items,
        "title": item_names(club),
        "genres": item_categories(club),
    }
    pacsv.write_csv(pa.table(items), where / "films.csv")
    return where


def test_report_of_a_csv(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    done = run("report", str(folder / "clicks.csv"), "--out", str(out), "--items", str(folder / "films.csv"))
    assert done.returncode == 0, done.stderr
    assert f"The report is in {out}." in done.stdout
    assert "noise rate is estimated at" in done.stdout
    page, data = out.read_text(), read_data(out)
    assert "<title>Which clicks in clicks.csv are noise?</title>" in page
    assert "with 95% confidence" in page
    assert "changes by" in page
    assert 'id="chart-time"' in page
    assert 'id="chart-categories"' in page
    assert data["clicks"]["time"] is not None
    assert data["clicks"]["percentileRank"] is not None
    club = prorec.make_cinema(120, 90, seed=3).interactions
    names = dict(zip(club.items.tolist(), item_names(club), strict=True))
    assert data["items"]["name"] == [names[int(item)] for item in data["items"]["id"]]


def test_two_reports_are_compared(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "clicks.csv").read_text().splitlines()
    (tmp_path / "old.csv").write_text("\n".join(lines[: len(lines) // 2]) + "\n")
    method = ("--noise-method", "plan")
    done = run("report", "old.csv", "--out", "old.html", "--json", *method, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert 'id="changes"' not in (tmp_path / "old.html").read_text()
    (tmp_path / "last-week.json").write_text(done.stdout)
    words = ("report", str(folder / "clicks.csv"), "--out", "new.html", "--compare", "last-week.json", *method)
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    before, now = json.loads((tmp_path / "last-week.json").read_text())["interactions"], len(lines) - 1
    row = f'<th scope="row">clicks</th><td>{before:,}</td><td>{now:,}</td><td>+{now / before - 1:.1%}</td>'
    assert row in (tmp_path / "new.html").read_text()
    for text, message in (("{}", "prorec report --json"), ("<p>", "not the JSON of an earlier report")):
        (tmp_path / "bad.json").write_text(text)
        done = run("report", "old.csv", "--out", "bad.html", "--compare", "bad.json", cwd=tmp_path)
        assert (done.returncode, message in " ".join(done.stderr.split())) == (3, True), done.stderr
        assert not (tmp_path / "bad.html").exists()


def test_repeats_are_counted(folder: Path, tmp_path: Path) -> None:
    lines = (folder / "clicks.csv").read_text().splitlines()
    (tmp_path / "log.csv").write_text("\n".join([*lines, *lines[1:8]]) + "\n")
    sentence = "7 rows repeat a user and an item; each pair counts once."
    for words in (
        ("report", "log.csv", "--out", "a.html"),
        ("denoise", "log.csv", "--out", "b.csv", "--report", "b.html"),
    ):
        done = run(*words, "--noise-method", "plan", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert sentence in (tmp_path / words[-1]).read_text()


def test_report_of_denoise(folder: Path, tmp_path: Path) -> None:
    with_report, without = tmp_path / "a.csv", tmp_path / "b.csv"
    page = tmp_path / "report.html"
    done = run("denoise", str(folder / "clicks.csv"), "--out", str(with_report), "--report", str(page), "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["report"] == str(page)
    assert run("denoise", str(folder / "clicks.csv"), "--out", str(without)).returncode == 0
    assert with_report.read_bytes() == without.read_bytes()
    assert f"flagged clicks</th><td>{summary['flagged_rows']:,}</td>" in page.read_text()
    assert "with 95% confidence" in page.read_text(), "the default estimates the noise rate"


def test_report_of_a_trained_denoiser(folder: Path, tmp_path: Path) -> None:
    log, model = str(folder / "clicks.csv"), str(tmp_path / "model")
    assert run("train", log, "--denoise", "--out", model).returncode == 0
    out = tmp_path / "report.html"
    done = run("report", model, "--out", str(out), "--items", str(folder / "films.csv"))
    assert done.returncode == 0, done.stderr
    loaded = prorec.load(model)
    assert isinstance(loaded, prorec.ProRec)
    weights = read_data(out)["clicks"]["weight"]
    assert np.array_equal(np.frombuffer(base64.b64decode(weights["bytes"]), "<f4"), loaded.weights_.data)
    assert read_data(out)["items"]["name"]
    again = run("report", model, "--out", str(out))
    assert (again.returncode, "exists already; pass --force" in again.stderr) == (2, True)
    assert run("report", model, "--out", str(out), "--force", "--quiet").returncode == 0
    plain = str(tmp_path / "plain")
    assert run("train", log, "--out", plain).returncode == 0
    refused = run("report", plain, "--out", str(tmp_path / "x.html"))
    assert (refused.returncode, "prorec train --denoise" in refused.stderr) == (3, True)
    refused_option = run("report", model, "--out", str(tmp_path / "x.html"), "--fdr", "0.2")
    assert (refused_option.returncode, "--fdr has no effect for a denoiser" in refused_option.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--out", "report.pdf"), "a name that ends in .html"),
        (("--out", "nowhere/report.html"), "the folder nowhere does not exist"),
        (("--out", "report.html", "--items", "missing.csv"), "missing.csv: there is no such file"),
        (("--out", "report.html", "--items", "clicks.csv"), "clicks.csv: no column has names"),
        (("--out", "report.html", "--timestamp-col", "when"), "no column is called 'when' (--timestamp-col)"),
        (("--out", "report.html", "--noise-method", "guess"), "--noise-method must be"),
        (("--out", "report.html", "--model", "nope"), "nope"),
    ],
)
def test_bad_input(folder: Path, words: tuple[str, ...], message: str) -> None:
    done = run("report", "clicks.csv", *words, cwd=folder)
    is_about_data = "--items" in words or "--timestamp-col" in words
    assert done.returncode == (3 if is_about_data else 2)
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert not list(folder.glob("*.html"))


def test_bad_report_options_of_denoise(folder: Path, tmp_path: Path) -> None:
    log, out = str(folder / "clicks.csv"), str(tmp_path / "out.csv")
    for words, message in (
        (("--items", "films.csv"), "--items has no effect without --report"),
        (("--report", str(tmp_path / "report.txt")), "ends in .html"),
    ):
        done = run("denoise", log, "--out", out, *words)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
        assert not Path(out).exists()


def test_other_column_names_and_items_in_the_log(tmp_path: Path) -> None:
    rows = [
        f"c{user};s{item};2024-05-{1 + item:02}T10:00:00Z;Thing {item};Tools | Toys"
        for user in range(12)
        for item in range(user % 4, 9)
    ]
    (tmp_path / "orders.csv").write_text("who;sku;bought;title;category\n" + "\n".join(rows) + "\n")
    words = "report orders.csv --out r.html --separator ; --user-col who --item-col sku --timestamp-col bought"
    done = run(*words.split(), "--noise-method", "plan", "--items", "orders.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data = read_data(tmp_path / "r.html")
    assert data["items"]["name"][0] == "Thing 0"
    assert data["categories"] == ["Tools", "Toys"]
    assert data["clicks"]["time"] is not None


def test_an_unreadable_time_column_is_ignored_unless_requested(tmp_path: Path) -> None:
    rows = [f"{user},{item},{item},noon" for user in range(12) for item in range(user % 4, 9)]
    (tmp_path / "log.csv").write_text("user,item,time,timestamp\n" + "\n".join(rows) + "\n")
    done = run("report", "log.csv", "--out", "r.html", "--noise-method", "plan", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    refused = run(
        "report", "log.csv", "--out", "s.html", "--noise-method", "plan", "--timestamp-col", "timestamp", cwd=tmp_path
    )
    assert refused.returncode == 3
    words = " ".join(refused.stderr.split())
    assert (
        f"log.csv: {len(rows)} of {len(rows)} rows cannot be used: {len(rows)} the timestamp is not a number" in words
    )
    assert "--time-format" in words


def test_datasets_get_writes_items(tmp_path: Path) -> None:
    done = run("datasets", "get", "cinema", "--out", "clicks.csv", "--items", "films.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    club = prorec.load_dataset("cinema")
    read = pacsv.read_csv(tmp_path / "films.csv")
    assert read["name"].to_pylist() == item_names(club)
    assert read["categories"].to_pylist() == item_categories(club)
