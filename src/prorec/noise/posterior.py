"""The noise probability by Bayes' rule: the local false discovery rate h·f₀/f, calibrated by counts."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from prorec._core.array_rules import ArrayRule
from prorec._core.errors import DamagedFileError
from prorec.noise.density_ratio import DensityRatio, fit_density_ratio, logistic
from prorec.noise.identifiability import restrict_to_identified
from prorec.noise.noise_rate import LabeledPairs, NoiseRateEstimate, NoiseRateLine, Vector, estimate_noise_rate
from prorec.noise.pair_features import PairFeatures

Arrays = dict[str, NDArray[Any]]

MODELS, POPULARITY, UNKNOWN_ITEM, SEEN, ACCOUNT, MARKED = range(6)
"""Codes of the basis of a noise probability."""
_BASIS_NAMES = np.array(["models", "popularity", "unknown item", "seen", "account", "marked"], dtype=object)
_RATIO_NAMES = ("density_ratio", "cold_density_ratio")
_CLICKS_PER_BIN, _MAX_BINS = 50, 200
_MAX_FEATURE = 1e38
"""Largest magnitude of a saved number: features are computed in single precision."""
_TIE_BREAK = 0.01
"""Weight of the uncalibrated probability, which keeps clicks in order where the calibration curve is flat."""


@dataclass(frozen=True, eq=False)
class NoisePosterior:
    """A fitted function from the features of a pair to the probability that it is noise."""

    density_ratio: DensityRatio
    """log f/f₀ from all features."""
    cold_density_ratio: DensityRatio
    """log f/f₀ from popularity alone, for users without other interactions in the training part."""
    noise_rate_line: NoiseRateLine
    """h, the prior, for items of any popularity."""
    noise_rate: NoiseRateEstimate
    """Noise rate of the log."""
    calibration: Vector
    """2 × points of a curve from log h·f₀/f to the noise probability, which agrees with the counts."""

    def predict(self, features: PairFeatures) -> NDArray[np.float32]:
        """Return the noise probability of each pair.

        Parameters
        ----------
        features : PairFeatures

        Returns
        -------
        array
        """
        is_by_popularity = self.is_by_popularity(features)
        log_ratio = _log_ratio(self.density_ratio, self.cold_density_ratio, features, is_by_popularity)
        log_fdr = compute_log_local_fdr(self.noise_rate_line, log_ratio, features.popularity)
        probability = calibrate(log_fdr, self.calibration)
        if not self.noise_rate.is_identified:
            return probability
        # Popularity alone does not show that there is any noise among the only clicks of users.
        return np.where(is_by_popularity, probability / 2, probability)

    def basis_codes(self, features: PairFeatures) -> NDArray[np.int8]:
        """Return the basis of each noise probability: popularity for cold pairs, models for others."""
        return np.where(self.is_by_popularity(features), POPULARITY, MODELS).astype(np.int8)

    def is_by_popularity(self, features: PairFeatures) -> NDArray[np.bool_]:
        """Return whether the probability of each pair is from popularity alone.

        It is for a user without other interactions. Where the log cannot tell its noise it is for every pair: in short
        histories one noisy click spoils the evidence for the others, and popularity alone finds more noise.
        """
        return features.is_cold | (not self.noise_rate.is_identified)

    def to_arrays(self) -> Arrays:
        """Return all numbers as arrays by name, for saving; `from_arrays` reads them."""
        arrays: Arrays = {
            "calibration": self.calibration,
            "noise_rate": np.array([*self.noise_rate_line, *astuple(self.noise_rate)]),
        }
        for name in _RATIO_NAMES:
            ratio = getattr(self, name)
            arrays |= {f"{name}.{each.name}": getattr(ratio, each.name) for each in fields(ratio)}
        return arrays

    @staticmethod
    def array_rules(n_features: int) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of `to_arrays`, for so many features."""
        rules = {
            "calibration": ArrayRule((2, "points"), "float64", -_MAX_FEATURE, _MAX_FEATURE),
            "noise_rate": ArrayRule((7,), "float64", 0, _MAX_FEATURE),
        }
        for name, n_own in zip(_RATIO_NAMES, (n_features, 1), strict=True):
            rules |= {f"{name}.{each}": rule for each, rule in DensityRatio.array_rules(n_own).items()}
        return rules

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """Return the posterior that `to_arrays` wrote.

        Parameters
        ----------
        arrays : dict of arrays
            Arrays as `array_rules` says; others are ignored.

        Returns
        -------
        NoisePosterior

        Raises
        ------
        DamagedFileError
            If the calibration curve does not rise from 0 to 1, or the noise rate is outside its interval.
        """
        scores, curve = arrays["calibration"]
        _, _, mean_popularity, estimate, low, high, is_identified = arrays["noise_rate"].tolist()
        is_curve = len(curve) and (np.diff(scores) > 0).all() and curve.min() >= 0 and curve.max() <= 1
        if not (is_curve and mean_popularity > 0 and low <= estimate <= high <= 1):
            raise DamagedFileError(
                "the noise finder is damaged: calibration must be a curve of probabilities and noise_rate an estimate "
                "within its interval; fit and save it again"
            )
        ratio, cold_ratio = (
            DensityRatio(*(arrays[f"{name}.{each.name}"] for each in fields(DensityRatio))) for name in _RATIO_NAMES
        )
        line = NoiseRateLine(*arrays["noise_rate"].tolist()[:3])
        rate = NoiseRateEstimate(estimate, low, high, is_identified=bool(is_identified))
        return cls(ratio, cold_ratio, line, rate, arrays["calibration"])


