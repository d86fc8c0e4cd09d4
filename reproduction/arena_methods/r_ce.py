"""R-CE: cross-entropy in which pairs that the network disagrees with count less.

From the paper: with ŷ = σ(s), the loss of a click is multiplied by ŷ^β and that of another item by (1 − ŷ)^β.

Interpreted: no gradient flows through the factors ŷ^β (as in published code), and a click's noise score is its loss in
the end, which is larger the smaller its factor is.

References
----------
W. Wang, F. Feng, X. He, L. Nie and T.-S. Chua, "Denoising implicit feedback for recommendation", WSDM 2021.
"""

from __future__ import annotations

import torch
from torch.nn.functional import softplus

from prorec.interactions import Interactions
from reproduction.arena_methods import Fitted, Parameters, Settings, Watch
from reproduction.arena_methods.network import Network, PointwiseBatch, pointwise_losses


def fit(clicks: Interactions, parameters: Parameters, settings: Settings, watch: Watch | None = None) -> Fitted:
    """Train on the reweighted loss, and score clicks by their loss."""
    network = Network(clicks, parameters, settings)

    def find_loss(entries: torch.Tensor) -> torch.Tensor:
        batch = PointwiseBatch(network, entries)
        terms = reweighted_loss(batch.click_scores, parameters["beta"])
        others = reweighted_loss(-batch.drawn_scores, parameters["beta"])  # 1 − σ(s) = σ(−s)
        return batch.mean(terms, others, torch.ones_like(terms))

    users, items = network.train(find_loss, watch)
    return Fitted(users, items, pointwise_losses(users, items, clicks))


def reweighted_loss(scores: torch.Tensor, beta: float) -> torch.Tensor:
    """Return −σ(s)^β·log σ(s), with the first factor as a constant."""
    return torch.sigmoid(scores.detach()) ** beta * softplus(-scores)
