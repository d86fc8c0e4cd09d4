"""Weights and noise probabilities of interactions: the formulas that turn one round's matching into numbers."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.transport.relabeling import compute_label_probabilities, relabel
from prorec.transport.thresholds import Matching

Weighting = Literal["plan", "probability", "both"]
"""Source of the labels R in `update_weights`: the plan, the noise probability, or the product of both."""
RANDOM_RATE = 0.1
"""ε: the assumed share of interactions that are random, in `plan_noise_probability`."""


def update_weights(
    weights: csr_array,
    matching: Matching,
    beta: float,
    lam: float,
    *,
    original: csr_array | None = None,
    clean_probability: NDArray[np.float32] | None = None,
    weighting: Weighting = "plan",
) -> NDArray[np.float32]:
    """Return the relabelled weights λX + (1 − λ)·R∘X (Eq. 23), or λX + (1 − λ)·R∘X₀.

    Parameters
    ----------
    weights : csr_array
        X: the current weights, users × items.
    matching : Matching
        Row shares and thresholds of the same interactions.
    beta : float
        β: steepness of r = 1/(1 + e^(−β(ρ − ρ_κ))) (Eq. 22).
    lam : float
        λ: share of the current weight that is kept.
    original : csr_array, optional
        X₀: weights that R multiplies, instead of X.
    clean_probability : NDArray, optional
        1 − noise probability of each interaction. Without it, R is r.
    weighting : {"plan", "probability", "both"}, default "plan"
        With `clean_probability`: "both" makes R the product of r and `clean_probability`; otherwise R is
        `clean_probability`.

    Returns
    -------
    NDArray of float32
        One weight per interaction, in the order of `weights.data`.
    """
    if clean_probability is None:
        data: NDArray[np.float32] = relabel(weights, matching, beta, lam, original).data
        return data
    label = clean_probability
    if weighting == "both":
        label = clean_probability * compute_label_probabilities(matching, beta)
    multiplied = weights if original is None else original
    return np.asarray(lam * weights.data + (1 - lam) * label * multiplied.data, dtype=np.float32)


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
