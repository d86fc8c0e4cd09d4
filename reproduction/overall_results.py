"""Table 2 (RQ2): every model, and every model with ProRec, tuned alike and judged alike, with the controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.progress import Progress
from prorec.denoise import ProRec
from prorec.denoise.controls import Change, alike, reweighted
from prorec.evaluation.parameter_search import Grid
from prorec.evaluation.tuning import PAPER_GRIDS
from prorec.interactions import Interactions
from prorec.models import CDAE, NCE, SVD, VAE, WRMF, Model
from prorec.models.autoencoder import Loss
from reproduction.protocol import Protocol, Result, Row, Steps

MODELS: Mapping[str, Model] = {
    "SVD": SVD(),
    "NCE": NCE(),
    "CDAE": CDAE(device="auto", epochs=50),
    "WRMF": WRMF(),
    "VAE": VAE(hidden=None, device="auto", epochs=50),
}
DENOISER_GRID: Grid = {
    "lam": (0.25, 0.5, 0.75),
    "gamma": tuple("auto" if gamma == 0.1 else f"{10 * gamma:g} auto" for gamma in PAPER_GRIDS["ProRec"]["gamma"]),
}
"""λ = 1 is the model without ProRec. β stays at 20, as in the paper. Its γ is .1 "in general", for scores of about 1;
its values around that, from half to 1.75 times, are tried around the γ that goes with the scores."""
CONTROL = ", control: "


LOSS_GRIDS: Mapping[Loss, Grid] = {
    "t-ce": {"drop_rate": (0.05, 0.1, 0.2, 0.3)},
    "r-ce": {"reweight_power": (0.05, 0.1, 0.25, 0.5)},
}


def rows_of(models: Mapping[str, Model]) -> list[Row]:
    """Each model, CDAE with the denoising losses, and each model with ProRec."""
    rows = [Row(name, model, PAPER_GRIDS[type(model).__name__]) for name, model in models.items()]
    others = [
        Row(f"{row.name} + {loss.upper()}", replace(row.model, loss=loss), {**row.grid, **grid}, row)
        for row in rows
        for loss, grid in LOSS_GRIDS.items()
        if isinstance(row.model, CDAE)
    ]
    return [*rows, *others, *(denoised(row) for row in rows)]


def denoised(row: Row, called: str = "ProRec", grid: Grid = DENOISER_GRID, **settings: Any) -> Row:
    """A row with a denoiser, whose model's parameters are tuned with its own."""
    inside = {f"model__{name}": values for name, values in row.grid.items()}
    return Row(f"{row.name} + {called}", ProRec(row.model, **settings), {**inside, **grid}, row)


def overall(protocol: Protocol, rows: list[Row], progress: Progress | None = None) -> dict[str, Result]:
    """All rows, and the controls of those with ProRec."""
    steps = Steps(progress, f"Table 2, {protocol.dataset}", protocol.n_seeds * len(rows))
    chosen: dict[str, list[Mapping[str, Any]]] = {}
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        for seed in range(protocol.n_seeds):
            parameters, found = one_split(protocol, row, seed)
            for name, run in found.items():
                chosen.setdefault(name, []).append(parameters)
                runs.setdefault(name, []).append(run)
            steps.step()
    return {name: Result.of(chosen[name], runs[name]) for name in runs}


def one_split(protocol: Protocol, row: Row, seed: int) -> tuple[Mapping[str, Any], dict[str, Mapping[str, Any]]]:
    """What was chosen for a row on one split, and what it and its controls scored."""
    best, parameters = protocol.tuned(row, seed)
    fits = {row.name: best.fit}
    if isinstance(best, ProRec):
        fits |= {f"{row.name}{CONTROL}{control}": fit for control, fit in controls(best).items()}
    return parameters, {name: protocol.judged(f"overall: {name}", seed, best, fit) for name, fit in fits.items()}


def controls(denoiser: ProRec) -> dict[str, Callable[[Interactions], Model]]:
    """What a denoiser's gain has to be held against: other weights of the same size, and another regulariser."""
    changes: dict[str, Change] = {
        "weights scaled": alike,
        "weights shuffled": lambda weights, _: np.random.default_rng(0).permutation(weights),
        "weights by popularity": _by_popularity,
    }
    found: dict[str, Callable[[Interactions], Model]] = {"not denoised": replace(denoiser.model).fit}
    found |= {name: reweighted(denoiser, change).fit for name, change in changes.items()}
    if hasattr(denoiser.model, "regularization"):
        found["regulariser doubled"] = replace(denoiser.model, regularization=2 * denoiser.model.regularization).fit
    return found


def _by_popularity(weights: NDArray[np.float32], train: Interactions) -> NDArray[np.float32]:
    """The same weights, the largest for the most popular items."""
    order = np.argsort(train.popularity[train.item_codes], kind="stable")
    given = np.empty_like(weights)
    given[order] = np.sort(weights)
    return given
