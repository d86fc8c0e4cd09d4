"""LightGCN in training: the network, batches and optimizer that all methods of the arena share.

The network is that of `prorec.models.LightGCN`, with the same start and the same draws for a seed. Gradients come from
PyTorch here, because each method brings a loss of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import softplus

from prorec._core.device import full_precision_matmul
from prorec._core.random import make_generator
from prorec._core.tensors import to_tensor
from prorec.interactions import Interactions
from prorec.models._cpu_matrix import drop_zeros
from prorec.models._gpu_matrix import GpuMatrix, to_host
from prorec.models._gpu_pairwise_steps import PairDraws
from prorec.models._graph_training import Graph, Sides
from reproduction.arena_methods import Parameters, Settings, Watch

LAYERS = 3
BATCH_SIZE = 2048
_INITIAL_SCALE = 0.1
_NEGATIVES = 100  # of each user, for the loss by which a click is scored
_BLOCK = 64  # users


class Network:
    """LightGCN in training.

    Parameters
    ----------
    clicks : Interactions
        Clicks; weights are probabilities.
    parameters : Parameters
        `learning_rate`, `regularization` and `epochs`.
    settings : Settings
        Rank, seed and device.
    """

    def __init__(self, clicks: Interactions, parameters: Parameters, settings: Settings) -> None:
        device, matrix = torch.device(settings.device), drop_zeros(clicks.matrix)
        self.parameters, self.n_clicks, self.device = parameters, matrix.nnz, device
        self.graph = Graph(GpuMatrix.from_scipy(matrix, device), LAYERS)
        self.draws = PairDraws(self.graph.clicks)
        rng = make_generator(settings.seed)
        self.layer_0 = tuple(
            to_tensor(np.float32(_INITIAL_SCALE) * rng.standard_normal((n, settings.rank), dtype=np.float32), device)
            .clone()
            .requires_grad_()
            for n in matrix.shape
        )
        self.generator = torch.Generator(device).manual_seed(int(rng.integers(2**62)))
        self._optimizer = torch.optim.Adam(list(self.layer_0), lr=parameters["learning_rate"])
        self._n_epochs, self._n_steps = 0, 0
        self._steps_in_all = max(1, -(-matrix.nnz // BATCH_SIZE) * parameters["epochs"])

    @property
    def epoch(self) -> int:
        """Number of epochs that are finished."""
        return self._n_epochs

    @property
    def progress(self) -> float:
        """Share of all steps that are done."""
        return float(self._n_steps / self._steps_in_all)

    def smooth(self) -> Sides:
        """Return the factors of users and items, as functions of those of layer 0."""
        smoothed: Sides = Smooth.apply(self.graph, *self.layer_0)  # type: ignore[no-untyped-call]
        return smoothed

    def batches(self) -> Iterator[torch.Tensor]:
        """Return the positions of the clicks of each batch of one epoch."""
        order = torch.randperm(self.n_clicks, generator=self.generator, device=self.device)
        yield from torch.split(order, BATCH_SIZE)

    def penalty(self, user: torch.Tensor, items: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Return λ/2 times the sum of the squared factors of layer 0: those of a user and its items, by weight."""
        users_0, items_0 = self.layer_0
        squares = (users_0[user] ** 2).sum(dim=1) + (items_0[items] ** 2).sum(dim=2).sum(dim=1)
        factor: float = self.parameters["regularization"] / 2
        return factor * (weights * squares).sum()

    def step(self, loss: torch.Tensor) -> None:
        """Take one step of Adam."""
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        self._n_steps += 1

    def train(
        self, find_loss: Callable[[torch.Tensor], torch.Tensor], watch: Watch | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Train on a loss of the clicks of a batch, and return the factors of users and items.

        Parameters
        ----------
        find_loss : callable
            Function of the positions of a batch's clicks that returns the loss.
        watch : Watch, optional
            Called after each epoch.

        Returns
        -------
        tuple of array
        """
        with full_precision_matmul():
            for _ in range(self.parameters["epochs"] if self.n_clicks else 0):
                for entries in self.batches():
                    self.step(find_loss(entries))
                self._n_epochs += 1
                if watch is not None and watch(self._n_epochs, *self.factors()):
                    break
            return self.factors()

    def factors(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the present factors of users and items as arrays."""
        users, items = (to_host(each.detach()) for each in self.smooth())
        return users, items


class Smooth(torch.autograd.Function):
    """Smoothing over the graph: a symmetric linear map, so that its gradient is smoothed in the same way."""

    @staticmethod
    def forward(ctx: Any, graph: Graph, users: torch.Tensor, items: torch.Tensor) -> Sides:
        """Return the smoothed factors."""
        ctx.graph = graph
        return graph.smooth(users, items)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Return the smoothed gradients; they can be differentiated again."""
        return (None, *Smooth.apply(ctx.graph, *gradients))  # type: ignore[no-untyped-call]


def pairwise_loss(
    network: Network, user: torch.Tensor, clicked: torch.Tensor, drawn: torch.Tensor, is_taken: torch.Tensor
) -> torch.Tensor:
    """Return the mean of log(1 + exp(s_uj − s_ui)) over the pairs of items that are taken, with the penalty."""
    users, items = network.smooth()
    margins = (users[user] * (items[clicked] - items[drawn])).sum(dim=1)
    penalty = network.penalty(user, torch.stack([clicked, drawn], dim=1), is_taken)
    return ((is_taken * softplus(-margins)).sum() + penalty) / len(user)


class PointwiseBatch:
    """Scores of the clicks of a batch, and of one other item for each of them.

    Parameters
    ----------
    network : Network
        The network.
    entries : torch.Tensor
        Positions of the clicks.
    """

    def __init__(self, network: Network, entries: torch.Tensor) -> None:
        self._network = network
        self._user, self._clicked, self._drawn, self._is_taken = network.draws.draw(entries, network.generator)
        users, items = network.smooth()
        x = users[self._user]
        self.click_scores = (x * items[self._clicked]).sum(dim=1)
        self.drawn_scores = (x * items[self._drawn]).sum(dim=1)

    @property
    def click_losses(self) -> torch.Tensor:
        """Cross-entropy −log σ(s) of the clicks."""
        return softplus(-self.click_scores)

    def mean(self, click_terms: torch.Tensor, drawn_terms: torch.Tensor, is_used: torch.Tensor) -> torch.Tensor:
        """Return the mean over the clicks that are used and the drawn items that are no clicks, with the penalty."""
        total = (is_used * click_terms).sum() + (self._is_taken * drawn_terms).sum()
        penalty = self._network.penalty(self._user, self._clicked[:, None], is_used)
        penalty = penalty + self._network.penalty(self._user, self._drawn[:, None], self._is_taken)
        return (total + penalty) / (is_used.sum() + self._is_taken.sum()).clamp(min=1)


def pointwise_losses(
    users: NDArray[np.float32], items: NDArray[np.float32], clicks: Interactions
) -> NDArray[np.float64]:
    """Return the cross-entropy −log σ(s) of each click."""
    return np.logaddexp(0, -_score(users, items, clicks.user_codes, clicks.item_codes))


def pairwise_losses(
    users: NDArray[np.float32], items: NDArray[np.float32], clicks: Interactions, seed: int
) -> NDArray[np.float64]:
    """Return the mean of log(1 + exp(s_uj − s_ui)) of each click over items j that the user has not clicked.

    All clicks of a user are compared with the same items, so that the losses of one user can be compared.
    """
    rng, matrix = make_generator(seed), clicks.matrix
    keys = clicks.user_codes.astype(np.int64) * clicks.n_items + clicks.item_codes
    losses = np.empty(len(clicks))
    for begin in range(0, clicks.n_users, _BLOCK):
        rows = np.arange(begin, min(begin + _BLOCK, clicks.n_users))
        drawn = rng.integers(clicks.n_items, size=(len(rows), _NEGATIVES))
        is_free = ~np.isin(rows[:, None] * clicks.n_items + drawn, keys)
        others = np.einsum("ur,unr->un", users[rows], items[drawn]).astype(np.float64)
        part = slice(matrix.indptr[rows[0]], matrix.indptr[rows[-1] + 1])
        row = clicks.user_codes[part] - begin
        own = _score(users, items, clicks.user_codes[part], clicks.item_codes[part])
        terms = np.logaddexp(0, others[row] - own[:, None]) * is_free[row]
        losses[part] = terms.sum(axis=1) / np.maximum(is_free[row].sum(axis=1), 1)
    return losses


def _score(
    users: NDArray[np.float32],
    items: NDArray[np.float32],
    user_codes: NDArray[np.integer],
    item_codes: NDArray[np.integer],
) -> NDArray[np.float64]:
    return np.asarray(np.einsum("nr,nr->n", users[user_codes], items[item_codes]), dtype=np.float64)
