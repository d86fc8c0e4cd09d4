"""Tuning tries the expected combinations, chooses by the validation part, and repeats no trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prorec
from prorec import InputError, MissingExtraError
from prorec._core import sharing
from prorec._core.parameters import parameters_of
from prorec._core.sharing import share_results
from prorec.evaluation.parameter_search import Grid, SearchMethod
from prorec.evaluation.tuning import PAPER_GRIDS
from prorec.models import EASE, NCE, SVD, Model, Popularity, svd
from prorec.models._cpu_matrix import CpuMatrix
from tests.models.helpers import clicks

PARTS = prorec.split_by_user(clicks(), (0.5, 0.2, 0.3), seed=0)
GRID: Grid = {"rank": [1, 2, 5], "regularization": [0.1, 10.0]}


def test_the_grid_and_its_best() -> None:
    result = prorec.tune(NCE(), PARTS.train, PARTS.valid, GRID, metric="ndcg@5")
    assert [trial["parameters"] for trial in result.trials] == [
        {"rank": rank, "regularization": ridge} for rank in (1, 2, 5) for ridge in (0.1, 10.0)
    ]
    for trial in result.trials:
        model = NCE(**trial["parameters"]).fit(PARTS.train)
        assert trial["value"] == prorec.evaluate(model, PARTS.valid, k=5).mean["ndcg@5"]
    assert result.best_value == max(trial["value"] or 0 for trial in result.trials)
    assert result.best_model in [
        NCE(**trial["parameters"]) for trial in result.trials if trial["value"] == result.best_value
    ]
    assert not hasattr(result.best_model, "arrays_")
    table = result.to_table("pandas")
    assert list(table.columns) == ["rank", "regularization", "ndcg@5", "seconds", "error"]
    assert table["ndcg@5"].is_monotonic_decreasing
    assert "6 trials" in repr(result)


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_samplers_draw_from_the_grid_by_the_seed(search: SearchMethod) -> None:
    grid: Grid = {"rank": [1, 2, 3, 4], "regularization": [0.1, 1.0, 10.0]}
    first, again, other = (
        prorec.tune(NCE(), PARTS.train, PARTS.valid, grid, search=search, trials=8, seed=seed) for seed in (0, 0, 1)
    )
    tried = [[tuple(trial["parameters"].values()) for trial in result.trials] for result in (first, again, other)]
    assert len(tried[0]) == 8
    assert tried[0] == tried[1] != tried[2]
    assert {rank for rank, _ in tried[0]} <= {1, 2, 3, 4}


def test_trials_are_kept_and_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []
    fit = SVD.fit

    def count_fits(self: SVD, *arguments: Any) -> Model:
        fits.append(self.rank)
        if len(fits) == 3:
            raise KeyboardInterrupt
        return fit(self, *arguments)

    monkeypatch.setattr(SVD, "fit", count_fits)
    grid = {"rank": [1, 2, 3, 4]}
    with pytest.raises(KeyboardInterrupt):
        prorec.tune(SVD(), PARTS.train, PARTS.valid, grid, folder=tmp_path)
    resumed = prorec.tune(SVD(), PARTS.train, PARTS.valid, grid, folder=tmp_path)
    assert fits == [1, 2, 3, 3, 4]
    monkeypatch.undo()
    whole = prorec.tune(SVD(), PARTS.train, PARTS.valid, grid)
    assert [trial["value"] for trial in resumed.trials] == [trial["value"] for trial in whole.trials]
    # Trials on other parts are kept in another file.
    prorec.tune(SVD(), PARTS.train, PARTS.test, grid, folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    for content in ("{", "5", "[1]", "[{}]", "[" * 100_000):
        for path in tmp_path.iterdir():
            path.write_text(content)
        with pytest.raises(InputError, match="not a file of trials"):
            prorec.tune(SVD(), PARTS.train, PARTS.valid, grid, folder=tmp_path)


def test_a_failed_trial_is_recorded() -> None:
    result = prorec.tune(SVD(), PARTS.train, PARTS.valid, {"rank": [2, 1000]})
    assert result.trials[1]["value"] is None
    assert "rank must be" in str(result.trials[1]["error"])
    assert result.best_model == SVD(rank=2)
    assert result.to_table("pandas")["error"].isna().tolist() == [True, False]
    with pytest.raises(InputError, match="the first trial failed: rank must be"):
        prorec.tune(SVD(), PARTS.train, PARTS.valid, {"rank": [1000]})


def test_values_of_several_types(tmp_path: Path) -> None:
    for _ in range(2):
        result = prorec.tune(SVD(), PARTS.train, PARTS.valid, {"rank": [2.0, np.int64(2), 2]}, folder=tmp_path)
        assert [trial["value"] is None for trial in result.trials] == [True, False, False]
    assert prorec.tune(SVD(), PARTS.train, PARTS.valid, {"rank": [2, "a"]}).to_table()["rank"].to_pylist() == ["2", "a"]


def test_defaults() -> None:
    assert set(PAPER_GRIDS) == {*Model.registry, "ProRec"}
    for name, grid in PAPER_GRIDS.items():
        for parameter in grid:
            assert parameter in [each.name for each in parameters_of({**Model.registry, "ProRec": prorec.ProRec}[name])]
    assert len(prorec.tune(EASE(), PARTS.train, PARTS.valid).trials) == 6
    assert len(prorec.tune(Popularity(), PARTS.train, PARTS.valid).trials) == 1


def test_progress_is_reported_after_each_trial() -> None:
    calls: list[tuple[str, int, int]] = []

    def record(task: str, done: int, total: int) -> None:
        calls.append((task, done, total))

    prorec.tune(SVD(), PARTS.train, PARTS.valid, {"rank": [1, 2]}, progress=record)
    assert calls == [("Tuning", 1, 2), ("Tuning", 2, 2)]
    calls.clear()
    grid: Grid = {"rank": [1, 2, 5], "regularization": [0.1, 10.0, 100.0]}
    result = prorec.tune(NCE(2, 10.0), PARTS.train, PARTS.valid, grid, search="coordinate", progress=record)
    assert len(result.trials) < 9
    assert calls[-1] == ("Tuning", 9, 9), "a search that ends early reports that all is done"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": {"depth": [1]}}, "parameters of SVD: rank, .*seed.*; got 'depth'"),
        ({"grid": {"rank": []}}, "must be a list of at least one value"),
        ({"grid": [1]}, "grid must be a mapping"),
        ({"search": "luck"}, "search must be one of"),
        ({"search": "random"}, "trials must be"),
        ({"metric": "ndcg"}, "metric must be .*'ndcg@10'; got 'ndcg'"),
        ({"metric": "ndcg@0"}, "metric must be .*; got 'ndcg@0'"),
        ({"metric": "joy@3"}, "metric must be one of .*; got 'joy@3'"),
        ({"metric": None}, "metric must be .*; got None"),
        ({"metrics": "mine"}, "metrics must be one of .*, got 'mine'"),
        ({"progress": 3}, "progress must be a function"),
        ({"valid": None}, "valid must be Interactions; got NoneType"),
        ({"seed": -1}, "seed must be"),
        ({"model": "svd"}, r"model must be one of prorec\.models.*; got str"),
    ],
)
def test_bad_arguments(changes: dict[str, Any], message: str) -> None:
    arguments = {"model": SVD(), "train": PARTS.train, "valid": PARTS.valid, "grid": {"rank": [1]}, **changes}
    with pytest.raises(InputError, match=message):
        prorec.tune(**arguments)


def test_without_optuna(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'optuna"):
        prorec.tune(SVD(), PARTS.train, PARTS.valid, {"rank": [1]}, search="tpe", trials=2)


def test_scores_come_from_the_validation_part_only() -> None:
    result = prorec.tune(SVD(), PARTS.train, PARTS.valid, {"rank": [1, 2, 3, 4, 5]}, metric="recall@5")
    assert np.isfinite(result.best_value)
    values = [trial["value"] for trial in result.trials]
    assert len(set(values)) > 1


def test_one_coordinate_after_the_other(tmp_path: Path) -> None:
    """The search agrees with the values of the whole grid, computed beforehand."""
    grid: Grid = {"rank": [1, 2, 5, 8], "regularization": [0.1, 10.0, 1000.0]}
    everything = prorec.tune(NCE(), PARTS.train, PARTS.valid, grid, metric="ndcg@5")
    values = {tuple(trial["parameters"].values()): trial["value"] for trial in everything.trials}
    result = prorec.tune(
        NCE(rank=2, regularization=7.0), PARTS.train, PARTS.valid, grid, search="coordinate", metric="ndcg@5"
    )
    tried = [tuple(trial["parameters"].values()) for trial in result.trials]
    assert tried[0] == (2, 10.0)  # its own rank, and the middle ridge, for 7 is not in the grid
    assert set(tried[:4]) == {(rank, 10.0) for rank in grid["rank"]}
    assert len(set(tried)) == len(tried)
    rank, ridge = max(tried, key=lambda each: values[each] or 0)
    assert result.best_model == NCE(rank=rank, regularization=ridge)
    # No change of a single parameter is better.
    assert all((values[rank, other] or 0) <= result.best_value for other in grid["regularization"])
    assert all((values[other, ridge] or 0) <= result.best_value for other in grid["rank"])
    few = prorec.tune(
        NCE(2, 10.0), PARTS.train, PARTS.valid, grid, search="coordinate", trials=3, metric="ndcg@5", folder=tmp_path
    )
    assert [tuple(trial["parameters"].values()) for trial in few.trials] == [(2, 10.0), (1, 10.0), (5, 10.0)]


def test_parameters_that_are_no_numbers_are_kept(tmp_path: Path) -> None:
    grid = {"threshold": ["personal", 3, 5]}
    first, again = (
        prorec.tune(prorec.ProRec(SVD(rank=2), noise_method="plan"), PARTS.train, PARTS.valid, grid, folder=tmp_path)
        for _ in range(2)
    )
    assert first.best_model == again.best_model
    assert [trial["parameters"] for trial in again.trials] == [{"threshold": each} for each in grid["threshold"]]
    assert first.trials == again.trials  # seconds and all


def test_trials_share_decompositions(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one decomposition per rank, whatever the ridge, and the values are those of separate fits."""
    done = []
    decompose = svd._decompose

    def count_decompositions(matrix: Any, rank: int, seed: int) -> svd.Decomposition:
        done.append(rank)
        return decompose(matrix, rank, seed)

    monkeypatch.setattr(svd, "_decompose", count_decompositions)
    grid: Grid = {"rank": [2, 5], "regularization": [0.1, 10.0, 1000.0]}
    result = prorec.tune(NCE(), PARTS.train, PARTS.valid, grid, metric="ndcg@5")
    assert done == [2, 5]
    for trial in result.trials:
        alone = NCE(**trial["parameters"]).fit(PARTS.train)  # outside of tuning nothing is shared
        assert trial["value"] == prorec.evaluate(alone, PARTS.valid, k=5).mean["ndcg@5"]
    assert len(done) == 2 + 6


def test_shared_decompositions_are_bounded_and_copied() -> None:
    matrix = PARTS.train.matrix
    with share_results():
        values, vectors = svd.leading_right_vectors(matrix, 3, 0)
        vectors[:] = 7
        again, same = svd.leading_right_vectors(matrix, 3, 0)
        np.testing.assert_array_equal(again, values)
        np.testing.assert_array_equal(same, svd._decompose(CpuMatrix(matrix), 3, 0)[1])
        for seed in range(20):
            svd.leading_right_vectors(matrix, 2, seed)
        shared = sharing._shared.get()
        assert shared is not None
        assert len(shared) == sharing.MAX_SHARED
        with share_results():
            assert sharing._shared.get() is shared, "a context inside another one shares its results"
    assert sharing._shared.get() is None
