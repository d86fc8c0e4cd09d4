"""Sparse matrix times dense matrix, on all cores; and one name for what the CPU and a device of PyTorch's can do."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.digest import digest
from prorec._core.parallel import N_CORES, map_in_order

if TYPE_CHECKING:
    import torch

    from prorec.models._on_device import Sparse

Dense = Any
"""A dense matrix in single precision: numpy's, or PyTorch's where the sparse one is on a device."""


class OnHost:
    """A sparse matrix for the CPU's kernels; `_on_device.Sparse` has the same methods, and dense matrices elsewhere."""

    def __init__(self, matrix: csr_array) -> None:
        self.matrix, self.shape = matrix, matrix.shape

    @cached_property
    def transposed(self) -> csr_array:
        """Columns as rows."""
        return csr_array(self.matrix.T)

    def times(self, dense: Dense) -> Dense:
        """Matrix @ dense."""
        return times(self.matrix, dense)

    def transposed_times(self, dense: Dense) -> Dense:
        """Matrix.T @ dense."""
        return times(self.transposed, dense)

    def squared_times(self, dense: Dense) -> Dense:
        """Matrix.T @ matrix @ dense."""
        return times(self.transposed, times(self.matrix, dense))

    def lengths_times(self, dense: NDArray[np.float32]) -> NDArray[np.float64]:
        """Lengths of the columns of matrix @ dense."""
        return np.asarray(np.linalg.norm(self.times(dense).astype(np.float64), axis=0))

    def columns_gram(self) -> NDArray[np.float64]:
        """Matrix.T @ matrix."""
        wide = self.matrix.astype(np.float64)
        return np.asarray((wide.T @ wide).toarray())

    def rows_gram(self) -> NDArray[np.float64]:
        """Matrix @ matrix.T."""
        wide = self.matrix.astype(np.float64)
        return np.asarray((wide @ wide.T).toarray())

    def wide_transposed_times(self, dense: NDArray[np.float64]) -> NDArray[np.float64]:
        """Matrix.T @ dense in double precision."""
        return np.asarray(self.transposed.astype(np.float64) @ dense)

    def column_sums(self) -> NDArray[np.float64]:
        """The sum of each column."""
        return np.bincount(self.matrix.indices, self.matrix.data, self.shape[1]).astype(np.float64)

    def count_nonzero(self) -> int:
        """How many entries are not 0."""
        return int(np.count_nonzero(self.matrix.data))

    def largest(self) -> float:
        """The largest value; 0 if there is none above."""
        return float(self.matrix.data.max(initial=0))

    def over(self, divisor: float) -> OnHost:
        """The matrix divided by a number."""
        return self._with(self.matrix.data / np.float32(divisor))

    def times_columns(self, factors: NDArray[np.float64]) -> OnHost:
        """Each column times a factor."""
        return self._with((factors[self.matrix.indices] * self.matrix.data).astype(np.float32))

    def digest(self) -> str:
        """What tells it from other matrices."""
        return digest(np.array(self.shape), self.matrix.indptr, self.matrix.indices, self.matrix.data)

    def _with(self, data: NDArray[np.float32]) -> OnHost:
        return OnHost(csr_array((data, self.matrix.indices, self.matrix.indptr), shape=self.shape))

    # Of dense matrices.

    def room(self, n_rows: int, n_columns: int) -> Dense:
        """For columns that are filled in one after the other."""
        return np.empty((n_rows, n_columns), dtype=np.float32, order="F")

    def here(self, dense: NDArray[np.float32]) -> Dense:
        """Of numpy's, as it is needed here: as it is."""
        return dense

    def lengths(self, dense: Dense) -> Dense:
        """Of the columns."""
        return np.linalg.norm(dense, axis=0)

    def products(self, dense: Dense) -> NDArray[np.float64]:
        """Of columns with each other: dense.T @ dense."""
        return np.asarray(dense.astype(np.float64).T @ dense)

    def squares(self, dense: Dense) -> float:
        """The sum of all squares."""
        return float(np.square(dense, dtype=np.float64).sum())

    def to_host(self, dense: Dense) -> NDArray[np.float32]:
        """As numpy's, which it is."""
        return np.asarray(dense)


def held(matrix: csr_array, device: torch.device | None) -> OnHost | Sparse:
    """A matrix where it is to be worked with."""
    if device is None:
        return OnHost(matrix)
    from prorec.models._on_device import Sparse

    return Sparse.of(matrix, device)


def times(matrix: csr_array, dense: NDArray[np.float32]) -> NDArray[np.float32]:
    """Matrix @ dense, in single precision.

    >>> times(csr_array([[1.0, 0.0], [2.0, 3.0]]), np.eye(2, dtype=np.float32))
    array([[1., 0.],
           [2., 3.]], dtype=float32)
    """
    out = np.zeros((matrix.shape[0], dense.shape[1]), dtype=np.float32)
    dense = np.ascontiguousarray(dense, dtype=np.float32)
    data = matrix.data.astype(np.float32, copy=False)
    cuts = balanced(matrix.indptr, 2 * N_CORES)

    def work(place: int) -> None:
        _times(data, matrix.indices, matrix.indptr, dense, cuts[place], cuts[place + 1], out)

    for _ in map_in_order(work, len(cuts) - 1, N_CORES):
        pass
    return out


def row_sums(matrix: csr_array) -> NDArray[np.float32]:
    """The sum of each row.

    >>> row_sums(csr_array(np.array([[1, 0.5], [0, 0], [0, 2]], dtype=np.float32)))
    array([1.5, 0. , 2. ], dtype=float32)
    """
    sums = np.zeros(matrix.shape[0], dtype=np.float32)
    rows = np.flatnonzero(np.diff(matrix.indptr))
    if len(rows):
        sums[rows] = np.add.reduceat(matrix.data, matrix.indptr[rows], dtype=np.float32)
    return sums


def balanced(indptr: NDArray[np.int32], parts: int) -> list[int]:
    """Where to cut rows so that each part has about as many entries (a row itself counts as one)."""
    n_rows = len(indptr) - 1
    work = indptr + np.arange(n_rows + 1)
    cuts = np.searchsorted(work, np.linspace(0, work[-1], parts + 1)[1:-1]).tolist()
    cuts = [0, *cuts, n_rows]
    return [0, *(cut for before, cut in pairwise(cuts) if cut > before)]


@njit(cache=True, nogil=True, fastmath={"contract"})
def _times(
    data: NDArray[np.float32],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int32],
    dense: NDArray[np.float32],
    begin: int,
    end: int,
    out: NDArray[np.float32],
) -> None:
    width = dense.shape[1]
    for row in range(begin, end):
        target = out[row]
        for place in range(indptr[row], indptr[row + 1]):
            source, weight = dense[indices[place]], data[place]
            for column in range(width):
                target[column] += weight * source[column]
