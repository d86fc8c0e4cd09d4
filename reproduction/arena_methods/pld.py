"""PLD: clicks to learn from are drawn anew by each user's personal distribution of losses.

From the paper: noise stands out among the losses of its own user, even where the losses of all users overlap. So in
each step a pool of k of the user's clicks is drawn, and the click to learn from is drawn from the pool with probability
exp(−ℓ_i/τ) / Σ_j exp(−ℓ_j/τ); the network learns from it by the pairwise loss.

Interpreted: the pool is drawn uniformly with replacement, one other item serves the whole pool and the step, and the
first five epochs draw no pools (all as in published code). A click's noise score is −log of its probability among all
clicks of its user, by its mean loss against 100 other items, times the number of these clicks.

References
----------
K. Zhang, Q. Cao, Y. Wu, F. Sun, H. Shen and X. Cheng, "Personalized denoising implicit feedback for robust recommender
system", WWW 2025.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import softplus

from prorec._core.tensors import to_tensor
from prorec.interactions import Interactions
from reproduction.arena_methods import Fitted, Parameters, Settings, Watch
from reproduction.arena_methods.network import Network, pairwise_loss, pairwise_losses

_WARM_UP = 5  # epochs


def fit(clicks: Interactions, parameters: Parameters, settings: Settings, watch: Watch | None = None) -> Fitted:
    """Train on clicks drawn by personal losses, and score clicks by how seldom they would be drawn."""
    network = Network(clicks, parameters, settings)
    starts = to_tensor(clicks.matrix.indptr.astype(np.int64), network.device)

    def find_loss(entries: torch.Tensor) -> torch.Tensor:
        user, clicked, drawn, is_taken = network.draws.draw(entries, network.generator)
        if network.epoch >= _WARM_UP:
            pool = draw_pool(starts, user, parameters["pool"], network.generator)
            with torch.no_grad():
                users, items = network.smooth()
                candidates = network.draws.take(pool.ravel())[1].reshape(pool.shape)
                margins = (users[user, None] * (items[candidates] - items[drawn, None])).sum(dim=2)
                chances = find_probabilities(softplus(-margins), parameters["temperature"])
                chosen = torch.multinomial(chances, 1, generator=network.generator)
            clicked = candidates.gather(1, chosen).ravel()
        return pairwise_loss(network, user, clicked, drawn, is_taken)

    users, items = network.train(find_loss, watch)
    losses = pairwise_losses(users, items, clicks, settings.seed)
    return Fitted(users, items, score_personally(losses, clicks, parameters["temperature"]))


def draw_pool(starts: torch.Tensor, user: torch.Tensor, size: int, generator: torch.Generator) -> torch.Tensor:
    """Return positions of `size` clicks of each user, drawn uniformly with replacement."""
    counts = (starts[user + 1] - starts[user])[:, None]
    chances = torch.rand((len(user), size), generator=generator, device=starts.device)
    return starts[user, None] + (chances * counts).long().clamp(max=counts - 1)


def find_probabilities(losses: torch.Tensor, temperature: float) -> torch.Tensor:
    """Return exp(−ℓ/τ) of each row, divided by its sum."""
    return torch.softmax(-losses / temperature, dim=1)


def score_personally(losses: NDArray[np.float64], clicks: Interactions, temperature: float) -> NDArray[np.float64]:
    """Return −log(n·p): p is the probability of a click among the n clicks of its user."""
    users, scaled = clicks.user_codes, losses / temperature
    smallest = np.full(clicks.n_users, np.inf)
    np.minimum.at(smallest, users, scaled)
    scaled = scaled - smallest[users]
    total = np.bincount(users, np.exp(-scaled), clicks.n_users)
    return np.asarray(scaled + np.log(total[users] / clicks.activity[users]))
