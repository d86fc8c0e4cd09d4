"""The file: what is in it, what is not, and what is said when it cannot be made."""

from __future__ import annotations

import base64
import builtins
import re
from copy import copy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec import Interactions, ProRec
from prorec._core.errors import InputError, NotFittedError
from prorec.evaluation.comparison import compare_on_splits
from prorec.models import NCE, SVD
from prorec.report import write_report
from prorec.report.formatting import format_change
from prorec.report.page_data import pack_column
from tests.report.conftest import HOSTILE, data_in

KINDS = {"float32": "<f4", "float64": "<f8", "int32": "<i4", "uint8": "<u1"}


def unpacked(column: dict[str, str]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(column["bytes"]), dtype=KINDS[column["kind"]])


def test_columns_come_back_as_they_were() -> None:
    values = np.array([0.1, -3, 7e30], dtype=np.float32)
    assert np.array_equal(unpacked(pack_column(values, "float32")), values)


def test_every_click_is_in_it(cinema_page: Path, cinema_denoiser: ProRec) -> None:
    data, known = data_in(cinema_page), cinema_denoiser.interactions_
    start = unpacked(data["users"]["start"])
    assert np.array_equal(start, known.matrix.indptr)
    items = np.array(data["items"]["id"]).astype(int)[unpacked(data["clicks"]["item"])]
    assert np.array_equal(items, known.items[known.item_codes])
    assert np.array_equal(unpacked(data["clicks"]["weight"]), cinema_denoiser.weights_.data)
    assert np.array_equal(unpacked(data["clicks"]["probability"]), cinema_denoiser.noise_probability_)
    assert np.array_equal(unpacked(data["clicks"]["flagged"]).astype(bool), cinema_denoiser.flagged_)
    assert np.array_equal(unpacked(data["users"]["kappa"]), cinema_denoiser.thresholds_.kappa)


def test_sizes(cinema_page: Path, large_page: Path) -> None:
    assert cinema_page.stat().st_size < 5e6
    assert large_page.stat().st_size < 25e6
    data = data_in(large_page)
    assert unpacked(data["clicks"]["flagged"]).sum() >= 99_000
    assert len(unpacked(data["clicks"]["item"])) <= 300_000
    assert "This page holds" in large_page.read_text()


def test_the_gain_is_that_of_a_comparison(cinema_page: Path, cinema_denoiser: ProRec) -> None:
    models = {"plain": NCE(rank=20), "denoised": ProRec(NCE(rank=20))}
    compared = compare_on_splits(models, cinema_denoiser.interactions_, n_seeds=1, k=10)
    row = next(each for each in compared.comparisons if each.metric == "ndcg@10")
    page = cinema_page.read_text()
    assert f"<strong>{format_change(row.difference / row.baseline_mean)}</strong>" in page
    assert (
        f"{format_change(row.low / row.baseline_mean)} to {format_change(row.high / row.baseline_mean)} (95%)" in page
    )


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]
        assert not [name for name, _ in attrs if name.startswith("on")]


@pytest.mark.parametrize("which", ["cinema_page", "hostile_page"])
def test_needs_nothing_else(which: str, request: pytest.FixtureRequest) -> None:
    page: Path = request.getfixturevalue(which)
    elements = _Elements()
    elements.feed(page.read_text())
    assert all(address.startswith("#") or address == "data:," for address in elements.addresses)
    assert elements.tags.count("script") == 2
    assert not {"img", "iframe", "object", "embed"} & set(elements.tags)
    assert re.findall(r"https?://[^\"'\s]+", page.read_text()) == ["http://www.w3.org/2000/svg"]
    assert "default-src 'none'" in page.read_text()


def test_hostile_names_cannot_end_the_data(hostile_page: Path) -> None:
    data = data_in(hostile_page)
    assert set(data["items"]["name"]) == set(HOSTILE)
    assert set(data["categories"]) == set(HOSTILE)


def small() -> ProRec:
    return ProRec(SVD(rank=1)).fit(csr_array(np.array([[1.0, 1, 0], [1, 0, 1], [1, 1, 1]])))


def test_a_log_too_small_to_judge_by_says_so(tmp_path: Path) -> None:
    denoiser = ProRec(SVD(rank=1)).fit(csr_array(np.array([[1.0, 1.0], [1.0, 0.0]])))
    write_report(denoiser, tmp_path / "report.html")
    assert "nan" not in (tmp_path / "report.html").read_text().partition("<script")[0].lower()


def test_without_a_last_model_there_are_no_lists(tmp_path: Path) -> None:
    clicks = Interactions.from_matrix(csr_array(np.array([[1.0, 1, 0], [1, 0, 1], [1, 1, 1]])))
    denoiser = ProRec(SVD(rank=1)).fit(clicks, refit=False)
    write_report(denoiser, tmp_path / "report.html", held_out=False)
    assert data_in(tmp_path / "report.html")["users"]["before"] is None
    assert "not measured" in (tmp_path / "report.html").read_text()


def test_weights_that_were_not_one_are_shown(tmp_path: Path) -> None:
    denoiser = ProRec(SVD(rank=1)).fit(csr_array(np.array([[0.5, 1, 0], [1, 0, 0.25], [1, 1, 1]])))
    write_report(denoiser, tmp_path / "report.html", held_out=False)
    before = unpacked(data_in(tmp_path / "report.html")["clicks"]["weightBefore"])
    assert np.array_equal(before, np.array([0.5, 1, 1, 0.25, 1, 1, 1], dtype=np.float32))


