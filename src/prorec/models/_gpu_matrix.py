"""A sparse matrix on a device of PyTorch, and work there in blocks that shrink when memory runs out.

Every sum is taken in one order, so that the same input gives the same output, bit for bit: rows are summed as bags of
an embedding, one entry after the other. PyTorch's own sparse products and scattered additions have no fixed order on a
GPU.
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
from prorec.models._cpu_matrix import Dense

_MAX_SEGMENT = 1024
"""Entries that one thread group sums one after the other; many such sums run in parallel."""
_MAX_BLOCK = 2**27
"""Numbers in a dense block."""
_PRODUCT_ROWS = 4096
"""Rows of each product in a batch of products."""


class SparsityPattern:
    """Positions of a sparse matrix's entries: the columns of each row, one row after the other.

    Rows are cut into segments, because one bag is summed by few threads and an item may have half a million users. The
    sums of the segments are then summed by row in the same way.
    """

    def __init__(self, indices: torch.Tensor, indptr: torch.Tensor, shape: tuple[int, int]) -> None:
        self.indices, self.indptr, self.shape = indices, indptr, shape

    @cached_property
    def segment_starts(self) -> list[torch.Tensor]:
        """Starts of the segments among the entries, then starts of the rows among the segments."""
        return find_segments(self.indptr)

    @cached_property
    def rows(self) -> torch.Tensor:
        """Row of each entry."""
        return repeat_rows(self.indptr, len(self.indices))

    @cached_property
    def host_indptr(self) -> NDArray[np.int64]:
        """Starts and ends of the rows as a numpy array, for cutting them without a wait for the device."""
        return self.indptr.cpu().numpy().astype(np.int64)

    @cached_property
    def transposed(self) -> tuple[SparsityPattern, torch.Tensor]:
        """The transposed pattern, and the position in this one of each of its entries."""
        n_rows, n_columns = self.shape
        columns, order = torch.sort(self.indices, stable=True)
        numbers = torch.arange(n_columns + 1, dtype=columns.dtype, device=columns.device)
        indptr = torch.searchsorted(columns, numbers).to(self.indptr.dtype)
        return SparsityPattern(self.rows[order], indptr, (n_columns, n_rows)), order

    def sum_by_row(self, values: torch.Tensor) -> torch.Tensor:
        """Return the sum of the entries' values of each row."""
        positions = torch.arange(len(values), dtype=self.indices.dtype, device=values.device)
        return sum_rows(values.reshape(-1, 1), positions, self.segment_starts).ravel()


