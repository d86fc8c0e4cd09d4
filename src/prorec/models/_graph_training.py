"""Training of LightGCN with PyTorch, on the CPU or a GPU, with the same bits in every run.

Smoothing over the graph is a symmetric linear map, so that the gradient by the factors of layer 0 is the gradient by
the smoothed factors, smoothed in the same way. Both are written out here: every sum has a fixed order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from prorec._core.device import full_precision_matmul
from prorec._core.errors import MissingExtraError
from prorec._core.random import make_generator
from prorec._core.versions import advise_install
from prorec.models.storage import Arrays

try:
    import torch
except ModuleNotFoundError:
    raise MissingExtraError(f"LightGCN needs PyTorch, which is not installed: {advise_install('torch')}") from None

from prorec._core.tensors import to_tensor
from prorec.models._gpu_matrix import GpuMatrix, to_host
from prorec.models._gpu_pairwise_steps import PairDraws, add_rows

if TYPE_CHECKING:
    from prorec.models.lightgcn import LightGCN

_INITIAL_SCALE = 0.1
"""Standard deviation of the initial factors."""
_MAX_SCORES = 10**8
"""Scores of users and all items at a time."""

Sides = tuple[torch.Tensor, torch.Tensor]
"""A matrix with a row for each user, and one with a row for each item."""


def train(model: LightGCN, matrix: csr_array, device: torch.device | None) -> Arrays:
    """Return the arrays of a fitted model.

    Parameters
    ----------
    model : LightGCN
        Parameters of the model and of training.
    matrix : csr_array
        Weights above 0, users × items, with sorted indices.
    device : torch.device or None
        Device to train on; None for the CPU.

    Returns
    -------
    dict of str to array
        `users`, `items` and `projection`.
    """
    device = device or torch.device("cpu")
    graph = Graph(GpuMatrix.from_scipy(matrix, device), model.layers)
    rng = make_generator(model.seed)
    factors = tuple(
        to_tensor(np.float32(_INITIAL_SCALE) * rng.standard_normal((n, model.rank), dtype=np.float32), device)
        for n in matrix.shape
    )
    optimizer = torch.optim.Adam(list(factors), lr=model.learning_rate)
    generator = torch.Generator(device).manual_seed(int(rng.integers(2**62)))
    clicks = PairDraws(graph.clicks)
    users, items = factors
    with full_precision_matmul():
        for _ in range(model.epochs if matrix.nnz else 0):
            order = torch.randperm(matrix.nnz, generator=generator, device=device)
            for entries in torch.split(order, model.batch_size):
                smoothed = graph.smooth(users, items)
                find = _find_pairwise_gradient if model.loss == "bpr" else _find_softmax_gradient
                gradient, penalty = find(smoothed, clicks, entries, generator)
                for factor, side, counts in zip(factors, graph.smooth(*gradient), penalty, strict=True):
                    factor.grad = (side + model.regularization * counts[:, None] * factor) / len(entries)
                optimizer.step()
    smoothed, projection = graph.smooth(users, items), graph.project(users, items)
    named = zip(("users", "items", "projection"), (*smoothed, projection), strict=True)
    return {name: to_host(tensor) for name, tensor in named}


class Graph:
    """The normalized graph of users and items.

    Parameters
    ----------
    clicks : GpuMatrix
        Weights above 0, users × items.
    layers : int
        Number of times that factors are smoothed.
    """

    def __init__(self, clicks: GpuMatrix, layers: int) -> None:
        self.clicks, self.layers = clicks, layers
        sides = (matrix.pattern.sum_by_row(matrix.values.double()) for matrix in (clicks, clicks.transposed))
        self.degrees = tuple(sides)
        """Sum of the weights of each user, and of each item."""
        scale = [torch.where(each > 0, each.rsqrt(), 0.0) for each in self.degrees]
        self._has_clicks = [(each > 0).float()[:, None] for each in self.degrees]
        values = clicks.values * scale[0][clicks.pattern.rows] * scale[1][clicks.pattern.indices]
        self._by_user = GpuMatrix(clicks.pattern, values.float())
        self._by_item = self._by_user.transposed
        self._item_scale = scale[1].float()

    def smooth(self, users: torch.Tensor, items: torch.Tensor) -> Sides:
        """Return the means over all layers; 0 for users and items without clicks."""
        total_users, total_items = users, items
        for _ in range(self.layers):
            users, items = self._by_user.times(items), self._by_item.times(users)
            total_users, total_items = total_users + users, total_items + items
        n_layers, (of_users, of_items) = self.layers + 1, self._has_clicks
        return total_users / n_layers * of_users, total_items / n_layers * of_items

    def project(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Return what a click on each item adds to a new user, times the square root of the user's sum of weights."""
        total = torch.zeros_like(items)
        for _ in range(self.layers):
            total += items
            users, items = self._by_user.times(items), self._by_item.times(users)
        return total * self._item_scale[:, None] / (self.layers + 1)


def _find_pairwise_gradient(
    factors: Sides, clicks: PairDraws, entries: torch.Tensor, generator: torch.Generator
) -> tuple[Sides, Sides]:
    """Return the gradient of log(1 + exp(s_uj − s_ui)) over drawn pairs, and how often each user and item is drawn."""
    users, items = factors
    user, clicked, drawn, is_taken = clicks.draw(entries, generator)
    x, p, q = users[user], items[clicked], items[drawn]
    slope = (is_taken * torch.sigmoid(-(x * (p - q)).sum(dim=1)))[:, None]
    both = torch.cat([clicked, drawn])
    by_users, by_items = torch.zeros_like(users), torch.zeros_like(items)
    add_rows(by_users, user, slope * (q - p))
    add_rows(by_items, both, torch.cat([-slope * x, slope * x]))
    return (by_users, by_items), _count((user, both), (is_taken, is_taken.repeat(2)), factors)


def _find_softmax_gradient(
    factors: Sides, clicks: PairDraws, entries: torch.Tensor, generator: torch.Generator
) -> tuple[Sides, Sides]:
    """Return the gradient of w·(log Σ_j exp s_uj − s_ui) over the clicks, and the sum of w of each user and item."""
    users, items = factors
    user, clicked, weights = clicks.take(entries.sort().values)
    rows, position, counts = torch.unique_consecutive(user, return_inverse=True, return_counts=True)
    bounds = torch.nn.functional.pad(counts.cumsum(0), (1, 0)).tolist()
    by_users, by_items = torch.zeros_like(users), torch.zeros_like(items)
    size = max(1, _MAX_SCORES // len(items))
    for begin in range(0, len(rows), size):
        part = slice(begin, begin + size)
        entry = slice(bounds[begin], bounds[min(begin + size, len(rows))])
        x = users[rows[part]]
        by_scores = torch.softmax(x @ items.T, dim=1)
        weight_sums = torch.zeros((len(x), 1), device=x.device)
        add_rows(weight_sums, position[entry] - begin, weights[entry, None])
        by_scores *= weight_sums
        by_scores[position[entry] - begin, clicked[entry]] -= weights[entry]  # no pair comes twice
        by_users[rows[part]] = by_scores @ items
        by_items += by_scores.T @ x
    return (by_users, by_items), _count((user, clicked), (weights, weights), factors)


def _count(rows: Sides, weights: Sides, factors: Sides) -> Sides:
    """Return the sum of the weights of each user and of each item."""
    totals = tuple(factor.new_zeros((len(factor), 1)) for factor in factors)
    for total, row, weight in zip(totals, rows, weights, strict=True):
        add_rows(total, row, weight[:, None])
    return totals[0].ravel(), totals[1].ravel()