def test_half_a_character_is_no_obstacle(tmp_path: Path) -> None:
    clicks = Interactions.from_matrix(csr_array(np.ones((3, 2)))).with_item_info({0: "\ud800", 1: "fine"})
    write_report(ProRec(SVD(rank=1)).fit(clicks), tmp_path / "report.html", held_out=False)
    assert "fine" in data_in(tmp_path / "report.html")["items"]["name"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("report.pdf", "ends in .html"),
        ("nowhere/report.html", "does not exist"),
        ("folder.html", "this is a directory"),
    ],
)
def test_places_where_no_report_can_be(tmp_path: Path, path: str, words: str) -> None:
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(InputError, match=words):
        write_report(small(), tmp_path / path)


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with pytest.raises(NotFittedError, match="fit"):
        write_report(ProRec(SVD(rank=1)), path)
    with pytest.raises(InputError, match="is_noise must be 7 booleans"):
        write_report(small(), path, is_noise=[True])
    with pytest.raises(InputError, match="title must be text"):
        write_report(small(), path, title="")
    with pytest.raises(InputError, match="progress"):
        write_report(small(), path, progress=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="path must be"):
        write_report(small(), 3)  # type: ignore[arg-type]
    assert not path.exists()


def test_without_jinja(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "jinja2":
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    denoiser = small()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=r"pip install 'prorec\[report\]'"):
        write_report(denoiser, tmp_path / "report.html")


def test_an_old_report_survives_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InputError, match="no room"):
        write_report(small(), path, held_out=False)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_ids_are_text_because_javascript_has_no_large_numbers(tmp_path: Path) -> None:
    clicks = Interactions.from_matrix(csr_array(np.ones((3, 2))), users=[2**55, 2**55 + 1, 2**55 + 2], items=["a", "b"])
    write_report(ProRec(SVD(rank=1)).fit(clicks), tmp_path / "report.html", held_out=False)
    assert data_in(tmp_path / "report.html")["users"]["id"] == [str(2**55 + at) for at in range(3)]


def test_counts_of_a_user_are_of_all_their_clicks_also_where_the_page_has_not_all(large_page: Path) -> None:
    data = data_in(large_page)
    in_page = np.diff(unpacked(data["users"]["start"]))
    activity, flags = unpacked(data["users"]["activity"]), unpacked(data["users"]["flags"])
    whole = unpacked(data["users"]["whole"]).astype(bool)
    assert np.array_equal(in_page[whole], activity[whole])
    assert (in_page[~whole] < activity[~whole]).all()
    assert (~whole).any()
    assert flags.sum() >= unpacked(data["clicks"]["flagged"]).sum()
    assert (unpacked(data["users"]["below"]) <= activity).all()
    assert "flagged ones among them" in large_page.read_text()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"threshold": "none", "marginals": "uniform"}, "There is no threshold"),
        ({"threshold": 2, "lam": 0.25}, "62% at the threshold"),
        ({"transport": "emd"}, "transport plan (emd)"),
        ({"rounds": 3, "relabel_from": "original"}, "transport plan (relaxed)"),
    ],
)
def test_whatever_the_denoiser_was_told(tmp_path: Path, how: dict[str, Any], words: str) -> None:
    rng = np.random.default_rng(1)
    clicks = csr_array((rng.random((12, 9)) < 0.5).astype(float))
    write_report(ProRec(SVD(rank=2), **how).fit(clicks), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert words in page
    assert not re.search(r"\bnan\b", page.partition('<script type="application/json"')[0], re.IGNORECASE)


def test_a_gain_that_smaller_weights_have_too_is_called_that(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clicks = csr_array((rng.random((60, 40)) < 0.3).astype(float))  # nothing in it to find
    write_report(ProRec(SVD(rank=3)).fit(clicks), tmp_path / "report.html")
    assert "smaller weights alone gain" in (tmp_path / "report.html").read_text()


def test_nothing_flagged_says_what_would_be(cinema_denoiser: ProRec, tmp_path: Path) -> None:
    denoiser = copy(cinema_denoiser)
    denoiser.fdr = 0.001
    write_report(denoiser, tmp_path / "report.html", held_out=False)
    page = (tmp_path / "report.html").read_text()
    least = next(fdr for fdr in (0.2, 0.3, 0.4, 0.5) if denoiser.finder_.flag(fdr=fdr).any())
    assert f"with --fdr {least:g} there would be {denoiser.finder_.flag(fdr=least).sum():,}" in page
    assert not denoiser.flagged_.any()
    assert "users with most noise to be expected come first" in page


def test_very_long_names_are_cut(tmp_path: Path) -> None:
    clicks = Interactions.from_matrix(csr_array(np.ones((3, 2)))).with_item_info({0: "x" * 10_000}, {0: ["y" * 10_000]})
    write_report(ProRec(SVD(rank=1)).fit(clicks), tmp_path / "report.html", held_out=False)
    assert "x" * 1000 not in (tmp_path / "report.html").read_text()
    assert "y" * 1000 not in (tmp_path / "report.html").read_text()
