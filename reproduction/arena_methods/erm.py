"""Plain training: LightGCN with the pairwise loss of BPR, on clicks of any weights.

The result is that of `prorec.models.LightGCN`. With the weights of a noise finder it is `ProRec` around LightGCN, whose
loss has no penalty that would have to be adapted to the size of the weights. Clicks of weights of 1 are scored by their
loss, others by what they miss to 1.
"""

from __future__ import annotations

import numpy as np
import torch

from prorec.interactions import Interactions
from reproduction.arena_methods import Fitted, Parameters, Settings, Watch
from reproduction.arena_methods.network import Network, pairwise_loss, pairwise_losses


def fit(clicks: Interactions, parameters: Parameters, settings: Settings, watch: Watch | None = None) -> Fitted:
    """Train on the expected loss of BPR, and score clicks."""
    network = Network(clicks, parameters, settings)

    def find_loss(entries: torch.Tensor) -> torch.Tensor:
        return pairwise_loss(network, *network.draws.draw(entries, network.generator))

    users, items = network.train(find_loss, watch)
    weights = clicks.matrix.data.astype(np.float64)
    is_plain = bool((weights == 1).all())
    scores = pairwise_losses(users, items, clicks, settings.seed) if is_plain else 1 - weights
    return Fitted(users, items, scores)
