"""Table 3 (RQ3): what each part of ProRec is worth, and what it costs.

The matching one to one (EMD), many to many (Sinkhorn), relaxed (ROT), all three with one threshold for all users, the
σ-th largest value of a row; and relaxed with personal thresholds, which is ProRec.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prorec.denoise.algorithm import Progress
from prorec.experiments.overall import DENOISER_GRID, denoised
from prorec.experiments.protocol import Protocol, Result, Row, Steps
from prorec.models import Model
from prorec.transport import top
from prorec.tuning import PAPER_GRIDS

SIGMAS = (5, 10, 15, 20, 25)


def ablation_rows(model: Model) -> list[Row]:
    """The model, and the model with more and more of ProRec."""
    row = Row(type(model).__name__, model, PAPER_GRIDS[type(model).__name__])
    sigmas = tuple(top(k) for k in SIGMAS)
    without_gamma = {"lam": DENOISER_GRID["lam"], "threshold": sigmas}
    with_gamma = {**DENOISER_GRID, "threshold": sigmas}
    return [
        row,
        denoised(row, "EMD", without_gamma, transport="emd", threshold=top(10)),
        denoised(row, "Sinkhorn", with_gamma, transport="sinkhorn", threshold=top(10)),
        denoised(row, "ROT", with_gamma, threshold=top(10)),
        denoised(row),
    ]


def ablation(protocol: Protocol, rows: list[Row], progress: Progress | None = None) -> dict[str, Result]:
    """Every row, tuned and judged like those of Table 2.

    All rows of a split are judged one after the other, when their parameters are chosen, so that their times compare.
    """
    steps = Steps(progress, f"Table 3, {protocol.dataset}", 2 * protocol.n_seeds * len(rows))
    chosen: dict[str, list[Mapping[str, Any]]] = {row.name: [] for row in rows}
    runs: dict[str, list[Mapping[str, Any]]] = {row.name: [] for row in rows}
    for seed in range(protocol.n_seeds):
        best = {}
        for row in rows:
            best[row.name], parameters = protocol.tuned(row, seed)
            chosen[row.name].append(parameters)
            steps.step()
        for name, model in best.items():
            runs[name].append(protocol.judged(f"ablation: {name}", seed, model, model.fit))
            steps.step()
    return {name: Result.of(chosen[name], runs[name]) for name in runs}
