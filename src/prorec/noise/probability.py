"""From suspicion to a probability that means what it says: the local false discovery rate, made monotone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

Vector = NDArray[np.float64]

_IN_A_BIN = 50
_BINS = 200
_TOLD_APART = 0.01
"""How much of a probability goes to keeping clicks in order where the curve is level."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A curve from suspicion, log h − log f/f₀, to the probability of noise; it never falls."""

    suspicion: Vector
    probability: Vector

    @classmethod
    def fitted(cls, of_clicks: Vector, of_controls: Vector, noise: Vector) -> Self:
        """From how many clicks there are at each suspicion, and how many of them the controls say are noise.

        Parameters
        ----------
        of_clicks : suspicion of each click
        of_controls : suspicion of each control
        noise : how many clicks of noise each control stands for
        """
        n_bins = int(np.clip(len(of_clicks) // _IN_A_BIN, 1, _BINS))
        edges = np.unique(np.quantile(of_clicks, np.linspace(0, 1, n_bins + 1)))[1:-1]
        places = np.searchsorted(edges, of_clicks, "right")
        clicks = np.bincount(places, minlength=len(edges) + 1).astype(np.float64)
        centres = np.bincount(places, of_clicks, len(edges) + 1) / np.maximum(clicks, 1)
        expected = np.bincount(np.searchsorted(edges, of_controls, "right"), noise, len(edges) + 1)
        there = clicks > 0
        rates = np.minimum(expected[there] / clicks[there], 1.0)
        fitted = isotonic_regression(rates, weights=clicks[there])
        # A level stretch is one point, in its middle: the curve goes on rising from one to the next.
        begins = fitted.blocks
        weights = np.add.reduceat(clicks[there], begins[:-1])
        middles = np.add.reduceat((centres * clicks)[there], begins[:-1]) / weights
        return cls(middles, np.clip(fitted.x[begins[:-1]], 0.0, 1.0))

    def __call__(self, suspicion: Vector) -> NDArray[np.float32]:
        """The probability of noise at some suspicion."""
        curve = np.interp(suspicion, self.suspicion, self.probability)
        in_order = 0.5 * (1 + np.tanh(0.5 * suspicion))
        return ((1 - _TOLD_APART) * curve + _TOLD_APART * in_order).astype(np.float32)
