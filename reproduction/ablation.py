"""Table 3 (RQ3): what each part of ProRec is worth, and what it costs.

The matching one to one (EMD), many to many (Sinkhorn), relaxed (ROT), all three with one threshold for all users, the
σ-th largest value of a row; and relaxed with personal thresholds, which is ProRec.
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
from reproduction.overall_results import DENOISER_GRID, denoised
from reproduction.protocol import Protocol, Result, Row, Steps

SIGMAS = (5, 10, 15, 20, 25)


def ablation_rows(model: Model) -> list[Row]:
    """The model, and the model with more and more of ProRec."""
    row = Row(type(model).__name__, model, PAPER_GRIDS[type(model).__name__])
    without_gamma = {"lam": DENOISER_GRID["lam"], "threshold": SIGMAS}
    with_gamma = {**DENOISER_GRID, "threshold": SIGMAS}
    return [
        row,
        denoised(row, "EMD", without_gamma, transport="emd", threshold=10),
        denoised(row, "Sinkhorn", with_gamma, transport="sinkhorn", threshold=10),
        denoised(row, "ROT", with_gamma, threshold=10),
        denoised(row),
    ]


def ablation(protocol: Protocol, rows: list[Row], progress: Progress | None = None) -> dict[str, Result]:
    """Every row, tuned and judged like those of Table 2; its time is that of `_times`."""
    steps = Steps(progress, f"Table 3, {protocol.dataset}", protocol.n_seeds * (len(rows) + 1))
    chosen: dict[str, list[Mapping[str, Any]]] = {row.name: [] for row in rows}
    runs: dict[str, list[dict[str, Any]]] = {row.name: [] for row in rows}
    for seed in range(protocol.n_seeds):
        for row in rows:
            best, parameters = protocol.tuned(row, seed)
            chosen[row.name].append(parameters)
            runs[row.name].append(protocol.judged(f"ablation: {row.name}", seed, best, best.fit))
            steps.step()
        for name, seconds in _times(protocol, rows, seed).items():
            runs[name][-1]["seconds"] = seconds
        steps.step()
    return {name: Result.of(chosen[name], runs[name]) for name in runs}


def _times(protocol: Protocol, rows: list[Row], seed: int) -> Mapping[str, float]:
    """Seconds that each row takes to fit with what was chosen for the model alone, γ for all of them automatic.

    One after the other in one go, so that they compare: with parameters of their own some would be timed with factors
    four times as wide.
    """
    model, _ = protocol.tuned(rows[0], seed)
    known = protocol.parts(seed).known

    def work() -> Mapping[str, float]:
        seconds = {}
        for row in rows:
            timed: Any = replace(row.model, model=model) if isinstance(row.model, ProRec) else model
            begin = time.perf_counter()
            timed.fit(known)
            seconds[row.name] = time.perf_counter() - begin
        return seconds

    of = {"what": "times", "dataset": protocol.dataset, "split": protocol.content(seed), "model": repr(model)}
    return protocol.store.runs.get({**of, "rows": [repr(row.model) for row in rows]}, work)
