"""Batches of users as sparse tensors of PyTorch, and products with gradients that are the same in every run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.tensors import to_tensor
from prorec.models._cpu_matrix import normalize_rows
from prorec.models._gpu_matrix import GpuMatrix, find_entries, sum_rows


@dataclass
class Batch:
    """Entries of some users' rows on the device: weights as targets, corrupted values as inputs."""

    users: torch.Tensor
    """Rows of the matrix."""
    bounds: NDArray[np.int64]
    """Start and end of each user's entries, on the host."""
    rows: torch.Tensor
    """User of each entry, as a position in the batch."""
    items: torch.Tensor
    """Item of each entry."""
    weights: torch.Tensor
    """Target of each entry."""
    starts: torch.Tensor
    """Start of each user's entries."""
    inputs: torch.Tensor | None = None
    """Input of each entry; None for a part of a batch."""
    transposed: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None
    """Rows, starts and inputs of the entries sorted by item, for the gradient."""

    def take(self, begin: int, end: int) -> Batch:
        """Return some of the users, with their targets but without inputs."""
        entries = slice(*self.bounds[[begin, end]].tolist())
        return Batch(
            self.users[begin:end],
            self.bounds[begin : end + 1] - entries.start,
            self.rows[entries] - begin,
            self.items[entries],
            self.weights[entries],
            self.starts[begin:end] - entries.start,
        )

    def times(self, dense: torch.Tensor) -> torch.Tensor:
        """Return the inputs times a matrix of parameters."""
        matrix = self.items, [self.starts], self.inputs
        product: torch.Tensor = _Product.apply(dense, matrix, self.transposed)  # type: ignore[no-untyped-call]
        return product

    def pick(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores of the entries."""
        picked: torch.Tensor = _Pick.apply(scores, self.rows, self.items)  # type: ignore[no-untyped-call]
        return picked

    def repeat(self, values: torch.Tensor) -> torch.Tensor:
        """Return each user's value, once for each entry."""
        repeated: torch.Tensor = _Repeat.apply(values, self.rows, self.starts)  # type: ignore[no-untyped-call]
        return repeated


class BatchMaker:
    """Cuts batches of users out of a matrix on the device.

    Parameters
    ----------
    matrix : csr_array
        Weights, users × items.
    device : torch.device
        Device of the batches.
    corruption : float
        Share of the inputs that is set to 0 at random.
    is_normalized : bool
        Whether each user's inputs are divided by their Euclidean norm.
    draws_on_device : bool
        Whether random numbers are drawn on the device rather than by numpy.
    """

    def __init__(
        self,
        matrix: csr_array,
        device: torch.device,
        corruption: float,
        *,
        is_normalized: bool,
        draws_on_device: bool,
    ) -> None:
        self._clicks = clicks = GpuMatrix.from_scipy(matrix, device)
        self._corruption, self._draws_on_device = corruption, draws_on_device
        self._inputs = clicks.values
        if is_normalized:
            on_device = draws_on_device
            self._inputs = (
                clicks.normalize_rows().values if on_device else to_tensor(normalize_rows(matrix).data, device)
            )

    def make(self, rows: NDArray[np.int64], rng: np.random.Generator) -> Batch:
        """Return the batch of some rows; inputs that are kept are scaled by 1 / (1 − corruption)."""
        clicks, device = self._clicks, self._clicks.device
        row, entries, bounds = find_entries(rows, clicks.pattern.host_indptr, device)
        items, inputs = clicks.pattern.indices[entries].long(), self._inputs[entries]
        draws = torch.rand_like(inputs) if self._draws_on_device else to_tensor(rng.random(len(inputs)), device)
        inputs = inputs * (draws >= self._corruption) / (1 - self._corruption)
        sorted_items, order = torch.sort(items, stable=True)
        item_starts = torch.searchsorted(sorted_items, torch.arange(clicks.shape[1], device=device))
        transposed = row[order], item_starts, inputs[order]
        users, starts = (to_tensor(each, device) for each in (rows, bounds[:-1]))
        return Batch(users, bounds, row, items, clicks.values[entries], starts, inputs, transposed)


# These functions have gradients of their own, because PyTorch's gradients are summed in no fixed order on a GPU: the
# same seed would not give the same model. `sum_rows` has a fixed order.
class _Product(torch.autograd.Function):
    """Sparse times dense; the gradient is the transposed sparse matrix times the gradient of the product."""

    @staticmethod
    def forward(ctx: Any, dense: torch.Tensor, matrix: Any, transposed: Any) -> torch.Tensor:
        ctx.transposed = transposed
        return sum_rows(dense, *matrix)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        rows, starts, inputs = ctx.transposed
        return sum_rows(gradients[0].contiguous(), rows, [starts], inputs), None, None


class _Pick(torch.autograd.Function):
    """Entries of a matrix, none of them twice, so that the gradient can be written without sums."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, rows: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        ctx.positions, ctx.shape = (rows, items), scores.shape
        return scores[rows, items]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradients[0].new_zeros(ctx.shape).index_put(ctx.positions, gradients[0]), None, None


class _Repeat(torch.autograd.Function):
    """A value of each row, repeated for each of its entries; the gradient is summed by row."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, rows: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        ctx.starts = starts
        return values[rows]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        column = gradients[0].reshape(-1, 1)
        positions = torch.arange(len(column), device=column.device)
        return sum_rows(column, positions, [ctx.starts], torch.ones_like(gradients[0])).ravel(), None, None
