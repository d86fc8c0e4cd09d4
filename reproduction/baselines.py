"""Noise scores of other methods: from clicks to one number per click, high for noise.

All of them are in-sample: the model that scores a click has learned from it. If the original method trains its own
recommender, the score is that method's quantity, computed from a model of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.random import make_generator
from prorec.denoise import ProRec
from prorec.interactions import Interactions
from prorec.models import CDAE, NCE, SVD
from prorec.models.autoencoder import Loss
from prorec.models.model import Model
from prorec.noise.finder import NoiseFinder

NoiseScores = NDArray[np.float64]
NoiseScorer = Callable[[Interactions, int], NoiseScores]
"""Function of interactions and a seed that scores each interaction, in the order of `matrix.data`."""

_RANK = 20
_EPOCHS = 50
_BLOCK = 256  # users


def noise_finder(clicks: Interactions, seed: int) -> NoiseScores:
    """Score by `NoiseFinder` with its defaults."""
    return NoiseFinder(seed=seed).fit(clicks).noise_probability_.astype(np.float64)


def random(clicks: Interactions, seed: int) -> NoiseScores:
    """Score by random numbers."""
    return make_generator(seed).random(len(clicks))


def popularity(clicks: Interactions, seed: int) -> NoiseScores:
    """Score by the item's unpopularity."""
    return -clicks.popularity[clicks.item_codes].astype(np.float64)


def in_sample_score(clicks: Interactions, seed: int) -> NoiseScores:
    """Score by the negative score of an NCE that has learned from the click."""
    return -_score_interactions(NCE(rank=_RANK, seed=seed).fit(clicks), clicks)


def plan_share(clicks: Interactions, seed: int) -> NoiseScores:
    """Score by −ρ, the negative row share in the plan, at the paper's γ = .1."""
    return -_fit_plan(clicks, seed).matching_.row_shares.astype(np.float64)


def plan_margin(clicks: Interactions, seed: int) -> NoiseScores:
    """Score by ρ_κ − ρ, the distance of the row share below the user's threshold."""
    return -_fit_plan(clicks, seed).matching_.margins.astype(np.float64)


def loss(clicks: Interactions, seed: int, objective: Loss = "ce") -> NoiseScores:
    """Score by the cross-entropy −log σ(S) of a CDAE, trained with a denoising loss (T-CE, R-CE) or without."""
    model = CDAE(rank=_RANK, epochs=_EPOCHS, loss=objective, device="auto", seed=seed).fit(clicks)
    return np.logaddexp(0, -_score_interactions(model, clicks))


def personal_loss(clicks: Interactions, seed: int) -> NoiseScores:
    """Score as PLD does: by the loss relative to the user's other losses, −log(e^−loss / mean e^−loss)."""
    losses = loss(clicks, seed)
    users = clicks.user_codes
    total = np.bincount(users, np.exp(-losses), clicks.n_users)
    return losses + np.log(total[users]) - np.log(clicks.activity[users])


def cosine(clicks: Interactions, seed: int) -> NoiseScores:
    """Score as RGCF does: by the negative cosine of user and item, after one propagation step of SVD factors."""
    matrix = clicks.matrix
    by_user = np.repeat(np.maximum(clicks.activity, 1), np.diff(matrix.indptr))
    by_item = np.maximum(clicks.popularity, 1)[matrix.indices]
    normalized = csr_array(
        ((1 / np.sqrt(by_user * by_item)).astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    learned = SVD(rank=_RANK, weight_meaning="value", seed=seed).fit(normalized).arrays_
    users = learned["users"] + normalized @ learned["items"]
    items = learned["items"] + normalized.T @ learned["users"]
    unit = [side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-12) for side in (users, items)]
    return -np.asarray((unit[0][clicks.user_codes] * unit[1][clicks.item_codes]).sum(axis=1), dtype=np.float64)


SCORERS: Mapping[str, NoiseScorer] = {
    "NoiseFinder": noise_finder,
    "ρ": plan_share,
    "ρ − ρ_κ": plan_margin,
    "in-sample score": in_sample_score,
    "T-CE loss": partial(loss, objective="t-ce"),
    "R-CE loss": partial(loss, objective="r-ce"),
    "PLD": personal_loss,
    "RGCF": cosine,
    "popularity": popularity,
    "random": random,
}
"""All noise scorers by name, ours first."""


def _fit_plan(clicks: Interactions, seed: int) -> ProRec:
    return ProRec(NCE(rank=_RANK, seed=seed), gamma=0.1, noise_method="plan").fit(clicks, refit=False)


def _score_interactions(model: Model, clicks: Interactions) -> NoiseScores:
    """Return the model's score of each click, in blocks of users."""
    matrix, scores = clicks.matrix, np.empty(len(clicks))
    for begin in range(0, clicks.n_users, _BLOCK):
        rows = np.arange(begin, min(begin + _BLOCK, clicks.n_users))
        block = model.score_known_users(rows)
        part = slice(matrix.indptr[rows[0]], matrix.indptr[rows[-1] + 1])
        scores[part] = block[clicks.user_codes[part] - begin, matrix.indices[part]]
    return scores
