"""Contents of the report's file, and refusals of arguments from which no report can be made."""

from __future__ import annotations

import base64
import builtins
import re
from copy import copy
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec import Interactions, MissingExtraError, ProRec
from prorec._core.errors import InputError, NotFittedError
from prorec.cli.demo import demo_denoiser
from prorec.denoise.controls import equalize_weights, make_control, shuffle_weights
from prorec.evaluation.comparison import compare_on_splits
from prorec.evaluation.significance import compare
from prorec.models import NCE, SVD
from prorec.noise import Issues
from prorec.noise.injection_checks import describe_checks
from prorec.report import write_report
from prorec.report.findings import collect_findings
from prorec.report.formatting import format_change
from prorec.report.gain import Gain, measure_gain
from prorec.report.issue_tables import make_issue_tables
from prorec.report.page_data import pack_column
from prorec.report.verdict import describe_gain
from tests.report.conftest import HOSTILE, read_data

DTYPES = {"float32": "<f4", "float64": "<f8", "int32": "<i4", "uint8": "<u1"}


def unpack(column: dict[str, str]) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(column["bytes"]), dtype=DTYPES[column["dtype"]])


def test_packed_columns_unpack_to_the_same_numbers() -> None:
    values = np.array([0.1, -3, 7e30], dtype=np.float32)
    assert np.array_equal(unpack(pack_column(values, "float32")), values)


def test_page_holds_every_click(cinema_page: Path, cinema_denoiser: ProRec) -> None:
    data, interactions = read_data(cinema_page), cinema_denoiser.interactions_
    start = unpack(data["users"]["start"])
    assert np.array_equal(start, interactions.matrix.indptr)
    items = np.array(data["items"]["id"]).astype(int)[unpack(data["clicks"]["item"])]
    assert np.array_equal(items, interactions.items[interactions.item_codes])
    assert np.array_equal(unpack(data["clicks"]["weight"]), cinema_denoiser.weights_.data)
    assert np.array_equal(unpack(data["clicks"]["probability"]), cinema_denoiser.noise_probability_)
    assert np.array_equal(unpack(data["clicks"]["flagged"]).astype(bool), cinema_denoiser.flagged_)
    assert np.array_equal(unpack(data["users"]["kappa"]), cinema_denoiser.thresholds_.kappa)


def test_file_sizes(cinema_page: Path, large_page: Path) -> None:
    assert cinema_page.stat().st_size < 5e6
    assert large_page.stat().st_size < 25e6
    data = read_data(large_page)
    assert unpack(data["clicks"]["flagged"]).sum() >= 99_000
    assert len(unpack(data["clicks"]["item"])) <= 300_000
    assert "This page holds" in large_page.read_text()


def test_gain_equals_a_comparison_on_a_split(cinema_page: Path, cinema_denoiser: ProRec) -> None:
    models = {
        "plain": NCE(rank=20),
        "scaled": make_control(demo_denoiser(), equalize_weights),
        "shuffled": make_control(demo_denoiser(), shuffle_weights),
        "denoised": demo_denoiser(),
    }
    gain = measure_gain(cinema_denoiser)
    assert isinstance(gain, Gain)
    results = compare_on_splits(models, cinema_denoiser.interactions_, n_seeds=1, k=10).results
    assert gain.means == {name: result.mean["ndcg@10"] for name, result in results.items()}
    best = max(("plain", "scaled", "shuffled"), key=lambda name: gain.means[name])
    (row,) = compare({name: results[name] for name in (best, "denoised")}, best, metrics=["ndcg@10"])
    assert gain.net.difference == pytest.approx(gain.means["denoised"] - gain.means[best])
    page = cinema_page.read_text()
    assert f"changes by {format_change(row.difference / row.baseline_mean)} (95% interval " in page
    assert f"{format_change(row.low / row.baseline_mean)} to {format_change(row.high / row.baseline_mean)})" in page
    # The gross gain is in no sentence; the means are among the details.
    for name, mean in gain.means.items():
        assert f"<td>{mean:.4f}</td>" in page, name


class _ElementParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]
        assert not [name for name, _ in attrs if name.startswith("on")]


@pytest.mark.parametrize("fixture", ["cinema_page", "hostile_page"])
def test_page_refers_to_no_other_file(fixture: str, request: pytest.FixtureRequest) -> None:
    page: Path = request.getfixturevalue(fixture)
    elements = _ElementParser()
    elements.feed(page.read_text())
    assert all(address.startswith("#") or address == "data:," for address in elements.addresses)
    assert elements.tags.count("script") == 2
    assert not {"img", "iframe", "object", "embed"} & set(elements.tags)
    assert re.findall(r"https?://[^\"'\s]+", page.read_text()) == ["http://www.w3.org/2000/svg"]
    assert "default-src 'none'" in page.read_text()