def fit_posterior(
    features: PairFeatures,
    is_click: NDArray[np.bool_],
    labeled: LabeledPairs,
    typical_history: float,
    is_counted: NDArray[np.bool_] | None = None,
    start: DensityRatio | None = None,
) -> NoisePosterior:
    """Fit the density ratio, the noise rate and the calibration to clicks and negatives.

    Parameters
    ----------
    features : PairFeatures
        Features of clicks and negatives.
    is_click : array of bool
        Whether each pair is a click; the others are negatives.
    labeled : LabeledPairs
        The counted pairs as `label_pairs` returns them, from which the noise rate is estimated.
    typical_history : float
        Number of clicks of the user of a typical click: the median over clicks.
    is_counted : array of bool, optional
        Whether the noise rate and the calibration count each pair; trusted clicks and their negatives do not. By
        default all do.
    start : DensityRatio, optional
        Ratio from which the fit of the density ratio starts; see `fit_density_ratio`.

    Returns
    -------
    NoisePosterior
    """
    is_warm = select_warm(features, is_click)
    ratio = fit_density_ratio(features.matrix[is_warm], is_click[is_warm], start)
    cold_ratio = fit_density_ratio(features.matrix[:, -1:], is_click)
    if is_counted is not None:
        counted = np.flatnonzero(is_counted)
        features, is_click = features.at(counted), is_click[counted]
    line, noise_rate = restrict_to_identified(labeled, *estimate_noise_rate(labeled), typical_history)
    is_by_popularity = features.is_cold | (not noise_rate.is_identified)
    log_ratio = _log_ratio(ratio, cold_ratio, features, is_by_popularity)
    log_fdr = compute_log_local_fdr(line, log_ratio, features.popularity)
    expected_noise = count_expected_noise(line, features.popularity, is_click)
    calibration = fit_calibration(log_fdr[is_click], log_fdr[~is_click], expected_noise)
    return NoisePosterior(ratio, cold_ratio, line, noise_rate, calibration)


