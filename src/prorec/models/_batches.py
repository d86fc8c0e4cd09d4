"""Users' items as PyTorch's tensors: some users at a time, never users × items."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.tensors import to_tensor
from prorec.models._on_device import Sparse, entries_of


class Batch:
    """Some users' items on the device: their weights as targets, and a corrupted copy as input.

    Parameters
    ----------
    users : rows of the matrix
    ends : where the users' entries begin and end, for those who cut the batch
    rows, items : of each entry, the first counted from the batch's beginning
    weights : of each entry, the target
    begins : where the users' entries begin
    values : of each entry, the input
    transposed : rows, beginnings and values of the entries in the order of items, for the gradient
    """

    def __init__(
        self,
        users: torch.Tensor,
        ends: NDArray[np.int64],
        rows: torch.Tensor,
        items: torch.Tensor,
        weights: torch.Tensor,
        begins: torch.Tensor,
        values: torch.Tensor | None = None,
        transposed: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        self.users, self.ends, self.rows, self.items = users, ends, rows, items
        self.weights, self.begins, self.values, self._transposed = weights, begins, values, transposed

    @classmethod
    def of(
        cls,
        matrix: csr_array,
        inputs: csr_array,
        rows: NDArray[np.int64],
        corruption: float,
        rng: np.random.Generator,
        device: Any,
    ) -> Batch:
        """Made on the CPU."""
        part = csr_array(matrix[rows])
        # Where each entry goes when the batch is transposed, for the gradient.
        order = csr_array((np.arange(part.nnz), part.indices, part.indptr), shape=part.shape).T.tocsr()
        data = inputs[rows].data * (rng.random(part.nnz) >= corruption) / np.float32(1 - corruption)
        at = np.repeat(np.arange(len(rows)), np.diff(part.indptr))

        def on_device(array: NDArray[Any], kind: type) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(array, dtype=kind)).to(device)

        return cls(
            on_device(rows, np.int64),
            part.indptr.astype(np.int64),
            on_device(at, np.int64),
            on_device(part.indices, np.int64),
            on_device(part.data, np.float32),
            on_device(part.indptr[:-1], np.int64),
            on_device(data, np.float32),
            (
                on_device(at[order.data], np.int64),
                on_device(order.indptr[:-1], np.int64),
                on_device(data[order.data], np.float32),
            ),
        )

    @classmethod
    def cut(cls, clicks: Sparse, inputs: torch.Tensor, rows: NDArray[np.int64], corruption: float) -> Batch:
        """Cut from a matrix that is on the device; what is left out of the input is drawn there too."""
        at, places, ends = entries_of(rows, clicks.pattern.host_indptr, clicks.device)
        items, values = clicks.pattern.indices[places].long(), inputs[places]
        values = values * (torch.rand_like(values) >= corruption) / (1 - corruption)
        by_item, order = torch.sort(items, stable=True)
        numbers = torch.arange(clicks.shape[1], device=clicks.device)
        transposed = at[order], torch.searchsorted(by_item, numbers), values[order]
        users, begins = (to_tensor(each, clicks.device) for each in (rows, ends[:-1]))
        return cls(users, ends, at, items, clicks.values[places], begins, values, transposed)

    def part(self, begin: int, end: int) -> Batch:
        """Some of the users, with their targets but no input."""
        entries = slice(*self.ends[[begin, end]].tolist())
        return Batch(
            self.users[begin:end],
            self.ends[begin : end + 1] - entries.start,
            self.rows[entries] - begin,
            self.items[entries],
            self.weights[entries],
            self.begins[begin:end] - entries.start,
        )

    def times(self, weights: torch.Tensor) -> torch.Tensor:
        """Corrupted input times a matrix of parameters."""
        given = self.items, self.begins, self.values
        product: torch.Tensor = _Times.apply(weights, given, self._transposed)  # type: ignore[no-untyped-call]
        return product

    def of_pairs(self, scores: torch.Tensor) -> torch.Tensor:
        """The scores of the batch's entries."""
        picked: torch.Tensor = _Pick.apply(scores, self.rows, self.items)  # type: ignore[no-untyped-call]
        return picked

    def of_rows(self, values: torch.Tensor) -> torch.Tensor:
        """Each user's value, once for each entry."""
        spread: torch.Tensor = _Spread.apply(values, self.rows, self.begins)  # type: ignore[no-untyped-call]
        return spread


# The three below have gradients of their own, because PyTorch's add up in whatever order the GPU comes to it: the same
# seed would not give the same model. Summing bags is done in order.
class _Times(torch.autograd.Function):
    """Sparse times dense; the gradient is the transposed sparse matrix times what comes back."""

    @staticmethod
    def forward(ctx: Any, dense: torch.Tensor, matrix: Any, transposed: Any) -> torch.Tensor:
        ctx.transposed = transposed
        return _sums_of_rows(dense, *matrix)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _sums_of_rows(gradients[0].contiguous(), *ctx.transposed), None, None


class _Pick(torch.autograd.Function):
    """Entries of a matrix, none of them twice, so that the gradient can be put in place."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, rows: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        ctx.places, ctx.shape = (rows, items), scores.shape
        return scores[rows, items]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradients[0].new_zeros(ctx.shape).index_put(ctx.places, gradients[0]), None, None


class _Spread(torch.autograd.Function):
    """A value for each row, repeated for each of its entries; the gradient is summed by row."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, rows: torch.Tensor, begins: torch.Tensor) -> torch.Tensor:
        ctx.begins = begins
        return values[rows]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        column = gradients[0].reshape(-1, 1)
        everyone = torch.arange(len(column), device=column.device)
        return _sums_of_rows(column, everyone, ctx.begins, torch.ones_like(gradients[0])).ravel(), None, None


def _sums_of_rows(
    dense: torch.Tensor, indices: torch.Tensor, begins: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Weighted sums of rows of a matrix: those from each beginning to the next."""
    if not len(indices):
        return dense.new_zeros((len(begins), dense.shape[1]))
    return torch.nn.functional.embedding_bag(indices, dense, begins, mode="sum", per_sample_weights=weights)