def test_hostile_names_do_not_end_the_data(hostile_page: Path) -> None:
    data = read_data(hostile_page)
    assert set(data["items"]["name"]) == set(HOSTILE)
    assert set(data["categories"]) == set(HOSTILE)


def fit_small() -> ProRec:
    return ProRec(SVD(rank=1), noise_method="plan").fit(csr_array(np.array([[1.0, 1, 0], [1, 0, 1], [1, 1, 1]])))


def test_smallest_log_has_no_nan(tmp_path: Path) -> None:
    denoiser = ProRec(SVD(rank=1), noise_method="plan").fit(csr_array(np.array([[1.0, 1.0], [1.0, 0.0]])))
    write_report(denoiser, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text().partition("<script")[0].lower()
    assert "nan" not in text.replace("provenance", "")


def test_no_recommendations_without_a_refit(tmp_path: Path) -> None:
    clicks = Interactions.from_matrix(csr_array(np.array([[1.0, 1, 0], [1, 0, 1], [1, 1, 1]])))
    denoiser = ProRec(SVD(rank=1), noise_method="plan").fit(clicks, refit=False)
    write_report(denoiser, tmp_path / "report.html", held_out=False)
    assert read_data(tmp_path / "report.html")["users"]["before"] is None
    assert "not measured" in (tmp_path / "report.html").read_text()


def test_original_weights_are_shown(tmp_path: Path) -> None:
    denoiser = ProRec(SVD(rank=1), noise_method="plan").fit(csr_array(np.array([[0.5, 1, 0], [1, 0, 0.25], [1, 1, 1]])))
    write_report(denoiser, tmp_path / "report.html", held_out=False)
    before = unpack(read_data(tmp_path / "report.html")["clicks"]["weightBefore"])
    assert np.array_equal(before, np.array([0.5, 1, 1, 0.25, 1, 1, 1], dtype=np.float32))


def test_name_with_half_a_surrogate_pair(tmp_path: Path) -> None:
    clicks = Interactions.from_matrix(csr_array(np.ones((3, 2)))).with_item_info({0: "\ud800", 1: "fine"})
    write_report(ProRec(SVD(rank=1), noise_method="plan").fit(clicks), tmp_path / "report.html", held_out=False)
    assert "fine" in read_data(tmp_path / "report.html")["items"]["name"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("report.pdf", "ends in .html"),
        ("nowhere/report.html", "does not exist"),
        ("folder.html", "this is a directory"),
    ],
)
def test_bad_paths_are_refused(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError, match=message):
        write_report(fit_small(), tmp_path / path)


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with pytest.raises(NotFittedError, match="fit"):
        write_report(ProRec(SVD(rank=1), noise_method="plan"), path)
    with pytest.raises(InputError, match="is_noise must be 7 booleans"):
        write_report(fit_small(), path, is_noise=[True])
    with pytest.raises(InputError, match="title must be"):
        write_report(fit_small(), path, title="")
    with pytest.raises(InputError, match="progress"):
        write_report(fit_small(), path, progress=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="path must be"):
        write_report(fit_small(), 3)  # type: ignore[arg-type]
    assert not path.exists()


def test_missing_jinja_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def import_without_jinja(name: str, *rest: Any) -> Any:
        if name == "jinja2":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    denoiser = fit_small()
    monkeypatch.setattr(builtins, "__import__", import_without_jinja)
    with pytest.raises(MissingExtraError, match=r"pip install 'jinja2>="):
        write_report(denoiser, tmp_path / "report.html")


def test_failed_write_keeps_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InputError, match="no space left"):
        write_report(fit_small(), path, held_out=False)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_large_integer_ids_are_texts(tmp_path: Path) -> None:
    clicks = Interactions.from_matrix(csr_array(np.ones((3, 2))), users=[2**55, 2**55 + 1, 2**55 + 2], items=["a", "b"])
    write_report(ProRec(SVD(rank=1), noise_method="plan").fit(clicks), tmp_path / "report.html", held_out=False)
    assert read_data(tmp_path / "report.html")["users"]["id"] == [str(2**55 + index) for index in range(3)]


