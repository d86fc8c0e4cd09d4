"""The density-ratio classifier: a logistic regression that separates clicks from sampled negatives.

Let f and f₀ be the densities of the features among clicks and among negatives. The best classifier of equally many
clicks and negatives answers f/(f + f₀), so its log-odds are log f/f₀.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prorec._core.array_rules import ArrayRule
from prorec._core.parallel import N_CORES, map_in_order, single_blas_thread

FeatureMatrix = NDArray[np.float64]
"""Pairs × features."""
Vector = NDArray[np.float64]

_N_KNOTS = 5
_RIDGE = 1.0  # on standardized columns; it only matters with few pairs
_MAX_STEPS = 30
_MAX_CLICKS_PER_HALF = 25_000  # of an out-of-user ratio; with more, the ranks hardly change
_CHUNK_ROWS = 8_192  # bounds the memory of the expanded features, and fits into a cache
_MAX_STORED_ROWS = 32 * _CHUNK_ROWS  # expanded once for all steps; more are expanded again in each step


@dataclass(frozen=True, eq=False)
class DensityRatio:
    """A fitted log f/f₀: a sum of piecewise-linear functions, one per feature."""

    knots: NDArray[np.float64]
    """Features × knots."""
    center: NDArray[np.float64]
    """Mean of each expanded column."""
    inverse_scale: NDArray[np.float64]
    """One over the standard deviation of each expanded column; 0 for a constant column."""
    coefficients: NDArray[np.float64]
    """Coefficients of the standardized columns, the intercept first."""

    @staticmethod
    def array_rules(n_features: int) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of a saved ratio of so many features, within which no product overflows."""
        n_columns = n_features * (_N_KNOTS + 1)
        return {
            "knots": ArrayRule((n_features, _N_KNOTS), "float64", -1e38, 1e38),
            "center": ArrayRule((n_columns,), "float64", -1e38, 1e38),
            "inverse_scale": ArrayRule((n_columns,), "float64", 0, 1e9),
            "coefficients": ArrayRule((n_columns + 1,), "float64", -1e9, 1e9),
        }

    def log_ratio(self, features: FeatureMatrix) -> NDArray[np.float64]:
        """Return log f/f₀ of each pair.

        Parameters
        ----------
        features : array, pairs × features

        Returns
        -------
        array
        """
        log_ratio = np.empty(len(features))
        with single_blas_thread():
            for chunk in _chunks(len(features)):
                log_ratio[chunk] = self.design_matrix(features[chunk]) @ self.coefficients
        return log_ratio

    def design_matrix(self, features: FeatureMatrix) -> NDArray[np.float64]:
        """Return a column of ones and the standardized expanded features."""
        design = np.ones((len(features), len(self.center) + 1))
        np.subtract(_expand(features, self.knots), self.center, out=design[:, 1:])
        design[:, 1:] *= self.inverse_scale
        return design


