"""DCF: clicks are dropped by a lower bound of their mean loss over several epochs, and the worst are relabelled.

From the paper: losses of one epoch are unstable, so the mean μ of the damped losses φ(ℓ) = log(1 + ℓ + ℓ²/2) of the
last epochs counts. Hard clicks are not noise; they get another chance by a lower bound of that mean,
ℓ* = max(0, μ − σ²·(t + σ²·log(2t)/t²) / (n − σ²)), with t the number of losses in the mean: the bound is lower, the
fewer times n the click was learned from. The clicks of the largest ℓ* are dropped at T-CE's growing rate. A share of
these, again those of the largest ℓ*, is relabelled: learned from as no click, so that their number grows too.

Interpreted: μ and n go over a moving window of epochs, n is 1 more than the number of epochs in which the click was
kept, σ² is a parameter that falls linearly to 0 over the training and not a variance that is measured (as in published
code), rates are shares of a batch's clicks, and labels are decided anew in each batch. A click's noise score is ℓ* in
the end, where σ² is 0: the mean of its damped losses.

References
----------
Z. He, Y. Wang, Y. Yang, P. Sun, L. Wu, H. Bai, J. Gong, R. Hong and M. Zhang, "Double correction framework for
denoising recommendation", KDD 2024.
"""

from __future__ import annotations

import math

import torch
from torch.nn.functional import softplus

from prorec.interactions import Interactions
from prorec.models._gpu_matrix import to_host
from reproduction.arena_methods import Fitted, Parameters, Settings, Watch
from reproduction.arena_methods.network import Network, PointwiseBatch
from reproduction.arena_methods.t_ce import keep_smallest, scheduled_rate


def fit(clicks: Interactions, parameters: Parameters, settings: Settings, watch: Watch | None = None) -> Fitted:
    """Train with dropped and relabelled clicks, and score clicks by the bound of their loss."""
    network = Network(clicks, parameters, settings)
    window = parameters["window"]
    history = torch.zeros((network.n_clicks, window), device=network.device)
    was_kept = torch.zeros_like(history)

    def find_loss(entries: torch.Tensor) -> torch.Tensor:
        batch = PointwiseBatch(network, entries)
        losses = batch.click_losses
        column, n_losses = network.epoch % window, min(network.epoch + 1, window)
        # The column of this epoch has what is a window old.
        n_kept = was_kept[entries].sum(dim=1) - was_kept[entries, column]
        history[entries, column] = damp(losses.detach())
        mean = history[entries].sum(dim=1) / n_losses
        bounds = find_lower_bound(mean, n_losses, 1 + n_kept, parameters["variance"] * (1 - network.progress))
        rate = scheduled_rate(network.progress, parameters["drop_rate"], parameters["ramp"])
        labels = relabel(bounds, rate, parameters["relabel_share"])
        was_kept[entries, column] = (labels == 1).float()
        terms = torch.where(labels < 0, softplus(batch.click_scores), losses)
        return batch.mean(terms, softplus(batch.drawn_scores), labels.abs())

    users, items = network.train(find_loss, watch)
    n_losses = max(min(network.epoch, window), 1)
    return Fitted(users, items, to_host(history.double().sum(dim=1) / n_losses))


def damp(losses: torch.Tensor) -> torch.Tensor:
    """Return φ(ℓ) = log(1 + ℓ + ℓ²/2): close to ℓ for small losses, and far below large ones."""
    return torch.log(1 + losses + losses**2 / 2)


def find_lower_bound(mean: torch.Tensor, n_losses: int, n_kept: torch.Tensor, variance: float) -> torch.Tensor:
    """Return ℓ*, the lower bound of the mean of n_losses losses of a click that was learned from n_kept times."""
    width = variance * (n_losses + variance * math.log(2 * n_losses) / n_losses**2)
    return (mean - width / (n_kept - variance)).clamp(min=0)


def relabel(bounds: torch.Tensor, rate: float, share: float) -> torch.Tensor:
    """Return 1 for clicks that are kept, 0 for dropped ones, and −1 for those that are learned from as no click."""
    labels = keep_smallest(bounds, rate)
    n_dropped = int(rate * len(bounds))
    labels[torch.topk(bounds, int(share * n_dropped)).indices] = -1
    return labels
