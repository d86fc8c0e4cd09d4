"""Other ways to tell noise, each from clicks to one number for each click, high for noise.

In-sample, all of them: a model that has seen a click is asked about it. Where the original method trains a recommender
of its own, what is taken here is the quantity it tells noise by, from a model of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

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

Suspicion = NDArray[np.float64]
Scorer = Callable[[Interactions, int], Suspicion]
"""From interactions and a seed to the suspicion of each, in the order of `matrix.data`."""

_RANK = 20
_EPOCHS = 50
_USERS = 256  # at a time


def cross_fitted(clicks: Interactions, seed: int) -> Suspicion:
    """Ours: `NoiseFinder` with its defaults."""
    return NoiseFinder(seed=seed).fit(clicks).noise_probability_.astype(np.float64)


def random(clicks: Interactions, seed: int) -> Suspicion:
    """A number drawn for each click."""
    return make_generator(seed).random(len(clicks))


def popularity(clicks: Interactions, seed: int) -> Suspicion:
    """The rarer the item, the more suspicious."""
    return -clicks.popularity[clicks.item_codes].astype(np.float64)


def in_sample(clicks: Interactions, seed: int) -> Suspicion:
    """The score that NCE gives to what it has learned from."""
    return -_scores_at(NCE(rank=_RANK, seed=seed).fit(clicks), clicks)


def plan_share(clicks: Interactions, seed: int) -> Suspicion:
    """ρ: the share of the user's row of the plan that is the click's, at the paper's γ = .1."""
    return -_matched(clicks, seed).matching_.row_shares.astype(np.float64)


def plan_margin(clicks: Interactions, seed: int) -> Suspicion:
    """ρ − ρ_κ: by how much that is above the user's own threshold."""
    return -_matched(clicks, seed).matching_.margins.astype(np.float64)


def loss(clicks: Interactions, seed: int, kind: Loss = "ce") -> Suspicion:
    """Cross-entropy −log σ(S) of a CDAE that was trained with a denoising loss (T-CE, R-CE), or without."""
    model = CDAE(rank=_RANK, epochs=_EPOCHS, loss=kind, device="auto", seed=seed).fit(clicks)
    return np.logaddexp(0, -_scores_at(model, clicks))


def personal_loss(clicks: Interactions, seed: int) -> Suspicion:
    """PLD: how unlikely a click is to be drawn among its user's own, with chances in proportion to e^−loss."""
    found = loss(clicks, seed)
    users = clicks.user_codes
    total = np.bincount(users, np.exp(-found), clicks.n_users)
    return found + np.log(total[users]) - np.log(clicks.activity[users])


def cosine(clicks: Interactions, seed: int) -> Suspicion:
    """RGCF: the cosine of user and item, here in the factors of D_u^-½·X·D_i^-½, one step along its edges."""
    matrix = clicks.matrix
    by_user = np.repeat(np.maximum(clicks.activity, 1), np.diff(matrix.indptr))
    by_item = np.maximum(clicks.popularity, 1)[matrix.indices]
    even = csr_array(
        ((1 / np.sqrt(by_user * by_item)).astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape
    )
    learned = SVD(rank=_RANK, seed=seed).fit(even).arrays_
    users = learned["users"] + even @ learned["items"]
    items = learned["items"] + even.T @ learned["users"]
    unit = [side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-12) for side in (users, items)]
    return -np.asarray((unit[0][clicks.user_codes] * unit[1][clicks.item_codes]).sum(axis=1), dtype=np.float64)


SCORERS: Mapping[str, Scorer] = {
    "NoiseFinder": cross_fitted,
    "ρ": plan_share,
    "ρ − ρ_κ": plan_margin,
    "in-sample score": in_sample,
    "T-CE loss": partial(loss, kind="t-ce"),
    "R-CE loss": partial(loss, kind="r-ce"),
    "PLD": personal_loss,
    "RGCF": cosine,
    "popularity": popularity,
    "random": random,
}
"""All of them by name, ours first."""


def _matched(clicks: Interactions, seed: int) -> ProRec:
    return ProRec(NCE(rank=_RANK, seed=seed), gamma=0.1).fit(clicks, refit=False)


def _scores_at(model: Model, clicks: Interactions) -> Suspicion:
    """What a model says to each click, some users at a time."""
    matrix, found = clicks.matrix, np.empty(len(clicks))
    for begin in range(0, clicks.n_users, _USERS):
        rows = np.arange(begin, min(begin + _USERS, clicks.n_users))
        block: Any = np.empty((len(rows), clicks.n_items), dtype=np.float32)
        model.score_known_users(rows, block)
        part = slice(matrix.indptr[rows[0]], matrix.indptr[rows[-1] + 1])
        found[part] = block[clicks.user_codes[part] - begin, matrix.indices[part]]
    return found
