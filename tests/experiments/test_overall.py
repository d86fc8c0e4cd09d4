"""Table 2, on a data set small enough to be remade here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import prorec
from prorec import InputError, ProRec
from prorec.experiments.overall import METRICS, Overall, Row, checked_models, controls, rows_of
from prorec.experiments.pages import datasets_page, overall_page
from prorec.experiments.runs import Runs
from prorec.models import CDAE, NCE, SVD
from tests.cli.shell import run


@pytest.fixture(scope="module")
def clicks() -> prorec.Interactions:
    return prorec.make_cinema(200, 150, seed=3).interactions


ROWS = [
    Row("NCE", NCE(), {"rank": (4, 8)}),
    Row("NCE + ProRec", ProRec(NCE()), {"model.rank": (4, 8), "lam": (0.5, 0.75)}, "NCE"),
]


def test_rows_of_the_paper() -> None:
    names = [row.name for row in rows_of({"SVD": SVD(), "CDAE": CDAE()})]
    assert names == ["SVD", "CDAE", "CDAE + T-CE", "CDAE + R-CE", "SVD + ProRec", "CDAE + ProRec"]
    assert checked_models(["NCE"]) == {"NCE": NCE()}
    with pytest.raises(InputError, match="models must be among SVD, NCE, CDAE, WRMF, VAE; got nce"):
        checked_models(["nce"])


def test_every_row_is_tuned_on_the_validation_part_and_judged_on_the_test_part(
    clicks: prorec.Interactions, tmp_path: Path
) -> None:
    overall = Overall(clicks, "small", tmp_path, trials=3, n_seeds=2)
    results = overall.table(ROWS)
    assert list(results) == [
        "NCE",
        "NCE + ProRec",
        "NCE + ProRec, control: weights scaled",
        "NCE + ProRec, control: weights shuffled",
        "NCE + ProRec, control: weights by popularity",
        "NCE + ProRec, control: regulariser doubled",
    ]
    parts = prorec.split_by_user(clicks, (0.5, 0.2, 0.3), seed=0)
    by_rank = {
        rank: prorec.evaluate(NCE(rank=rank).fit(parts.train), parts.valid, k=5, metrics="paper").mean["ndcg@5"]
        for rank in (4, 8)
    }
    best = max(by_rank, key=lambda rank: by_rank[rank])
    assert results["NCE"].parameters == {"rank": best}
    fitted = NCE(rank=best).fit(parts.train_and_valid)
    wanted = prorec.evaluate(fitted, parts.test, k=5, metrics="paper")
    for metric in METRICS:
        np.testing.assert_allclose(results["NCE"].per_user[metric][0], wanted.per_user[metric])
    gain = (results["NCE + ProRec"].per_user["ndcg@5"] - results["NCE"].per_user["ndcg@5"]).mean()
    assert gain != 0
    page = overall_page("small", ROWS, results)
    assert f"rank {best}" in page
    assert f"{results['NCE'].mean('ndcg@5'):.4f}".removeprefix("0") in page


def test_what_was_run_is_not_run_again(clicks: prorec.Interactions, tmp_path: Path) -> None:
    first = Overall(clicks, "small", tmp_path, trials=2, n_seeds=1).table(ROWS[:1])
    kept = sorted(path.name for path in (tmp_path / "runs").iterdir())
    stamps = [(tmp_path / "runs" / name).stat().st_mtime_ns for name in kept]
    again = Overall(clicks, "small", tmp_path, trials=2, n_seeds=1).table(ROWS[:1])
    assert again["NCE"].seconds == first["NCE"].seconds
    assert [(tmp_path / "runs" / name).stat().st_mtime_ns for name in kept] == stamps


def test_controls_have_weights_of_the_same_size(clicks: prorec.Interactions) -> None:
    denoiser = ProRec(NCE(rank=8))
    wanted = np.sort(denoiser.fit(clicks).weights_.data)
    fitted = {name: fit(clicks) for name, fit in controls(ProRec(NCE(rank=8))).items()}
    fitted = {name: getattr(model, "model_", model) for name, model in fitted.items()}
    for name in ("weights shuffled", "weights by popularity"):
        np.testing.assert_array_equal(np.sort(fitted[name].interactions_.matrix.data), wanted)
    scaled = fitted["weights scaled"].interactions_.matrix.data
    assert np.ptp(scaled) == 0
    assert scaled.mean() == pytest.approx(wanted.mean(), rel=1e-6)
    by_popularity = fitted["weights by popularity"].interactions_
    popularity = by_popularity.popularity[by_popularity.item_codes]
    assert np.corrcoef(popularity, by_popularity.matrix.data)[0, 1] > 0.1
    assert fitted["regulariser doubled"].regularization == 2000.0  # type: ignore[attr-defined]
    assert (fitted["regulariser doubled"].interactions_.matrix.data == 1).all()


def test_runs_know_what_they_are_of(tmp_path: Path) -> None:
    runs, calls = Runs(tmp_path), []

    def work() -> dict[str, int]:
        calls.append(1)
        return {"value": len(calls)}

    assert runs.get({"seed": 1}, work) == runs.get({"seed": 1}, work) == {"value": 1}
    assert runs.get({"seed": 2}, work) == {"value": 2}
    for path in tmp_path.iterdir():
        assert json.loads(path.read_text())["of"]["version"] == prorec.__version__
        path.write_text("{")
    with pytest.raises(InputError, match="not a result of a run; remove it"):
        runs.get({"seed": 1}, work)


def test_table_1_beside_the_paper(clicks: prorec.Interactions) -> None:
    page = datasets_page({"amusic": clicks})
    assert "| amusic | 200 | 150 |" in page
    assert "1,776 × 12,929, 46,087, 0.9980" in page
    assert "not to be had here" in page


@pytest.mark.real_data("atoy")
def test_the_data_sets_are_those_of_the_paper(tmp_path: Path) -> None:
    done = run("reproduce", "datasets", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / "datasets.md").read_text().count("the same") == 3


def test_the_command(tmp_path: Path, no_data: Path) -> None:
    words = ("reproduce", "overall", "--dataset", "cinema", "--models", "SVD", "--trials", "1", "--seeds", "1")
    done = run(*words, "--out", str(tmp_path / "out"), "--quiet")
    assert done.returncode == 0, done.stderr
    assert "| SVD + ProRec, control: weights scaled |" in (tmp_path / "out" / "overall-cinema.md").read_text()
    for wrong, problem in (
        (("reproduce", "everything", "--out", str(tmp_path / "x")), "name must be one of 'datasets', 'overall'"),
        ((*words[:-1], "0", "--out", str(tmp_path / "x")), "seeds must be a whole number of at least 1"),
        ((*words[:4], "--models", "nce", "--out", str(tmp_path / "x")), "models must be among"),
        (("reproduce", "overall", "--dataset", "nope", "--out", str(tmp_path / "x")), "no data set is called 'nope'"),
        (("reproduce", "overall", "--out", "/proc/x"), "nothing can be written into /proc"),
    ):
        failed = run(*wrong)
        assert failed.returncode == 2, failed.stderr
        assert problem in failed.stderr