def test_counts_of_a_user_include_clicks_that_the_page_lacks(large_page: Path) -> None:
    data = read_data(large_page)
    n_held = np.diff(unpack(data["users"]["start"]))
    activity, n_flagged = unpack(data["users"]["activity"]), unpack(data["users"]["nFlagged"])
    is_complete = unpack(data["users"]["isComplete"]).astype(bool)
    assert np.array_equal(n_held[is_complete], activity[is_complete])
    assert (n_held[~is_complete] < activity[~is_complete]).all()
    assert (~is_complete).any()
    assert n_flagged.sum() >= unpack(data["clicks"]["flagged"]).sum()
    assert (unpack(data["users"]["nBelow"]) <= activity).all()
    assert "flagged clicks:" in large_page.read_text()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": "none", "marginals": "uniform"}, "There is no threshold"),
        ({"threshold": 2, "lam": 0.25}, "by 62% at the threshold"),
        ({"transport": "emd"}, "transport plan (emd)"),
        ({"rounds": 3, "relabel_from": "original"}, "transport plan (relaxed)"),
    ],
)
def test_method_names_the_settings(tmp_path: Path, settings: dict[str, Any], message: str) -> None:
    rng = np.random.default_rng(1)
    clicks = csr_array((rng.random((12, 9)) < 0.5).astype(float))
    write_report(ProRec(SVD(rank=2), **settings, noise_method="plan").fit(clicks), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert message in page
    assert not re.search(r"\bnan\b", page.partition('<script type="application/json"')[0], re.IGNORECASE)


def test_gain_is_compared_with_the_control(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clicks = csr_array((rng.random((60, 40)) < 0.3).astype(float))  # pure noise
    write_report(ProRec(SVD(rank=3), noise_method="plan").fit(clicks), tmp_path / "report.html")
    gain = measure_gain(ProRec(SVD(rank=3), noise_method="plan").fit(clicks))
    assert isinstance(gain, Gain)
    assert gain.net.baseline_mean == max(mean for name, mean in gain.means.items() if name != "denoised")
    assert f"<dd>{describe_gain(gain)}</dd>" in (tmp_path / "report.html").read_text()


def test_nothing_flagged_names_a_larger_fdr(cinema_denoiser: ProRec, tmp_path: Path) -> None:
    denoiser = copy(cinema_denoiser)
    denoiser.fdr = 0.001
    write_report(denoiser, tmp_path / "report.html", held_out=False)
    page = re.sub("</?span[^>]*>", "", (tmp_path / "report.html").read_text())  # which keep an option's name whole
    least = next(fdr for fdr in (0.2, 0.3, 0.4, 0.5) if denoiser.finder_.flag(fdr=fdr).any())
    assert f"--fdr {least:g} would flag {denoiser.finder_.flag(fdr=least).sum():,}" in page
    assert not denoiser.flagged_.any()
    assert "Users with the most expected noise come first" in page


def test_long_names_are_truncated(tmp_path: Path) -> None:
    clicks = Interactions.from_matrix(csr_array(np.ones((3, 2)))).with_item_info({0: "x" * 10_000}, {0: ["y" * 10_000]})
    write_report(ProRec(SVD(rank=1), noise_method="plan").fit(clicks), tmp_path / "report.html", held_out=False)
    assert "x" * 1000 not in (tmp_path / "report.html").read_text()
    assert "y" * 1000 not in (tmp_path / "report.html").read_text()


def test_accounts_and_items_need_cross_fitting(cinema_page: Path, hostile_page: Path) -> None:
    assert '<section id="issues"' in cinema_page.read_text()
    assert "No item is suspicious." in cinema_page.read_text() or 'id="issues-items"' in cinema_page.read_text()
    assert "issues-title" not in hostile_page.read_text()


def test_hostile_names_in_the_tables_of_accounts_and_items() -> None:
    matrix = csr_array((np.random.default_rng(0).random((40, 30)) < 0.3).astype(np.float32))
    clicks = Interactions.from_matrix(matrix)
    clicks = clicks.with_item_info({item: HOSTILE[item % len(HOSTILE)] for item in clicks.items.tolist()})
    scores = np.linspace(0.6, 1.0, 30)
    issues = Issues(
        clicks,
        dict.fromkeys(("account", "random_history", "catalogue_walk", "cloned_history", "burst"), np.zeros(40)),
        {"pushed_item": scores, "item_burst": np.zeros(30)},
        np.zeros(40, dtype=bool),
        can_tell=True,
    )
    findings = replace(collect_findings(ProRec(SVD(rank=2), noise_method="plan").fit(clicks)), issues=issues)
    extreme, suspicious, items = make_issue_tables(findings)
    assert (extreme.note, suspicious.note) == ("No account is extreme.", "No account is suspicious.")
    assert len(items.rows) == (scores > 0.9).sum()
    assert [row.name for row in items.rows] == [
        HOSTILE[item % len(HOSTILE)] for item in range(29, 29 - len(items.rows), -1)
    ]
    assert {row.reason for row in items.rows} == {"Has more users with random items than chance explains."}
    noise = findings.noise_probability[clicks.item_codes == 29]
    assert items.rows[0].noise == pytest.approx(noise.mean(dtype=float))


def test_the_method_says_how_well_injected_noise_is_found(
    cinema_page: Path, hostile_page: Path, cinema_denoiser: ProRec
) -> None:
    sentence = describe_checks(cinema_denoiser.finder_.injection_checks_)
    assert "with an AUROC of 0." in sentence
    assert sentence in cinema_page.read_text()
    assert "As a test, random clicks" not in hostile_page.read_text(), "its denoiser does not cross-fit"
