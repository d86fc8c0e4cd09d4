"""Sparse matrices on a device of PyTorch's, and work there that makes do with the memory there is.

Every sum is taken in one order, so that the same input gives the same output bit by bit: rows are summed as bags of an
embedding, one entry after the other. PyTorch's own sparse products and scattered additions are not: they add up in
whatever order the GPU comes to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.digest import digest
from prorec._core.errors import InputError
from prorec._core.tensors import to_tensor
from prorec.models._sparse import Dense

_SEGMENT = 1024  # entries that are summed one after the other; many such sums run side by side
_BLOCK = 2**27  # numbers in a dense block
_PRODUCT = 4096  # rows that are multiplied with each other at a time


class Pattern:
    """Where a sparse matrix has entries: columns of each row, one row after the other.

    Rows are cut into segments, because one bag is summed by a few threads and an item may have half a million users.
    The sums of segments are then summed by row in the same way.
    """

    def __init__(self, indices: torch.Tensor, indptr: torch.Tensor, shape: tuple[int, int]) -> None:
        self.indices, self.indptr, self.shape = indices, indptr, shape

    @cached_property
    def begins(self) -> list[torch.Tensor]:
        """Where segments begin among the entries, and then where rows begin among the segments, if there are more."""
        return segments(self.indptr)

    @cached_property
    def rows(self) -> torch.Tensor:
        """The row of each entry."""
        numbers = torch.arange(self.shape[0], dtype=self.indices.dtype, device=self.indices.device)
        return numbers.repeat_interleave(self.indptr.diff(), output_size=len(self.indices))

    @cached_property
    def host_indptr(self) -> NDArray[np.int64]:
        """Where rows begin and end, for those who cut them."""
        return self.indptr.cpu().numpy().astype(np.int64)

    @cached_property
    def transposed(self) -> tuple[Pattern, torch.Tensor]:
        """The pattern with rows and columns changed over, and where each of its entries is in this one."""
        n_rows, n_columns = self.shape
        columns, order = torch.sort(self.indices, stable=True)
        numbers = torch.arange(n_columns + 1, dtype=columns.dtype, device=columns.device)
        indptr = torch.searchsorted(columns, numbers).to(self.indptr.dtype)
        return Pattern(self.rows[order], indptr, (n_columns, n_rows)), order


class Sparse:
    """A sparse matrix on a device; it can do what `_sparse.OnHost` can. Dense matrices stay on the device too."""

    def __init__(self, pattern: Pattern, values: torch.Tensor) -> None:
        self.pattern, self.values = pattern, values
        self.shape, self.device = pattern.shape, values.device

    @classmethod
    def of(cls, matrix: csr_array, device: torch.device) -> Sparse:
        """A matrix of scipy's, moved."""
        kind = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 - 1 else np.int64
        indices, indptr = (to_tensor(each.astype(kind, copy=False), device) for each in (matrix.indices, matrix.indptr))
        return cls(
            Pattern(indices, indptr, matrix.shape), to_tensor(matrix.data.astype(np.float32, copy=False), device)
        )

    @cached_property
    def transposed(self) -> Sparse:
        """Columns as rows."""
        pattern, order = self.pattern.transposed
        return Sparse(pattern, self.values[order])

    def times(self, dense: Dense) -> Dense:
        """Matrix @ dense, in the precision of the matrix."""
        return sums_of_rows(self.here(dense).contiguous(), self.pattern.indices, self.pattern.begins, self.values)

    def transposed_times(self, dense: Dense) -> Dense:
        """Matrix.T @ dense."""
        return self.transposed.times(dense)

    def squared_times(self, dense: Dense) -> Dense:
        """Matrix.T @ matrix @ dense."""
        return self.transposed_times(self.times(dense))

    def lengths_times(self, dense: NDArray[np.float32]) -> NDArray[np.float64]:
        """Lengths of the columns of matrix @ dense."""
        return np.asarray(np.sqrt(to_host(products(self.times(dense)).diagonal())))

    def gram(self) -> torch.Tensor:
        """Matrix.T @ matrix in double precision, by blocks of dense columns."""
        wide = self.wide()
        by_column = wide.transposed
        n_rows, n_columns = self.shape
        gram = torch.empty((n_columns, n_columns), dtype=torch.float64, device=self.device)
        width = max(1, min(n_columns, _BLOCK // max(n_rows, n_columns)))

        def work(begin: int, end: int) -> None:
            first, last = by_column.pattern.host_indptr[[begin, end]].tolist()
            dense = torch.zeros((n_rows, end - begin), dtype=torch.float64, device=self.device)
            places = by_column.pattern.indices[first:last].long(), by_column.pattern.rows[first:last].long() - begin
            dense[places] = by_column.values[first:last]  # each place once, so the order does not matter
            gram[:, begin:end] = by_column.times(dense)

        in_blocks(work, [*range(0, n_columns, width), n_columns])
        return gram

    def columns_gram(self) -> NDArray[np.float64]:
        """Matrix.T @ matrix."""
        return to_host(self.gram())

    def rows_gram(self) -> NDArray[np.float64]:
        """Matrix @ matrix.T."""
        return to_host(self.transposed.gram())

    def wide_transposed_times(self, dense: NDArray[np.float64]) -> NDArray[np.float64]:
        """Matrix.T @ dense in double precision."""
        return to_host(self.wide().transposed_times(dense))

    def column_sums(self) -> NDArray[np.float64]:
        """The sum of each column."""
        by_column = self.wide().transposed
        everything = torch.arange(len(self.values), dtype=self.pattern.indices.dtype, device=self.device)
        sums = sums_of_rows(by_column.values.reshape(-1, 1), everything, by_column.pattern.begins)
        return to_host(sums.ravel())

    def count_nonzero(self) -> int:
        """How many entries are not 0."""
        return int(self.values.count_nonzero())

    def largest(self) -> float:
        """The largest value; 0 if there is none above."""
        return max(float(self.values.max()), 0.0) if len(self.values) else 0.0

    def over(self, divisor: float) -> Sparse:
        """The matrix divided by a number."""
        return Sparse(self.pattern, self.values / divisor)

    def times_columns(self, factors: NDArray[np.float64]) -> Sparse:
        """Each column times a factor."""
        values = to_tensor(factors, self.device)[self.pattern.indices] * self.values
        return Sparse(self.pattern, values.to(self.values.dtype))

    def unit_rows(self) -> Sparse:
        """Each row over its length, rows of zeros as they are."""
        everything = torch.arange(len(self.values), dtype=self.pattern.indices.dtype, device=self.device)
        squares = sums_of_rows(self.values.double().square().reshape(-1, 1), everything, self.pattern.begins).ravel()
        lengths = torch.where(squares > 0, squares, 1.0).sqrt()
        return Sparse(self.pattern, (self.values / lengths[self.pattern.rows]).to(self.values.dtype))

    def wide(self) -> Sparse:
        """The matrix in double precision."""
        return Sparse(self.pattern, self.values.double())

    def digest(self) -> str:
        """What tells it from other matrices, and from the same one elsewhere."""
        parts = self.pattern.indptr, self.pattern.indices, self.values
        return f"{self.device} {digest(np.array(self.shape), *(each.cpu().numpy() for each in parts))}"

    # Of dense matrices.

    def room(self, n_rows: int, n_columns: int) -> Dense:
        """For columns that are filled in one after the other."""
        return torch.empty((n_rows, n_columns), device=self.device)

    def here(self, dense: Dense) -> torch.Tensor:
        """On the device, in the precision of the matrix; there to be read only, if it was numpy's."""
        moved: torch.Tensor = to_tensor(dense, self.device) if isinstance(dense, np.ndarray) else dense
        return moved.to(self.values.dtype)

    def lengths(self, dense: Dense) -> Dense:
        """Of the columns."""
        return torch.linalg.vector_norm(dense, dim=0)

    def products(self, dense: Dense) -> NDArray[np.float64]:
        """Of columns with each other: dense.T @ dense."""
        return to_host(products(dense))

    def squares(self, dense: Dense) -> float:
        """The sum of all squares."""
        return float(products(dense).trace())

    def to_host(self, dense: Dense) -> NDArray[Any]:
        """As numpy's."""
        return to_host(dense)


def sums_of_rows(
    dense: torch.Tensor, indices: torch.Tensor, begins: Sequence[torch.Tensor], weights: torch.Tensor | None = None
) -> torch.Tensor:
    """Weighted sums of rows of a dense matrix, in order; `begins` as `Pattern` has it."""
    if not len(indices):
        return dense.new_zeros((len(begins[-1]), dense.shape[1]))
    sums = torch.nn.functional.embedding_bag(indices, dense, begins[0], mode="sum", per_sample_weights=weights)
    for after in begins[1:]:
        everything = torch.arange(len(sums), dtype=after.dtype, device=after.device)
        sums = torch.nn.functional.embedding_bag(everything, sums, after, mode="sum")
    return sums


def segments(indptr: torch.Tensor) -> list[torch.Tensor]:
    """Where segments of rows begin among the entries, where rows begin among the segments, and so on: see `Pattern`."""
    lengths = indptr.diff()
    if not len(lengths) or int(lengths.max()) <= _SEGMENT:
        return [indptr[:-1].contiguous()]
    pieces = (lengths + (_SEGMENT - 1)) // _SEGMENT
    above = torch.nn.functional.pad(pieces.cumsum(0), (1, 0)).to(indptr.dtype)
    row = torch.repeat_interleave(pieces, output_size=int(above[-1]))
    number = torch.arange(len(row), dtype=indptr.dtype, device=indptr.device) - above[row]
    return [(indptr[row] + number * _SEGMENT).to(indptr.dtype), *segments(above)]


def entries_of(
    rows: NDArray[np.int64], indptr: NDArray[Any], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, NDArray[np.int64]]:
    """The entries of some rows: which of the rows each is in, and its place in the matrix; and where the rows begin."""
    begins = indptr[rows].astype(np.int64)
    lengths = indptr[rows + 1] - begins
    ends = np.concatenate(([0], lengths.cumsum()))
    numbers = torch.arange(len(rows), device=device)
    row = numbers.repeat_interleave(to_tensor(lengths, device), output_size=int(ends[-1]))
    # An entry's place in the matrix is its place among these, and how far the row's beginning is from there.
    places = torch.arange(len(row), device=device) + to_tensor(begins - ends[:-1], device)[row]
    return row, places, ends


def products(dense: torch.Tensor) -> torch.Tensor:
    """dense.T @ dense in double precision, by blocks of rows, many of which run side by side."""
    width = dense.shape[1]
    total = torch.zeros((width, width), dtype=torch.float64, device=dense.device)
    size = max(_PRODUCT, _BLOCK // max(width, 1) // _PRODUCT * _PRODUCT)
    for begin in range(0, len(dense), size):
        wide = dense[begin : begin + size].double()
        n_whole = len(wide) // _PRODUCT * _PRODUCT
        blocks, rest = wide[:n_whole].view(-1, _PRODUCT, width), wide[n_whole:]
        total += (blocks.transpose(1, 2) @ blocks).sum(dim=0) + rest.T @ rest
    return total


def to_host(dense: torch.Tensor) -> NDArray[Any]:
    """A numpy array."""
    array: NDArray[Any] = dense.cpu().numpy()
    return array


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────


def in_blocks(work: Callable[[int, int], None], cuts: Sequence[int]) -> None:
    """Do work(begin, end) from each cut to the next, in smaller blocks where the device's memory is short.

    When a block does not fit, it and all that are left are halved. Work that failed is done again from its beginning.
    """
    waiting = list(pairwise(cuts))[::-1]
    while waiting:
        begin, end = waiting[-1]
        if _fits(work, begin, end):
            waiting.pop()
        elif end - begin <= 1:
            raise InputError("one row does not fit into the device's memory; device='cpu' does without the device")
        else:
            torch.cuda.empty_cache()  # what is kept for later may be in pieces that are too small
            halves = ((first, (first + last) // 2, last) for first, last in waiting)
            waiting = [part for first, middle, last in halves for part in ((middle, last), (first, middle))]
            waiting = [(first, last) for first, last in waiting if first < last]


def _fits(work: Callable[[int, int], None], begin: int, end: int) -> bool:
    """Whether the work was done; when this is known, nothing holds on to what it had in memory."""
    try:
        work(begin, end)
    except torch.OutOfMemoryError:
        return False
    return True
