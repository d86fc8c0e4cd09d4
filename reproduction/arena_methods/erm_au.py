"""Plain training with the losses of BOD, without its weights: pairwise loss, alignment and uniformity.

It tells what the weights of BOD do from what its further losses do.
"""

from __future__ import annotations

import torch

from prorec.interactions import Interactions
from reproduction.arena_methods import Fitted, Parameters, Settings, Watch
from reproduction.arena_methods.bod import inner_loss
from reproduction.arena_methods.network import Network, pairwise_losses


def fit(clicks: Interactions, parameters: Parameters, settings: Settings, watch: Watch | None = None) -> Fitted:
    """Train with weights of 1, and score clicks by their loss."""
    network = Network(clicks, parameters, settings)

    def find_loss(entries: torch.Tensor) -> torch.Tensor:
        return inner_loss(network, entries, None)

    users, items = network.train(find_loss, watch)
    return Fitted(users, items, pairwise_losses(users, items, clicks, settings.seed))
