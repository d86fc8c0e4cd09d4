"""The density-ratio classifier: a logistic regression that separates clicks from sampled negatives.

Let f and f₀ be the densities of the features among clicks and among negatives. The best classifier of equally many
clicks and negatives answers f/(f + f₀), so its log-odds are log f/f₀.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prorec._core.array_rules import ArrayRule
from prorec._core.compilation import njit
from prorec._core.parallel import N_CORES, map_in_order, single_blas_thread

FeatureMatrix = NDArray[np.floating[Any]]
"""Pairs × features, in single or in double precision."""
Vector = NDArray[np.float64]

_N_KNOTS = 5
_RIDGE = 1.0  # on standardized columns; it only matters with few pairs
_MAX_STEPS = 30
_LAST_STEP = 1e-4  # of a coefficient; Newton's method leaves about the square of it
_MAX_CLICKS_PER_HALF = 25_000  # of an out-of-user ratio; with more, the ranks hardly change
_MAX_BASIS_PAIRS = 32_768
_CHUNK_ROWS = 8_192  # bounds the memory of the expanded features


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
        log_ratio, chunks = np.empty(len(features)), list(_chunks(len(features)))

        def work(index: int) -> None:
            self._write_log_ratio(features[chunks[index]], log_ratio[chunks[index]])

        for _ in map_in_order(work, len(chunks), N_CORES):
            pass
        return log_ratio

    def _write_log_ratio(self, features: FeatureMatrix, log_ratio: Vector) -> None:
        slopes = self.coefficients[1:] * self.inverse_scale
        constant = self.coefficients[0] - slopes @ self.center
        _add_up_features(features, self.knots, slopes.reshape(len(self.knots), -1), constant, log_ratio)


def make_basis(features: FeatureMatrix) -> DensityRatio:
    """Return the ratio 1, with knots at quantiles and standardized columns, from which a ratio can be fitted.

    Parameters
    ----------
    features : array, pairs × features
        Features of clicks and negatives. Of more than 32,768 pairs, evenly spaced ones count.

    Returns
    -------
    DensityRatio
    """
    features = features[:: -(-len(features) // _MAX_BASIS_PAIRS)]
    knots = np.quantile(features.astype(np.float64), np.linspace(0, 1, _N_KNOTS + 2)[1:-1], axis=0).T
    above = np.maximum(features[:, :, None] - knots, 0)
    columns = np.concatenate([features[:, :, None], above], axis=2).reshape(len(features), -1)
    center, scale = columns.mean(axis=0), columns.std(axis=0)
    varies = scale > 1e-9 * (1 + np.abs(center))
    inverse_scale = np.where(varies, 1 / np.where(varies, scale, 1), 0)
    return DensityRatio(np.ascontiguousarray(knots), center, inverse_scale, np.zeros(len(center) + 1))


def fit_density_ratio(
    features: FeatureMatrix, is_click: NDArray[np.bool_], start: DensityRatio | None = None
) -> DensityRatio:
    """Fit the classifier by Newton's method, with a small ridge penalty.

    Parameters
    ----------
    features : array, pairs × features
        Features of clicks and negatives.
    is_click : array of bool
        Whether each pair is a click; the others are negatives. There must be at least one of each. Clicks and negatives
        have the same total weight, whatever their numbers.
    start : DensityRatio, optional
        Ratio whose knots are used and whose coefficients come first. It changes the time, and the result by rounding.
        By default the result of `make_basis`.

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
    ratio = make_basis(features) if start is None else start
    click_share = is_click.mean()
    weights = np.where(is_click, 0.5 / click_share, 0.5 / (1 - click_share))
    n_columns = len(ratio.coefficients)
    penalty = np.append(0, np.full(n_columns - 1, _RIDGE))
    chunks = list(_chunks(len(features)))

    def derive(ratio: DensityRatio, index: int) -> tuple[Vector, NDArray[np.float32]]:
        """Return the gradient of one chunk's log-likelihood, and minus its Hessian."""
        chunk = chunks[index]
        own = features[chunk]
        log_odds = np.empty(len(own))
        ratio._write_log_ratio(own, log_odds)
        probability = logistic(log_odds)
        residual = weights[chunk] * (is_click[chunk] - probability)
        curvature = np.sqrt(weights[chunk] * probability * (1 - probability))
        # Newton's method needs the gradient exactly, and the Hessian roughly.
        scaled, gradient = np.empty((len(own), n_columns), dtype=np.float32), np.zeros(n_columns)
        _derive_rows(own, ratio.knots, ratio.center, ratio.inverse_scale, residual, curvature, scaled, gradient)
        return gradient, scaled.T @ scaled

    with single_blas_thread():
        for _ in range(_MAX_STEPS):
            gradient, hessian = -penalty * ratio.coefficients, np.diag(penalty) + 1e-9 * np.eye(n_columns)
            for chunk_gradient, chunk_hessian in map_in_order(partial(derive, ratio), len(chunks), N_CORES):
                gradient += chunk_gradient
                hessian += chunk_hessian
            step = np.linalg.solve(hessian, gradient)
            largest = np.abs(step).max()
            ratio = replace(ratio, coefficients=ratio.coefficients + step * min(1.0, 5.0 / max(largest, 1e-12)))
            if largest < _LAST_STEP:
                break
    return ratio


