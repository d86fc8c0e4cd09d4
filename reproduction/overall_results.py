"""Table 2 (RQ2): every model with and without ProRec, tuned and evaluated alike, with controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.progress import Progress
from prorec.denoise import ProRec
from prorec.denoise.controls import WeightChange, average_by_user, equalize_weights, make_control
from prorec.evaluation.parameter_search import Grid
from prorec.evaluation.tuning import PAPER_GRIDS
from prorec.interactions import Interactions
from prorec.models import CDAE, NCE, SVD, VAE, WRMF, Model
from prorec.models.autoencoder import Loss
from reproduction.protocol import Protocol, Result, Row, StepProgress

MODELS: Mapping[str, Model] = {
    "SVD": SVD(weight_meaning="value"),
    "NCE": NCE(weight_meaning="value"),
    "CDAE": CDAE(device="auto", epochs=50),
    "WRMF": WRMF(weight_meaning="value"),
    "VAE": VAE(hidden=None, device="auto", epochs=50),
}
"""The paper's models. A weight stands for the value of an entry, as in the paper."""
DENOISER_GRID: Grid = {
    "lam": (0.25, 0.5, 0.75),
    "gamma": tuple("auto" if gamma == 0.1 else f"{10 * gamma:g} auto" for gamma in PAPER_GRIDS["ProRec"]["gamma"]),
}
"""Grid of ProRec's own parameters. λ = 1 is the model without ProRec. β stays at 20, as in the paper. The paper's γ is
.1 "in general", for scores of about 1; its other values, from half to 1.75 times that, become multiples of "auto"."""
LOSS_GRIDS: Mapping[Loss, Grid] = {
    "t-ce": {"drop_rate": (0.05, 0.1, 0.2, 0.3)},
    "r-ce": {"reweight_power": (0.05, 0.1, 0.25, 0.5)},
}
CONTROL = ", control: "


def make_rows(models: Mapping[str, Model]) -> list[Row]:
    """Return rows for each model, for CDAE with the denoising losses, and for each model with ProRec."""
    rows = [Row(name, model, PAPER_GRIDS[type(model).__name__]) for name, model in models.items()]
    losses = [
        Row(f"{row.name} + {loss.upper()}", replace(row.model, loss=loss), {**row.grid, **grid}, row)
        for row in rows
        for loss, grid in LOSS_GRIDS.items()
        if isinstance(row.model, CDAE)
    ]
    return [*rows, *losses, *(add_denoiser(row) for row in rows)]


def add_denoiser(row: Row, label: str = "ProRec", grid: Grid = DENOISER_GRID, **settings: Any) -> Row:
    """Return a row with a denoiser around the row's model; both are tuned together."""
    inner = {f"model__{name}": values for name, values in row.grid.items()}
    return Row(f"{row.name} + {label}", ProRec(row.model, **settings, noise_method="plan"), {**inner, **grid}, row)


def run_overall(protocol: Protocol, rows: list[Row], progress: Progress | None = None) -> dict[str, Result]:
    """Run all rows, and the controls of those with ProRec."""
    steps = StepProgress(progress, f"Table 2, {protocol.dataset}", protocol.n_seeds * len(rows))
    parameters: dict[str, list[Mapping[str, Any]]] = {}
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        for seed in range(protocol.n_seeds):
            best, by_name = run_split(protocol, row, seed)
            for name, run in by_name.items():
                parameters.setdefault(name, []).append(best)
                runs.setdefault(name, []).append(run)
            steps.advance()
    return {name: Result.from_runs(parameters[name], runs[name]) for name in runs}


def run_split(protocol: Protocol, row: Row, seed: int) -> tuple[Mapping[str, Any], dict[str, Mapping[str, Any]]]:
    """Return the parameters chosen for a row on one split, and the scores of the row and its controls."""
    best, parameters = protocol.tune(row, seed)
    fits = {row.name: best.fit}
    if isinstance(best, ProRec):
        fits |= {f"{row.name}{CONTROL}{control}": fit for control, fit in make_controls(best).items()}
    return parameters, {name: protocol.evaluate(f"overall: {name}", seed, best, fit) for name, fit in fits.items()}


def make_controls(denoiser: ProRec) -> dict[str, Callable[[Interactions], Any]]:
    """Return the controls of a denoiser by name: other weights of the same size, or a stronger regularizer."""
    changes: dict[str, WeightChange] = {
        "weights scaled": equalize_weights,
        "weights shuffled": lambda weights, _: np.random.default_rng(0).permutation(weights),
        "weights by popularity": _sort_by_popularity,
        "user means": average_by_user,
    }
    controls: dict[str, Callable[[Interactions], Any]] = {"not denoised": replace(denoiser.model).fit}
    controls |= {name: make_control(denoiser, change).fit for name, change in changes.items()}
    if hasattr(denoiser.model, "regularization"):
        controls["regulariser doubled"] = replace(denoiser.model, regularization=2 * denoiser.model.regularization).fit
    return controls


def _sort_by_popularity(weights: NDArray[np.float32], train: Interactions) -> NDArray[np.float32]:
    """Return the same weights, the largest for the most popular items."""
    order = np.argsort(train.popularity[train.item_codes], kind="stable")
    result = np.empty_like(weights)
    result[order] = np.sort(weights)
    return result
