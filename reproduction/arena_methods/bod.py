"""BOD: weights of pairs come from a generator, which learns to make two losses pull the network in one direction.

From the paper: weights are the outer problem of two nested ones, the network is the inner one. A generator maps the
factors of a user and an item to a weight in (0, 1), so that no weights are stored. In the inner problem the network
learns from a weighted pairwise loss, a weighted alignment of users and clicked items, and the uniformity of factors. In
the outer problem the generator takes steps down the distance between the gradients, by the network's parameters, of the
weighted pairwise loss and of the weighted alignment; one step of the inner problem stands for its solution. The
distance is the sum of 1 − cosine over the columns of the gradients.

Interpreted: weights multiply the scores in the pairwise loss, log(1 + exp(w_uj·s_uj − w_ui·s_ui)), the generator has
one hidden layer of 64 numbers, and the two problems take turns after each epoch (all as in published code, but for a
second linear layer, which adds nothing, and for the generator's input of a click, which there is the user twice). In
both problems weights count as constants in the network's gradient. Uniformity is measured on at most 512 pairs of a
batch. A click's noise score is 1 − w in the end.

References
----------
Z. Wang, M. Gao, W. Li, J. Yu, L. Guo and H. Yin, "Efficient bi-level optimization for recommendation denoising",
KDD 2023.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch.nn.functional import normalize, softplus

from prorec._core.random import make_generator
from prorec.interactions import Interactions
from prorec.models._gpu_matrix import to_host
from prorec.models._graph_training import Sides
from reproduction.arena_methods import Fitted, Parameters, Settings, Watch
from reproduction.arena_methods.network import BATCH_SIZE, Network

_HIDDEN = 64
_MAX_UNIFORMITY = 512
_TINY = 1e-18

Pairs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""User, clicked item, other item, and 1 where the other item is no click, else 0."""


def fit(clicks: Interactions, parameters: Parameters, settings: Settings, watch: Watch | None = None) -> Fitted:
    """Train network and generator in turns, and score clicks by the generator's weights."""
    network = Network(clicks, parameters, settings)
    weigh = WeightGenerator(settings.rank, settings.seed, network.device)
    optimizer = torch.optim.Adam(weigh.parameters, lr=parameters["generator_rate"])
    n_taken = 0

    def find_loss(entries: torch.Tensor) -> torch.Tensor:
        nonlocal n_taken
        while n_taken < network.epoch * parameters["generator_steps"]:
            _take_outer_step(network, weigh, optimizer)
            n_taken += 1
        return inner_loss(network, entries, weigh)

    users, items = network.train(find_loss, watch)
    weights = np.empty(len(clicks))
    with torch.no_grad():
        smoothed = network.smooth()
        for positions in torch.split(torch.arange(network.n_clicks, device=network.device), 2**16):
            user, clicked, _ = network.draws.take(positions)
            weights[to_host(positions)] = to_host(weigh(smoothed[0][user], smoothed[1][clicked]))
    return Fitted(users, items, 1 - weights)