def fit_density_ratio(features: FeatureMatrix, is_click: NDArray[np.bool_]) -> DensityRatio:
    """Fit the classifier by Newton's method, with a small ridge penalty.

    Parameters
    ----------
    features : array, pairs × features
        Features of clicks and negatives.
    is_click : array of bool
        Whether each pair is a click; the others are negatives. There must be at least one of each. Clicks and negatives
        have the same total weight, whatever their numbers.

    Returns
    -------
    DensityRatio

    Examples
    --------
    The log density ratio of N(1, 1) to N(0, 1) is x − ½:

    >>> rng = np.random.default_rng(0)
    >>> features = np.append(rng.normal(1, 1, 20_000), rng.normal(0, 1, 20_000))[:, None]
    >>> fit_density_ratio(features, np.arange(40_000) < 20_000).log_ratio(np.array([[1.0]])).round(1)
    array([0.5])
    """
    n_columns = features.shape[1] * (_N_KNOTS + 1)
    knots = np.quantile(features, np.linspace(0, 1, _N_KNOTS + 2)[1:-1], axis=0).T
    total, squares = np.zeros(n_columns), np.zeros(n_columns)
    for chunk in _chunks(len(features)):
        columns = _expand(features[chunk], knots)
        total += columns.sum(axis=0)
        squares += np.square(columns).sum(axis=0)
    center = total / len(features)
    scale = np.sqrt(np.maximum(squares / len(features) - np.square(center), 0))
    varies = scale > 1e-9 * (1 + np.abs(center))
    inverse_scale = np.where(varies, 1 / np.where(varies, scale, 1), 0)
    coefficients = np.zeros(n_columns + 1)
    standardized = DensityRatio(knots, center, inverse_scale, coefficients)
    click_share = is_click.mean()
    weights = np.where(is_click, 0.5 / click_share, 0.5 / (1 - click_share))
    penalty = np.append(0, np.full(n_columns, _RIDGE))
    chunks = list(_chunks(len(features)))
    stored = [standardized.design_matrix(features[chunk]) for chunk in chunks if len(features) <= _MAX_STORED_ROWS]

    def derive(coefficients: Vector, index: int) -> tuple[Vector, NDArray[np.float64]]:
        """Return the gradient of one chunk's log-likelihood, and minus its Hessian."""
        chunk = chunks[index]
        design = stored[index] if stored else standardized.design_matrix(features[chunk])
        probability = logistic(design @ coefficients)
        scaled = design * np.sqrt(weights[chunk] * probability * (1 - probability))[:, None]
        return design.T @ (weights[chunk] * (is_click[chunk] - probability)), scaled.T @ scaled

    with single_blas_thread():
        for _ in range(_MAX_STEPS):
            gradient, hessian = -penalty * coefficients, np.diag(penalty) + 1e-9 * np.eye(n_columns + 1)
            for chunk_gradient, chunk_hessian in map_in_order(partial(derive, coefficients), len(chunks), N_CORES):
                gradient += chunk_gradient
                hessian += chunk_hessian
            step = np.linalg.solve(hessian, gradient)
            largest = np.abs(step).max()
            coefficients = coefficients + step * min(1.0, 5.0 / max(largest, 1e-12))
            if largest < 1e-6:
                break
    return DensityRatio(knots, center, inverse_scale, coefficients)


class OutOfUserRatio(NamedTuple):
    """Two density ratios, each fitted to one half of the users, for pairs of the other half.

    A ratio that was fitted to a user's own pairs ranks clicks up by chance. This one treats clicks and negatives of a
    user alike.
    """

    ratios: tuple[DensityRatio, DensityRatio]
    """Fitted to the first and to the second half."""
    is_second: NDArray[np.bool_]
    """Whether each user is in the second half."""

    def log_ratio(self, features: FeatureMatrix, users: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return log f/f₀ of each pair, by the ratio that was fitted to other users."""
        second = self.is_second[users]
        log_ratio = np.empty(len(features))
        log_ratio[second] = self.ratios[0].log_ratio(features[second])
        log_ratio[~second] = self.ratios[1].log_ratio(features[~second])
        return log_ratio


def fit_out_of_user_ratio(
    features: FeatureMatrix,
    users: NDArray[np.integer],
    is_click: NDArray[np.bool_],
    n_users: int,
    rng: np.random.Generator,
) -> OutOfUserRatio:
    """Fit one density ratio to each half of the users.

    Parameters
    ----------
    features : array, pairs × features
        Features of clicks and negatives.
    users : array of int
        Row of each pair's user.
    is_click : array of bool
        Whether each pair is a click.
    n_users : int
        Number of users.
    rng : numpy.random.Generator
        Generator for the halves, and for a sample of long logs.

    Returns
    -------
    OutOfUserRatio
        If a half has no click or no negative, both ratios are fitted to all pairs.
    """
    is_second = rng.permutation(n_users) % 2 == 1
    sampled = rng.random(len(users)) < _MAX_CLICKS_PER_HALF * 2 / max(int(is_click.sum()), 1)
    halves = [sampled & (is_second[users] == second) for second in (False, True)]
    if not all(is_click[half].any() and (~is_click[half]).any() for half in halves):
        halves = [np.ones(len(users), dtype=bool)] * 2
    first, second = (fit_density_ratio(features[half], is_click[half]) for half in halves)
    return OutOfUserRatio((first, second), is_second)


def logistic(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that belongs to log-odds, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * log_odds)))


def _expand(features: FeatureMatrix, knots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each feature, followed by its distance above each of its knots (0 below it)."""
    above = np.maximum(features[:, :, None] - knots, 0)
    return np.concatenate([features[:, :, None], above], axis=2).reshape(len(features), -1)


def _chunks(length: int) -> Iterator[slice]:
    return (slice(start, start + _CHUNK_ROWS) for start in range(0, length, _CHUNK_ROWS))
