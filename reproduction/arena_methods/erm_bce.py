"""Plain training with the pointwise loss that T-CE, R-CE and DCF change: cross-entropy of clicks and other items."""

from __future__ import annotations

import torch
from torch.nn.functional import softplus

from prorec.interactions import Interactions
from reproduction.arena_methods import Fitted, Parameters, Settings, Watch
from reproduction.arena_methods.network import Network, PointwiseBatch, pointwise_losses


def fit(clicks: Interactions, parameters: Parameters, settings: Settings, watch: Watch | None = None) -> Fitted:
    """Train on −log σ(s) of clicks and −log(1 − σ(s)) of as many other items, and score clicks by their loss."""
    network = Network(clicks, parameters, settings)

    def find_loss(entries: torch.Tensor) -> torch.Tensor:
        batch = PointwiseBatch(network, entries)
        losses = batch.click_losses
        return batch.mean(losses, softplus(batch.drawn_scores), torch.ones_like(losses))

    users, items = network.train(find_loss, watch)
    return Fitted(users, items, pointwise_losses(users, items, clicks))