def _take_outer_step(network: Network, weigh: WeightGenerator, optimizer: torch.optim.Optimizer) -> None:
    """Take one step of the generator, on a random batch."""
    size = (min(BATCH_SIZE, network.n_clicks),)
    entries = torch.randint(network.n_clicks, size, generator=network.generator, device=network.device)
    pairs = network.draws.draw(entries, network.generator)
    distance = match_gradients(network.layer_0, network.smooth, pairs, weigh)
    gradients = torch.autograd.grad(distance, weigh.parameters)
    for parameter, gradient in zip(weigh.parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()


def inner_loss(network: Network, entries: torch.Tensor, weigh: WeightGenerator | None) -> torch.Tensor:
    """Return the loss that the network learns from; without a generator, all weights are 1."""
    pairs = network.draws.draw(entries, network.generator)
    user, clicked, drawn, is_taken = pairs
    smoothed = network.smooth()
    users, items = smoothed
    with torch.no_grad():
        weights = (torch.ones_like(is_taken),) * 2 if weigh is None else weigh.pairs(smoothed, pairs)
    few = slice(0, _MAX_UNIFORMITY)
    sides = (users[user[few]], items[clicked[few]], items[drawn[few]])
    loss = weighted_pairwise_loss(smoothed, pairs, weights)
    share: float = network.parameters["alignment"]
    loss = loss + share * weighted_alignment(smoothed, pairs, weights)
    share = network.parameters["uniformity"]
    loss = loss + share * torch.stack([uniformity(side) for side in sides]).mean()
    return loss + network.penalty(user, torch.stack([clicked, drawn], dim=1), is_taken) / len(entries)


class WeightGenerator:
    """Network with one hidden layer: from factors of a user and an item to a weight.

    Parameters
    ----------
    rank : int
        Number of factors.
    seed : int
        Seed of the start.
    device : torch.device
        Where it works.
    """

    def __init__(self, rank: int, seed: int, device: torch.device) -> None:
        rng = make_generator(seed)
        sizes = ((2 * rank, _HIDDEN), (_HIDDEN, 1))
        self.parameters = [
            torch.tensor(rng.uniform(-1, 1, shape) / np.sqrt(size[0]), dtype=torch.float32, device=device)
            for size in sizes
            for shape in (size, size[1:])
        ]
        """Weights and biases of the two layers."""
        for parameter in self.parameters:
            parameter.requires_grad_()

    def __call__(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Return one weight in (0, 1) for each row of factors."""
        first, first_bias, second, second_bias = self.parameters
        hidden = torch.relu(torch.cat([users, items], dim=1) @ first + first_bias)
        return torch.sigmoid(hidden @ second + second_bias).ravel()

    def pairs(self, smoothed: Sides, pairs: Pairs) -> Sides:
        """Return the weights of the clicks and of the other items."""
        users, items = smoothed
        user, clicked, drawn, _ = pairs
        return self(users[user], items[clicked]), self(users[user], items[drawn])


def match_gradients(
    layer_0: Iterable[torch.Tensor], smooth: Callable[[], Sides], pairs: Pairs, weigh: WeightGenerator
) -> torch.Tensor:
    """Return the distance between the gradients of both losses by the factors of layer 0.

    Parameters
    ----------
    layer_0 : iterable of torch.Tensor
        Factors that the gradients are taken by.
    smooth : callable
        Function that returns the smoothed factors.
    pairs : Pairs
        Pairs that both losses go over.
    weigh : WeightGenerator
        The generator; the distance can be differentiated by its parameters.

    Returns
    -------
    torch.Tensor
        One number.
    """
    smoothed, layer_0 = smooth(), list(layer_0)
    users, items = smoothed
    weights = weigh.pairs((users.detach(), items.detach()), pairs)
    losses = (weighted_pairwise_loss(smoothed, pairs, weights), weighted_alignment(smoothed, pairs, weights))
    gradients = [torch.autograd.grad(loss, layer_0, create_graph=True) for loss in losses]
    return torch.stack([column_distance(a, b) for a, b in zip(*gradients, strict=True)]).sum()


def weighted_pairwise_loss(smoothed: Sides, pairs: Pairs, weights: Sides) -> torch.Tensor:
    """Return the mean of log(1 + exp(w_uj·s_uj − w_ui·s_ui))."""
    users, items = smoothed
    user, clicked, drawn, is_taken = pairs
    x, (of_click, of_other) = users[user], weights
    margins = of_click * (x * items[clicked]).sum(dim=1) - of_other * (x * items[drawn]).sum(dim=1)
    return (is_taken * softplus(-margins)).mean()


def weighted_alignment(smoothed: Sides, pairs: Pairs, weights: Sides) -> torch.Tensor:
    """Return the mean of w_ui·|x̂ − ŷ|² over the clicks, with factors of length 1."""
    x, y = normalize(smoothed[0][pairs[0]], dim=1), normalize(smoothed[1][pairs[1]], dim=1)
    return (weights[0] * ((x - y) ** 2).sum(dim=1)).mean()


def uniformity(side: torch.Tensor) -> torch.Tensor:
    """Return log of the mean of exp(−2·|x̂ − x̂'|²) over all pairs of rows, with factors of length 1."""
    if len(side) < 2:
        return side.new_zeros(())
    unit = normalize(side, dim=1)
    products = (unit @ unit.T)[tuple(torch.triu_indices(len(side), len(side), 1, device=side.device))]
    return torch.exp(-4 * (1 - products)).mean().log()


def column_distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return the sum of 1 − cosine over the columns of two matrices."""
    products = (a * b).sum(dim=0)
    squares = [(each**2).sum(dim=0).clamp(min=_TINY) for each in (a, b)]  # the root has no gradient at 0
    return (1 - products / (squares[0] * squares[1]).sqrt()).sum()
