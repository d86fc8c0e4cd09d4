"""Methods of the arena: LightGCN trained with the loss of each method, each written from its paper.

All methods train the same network from the same start, on the same batches, with the same optimizer; they differ in
their loss and in nothing else. Each method is a module with a function `fit`. This module imports none of them, because
they need PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prorec.evaluation.parameter_search import Grid
from prorec.interactions import Interactions
from reproduction.recovery import CONTROLS, DENOISED, REMOVED

Parameters = Mapping[str, Any]
"""What a trial draws: the parameters of `shared_grid`, and the method's own ones."""


class Settings(NamedTuple):
    """What is the same for all methods and all trials."""

    rank: int = 64
    """Number of factors."""
    epochs: int = 60
    """Largest number of passes over all clicks."""
    seed: int = 0
    """Seed of the factors, of the batches and of all draws."""
    device: str = "cpu"
    """Device of PyTorch."""


class Fitted(NamedTuple):
    """Result of a method."""

    users: NDArray[np.float32]
    items: NDArray[np.float32]
    noise_scores: NDArray[np.float64]
    """One for each click, in the order of `matrix.data`; high for noise."""


Watch = Callable[[int, NDArray[np.float32], NDArray[np.float32]], bool]
"""Function of the number of epochs and the factors of users and items that is called after each epoch; it returns
whether training shall stop."""


@dataclass(frozen=True)
class Method:
    """How a method is trained, and over which values its own parameters are tuned."""

    module: str
    """Module of this package with the function `fit`."""
    grid: Grid = field(default_factory=dict)
    """Values of its own parameters."""
    plain: str = "erm"
    """Method without denoising that has the same kind of loss."""
    weights: str | None = None
    """Row of the recovery experiment whose weights the clicks get; None for weights of 1."""
    stops_early: bool = False
    """Whether the number of epochs is chosen by looking at the validation part after each epoch."""

    def fit(
        self, clicks: Interactions, parameters: Parameters, settings: Settings, watch: Watch | None = None
    ) -> Fitted:
        """Train on clicks, and score each of them."""
        fitted: Fitted = import_module(f"{__name__}.{self.module}").fit(clicks, parameters, settings, watch)
        return fitted


_DROPPING: Grid = {"drop_rate": (0.05, 0.1, 0.2, 0.3), "ramp": (0.1, 0.3, 0.6)}
_ALIGNING: Grid = {"alignment": (0.03, 0.1, 0.3, 1.0), "uniformity": (0.02, 0.05, 0.2, 0.5)}
METHODS: Mapping[str, Method] = {
    "erm": Method("erm"),
    "erm-stopped": Method("erm", stops_early=True),
    "erm-bce": Method("erm_bce", plain="erm-bce"),
    "t-ce": Method("t_ce", _DROPPING, plain="erm-bce"),
    "r-ce": Method("r_ce", {"beta": (0.05, 0.1, 0.25, 0.5, 1.0)}, plain="erm-bce"),
    "dcf": Method(
        "dcf",
        {**_DROPPING, "window": (2, 3, 5), "variance": (0.01, 0.1, 0.5), "relabel_share": (0.05, 0.1, 0.3)},
        plain="erm-bce",
    ),
    "pld": Method("pld", {"pool": (2, 3, 5, 10), "temperature": (0.05, 0.1, 0.2, 0.5)}),
    "erm-au": Method("erm_au", _ALIGNING, plain="erm-au"),
    "bod": Method("bod", {**_ALIGNING, "generator_rate": (0.001, 0.01), "generator_steps": (1, 5)}, plain="erm-au"),
    "prorec": Method("erm", weights=DENOISED),
    **{name: Method("erm", weights=name) for name in (*CONTROLS, REMOVED)},
}
"""All methods by name: plain training, published ones, ours, its controls, and the noise removed, which nobody knows in
practice."""


def shared_grid(epochs: int) -> Grid:
    """Return the values over which the parameters that all methods have are tuned.

    Examples
    --------
    >>> shared_grid(60)["epochs"]
    (15, 30, 60)
    """
    return {
        "learning_rate": (0.001, 0.003, 0.01, 0.03),
        "regularization": (1e-5, 1e-4, 1e-3, 1e-2),
        "epochs": tuple(dict.fromkeys(max(1, round(epochs * share)) for share in (0.25, 0.5, 1))),
    }