def select_warm(features: PairFeatures, is_click: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whether more than popularity is known of each pair; all pairs are chosen if it is of too few."""
    is_warm = ~features.is_cold
    if is_click[is_warm].any() and (~is_click[is_warm]).any():
        return is_warm
    return np.ones_like(is_warm)


def label_pairs(features: PairFeatures, is_click: NDArray[np.bool_], log_ratio: Vector) -> LabeledPairs:
    """Return the pairs of which more than popularity is known.

    Parameters
    ----------
    features : PairFeatures
        Features of clicks and negatives.
    is_click : array of bool
        Whether each pair is a click; the others are negatives.
    log_ratio : array
        log f/f₀ of each pair, by a ratio that was fitted to other users.

    Returns
    -------
    LabeledPairs
    """
    is_warm = select_warm(features, is_click)
    return LabeledPairs(log_ratio[is_warm], features.popularity[is_warm], is_click[is_warm])


def count_expected_noise(line: NoiseRateLine, popularity: Vector, is_click: NDArray[np.bool_]) -> Vector:
    """Return the number of noisy clicks that each negative stands for.

    Parameters
    ----------
    line : NoiseRateLine
        h for items of any popularity.
    popularity : array
        Popularity of the item of each click and negative.
    is_click : array of bool
        Whether each pair is a click; the others are negatives.

    Returns
    -------
    array
        One value per negative.
    """
    clicks_per_negative = float(is_click.sum() / np.count_nonzero(~is_click))
    return line.at(popularity[~is_click]) * clicks_per_negative


def fit_calibration(clicks: Vector, negatives: Vector, expected_noise: Vector) -> Vector:
    """Fit the calibration curve by isotonic regression on bins of clicks.

    In each bin, the noise probability is the number of noisy clicks that the negatives stand for, over the number of
    clicks.

    Parameters
    ----------
    clicks, negatives : array
        log h·f₀/f of each click and of each negative.
    expected_noise : array
        Number of noisy clicks that each negative stands for.

    Returns
    -------
    array, 2 × points
        log h·f₀/f and the noise probability at each point of the curve, both rising.
    """
    n_bins = int(np.clip(len(clicks) // _CLICKS_PER_BIN, 1, _MAX_BINS))
    edges = np.unique(np.quantile(clicks, np.linspace(0, 1, n_bins + 1)))[1:-1]
    bins, n_bins = np.searchsorted(edges, clicks, "right"), len(edges) + 1
    counts = np.bincount(bins, minlength=n_bins).astype(np.float64)
    centers = np.bincount(bins, clicks, n_bins) / np.maximum(counts, 1)
    noise = np.bincount(np.searchsorted(edges, negatives, "right"), expected_noise, n_bins)
    from scipy.optimize import isotonic_regression  # slow to import

    filled = counts > 0
    rates = np.minimum(noise[filled] / counts[filled], 1.0)
    fitted = isotonic_regression(rates, weights=counts[filled])
    # A flat stretch becomes one point in its middle, so that the curve rises from each stretch to the next.
    starts = fitted.blocks[:-1]
    weights = np.add.reduceat(counts[filled], starts)
    middles = np.add.reduceat((centers * counts)[filled], starts) / weights
    return np.stack([middles, np.clip(fitted.x[starts], 0.0, 1.0)])


def calibrate(log_local_fdr: Vector, calibration: Vector) -> NDArray[np.float32]:
    """Return the noise probability for values of log h·f₀/f, by the curve of `fit_calibration`."""
    curve = np.interp(log_local_fdr, *calibration)
    return ((1 - _TIE_BREAK) * curve + _TIE_BREAK * logistic(log_local_fdr)).astype(np.float32)


def basis_names(codes: NDArray[np.int8]) -> pa.Array:
    """Return the name of each basis.

    Parameters
    ----------
    codes : array of int
        `MODELS`, `POPULARITY`, `UNKNOWN_ITEM`, `SEEN`, `ACCOUNT` or `MARKED`.

    Returns
    -------
    pyarrow.Array
        Of text.

    Examples
    --------
    >>> basis_names(np.array([MODELS, SEEN], dtype=np.int8)).to_pylist()
    ['models', 'seen']
    """
    return pa.array(_BASIS_NAMES[codes], pa.string())


def _log_ratio(
    ratio: DensityRatio, cold_ratio: DensityRatio, features: PairFeatures, is_by_popularity: NDArray[np.bool_]
) -> Vector:
    """Return log f/f₀ of each pair: from popularity alone for some pairs, from all features for others."""
    log_ratio = ratio.log_ratio(features.matrix)
    if is_by_popularity.any():
        log_ratio[is_by_popularity] = cold_ratio.log_ratio(features.matrix[is_by_popularity, -1:])
    return log_ratio


def compute_log_local_fdr(line: NoiseRateLine, log_ratio: Vector, popularity: Vector) -> Vector:
    """Return log h·f₀/f of each pair.

    Parameters
    ----------
    line : NoiseRateLine
        h for items of any popularity.
    log_ratio : array
        log f/f₀ of each pair.
    popularity : array
        Popularity of each pair's item.

    Returns
    -------
    array
    """
    return np.log(np.maximum(line.at(popularity), 1e-12)) - log_ratio
