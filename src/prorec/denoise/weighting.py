"""Weights and noise probabilities of interactions: the formulas beside those of `prorec.transport.relabeling`."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.models.model import Model

Weighting = Literal["auto", "probability", "plan", "both"]
"""Source of the weights: the noise probability, the labels of the plan, or both."""
_MIN_TYPICAL_WEIGHT = 1e-3
"""Smallest weight to which penalties are adapted; smaller ones leave nothing to learn from."""
RANDOM_RATE = 0.1
"""ε: the assumed share of interactions that are random, in `plan_noise_probability`."""


def typical_weight(weights: NDArray[np.float32], original: NDArray[np.float32]) -> float:
    """Return the weight of a typical interaction that is learned from, Σw²/Σw, relative to the original weights.

    It is c if all weights are c times the original ones, and 1 if some are 0 and the others are as they were.

    Parameters
    ----------
    weights, original : NDArray of float32
        New and original weight of each interaction.

    Returns
    -------
    float
        1 if all weights are 0.

    Examples
    --------
    >>> typical_weight(np.array([0.5, 0.5]), np.ones(2)), typical_weight(np.array([0.0, 1.0]), np.ones(2))
    (0.5, 1.0)
    """
    ratio = np.divide(weights, original, out=np.zeros(len(weights)), where=original > 0)
    total = float(weights.sum(dtype=np.float64))
    return float(weights @ ratio) / total if total > 0 else 1.0


def make_neutral(model: Model, weights: NDArray[np.float32], original: NDArray[np.float32]) -> Model:
    """Return an unfitted copy of a model with a penalty that suits new weights as its own one suits the original ones.

    Parameters
    ----------
    model : Model
        The model with the parameters of the user.
    weights, original : NDArray of float32
        New and original weight of each interaction.

    Returns
    -------
    Model
    """
    return model.with_neutral_penalty(min(max(typical_weight(weights, original), _MIN_TYPICAL_WEIGHT), 1.0))


def plan_noise_probability(row_shares: NDArray[np.float32], n_items: int) -> NDArray[np.float32]:
    """Return ε/N / (ε/N + (1 − ε)·ρ): the noise probability by the plan alone.

    It is the posterior under one assumption: a share ε = .1 of the interactions is drawn at random from all N items,
    and the others are drawn from their user's row of the plan. It orders interactions; it is not calibrated.

    Parameters
    ----------
    row_shares : NDArray of float32
        ρ of each interaction.
    n_items : int
        N: number of items.

    Returns
    -------
    NDArray of float32

    Examples
    --------
    >>> plan_noise_probability(np.array([0.01, 0.5], dtype=np.float32), n_items=100).round(3)
    array([0.1  , 0.002], dtype=float32)
    """
    odds = (1 - RANDOM_RATE) / RANDOM_RATE * n_items * row_shares.astype(np.float64)
    return np.asarray(1 / (1 + odds), dtype=np.float32)


def with_weights(matrix: csr_array, weights: NDArray[np.float32]) -> csr_array:
    """Return a matrix with the same entries and other weights; the structure is shared, not copied.

    Parameters
    ----------
    matrix : csr_array
        Users × items.
    weights : NDArray of float32
        One weight per entry, in the order of `matrix.data`.

    Returns
    -------
    csr_array
    """
    return csr_array((weights, matrix.indices, matrix.indptr), shape=matrix.shape)
