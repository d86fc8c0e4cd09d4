"""How much more often a click has some evidence than a pair drawn at random has: learned from clicks and controls.

A classifier that tells clicks from controls, given as many of each, has f/(f + f₀) as its best answer, where f and f₀
are the densities of the evidence among clicks and among controls; so its log-odds are log f/f₀.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.float64]
"""Pairs × features."""

_KNOTS = 5
_RIDGE = 1.0  # on standardised columns; it only matters where there are few pairs
_STEPS = 30
_ROWS = 65_536


@dataclass(frozen=True, eq=False)
class DensityRatio:
    """log f/f₀ as a sum of broken lines, one for each feature."""

    knots: NDArray[np.float64]
    """Features × knots."""
    centre: NDArray[np.float64]
    inverse: NDArray[np.float64]
    """One over the spread of each column; 0 of a column that has one value, which says nothing."""
    slopes: NDArray[np.float64]
    """Of the standardised columns, the constant first."""

    @classmethod
    def fitted(cls, features: Features, is_click: NDArray[np.bool_]) -> Self:
        """By logistic regression with a small ridge, Newton's steps; clicks as a whole weigh as much as controls."""
        quantiles = np.linspace(0, 1, _KNOTS + 2)[1:-1]
        knots = np.quantile(features, quantiles, axis=0).T
        n_columns = features.shape[1] * (_KNOTS + 1)
        # Mean and spread in one pass, over parts.
        total, squares = np.zeros(n_columns), np.zeros(n_columns)
        for part in _parts(len(features)):
            columns = _hinges(features[part], knots)
            total += columns.sum(axis=0)
            squares += np.square(columns).sum(axis=0)
        centre = total / len(features)
        spread = np.sqrt(np.maximum(squares / len(features) - np.square(centre), 0))
        varies = spread > 1e-9 * (1 + np.abs(centre))
        inverse = np.where(varies, 1 / np.where(varies, spread, 1), 0)
        ratio = cls(knots, centre, inverse, np.zeros(n_columns + 1))
        share = is_click.mean()
        weights = np.where(is_click, 0.5 / share, 0.5 / (1 - share))
        penalty = np.full(n_columns + 1, _RIDGE)
        penalty[0] = 0
        slopes = ratio.slopes
        for _ in range(_STEPS):
            gradient, hessian = -penalty * slopes, np.diag(penalty) + 1e-9 * np.eye(n_columns + 1)
            for part in _parts(len(features)):
                design = ratio._design(features[part])
                chance = _sigmoid(design @ slopes)
                gradient += design.T @ (weights[part] * (is_click[part] - chance))
                hessian += design.T @ (design * (weights[part] * chance * (1 - chance))[:, None])
            step = np.linalg.solve(hessian, gradient)
            slopes = slopes + step * min(1.0, 5.0 / max(np.abs(step).max(), 1e-12))
            if np.abs(step).max() < 1e-6:
                break
        return cls(knots, centre, inverse, slopes)

    def log_ratio(self, features: Features) -> NDArray[np.float64]:
        """What log f/f₀ is for each pair."""
        found = np.empty(len(features))
        for part in _parts(len(features)):
            found[part] = self._design(features[part]) @ self.slopes
        return found

    def _design(self, features: Features) -> NDArray[np.float64]:
        columns = (_hinges(features, self.knots) - self.centre) * self.inverse
        return np.column_stack([np.ones(len(columns)), columns])


def _hinges(features: Features, knots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each feature, and how far it is above each of its knots."""
    above = np.maximum(features[:, :, None] - knots, 0)
    return np.concatenate([features[:, :, None], above], axis=2).reshape(len(features), -1)


def _parts(length: int) -> Iterator[slice]:
    for begin in range(0, length, _ROWS):
        yield slice(begin, begin + _ROWS)


def _sigmoid(odds: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * odds)))
