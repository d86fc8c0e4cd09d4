"""Table 2 on a small data set: how rows are tuned, evaluated and compared with controls."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prorec
from prorec import InputError, ProRec
from prorec.models import CDAE, NCE, SVD
from reproduction.overall_results import CONTROL, add_denoiser, make_controls, make_rows, run_overall
from reproduction.protocol import METRICS, Parts, Protocol, Result, Row
from reproduction.result_pages import datasets_page, overall_page
from reproduction.run_cache import ExperimentCache, ResultCache, code_digest

BASE = Row("NCE", NCE(), {"rank": (4, 8)})
ROWS = [BASE, add_denoiser(BASE, grid={"lam": (0.5, 0.75)})]


@pytest.fixture(scope="module")
def clicks() -> prorec.Interactions:
    return prorec.make_cinema(200, 150, seed=3).interactions


def test_rows_of_the_paper() -> None:
    rows = make_rows({"SVD": SVD(), "CDAE": CDAE()})
    assert [row.name for row in rows] == [
        "SVD",
        "CDAE",
        "CDAE + T-CE",
        "CDAE + R-CE",
        "SVD + ProRec",
        "CDAE + ProRec",
    ]
    assert [row.base.name if row.base else None for row in rows] == [None, None, "CDAE", "CDAE", "SVD", "CDAE"]
    assert rows[2].model == CDAE(loss="t-ce")
    assert set(rows[4].grid) == {"model__rank", "lam", "gamma"}


def _mean_of_four(model: NCE, parts: prorec.Split, seed: int) -> float:
    """Return the mean that selects a finalist: over its validation part and three more divisions."""

    def ndcg(train: prorec.Interactions, valid: prorec.Interactions) -> float:
        return prorec.evaluate(model.fit(train), valid, k=5, metrics="paper").mean["ndcg@5"]

    values = [ndcg(parts.train, parts.valid)]
    known = parts.train_and_valid
    share = len(parts.valid) / len(known)
    for again in range(3):
        inner = prorec.split_by_user(known, (1 - share, share), seed=3 * seed + again)
        values.append(ndcg(inner.train, inner.test))
    return float(np.mean(values))


def test_the_luckiest_trial_is_not_taken_for_the_best(clicks: prorec.Interactions, tmp_path: Path) -> None:
    """On some split, the best on one validation part is not the best on four; the latter is chosen."""
    ranks = (20, 25, 30)
    row = Row("NCE", NCE(), {"rank": ranks})
    protocol = Protocol(clicks, "small", ExperimentCache(tmp_path), n_trials=3, n_seeds=1)
    n_changed = 0
    for seed in range(6):
        parts = prorec.split_by_user(clicks, (0.5, 0.2, 0.3), seed=seed)
        means = {rank: _mean_of_four(NCE(rank=rank), parts, seed) for rank in ranks}
        best = max(means, key=lambda rank: means[rank])
        assert protocol.tune(row, seed) == (NCE(rank=best), {"rank": best})
        single = {
            rank: prorec.evaluate(NCE(rank=rank).fit(parts.train), parts.valid, k=5, metrics="paper").mean["ndcg@5"]
            for rank in ranks
        }
        n_changed += max(single, key=lambda rank: single[rank]) != best
    assert n_changed


def test_other_parts_of_the_same_data_set_are_other_results(clicks: prorec.Interactions, tmp_path: Path) -> None:
    def halves(clicks: prorec.Interactions, seed: int) -> Parts:
        split = prorec.split_by_user(clicks, (0.4, 0.1, 0.5), seed=seed)
        return Parts(split.train, split.valid, split.train_and_valid, split.test)

    def made(folder: Path) -> list[Any]:
        first = Protocol(clicks, "small", ExperimentCache(folder / "a"), n_trials=2, n_seeds=1)
        second = Protocol(clicks, "small", ExperimentCache(folder / "b"), n_trials=2, n_seeds=1, make_parts=halves)
        model = NCE(rank=4)
        return [each.evaluate("x", 0, model, replace(model).fit)["ndcg@5"] for each in (first, second)] + [
            each.tune(BASE, 0) for each in (first, second)
        ]

    apart = made(tmp_path)
    (tmp_path / "together").mkdir()
    for name in "ab":
        (tmp_path / "together" / name).symlink_to(tmp_path / "together")
    assert made(tmp_path / "together") == apart


def test_every_split_is_tuned_on_its_own_validation_part_and_judged_by_its_own_test_part(
    clicks: prorec.Interactions, tmp_path: Path
) -> None:
    results = run_overall(Protocol(clicks, "small", ExperimentCache(tmp_path), n_trials=3, n_seeds=2), ROWS)
    assert list(results) == [
        "NCE",
        "NCE + ProRec",
        *(
            f"NCE + ProRec{CONTROL}{name}"
            for name in (
                "not denoised",
                "weights scaled",
                "weights shuffled",
                "weights by popularity",
                "user means",
                "regulariser doubled",
            )
        ),
    ]
    for seed in (0, 1):
        parts = prorec.split_by_user(clicks, (0.5, 0.2, 0.3), seed=seed)
        best = max((4, 8), key=lambda rank: _mean_of_four(NCE(rank=rank), parts, seed))
        assert results["NCE"].parameters[seed] == {"rank": best}
        fitted = NCE(rank=best).fit(parts.train_and_valid)
        wanted = prorec.evaluate(fitted, parts.test, k=5, metrics="paper")
        for metric in METRICS:
            np.testing.assert_allclose(results["NCE"].per_user[metric][seed], wanted.per_user[metric])
        chosen = results["NCE + ProRec"].parameters[seed]
        refitted = ProRec(NCE(rank=chosen["model__rank"]), lam=chosen["lam"], noise_method="plan").fit(
            parts.train_and_valid
        )
        wanted = prorec.evaluate(refitted, parts.test, k=5, metrics="paper")
        np.testing.assert_allclose(results["NCE + ProRec"].per_user["ndcg@5"][seed], wanted.per_user["ndcg@5"])
    page = overall_page("small", ROWS, results)
    for name in ("NCE", "NCE + ProRec"):
        assert f"| {name} | {results[name].mean('ndcg@5'):.4f}".replace("0.", ".") in page
    gain = results["NCE + ProRec"].mean("ndcg@5") / results["NCE"].mean("ndcg@5") - 1
    assert f"| NCE + ProRec |  | {gain:+.1%}" in page
    assert "NCE: rank" in page


def test_a_row_made_from_another_begins_with_what_was_chosen_there(clicks: prorec.Interactions, tmp_path: Path) -> None:
    protocol = Protocol(clicks, "small", ExperimentCache(tmp_path), n_trials=1, n_seeds=1)
    base = Row("NCE", NCE(), {"rank": (8, 4, 2)})  # one trial: the middle of the grid
    best, parameters = protocol.tune(add_denoiser(base, grid={"lam": (0.25, 0.75, 0.5)}), 0)
    assert parameters == {"model__rank": 4, "lam": 0.5}
    assert best == ProRec(NCE(rank=4), lam=0.5, noise_method="plan")


def test_what_was_run_is_not_run_again(clicks: prorec.Interactions, tmp_path: Path) -> None:
    def made() -> dict[str, Result]:
        return run_overall(Protocol(clicks, "small", ExperimentCache(tmp_path), n_trials=2, n_seeds=1), ROWS[:1])

    first = made()
    kept = sorted((tmp_path / "runs").iterdir())
    stamps = [path.stat().st_mtime_ns for path in kept]
    assert made()["NCE"].seconds == first["NCE"].seconds
    assert [path.stat().st_mtime_ns for path in kept] == stamps
    kept[0].unlink()  # as after a kill
    np.testing.assert_array_equal(made()["NCE"].per_user["ndcg@5"], first["NCE"].per_user["ndcg@5"])


def test_progress_comes_to_its_end(clicks: prorec.Interactions, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    run_overall(
        Protocol(clicks, "small", ExperimentCache(tmp_path), n_trials=1, n_seeds=2),
        ROWS[:1],
        progress=lambda what, done, total: seen.append((what, done, total)),
    )
    assert seen == [("Table 2, small", done, 2) for done in (0, 1, 2)]


def test_controls_have_weights_of_the_same_size(clicks: prorec.Interactions) -> None:
    denoiser = ProRec(NCE(rank=8), noise_method="plan")
    wanted = np.sort(denoiser.fit(clicks).weights_.data)
    fitted = {name: fit(clicks) for name, fit in make_controls(ProRec(NCE(rank=8), noise_method="plan")).items()}
    fitted = {name: getattr(model, "model_", model) for name, model in fitted.items()}
    for name in ("weights shuffled", "weights by popularity"):
        np.testing.assert_array_equal(np.sort(fitted[name].interactions_.matrix.data), wanted)
    scaled = fitted["weights scaled"].interactions_.matrix.data
    assert np.ptp(scaled) == 0
    assert scaled.mean() == pytest.approx(wanted.mean(), rel=1e-6)
    means = fitted["user means"].interactions_
    for user in np.flatnonzero(means.activity):
        own = means.matrix[[user]].data
        assert np.ptp(own) == 0
    assert np.ptp(means.matrix.data) > 0
    assert means.matrix.data.mean() == pytest.approx(wanted.mean(), rel=1e-5)
    by_popularity = fitted["weights by popularity"].interactions_
    popularity = by_popularity.popularity[by_popularity.item_codes]
    assert np.corrcoef(popularity, by_popularity.matrix.data)[0, 1] > 0.1
    assert fitted["regulariser doubled"].regularization == 2000.0
    assert (fitted["regulariser doubled"].interactions_.matrix.data == 1).all()


def _result(*by_split: list[float]) -> Result:
    return Result(({},), {metric: np.array(by_split) for metric in METRICS}, 1.0)


def test_intervals_gains_and_stars() -> None:
    base = _result([0.1, 0.2, 0.3], [0.2, 0.3, 0.4])
    assert base.mean("ndcg@5") == pytest.approx(0.25)
    # two means, .2 and .3: t = 12.706 with one degree of freedom, times .0707/√2
    assert base.half_interval("ndcg@5") == pytest.approx(12.706 * 0.05, rel=1e-4)
    assert np.isnan(_result([0.1, 0.2]).half_interval("ndcg@5"))
    assert _result([0.2, 0.4, 0.6], [0.4, 0.6, 0.8]).gain(base, "ndcg@5") == pytest.approx(1.0)
    assert np.isnan(base.gain(_result([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]), "ndcg@5"))
    better = _result([0.2, 0.3, 0.4001], [0.3, 0.4, 0.5001])
    assert better.p_against(base, "ndcg@5") < 1e-6
    rows = [Row("A", NCE(), {}), add_denoiser(Row("A", NCE(), {}))]
    page = overall_page("small", rows, {"A": base, "A + ProRec": better})
    assert "+40.0%*" in page
    assert "with p < .01, A gained, none lost, and for none the difference may be luck" in page
    lost = overall_page("small", rows, {"A": better, "A + ProRec": base})
    assert "none gained, A lost" in lost


def test_runs_know_what_they_are_of(tmp_path: Path) -> None:
    runs, calls = ResultCache(tmp_path), []

    def work() -> dict[str, int]:
        calls.append(1)
        return {"value": len(calls)}

    assert runs.get({"seed": 1}, work) == runs.get({"seed": 1}, work) == {"value": 1}
    assert runs.get({"seed": 2}, work) == {"value": 2}
    (machine,) = runs.machines
    assert "cores" in machine
    assert runs.machines == {machine: 3}  # asked for three times
    for path in tmp_path.iterdir():
        assert json.loads(path.read_text())["configuration"]["code"] == code_digest()
        path.write_text("{")
    with pytest.raises(InputError, match="remove it"):
        runs.get({"seed": 1}, work)


def test_table_1_beside_the_paper(clicks: prorec.Interactions) -> None:
    page = datasets_page({"amusic": clicks}, dict.fromkeys(("ml-100k", "atoy", "yahoo-r1"), "no licence"))
    assert "| amusic | 200 | 150 |" in page
    assert "1,776 × 12,929, 46,087, 0.9980" in page
    assert page.count("not here: no licence") == 3
