"""The arena in small: its protocol, its cache, and its tables by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prorec
from prorec import InputError
from prorec.evaluation.significance import paired_t
from reproduction import arena, recovery
from reproduction.arena import Cell, Look, as_model, draw_trials, tune
from reproduction.arena_methods import METHODS, Fitted, Method, Settings, shared_grid
from reproduction.arena_tables import compare, describe_controls, describe_winners, make_tables

RUN: dict[str, Any] = {"trials": 2, "seeds": 1, "rank": 4, "epochs": 3}


@pytest.fixture(autouse=True)
def cinema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace each log by a small cinema."""
    monkeypatch.setattr(recovery, "load_log", lambda _: prorec.make_cinema(80, 60, seed=1).interactions)


@pytest.fixture
def finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, str]:
    """Results of some methods, and what was printed."""
    arena.main("cinema", "none,uniform", "erm,t-ce,noise removed", **RUN, out=tmp_path)
    return tmp_path, capsys.readouterr().out


# ── the protocol ────────────────────────────────────────────────────────────────────────────────────


def test_each_cell_has_its_results(finished: tuple[Path, str]) -> None:
    folder, printed = finished
    records = {path.name: json.loads(path.read_text()) for path in folder.glob("arena-*.json")}
    assert set(records) == {
        *(f"arena-cinema-{kind}-0-{method}.json" for kind in ("none", "uniform") for method in ("erm", "t-ce")),
        "arena-cinema-uniform-0-noise-removed.json",
    }
    t_ce = records["arena-cinema-uniform-0-t-ce.json"]
    assert t_ce["parameters"]["drop_rate"] in METHODS["t-ce"].grid["drop_rate"]
    assert 0 < t_ce["auroc"] < 1
    assert "auroc" not in records["arena-cinema-none-0-t-ce.json"]
    assert "auroc" not in records["arena-cinema-uniform-0-noise-removed.json"]
    assert len({len(record["ndcg@10"]) for record in records.values()}) == 1
    assert "### cinema, noise: uniform" in printed


def test_finished_cells_are_not_run_again(
    finished: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    folder, printed = finished
    monkeypatch.setattr(arena, "run_cell", None)
    arena.main("cinema", "none,uniform", "erm,t-ce,noise removed", **RUN, out=folder)
    assert capsys.readouterr().out == printed
    with pytest.raises(
        InputError, match=r"same rank, epochs and trials.*'trials': 2.*'trials': 1.*Choose another folder"
    ):
        arena.main("cinema", "none", "erm", **RUN | {"trials": 1}, out=folder)


def test_weights_of_the_noise_finder_and_of_its_controls(tmp_path: Path) -> None:
    split = recovery.Split("cinema", "uniform", 0)
    part = split.make_parts()[0]["outer"]
    found = np.random.default_rng(0).random(len(part.clicks), dtype=np.float32)

    np.savez(recovery.weights_path(split, "outer", recovery.DENOISED, tmp_path), weights=found)
    scaled, denoised, removed, plain = (
        arena._weigh(METHODS[name], split, "outer", part, tmp_path).matrix.data
        for name in ("scaled", "prorec", "noise removed", "erm")
    )
    np.testing.assert_array_equal(denoised, found)
    np.testing.assert_allclose(scaled, found.mean(), rtol=1e-5)
    np.testing.assert_array_equal(removed == 0, part.is_noise)
    assert (plain == 1).all()


def test_all_methods_draw_the_same_shared_parameters() -> None:
    shared = shared_grid(40)
    drawn = {name: draw_trials(shared, method.grid, 10, 3) for name, method in METHODS.items()}
    for name, trials in drawn.items():
        common = [{key: trial[key] for key in shared} for trial in trials]
        assert common == drawn["erm"]
        assert len({tuple(each.values()) for each in common}) == 10, "drawn without repeats"
        assert all(trial[key] in values for trial in trials for key, values in METHODS[name].grid.items())
    assert draw_trials(shared, {}, 10, 4) != drawn["erm"]


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.weights is None])
def test_each_method_takes_the_parameters_of_its_grid(name: str) -> None:
    clicks = prorec.make_cinema(60, 50, seed=1).interactions
    (parameters,) = draw_trials(shared_grid(7), METHODS[name].grid, 1, 0)
    fitted = METHODS[name].fit(clicks, parameters, Settings(4, 7))
    assert fitted.users.shape == (60, 4)
    assert fitted.items.shape == (50, 4)
    assert np.isfinite(fitted.noise_scores).all()
    assert np.ptp(fitted.noise_scores) > 0


def test_the_best_trial_on_the_validation_part_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = prorec.split_by_user(prorec.make_cinema(60, 50, seed=1).interactions, (0.7, 0.3), seed=0)
    monkeypatch.setattr(Method, "fit", lambda self, clicks, parameters, settings, watch=None: parameters)
    value = {0.001: 0.2, 0.003: 0.4, 0.01: 0.1, 0.03: 0.3}
    monkeypatch.setattr(arena, "_measure", lambda fitted, clicks, valid: value[fitted["learning_rate"]])
    parameters, best = tune(METHODS["erm"], parts.train, parts.test, 48, Settings(epochs=8))
    assert (parameters["learning_rate"], best) == (0.003, 0.4)


def test_early_stopping_takes_the_best_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = prorec.split_by_user(prorec.make_cinema(60, 50, seed=1).interactions, (0.7, 0.3), seed=0)
    values = iter([0.1, 0.3, 0.2, 0.25, 0.28, 0.1, 0.2])
    monkeypatch.setattr(arena, "_measure", lambda fitted, clicks, valid: next(values))
    look = Look(parts.train, parts.test, 40)  # it looks at every second epoch
    users, items = np.zeros((60, 2), np.float32), np.zeros((50, 2), np.float32)
    stops = [look(epoch, users, items) for epoch in range(1, 15)]
    assert stops == [False] * 13 + [True]
    assert (look.best, look.best_epoch) == (0.3, 4)


