"""T-CE: cross-entropy without the clicks of the largest losses.

From the paper: the clicks of each batch whose losses are largest are left out; the share ε(T) that is left out grows in
proportion to the number T of steps until it reaches ε_max, because a network learns clean clicks first.

Interpreted: ε is a share of the batch's clicks (published code takes it of clicks and other items together), and the
slope of ε(T) is given by the share of all steps after which ε_max is reached. A click's noise score is its loss in the
end.

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
    """Train on the truncated loss, and score clicks by their loss."""
    network = Network(clicks, parameters, settings)

    def find_loss(entries: torch.Tensor) -> torch.Tensor:
        batch = PointwiseBatch(network, entries)
        losses = batch.click_losses
        rate = scheduled_rate(network.progress, parameters["drop_rate"], parameters["ramp"])
        return batch.mean(losses, softplus(batch.drawn_scores), keep_smallest(losses.detach(), rate))

    users, items = network.train(find_loss, watch)
    return Fitted(users, items, pointwise_losses(users, items, clicks))


def scheduled_rate(progress: float, drop_rate: float, ramp: float) -> float:
    """Return ε(T) = min(ε_max·T/T_ramp, ε_max); progress and ramp are shares of all steps.

    Examples
    --------
    >>> [scheduled_rate(progress, 0.2, 0.5) for progress in (0, 0.25, 0.5, 1)]
    [0.0, 0.1, 0.2, 0.2]
    """
    return drop_rate * min(progress / ramp, 1.0)


def keep_smallest(losses: torch.Tensor, rate: float) -> torch.Tensor:
    """Return 0 for the share `rate` of the largest losses, rounded down, and 1 for the others."""
    kept = torch.ones_like(losses)
    kept[torch.topk(losses, int(rate * len(losses))).indices] = 0
    return kept
