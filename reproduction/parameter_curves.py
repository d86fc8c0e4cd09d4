"""Figures 2b and 2c (RQ3): the effect of λ, γ, β and ζ, one at a time, around λ = .5, γ = .1 and β = 20.

The paper does not state NCE's own parameters. ζ is the ridge of NCE; its scale differs from that of the paper's ζ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.progress import Progress
from prorec.denoise import ProRec
from prorec.evaluation.tuning import PAPER_GRIDS
from prorec.models import NCE
from reproduction.protocol import Protocol, StepProgress

MODEL = NCE(rank=200, regularization=1000.0, popularity_power=1.0, weight_meaning="value")
FIELDS = {"lambda": "lam", "gamma": "gamma", "beta": "beta"}
CENTRE = {"lam": 0.5, "gamma": 0.1, "beta": 20.0}
VALUES: Mapping[str, Sequence[float]] = {
    "lambda": (0.0, *PAPER_GRIDS["ProRec"]["lam"]),
    "gamma": PAPER_GRIDS["ProRec"]["gamma"],
    "beta": PAPER_GRIDS["ProRec"]["beta"],
    "zeta": PAPER_GRIDS["NCE"]["regularization"],
}


@dataclass(frozen=True)
class Curve:
    """NDCG@5 over the values of one parameter."""

    parameter: str
    values: Sequence[float]
    plain: NDArray[np.float64]
    """NDCG@5 of the model without ProRec, values × splits; it changes with ζ only."""
    denoised: NDArray[np.float64]
    """NDCG@5 with ProRec, values × splits."""

    @property
    def gains(self) -> NDArray[np.float64]:
        """Relative gain of ProRec over the model's mean, values × splits; NaN where the model scores 0."""
        before = self.plain.mean(axis=1, keepdims=True)
        return np.asarray((self.denoised - self.plain) / np.where(before > 0, before, np.nan))


def run_curve(protocol: Protocol, parameter: str, progress: Progress | None = None) -> Curve:
    """Fit and evaluate at each value, on every split."""
    values = VALUES[parameter]
    steps = StepProgress(progress, f"{parameter}, {protocol.dataset}", len(values) * protocol.n_seeds)
    plain, denoised = np.empty((2, len(values), protocol.n_seeds))
    for seed in range(protocol.n_seeds):
        for index, value in enumerate(values):
            model = replace(MODEL, regularization=value) if parameter == "zeta" else MODEL
            changed = {} if parameter == "zeta" else {FIELDS[parameter]: value}
            settings: dict[str, Any] = {**CENTRE, **changed}
            denoiser = ProRec(model, **settings, noise_method="plan")
            for scores, each in ((plain, model), (denoised, denoiser)):
                scores[index, seed] = np.mean(protocol.evaluate("curve", seed, each, replace(each).fit)["ndcg@5"])
            steps.advance()
    return Curve(parameter, values, plain, denoised)