class GpuMatrix:
    """A sparse matrix of weights on a device; its methods are those of `CpuMatrix`."""

    def __init__(self, pattern: SparsityPattern, values: torch.Tensor) -> None:
        self.pattern, self.values = pattern, values
        self.shape, self.device = pattern.shape, values.device

    @classmethod
    def from_scipy(cls, matrix: csr_array, device: torch.device) -> GpuMatrix:
        """Copy a scipy matrix to the device."""
        dtype = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 - 1 else np.int64
        indices, indptr = (
            to_tensor(each.astype(dtype, copy=False), device) for each in (matrix.indices, matrix.indptr)
        )
        values = to_tensor(matrix.data.astype(np.float32, copy=False), device)
        return cls(SparsityPattern(indices, indptr, matrix.shape), values)

    @cached_property
    def transposed(self) -> GpuMatrix:
        """The transposed matrix."""
        pattern, order = self.pattern.transposed
        return GpuMatrix(pattern, self.values[order])

    def times(self, dense: Dense) -> Dense:
        """Return matrix @ dense, in the precision of the matrix."""
        dense = self.to_device(dense).contiguous()
        return sum_rows(dense, self.pattern.indices, self.pattern.segment_starts, self.values)

    def times_double(self, dense: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return matrix @ dense in double precision, as a numpy array."""
        return to_host(self._to_double().times(dense))

    def gram(self) -> NDArray[np.float64]:
        """Return matrix.T @ matrix in double precision, as a numpy array."""
        return to_host(self.gram_on_device())

    def gram_on_device(self) -> torch.Tensor:
        """Return matrix.T @ matrix in double precision, by blocks of dense columns."""
        by_column = self._to_double().transposed
        n_rows, n_columns = self.shape
        gram = torch.empty((n_columns, n_columns), dtype=torch.float64, device=self.device)
        width = max(1, min(n_columns, _MAX_BLOCK // max(n_rows, n_columns)))

        def fill_columns(begin: int, end: int) -> None:
            first, last = by_column.pattern.host_indptr[[begin, end]].tolist()
            dense = torch.zeros((n_rows, end - begin), dtype=torch.float64, device=self.device)
            rows, columns = by_column.pattern.indices[first:last].long(), by_column.pattern.rows[first:last].long()
            dense[rows, columns - begin] = by_column.values[first:last]  # no position twice, so the order is irrelevant
            gram[:, begin:end] = by_column.times(dense)

        run_in_blocks(fill_columns, [*range(0, n_columns, width), n_columns])
        return gram

    def column_sums(self) -> NDArray[np.float64]:
        """Return the sum of each column."""
        by_column = self._to_double().transposed
        return to_host(by_column.pattern.sum_by_row(by_column.values))

    def count_nonzero(self) -> int:
        """Return the number of entries that are not 0."""
        return int(self.values.count_nonzero())

    def max_value(self) -> float:
        """Return the largest value, or 0 if no value is larger."""
        return max(float(self.values.max()), 0.0) if len(self.values) else 0.0

    def divide(self, divisor: float) -> GpuMatrix:
        """Return the matrix divided by a number."""
        return GpuMatrix(self.pattern, self.values / divisor)

    def scale_columns(self, factors: NDArray[np.float64]) -> GpuMatrix:
        """Return the matrix with each column multiplied by its factor."""
        values = to_tensor(factors, self.device)[self.pattern.indices] * self.values
        return GpuMatrix(self.pattern, values.to(self.values.dtype))

    def scale_rows(self, factors: NDArray[np.float64]) -> GpuMatrix:
        """Return the matrix with each row multiplied by its factor."""
        values = to_tensor(factors, self.device)[self.pattern.rows] * self.values
        return GpuMatrix(self.pattern, values.to(self.values.dtype))

    def normalize_rows(self) -> GpuMatrix:
        """Return the matrix with each row divided by its Euclidean norm; rows of zeros stay as they are."""
        squares = self.pattern.sum_by_row(self.values.double().square())
        norms = torch.where(squares > 0, squares, 1.0).sqrt()
        return GpuMatrix(self.pattern, (self.values / norms[self.pattern.rows]).to(self.values.dtype))

    def digest(self) -> str:
        """Return a text that differs between different matrices, and between devices."""
        parts = self.pattern.indptr, self.pattern.indices, self.values
        return f"{self.device} {digest(np.array(self.shape), *(each.cpu().numpy() for each in parts))}"

    def _to_double(self) -> GpuMatrix:
        return GpuMatrix(self.pattern, self.values.double())

    # ── dense matrices beside it ────────────────────────────────────────────────────────────────────

    def empty(self, n_rows: int, n_columns: int) -> Dense:
        """Return an uninitialized dense matrix."""
        return torch.empty((n_rows, n_columns), device=self.device)

    def to_device(self, dense: Dense) -> torch.Tensor:
        """Return a dense matrix as a tensor on the device; on the CPU it shares the memory of a numpy array."""
        tensor: torch.Tensor = to_tensor(dense, self.device) if isinstance(dense, np.ndarray) else dense
        return tensor.to(self.values.dtype)

    def to_host(self, dense: Dense) -> NDArray[Any]:
        """Return a dense matrix as a numpy array."""
        return to_host(dense)

    def column_norms(self, dense: Dense) -> Dense:
        """Return the Euclidean norm of each column, in the precision of the matrix."""
        return torch.linalg.vector_norm(dense, dim=0)

    def column_norms_double(self, dense: Dense) -> NDArray[np.float64]:
        """Return the Euclidean norm of each column in double precision, as a numpy array."""
        return np.asarray(np.sqrt(to_host(dense_gram(dense).diagonal())))

    def dense_gram(self, dense: Dense) -> NDArray[np.float64]:
        """Return dense.T @ dense in double precision, as a numpy array."""
        return to_host(dense_gram(dense))

    def sum_of_squares(self, dense: Dense) -> float:
        """Return the sum of the squares of all entries, in double precision."""
        return float(dense_gram(dense).trace())


def sum_rows(
    dense: torch.Tensor, indices: torch.Tensor, starts: Sequence[torch.Tensor], weights: torch.Tensor | None = None
) -> torch.Tensor:
    """Return weighted sums of rows of a dense matrix, each in the order of `indices`.

    `starts` has the start of each sum among the indices; further ones sum these sums, see `SparsityPattern`.
    """
    if not len(indices):
        return dense.new_zeros((len(starts[-1]), dense.shape[1]))
    sums = torch.nn.functional.embedding_bag(indices, dense, starts[0], mode="sum", per_sample_weights=weights)
    for upper_starts in starts[1:]:
        positions = torch.arange(len(sums), dtype=upper_starts.dtype, device=upper_starts.device)
        sums = torch.nn.functional.embedding_bag(positions, sums, upper_starts, mode="sum")
    return sums


def find_segments(indptr: torch.Tensor) -> list[torch.Tensor]:
    """Return starts of segments among the entries, starts of rows among the segments, and so on."""
    lengths = indptr.diff()
    if not len(lengths) or int(lengths.max()) <= _MAX_SEGMENT:
        return [indptr[:-1].contiguous()]
    n_segments = (lengths + (_MAX_SEGMENT - 1)) // _MAX_SEGMENT
    upper_indptr = torch.nn.functional.pad(n_segments.cumsum(0), (1, 0)).to(indptr.dtype)
    row = torch.repeat_interleave(n_segments, output_size=int(upper_indptr[-1]))
    number = torch.arange(len(row), dtype=indptr.dtype, device=indptr.device) - upper_indptr[row]
    return [(indptr[row] + number * _MAX_SEGMENT).to(indptr.dtype), *find_segments(upper_indptr)]


def repeat_rows(indptr: torch.Tensor, n_entries: int) -> torch.Tensor:
    """Return the row of each entry."""
    numbers = torch.arange(len(indptr) - 1, dtype=indptr.dtype, device=indptr.device)
    return numbers.repeat_interleave(indptr.diff(), output_size=n_entries)


def find_entries(
    rows: NDArray[np.int64], indptr: NDArray[Any], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor, NDArray[np.int64]]:
    """Return the entries of some rows: position in `rows` and position in the matrix of each, and the rows' bounds."""
    starts = indptr[rows].astype(np.int64)
    bounds = np.concatenate(([0], (indptr[rows + 1] - starts).cumsum()))
    row = repeat_rows(to_tensor(bounds, device), int(bounds[-1]))
    # The rows' entries follow each other here; in the matrix, each row's entries are shifted by one offset.
    positions = torch.arange(len(row), device=device) + to_tensor(starts - bounds[:-1], device)[row]
    return row, positions, bounds


def dense_gram(dense: torch.Tensor) -> torch.Tensor:
    """Return dense.T @ dense in double precision, as a sum of products of blocks that run in parallel."""
    width = dense.shape[1]
    total = torch.zeros((width, width), dtype=torch.float64, device=dense.device)
    size = max(_PRODUCT_ROWS, _MAX_BLOCK // max(width, 1) // _PRODUCT_ROWS * _PRODUCT_ROWS)
    for begin in range(0, len(dense), size):
        double = dense[begin : begin + size].double()
        n_batched = len(double) // _PRODUCT_ROWS * _PRODUCT_ROWS
        blocks, rest = double[:n_batched].view(-1, _PRODUCT_ROWS, width), double[n_batched:]
        total += (blocks.transpose(1, 2) @ blocks).sum(dim=0) + rest.T @ rest
    return total


def to_host(dense: torch.Tensor) -> NDArray[Any]:
    """Return a tensor as a numpy array."""
    array: NDArray[Any] = dense.cpu().numpy()
    return array


def run_in_blocks(work: Callable[[int, int], None], cuts: Sequence[int]) -> None:
    """Call work(begin, end) from each cut to the next, in smaller blocks where the device's memory is short.

    If a block does not fit, it and all that are left are halved. Work that failed is done again from its beginning.

    Raises
    ------
    InputError
        If a block of one row does not fit.
    """
    waiting = list(pairwise(cuts))[::-1]
    while waiting:
        begin, end = waiting[-1]
        if _fits(work, begin, end):
            waiting.pop()
        elif end - begin <= 1:
            raise InputError("a block of one row does not fit into the device's memory; pass device='cpu'")
        else:
            torch.cuda.empty_cache()  # the cached pieces may be too small
            halves = ((first, (first + last) // 2, last) for first, last in waiting)
            waiting = [part for first, middle, last in halves for part in ((middle, last), (first, middle))]
            waiting = [(first, last) for first, last in waiting if first < last]


def _fits(work: Callable[[int, int], None], begin: int, end: int) -> bool:
    """Return whether the work was done; on return, the traceback holds no memory of failed work."""
    try:
        work(begin, end)
    except torch.OutOfMemoryError:
        return False
    return True
