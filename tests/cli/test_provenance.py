"""Every output says what made it, when, from which input and with which settings."""

from __future__ import annotations

import hashlib
import html
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import prorec
from prorec.report import write_report
from tests.cli.shell import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("provenance")
    prorec.write_interactions(prorec.make_cinema(120, 90, seed=5).interactions, folder / "clicks.csv")
    return folder


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check(provenance: dict[str, Any], **inputs: str) -> None:
    assert provenance["prorec"] == prorec.__version__
    age = datetime.now(UTC) - datetime.fromisoformat(provenance["time"])
    assert 0 <= age.total_seconds() < 600
    assert {name: each["sha256"] for name, each in provenance["inputs"].items()} == inputs
    assert re.fullmatch("[0-9a-f]{64}", provenance["settings_sha256"])


def test_tables_models_reports_and_results(folder: Path) -> None:
    log = sha256(folder / "clicks.csv")
    words = ("denoise", "clicks.csv", "-p", "rank=4", "--fdr", "0.3", "--json", "--report", "r.html", "--force")
    first = run(*words, "--out", "one.csv", cwd=folder)
    second = run(*words, "--out", "two.csv", cwd=folder)
    assert first.returncode == second.returncode == 0, first.stderr
    one, two = (json.loads(done.stdout)["provenance"] for done in (first, second))
    check(one, log=log)
    assert one["settings"] == {"command": "denoise", "fdr": "0.3", "param": "rank=4"}
    assert one["settings_sha256"] == two["settings_sha256"], "the names of outputs are no settings"
    assert (folder / "one.csv").read_bytes() == (folder / "two.csv").read_bytes(), "rows have no time in them"
    assert json.loads((folder / "one.csv.provenance.json").read_text()) == one
    page = (folder / "r.html").read_text("utf-8")
    content = re.findall(r'<meta name="prorec-provenance" content="([^"]*)">', page)
    assert json.loads(html.unescape(content[0])) == two
    assert log in page.partition('class="foot"')[2]

    trained = run("train", "clicks.csv", "--denoise", "-p", "rank=4", "--out", "model", "--json", cwd=folder)
    made = json.loads((folder / "model" / "provenance.json").read_text())
    assert made == json.loads(trained.stdout)["provenance"]
    check(made, log=log)
    assert made["settings_sha256"] != one["settings_sha256"]

    model = sha256(folder / "model" / "model.json")
    assert run("recommend", "model", "--out", "recs.parquet", cwd=folder).returncode == 0
    check(json.loads((folder / "recs.parquet.provenance.json").read_text()), model=model)
    scored = run("score", "model", "clicks.csv", "--out", "scored.parquet", "--json", cwd=folder)
    check(json.loads(scored.stdout)["provenance"], log=log, model=model)
    report = run("report", "model", "--out", "again.html", "--json", cwd=folder)
    check(json.loads(report.stdout)["provenance"], model=model)
    checked = run("check", "clicks.csv", "--json", cwd=folder)
    check(json.loads(checked.stdout)["provenance"], log=log)


def test_a_file_of_others_is_not_replaced(folder: Path) -> None:
    (folder / "taken.csv.provenance.json").write_text("precious")
    done = run("denoise", "clicks.csv", "--out", "taken.csv", cwd=folder)
    assert (done.returncode, "taken.csv.provenance.json: this file exists already" in done.stderr) == (2, True)
    assert (folder / "taken.csv.provenance.json").read_text() == "precious"
    assert not (folder / "taken.csv").exists()


def test_reports_from_python_too(tmp_path: Path) -> None:
    club = prorec.make_cinema(60, 50, seed=1).interactions
    denoiser = prorec.ProRec(prorec.models.SVD(rank=4)).fit(club)
    write_report(denoiser, tmp_path / "page.html", held_out=False)
    content = re.findall(r'prorec-provenance" content="([^"]*)">', (tmp_path / "page.html").read_text("utf-8"))
    made = json.loads(html.unescape(content[0]))
    assert made["prorec"] == prorec.__version__
    assert re.fullmatch("[0-9a-f]{32}", made["inputs"]["interactions"]["digest"])
    assert made["settings"]
