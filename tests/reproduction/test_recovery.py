"""The recovery experiment in small, and its tables by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prorec
from prorec import InputError
from prorec.models import CDAE, NCE
from reproduction import recovery
from reproduction.recovery import DENOISED, ORACLE, PLAIN, REMOVED, Split, make_tables


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results on a small cinema, without noise and with swapped clicks."""
    folder = tmp_path_factory.mktemp("recovery")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recovery, "load_log", lambda _: prorec.make_cinema(150, 100, seed=1).interactions)
        patch.setattr(recovery, "MODELS", {"NCE": (NCE(rank=8), {"regularization": (10.0, 1000.0)})})
        recovery.main("cinema", "none,swap", "NCE", "shuffled,oracle", 1, out=folder)
    return folder


def test_every_row_is_measured_on_the_same_users(out: Path) -> None:
    clean, noisy = (json.loads((out / f"recovery-cinema-{kind}-0-NCE.json").read_text()) for kind in ("none", "swap"))
    assert set(clean["rows"]) == {PLAIN, DENOISED, "shuffled"}
    assert set(noisy["rows"]) == {PLAIN, DENOISED, REMOVED, "shuffled", ORACLE}
    assert len({len(row["ndcg@10"]) for row in noisy["rows"].values()}) == 1
    assert all(row["parameters"]["regularization"] in (10.0, 1000.0) for row in noisy["rows"].values())


def test_the_oracle_finds_more_noise_than_the_finder(out: Path) -> None:
    split = Split("cinema", "swap", 0)
    is_noise = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recovery, "load_log", lambda _: prorec.make_cinema(150, 100, seed=1).interactions)
        is_noise = split.make_parts()[0]["outer"].is_noise
    aurocs = []
    for row in (DENOISED, ORACLE):
        with np.load(out / f"weights-cinema-swap-0-outer-{row}.npz") as arrays:
            aurocs.append(prorec.detection_metrics(1 - arrays["weights"], is_noise)["auroc"])
    assert aurocs[1] > aurocs[0]


def test_finished_cells_are_not_run_again(out: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(recovery, "run_cell", None)
    monkeypatch.setattr(recovery, "MODELS", {"NCE": (NCE(rank=8), {})})
    recovery.main("cinema", "none,swap", "NCE", "shuffled,oracle", 1, out=out)
    assert "| NCE, cinema | swap |" in capsys.readouterr().out
    with pytest.raises(InputError, match="kinds must be one of"):
        recovery.main("cinema", "pink", "NCE", "shuffled", 1, out=out)


def make_record(kind: str, **ndcg: list[float]) -> dict[str, Any]:
    rows = {name.replace("_", " "): {"ndcg@10": values} for name, values in ndcg.items()}
    return {"log": "shop", "kind": kind, "seed": 0, "model": "NCE", "rows": rows}


def test_shares_by_hand() -> None:
    records = [
        make_record("uniform", plain=[0.4, 0.6], denoised=[0.5, 0.6], noise_removed=[0.6, 0.6]),
        make_record("swap", plain=[0.2, 0.2], denoised=[0.2, 0.22], noise_removed=[0.3, 0.3]),
    ]
    tables = make_tables(records)
    assert "| NCE, shop | uniform | 0.5000 | +20.0% | +10.0% | 50% |" in tables
    # (10% + 5%) of (20% + 50%)
    assert "| NCE | 21% |" in tables


def test_cells_may_have_been_run_with_other_controls() -> None:
    first = make_record("uniform", plain=[0.4], denoised=[0.5], noise_removed=[0.6], shuffled=[0.4])
    second = make_record("swap", plain=[0.4], denoised=[0.5], noise_removed=[0.5])
    tables = make_tables([first, second])
    # (25% + 25%) of (50% + 25%); of the control, one part is missing
    assert "| NCE | 67% | – | – |" in tables
    clean = make_record("none", plain=[0.4], denoised=[0.5])
    assert "| NCE, shop | 0.4000 | +25.0% | – |" in make_tables([clean, first])


def test_networks_are_measured_as_means_over_random_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    def fit(model: Any, clicks: Any) -> Any:
        seeds.append(model.seed)
        return original(model, clicks)

    original = recovery._fit
    monkeypatch.setattr(recovery, "_fit", fit)
    monkeypatch.setattr(recovery, "load_log", lambda _: prorec.make_cinema(60, 50, seed=1).interactions)
    network = CDAE(rank=4, epochs=2, batch_size=20)
    monkeypatch.setattr(recovery, "MODELS", {"CDAE": (network, {"regularization": (1e-3,)})})
    monkeypatch.setattr(recovery, "_row_weights", lambda *each: np.ones(len(each[3].clicks), dtype=np.float32))
    recovery.run_cell(recovery.Cell("cinema", "none", 0, "CDAE"), [], "cpu", tmp_path)
    record = json.loads((tmp_path / "recovery-cinema-none-0-CDAE.json").read_text())
    starts = seeds[-recovery._FITS :]
    assert sorted(starts) == list(range(recovery._FITS))
    split = Split("cinema", "none", 0)
    parts, _, test = split.make_parts()
    tuned = CDAE(rank=4, batch_size=20, device="cpu", epochs=2, **record["rows"][PLAIN]["parameters"])
    each = [prorec.evaluate(replace(tuned, seed=seed).fit(parts["outer"].clicks), test, k=10) for seed in starts]
    expected = np.mean([one.per_user["ndcg@10"] for one in each], axis=0)
    np.testing.assert_allclose(record["rows"][PLAIN]["ndcg@10"], expected, atol=1e-5)


def test_the_search_leaves_the_plain_models_parameters_only_for_clearly_better_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    club = prorec.make_cinema(60, 50, seed=1).interactions
    parts = prorec.split_by_user(club, (0.7, 0.3), seed=0)
    values = {1.0: [0.5, 0.5, 0.5, 0.5], 2.0: [0.9, 0.2, 0.9, 0.2], 3.0: [0.6, 0.6, 0.6, 0.7]}
    ndcg = {"ndcg@10": np.zeros(4)}

    def evaluate(model: Any, *_: Any, **__: Any) -> Any:
        ndcg["ndcg@10"] = np.array(values[model])
        return type("Result", (), {"per_user": ndcg})

    monkeypatch.setattr(recovery, "_fit", lambda model, _: model.regularization)
    monkeypatch.setattr(prorec, "evaluate", evaluate)
    model = NCE(rank=2, regularization=1.0)
    grid: dict[str, tuple[float, ...]] = {"regularization": (1.0, 2.0)}
    assert recovery._tune(model, grid, parts.train, parts.test, None) == {"regularization": 2.0}
    begin = {"regularization": 1.0}
    assert recovery._tune(model, grid, parts.train, parts.test, begin) == begin, "+.05 with an error of .18"
    grid = {"regularization": (1.0, 2.0, 3.0)}
    assert recovery._tune(model, grid, parts.train, parts.test, begin) == {"regularization": 3.0}