class OutOfUserRatio(NamedTuple):
    """Two density ratios, each fitted to one half of the users, for pairs of the other half.

    A ratio that was fitted to a user's own pairs ranks clicks up by chance. This one treats clicks and negatives of a
    user alike.
    """

    ratios: tuple[DensityRatio, DensityRatio]
    """Fitted to the first and to the second half; with the same knots."""
    is_second: NDArray[np.bool_]
    """Whether each user is in the second half."""

    def log_ratio(self, features: FeatureMatrix, users: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return log f/f₀ of each pair, by the ratio that was fitted to other users."""
        # Both ratios of all pairs take less time and memory than copies of their halves.
        of_second, of_first = (ratio.log_ratio(features) for ratio in self.ratios)
        return np.where(self.is_second[users], of_second, of_first)

    @property
    def mean(self) -> DensityRatio:
        """The ratio with the mean coefficients."""
        first, second = self.ratios
        return replace(first, coefficients=(first.coefficients + second.coefficients) / 2)


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
    basis = make_basis(features)  # which knows no labels
    first, second = (fit_density_ratio(features[half], is_click[half], basis) for half in halves)
    return OutOfUserRatio((first, second), is_second)


def logistic(log_odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the probability that belongs to log-odds, without overflow."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * log_odds)))


def _chunks(length: int) -> Iterator[slice]:
    return (slice(start, start + _CHUNK_ROWS) for start in range(0, length, _CHUNK_ROWS))


@njit(cache=True, nogil=True)
def _add_up_features(features, knots, slopes, constant, log_ratio):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    """Write the sum of the piecewise-linear functions of each row: a slope from the start, and more from each knot."""
    for row in range(len(features)):
        total = constant
        for feature in range(features.shape[1]):
            value = np.float64(features[row, feature])
            total += slopes[feature, 0] * value
            for knot in range(knots.shape[1]):
                total += slopes[feature, knot + 1] * max(value - knots[feature, knot], 0.0)
        log_ratio[row] = total


@njit(cache=True, nogil=True)
def _derive_rows(  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    features, knots, center, inverse_scale, residual, curvature, scaled, gradient
):
    """Write each standardized row times its curvature, and add it to the gradient times its residual."""
    own = np.empty(len(center) + 1)
    for row in range(len(features)):
        own[0] = 1.0
        column = 1
        for feature in range(features.shape[1]):
            value = np.float64(features[row, feature])
            own[column] = value
            for knot in range(knots.shape[1]):
                own[column + knot + 1] = max(value - knots[feature, knot], 0.0)
            column += knots.shape[1] + 1
        for column in range(len(center)):
            own[column + 1] = (own[column + 1] - center[column]) * inverse_scale[column]
        for column in range(len(own)):
            gradient[column] += residual[row] * own[column]
            scaled[row, column] = curvature[row] * own[column]
