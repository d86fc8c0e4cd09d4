"""Table 3 (RQ3): the gain and the time of each part of ProRec.

Transport is EMD (one to one), Sinkhorn (many to many) or relaxed (ROT), each with one threshold for all users: the σ-th
largest value of a row. ProRec is relaxed transport with personal thresholds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prorec._core.progress import Progress
from prorec.denoise import ProRec
from prorec.evaluation.tuning import PAPER_GRIDS
from prorec.models import Model
from reproduction.overall_results import DENOISER_GRID, add_denoiser
from reproduction.protocol import Protocol, Result, Row, StepProgress

SIGMAS = (5, 10, 15, 20, 25)


def ablation_rows(model: Model) -> list[Row]:
    """Return rows for the model alone and for the model with each variant of ProRec."""
    row = Row(type(model).__name__, model, PAPER_GRIDS[type(model).__name__])
    without_gamma = {"lam": DENOISER_GRID["lam"], "threshold": SIGMAS}
    with_gamma = {**DENOISER_GRID, "threshold": SIGMAS}
    return [
        row,
        add_denoiser(row, "EMD", without_gamma, transport="emd", threshold=10),
        add_denoiser(row, "Sinkhorn", with_gamma, transport="sinkhorn", threshold=10),
        add_denoiser(row, "ROT", with_gamma, threshold=10),
        add_denoiser(row),
    ]


def run_ablation(protocol: Protocol, rows: list[Row], progress: Progress | None = None) -> dict[str, Result]:
    """Tune and evaluate every row as in Table 2; the times come from `_measure_seconds`."""
    steps = StepProgress(progress, f"Table 3, {protocol.dataset}", protocol.n_seeds * (len(rows) + 1))
    parameters: dict[str, list[Mapping[str, Any]]] = {row.name: [] for row in rows}
    runs: dict[str, list[dict[str, Any]]] = {row.name: [] for row in rows}
    for seed in range(protocol.n_seeds):
        for row in rows:
            best, chosen = protocol.tune(row, seed)
            parameters[row.name].append(chosen)
            runs[row.name].append(protocol.evaluate(f"ablation: {row.name}", seed, best, best.fit))
            steps.advance()
        for name, seconds in _measure_seconds(protocol, rows, seed).items():
            runs[name][-1]["seconds"] = seconds
        steps.advance()
    return {name: Result.from_runs(parameters[name], runs[name]) for name in runs}


def _measure_seconds(protocol: Protocol, rows: list[Row], seed: int) -> Mapping[str, float]:
    """Return the seconds that each row takes to fit, all with the parameters chosen for the model alone.

    With their own parameters, some rows would be timed with factors four times as wide as others.
    """
    model, _ = protocol.tune(rows[0], seed)
    interactions = protocol.parts(seed).train_and_valid

    def compute() -> Mapping[str, float]:
        seconds = {}
        for row in rows:
            timed: Any = replace(row.model, model=model) if isinstance(row.model, ProRec) else model
            begin = time.perf_counter()
            timed.fit(interactions)
            seconds[row.name] = time.perf_counter() - begin
        return seconds

    configuration = {
        "experiment": "times",
        "dataset": protocol.dataset,
        "split": protocol.parts_digest(seed),
        "model": repr(model),
        "rows": [repr(row.model) for row in rows],
    }
    return protocol.cache.runs.get(configuration, compute)