def test_plain_training_with_early_stopping(tmp_path: Path) -> None:
    record = arena.run_cell(Cell("cinema", "none", 0, "erm-stopped"), 1, Settings(4, 5), tmp_path)
    assert 1 <= record["parameters"]["epochs"] <= 5


def test_given_factors_recommend_no_click() -> None:
    clicks = prorec.make_cinema(60, 50, seed=1).interactions
    rng = np.random.default_rng(0)
    users, items = (rng.normal(size=(n, 3)).astype(np.float32) for n in clicks.matrix.shape)
    model = as_model(Fitted(users, items, np.zeros(len(clicks))), clicks)
    recommended = model.recommend(clicks.users, k=5).item_positions
    scores = np.where(clicks.matrix.toarray() > 0, -np.inf, users @ items.T)
    np.testing.assert_array_equal(recommended, np.argsort(-scores, axis=1)[:, :5])


def test_the_noise_finder_runs_once_for_all_that_need_its_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = []

    def store(split: recovery.Split, part: str, row: str, out: Path) -> None:
        stored.append((split, part, row))

    monkeypatch.setattr(arena, "store_weights", store)
    monkeypatch.setattr(arena, "load_or_run", lambda cell, *_: make_record(cell.method, cell.seed, [0.1, 0.2]))
    arena.main("cinema", "swap", "erm,prorec,scaled", **RUN, out=tmp_path)
    split = recovery.Split("cinema", "swap", 0)
    assert stored == [(split, part, recovery.DENOISED) for part in ("inner", "outer")]
    stored.clear()
    arena.main("cinema", "swap", "erm,noise removed", **RUN, out=tmp_path)
    assert not stored


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": "erm,magic"}, "methods must be one of"),
        ({"kinds": "pink"}, "kinds must be one of"),
        ({"trials": 49}, "the number of combinations that all methods share, 48"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
    ],
)
def test_bad_input(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        arena.main(**{"logs": "cinema", "kinds": "none", "methods": "erm", **RUN, **change}, out=tmp_path)


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────


def make_record(method: str, seed: int, ndcg: list[float], auroc: float = 0.5) -> dict[str, Any]:
    found = {"auroc": auroc, "ap": auroc / 2}
    return {"log": "shop", "kind": "swap", "seed": seed, "method": method, "ndcg@10": ndcg, "recall@20": ndcg} | found


def test_tables_by_hand() -> None:
    gains = np.array([0.1, 0.12, 0.08, 0.1])
    plain = np.array([0.4, 0.5, 0.3, 0.4])
    records = []
    for seed, shift in enumerate((-0.02, 0.02)):
        records += [
            make_record("erm", seed, (plain + shift).tolist()),
            make_record("erm-bce", seed, (plain + 2 * gains + shift).tolist()),
            make_record("t-ce", seed, (plain + gains + shift).tolist(), 0.7 + shift),
            make_record("pld", seed, (plain + shift - [0.01, -0.01, 0.02, -0.02]).tolist()),
        ]
    group = {
        name: [record for record in records if record["method"] == name] for name in ("erm", "erm-bce", "t-ce", "pld")
    }
    found = compare(group, "erm")
    p = paired_t(gains)  # the same for 2·gains
    assert {name: gain for name, (gain, _) in found.items()} == pytest.approx({"erm-bce": 0.5, "t-ce": 0.25, "pld": 0})
    assert {name: each for name, (_, each) in found.items()} == pytest.approx(
        {"erm-bce": 3 * p, "t-ce": 3 * p, "pld": 1}
    )
    tables = make_tables(records)
    # A mean of .38 and .42 has half an interval of 12.706·.02828/√2.
    assert "| erm | 0.4000 ± 0.2541 | 0.4000 ± 0.2541 | – | – |" in tables
    assert f"| t-ce | 0.5000 ± 0.2541 | 0.5000 ± 0.2541 | +25.0% (p = {3 * p:.2g}) | -16.7% (p = " in tables
    assert "| t-ce | 0.7000 ± 0.2541 | 0.3500 ± 0.1271 |" in tables
    assert describe_winners(group) in tables
    assert describe_winners(group) == (
        "Significantly better than erm (p < 0.05): erm-bce, t-ce. Significantly worse than erm (p < 0.05): none."
    )


def test_controls_by_hand() -> None:
    gains = np.array([0.1, 0.12, 0.08, 0.1])
    plain = np.array([0.4, 0.5, 0.3, 0.4])
    values = {"prorec": plain + gains, "scaled": plain, "shuffled": plain + 2 * gains}
    group = {name: [make_record(name, 0, each.tolist())] for name, each in values.items()}
    p = f"(p = {2 * paired_t(gains):.2g})"  # Holm's correction of two equal p
    expected = f"prorec against its controls: scaled +25.0% {p}, shuffled -16.7% {p}."
    assert describe_controls(group) == expected
    assert expected in make_tables([record for own in group.values() for record in own])
    assert describe_controls({"prorec": group["prorec"]}) == ""


def test_one_split_has_no_interval_and_plain_training_may_be_missing() -> None:
    tables = make_tables([make_record("pld", 0, [0.2, 0.4])])
    assert "| pld | 0.3000 | 0.3000 | – | – |" in tables
    assert "Significantly" not in tables
