"""Controls for a denoiser's gain: the same denoiser, with weights that have its side effects but no denoising."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from prorec._core.random import make_generator
from prorec.denoise.denoiser import ProRec
from prorec.denoise.weighting import make_neutral
from prorec.interactions import Interactions
from prorec.models.wrap import resolve_model

Weights = NDArray[np.float32]
WeightChange = Callable[[Weights, Interactions], Weights]
"""Function of a denoiser's weights and the interactions that returns the control's weights."""
_POPULARITY_GROUPS = 20


def equalize_weights(weights: Weights, interactions: Interactions) -> Weights:
    """Return the mean weight for every interaction: relabelling makes weights smaller, which may help by itself.

    Parameters
    ----------
    weights : NDArray of float32
        The denoiser's weights.
    interactions : Interactions
        Not used; other changes need it.

    Returns
    -------
    NDArray of float32
    """
    return np.full_like(weights, weights.mean(dtype=np.float64))


def average_by_user(weights: Weights, interactions: Interactions) -> Weights:
    """Return the mean weight of its user for every interaction: what remains is how much each user counts.

    Parameters
    ----------
    weights : NDArray of float32
        The denoiser's weights.
    interactions : Interactions
        Interactions that the weights belong to.

    Returns
    -------
    NDArray of float32
    """
    users = interactions.user_codes
    sums = np.bincount(users, weights, interactions.n_users)
    return np.asarray(sums[users] / interactions.activity[users], dtype=np.float32)


def average_by_popularity(weights: Weights, interactions: Interactions) -> Weights:
    """Return the mean weight of interactions with about as popular items: what remains is that rare items count less.

    Parameters
    ----------
    weights : NDArray of float32
        The denoiser's weights.
    interactions : Interactions
        Interactions that the weights belong to.

    Returns
    -------
    NDArray of float32
    """
    popularity = interactions.popularity[interactions.item_codes]
    edges = np.unique(np.quantile(popularity, np.linspace(0, 1, _POPULARITY_GROUPS + 1)[1:-1]))
    groups = np.searchsorted(edges, popularity, "right")
    sums, counts = (np.bincount(groups, values, len(edges) + 1) for values in (weights, None))
    return np.asarray(sums[groups] / counts[groups], dtype=np.float32)


def shuffle_weights(weights: Weights, interactions: Interactions) -> Weights:
    """Return all weights in a random order, the same in every call.

    Parameters
    ----------
    weights : NDArray of float32
        The denoiser's weights.
    interactions : Interactions
        Not used; other changes need it.

    Returns
    -------
    NDArray of float32
    """
    return make_generator(0).permutation(weights)


def shuffle_within_users(weights: Weights, interactions: Interactions) -> Weights:
    """Return each user's weights in a random order, the same in every call.

    Parameters
    ----------
    weights : NDArray of float32
        The denoiser's weights.
    interactions : Interactions
        Interactions that the weights belong to.

    Returns
    -------
    NDArray of float32
    """
    # Interactions are in the order of their users, which is the first key here.
    order = np.lexsort((make_generator(0).random(len(weights)), interactions.user_codes))
    return weights[order]


def make_control(denoiser: ProRec, change_weights: WeightChange = equalize_weights) -> ProRec:
    """Return an unfitted copy of a denoiser whose model is fitted to changed weights.

    Parameters
    ----------
    denoiser : ProRec
        The denoiser to compare with.
    change_weights : callable, default equalize_weights
        Function of the denoiser's weights and the interactions; it returns the weights to fit.

    Returns
    -------
    ProRec
        `weights_` and `model_` are the control's; everything else is the denoiser's.
    """
    parameters = {each.name: getattr(denoiser, each.name) for each in fields(denoiser)}
    return _Control(**parameters, change_weights=change_weights)


@dataclass
class _Control(ProRec):
    """A denoiser whose last fit has other weights."""

    change_weights: WeightChange = field(default=equalize_weights)

    def fit(self, interactions: Any, *, refit: bool = True, **options: Any) -> Self:
        """Find the weights of the denoiser, and fit the model to changed weights, with the penalty that suits them."""
        super().fit(interactions, refit=False, **options)
        weights = self.change_weights(self.weights_.data, self.interactions_)
        model: Any = replace(resolve_model(self.model, self.interactions_.matrix.shape))  # type: ignore[type-var]
        if self._finder is not None:
            model = make_neutral(model, weights, self.interactions_.matrix.data)
        fitted = model.fit(self.interactions_.with_weights(weights)) if refit else None
        self._set_results(
            self.interactions_, fitted, weights, self.matching_, self.history_, self.converged_, self._finder
        )
        return self
