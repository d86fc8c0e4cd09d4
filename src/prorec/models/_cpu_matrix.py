"""A sparse matrix on the CPU, with the products that models need, on all cores.

`GpuMatrix` has the same methods. A model's formula is therefore written once, for a matrix of either kind.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.compilation import njit
from prorec._core.digest import digest
from prorec._core.parallel import N_CORES, map_in_order

if TYPE_CHECKING:
    import torch

    from prorec.models._gpu_matrix import GpuMatrix

Dense = Any
"""A dense matrix: a numpy array beside a `CpuMatrix`, a tensor beside a `GpuMatrix`."""


class CpuMatrix:
    """A sparse matrix of weights for the CPU's kernels."""

    def __init__(self, matrix: csr_array) -> None:
        self.matrix, self.shape = matrix, matrix.shape

    @cached_property
    def transposed(self) -> CpuMatrix:
        """The transposed matrix."""
        return CpuMatrix(csr_array(self.matrix.T))

    def times(self, dense: Dense) -> Dense:
        """Return matrix @ dense in single precision."""
        return multiply(self.matrix, dense)

    def times_double(self, dense: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return matrix @ dense in double precision, as a numpy array."""
        return np.asarray(self.matrix.astype(np.float64) @ dense)

    def gram(self) -> NDArray[np.float64]:
        """Return matrix.T @ matrix in double precision, as a numpy array."""
        double = self.matrix.astype(np.float64)
        return np.asarray((double.T @ double).toarray())

    def column_sums(self) -> NDArray[np.float64]:
        """Return the sum of each column."""
        return np.bincount(self.matrix.indices, self.matrix.data, self.shape[1]).astype(np.float64)

    def count_nonzero(self) -> int:
        """Return the number of entries that are not 0."""
        return int(np.count_nonzero(self.matrix.data))

    def max_value(self) -> float:
        """Return the largest value, or 0 if no value is larger."""
        return float(self.matrix.data.max(initial=0))

    def divide(self, divisor: float) -> CpuMatrix:
        """Return the matrix divided by a number."""
        return self._with_data(self.matrix.data / np.float32(divisor))

    def scale_columns(self, factors: NDArray[np.float64]) -> CpuMatrix:
        """Return the matrix with each column multiplied by its factor."""
        return self._with_data((factors[self.matrix.indices] * self.matrix.data).astype(np.float32))

    def scale_rows(self, factors: NDArray[np.float64]) -> CpuMatrix:
        """Return the matrix with each row multiplied by its factor."""
        return self._with_data((np.repeat(factors, np.diff(self.matrix.indptr)) * self.matrix.data).astype(np.float32))

    def digest(self) -> str:
        """Return a text that differs between different matrices."""
        return digest(np.array(self.shape), self.matrix.indptr, self.matrix.indices, self.matrix.data)

    def _with_data(self, data: NDArray[np.float32]) -> CpuMatrix:
        return CpuMatrix(csr_array((data, self.matrix.indices, self.matrix.indptr), shape=self.shape))

    # ── dense matrices beside it ────────────────────────────────────────────────────────────────────

    def empty(self, n_rows: int, n_columns: int) -> Dense:
        """Return an uninitialized dense matrix that is filled column by column."""
        return np.empty((n_rows, n_columns), dtype=np.float32, order="F")

    def to_device(self, dense: NDArray[np.float32]) -> Dense:
        """Return a numpy array as the dense matrix that the methods take."""
        return dense

    def to_host(self, dense: Dense) -> NDArray[np.float32]:
        """Return a dense matrix as a numpy array."""
        return np.asarray(dense)

    def column_norms(self, dense: Dense) -> Dense:
        """Return the Euclidean norm of each column, in the precision of the matrix."""
        return np.linalg.norm(dense, axis=0)

    def column_norms_double(self, dense: Dense) -> NDArray[np.float64]:
        """Return the Euclidean norm of each column in double precision, as a numpy array."""
        return np.asarray(np.linalg.norm(dense.astype(np.float64), axis=0))

    def dense_gram(self, dense: Dense) -> NDArray[np.float64]:
        """Return dense.T @ dense in double precision, as a numpy array."""
        return np.asarray(dense.astype(np.float64).T @ dense)

    def sum_of_squares(self, dense: Dense) -> float:
        """Return the sum of the squares of all entries, in double precision."""
        return float(np.square(dense, dtype=np.float64).sum())


def to_device_matrix(matrix: csr_array, device: torch.device | None) -> CpuMatrix | GpuMatrix:
    """Return the matrix on a device of PyTorch, or on the CPU if the device is None."""
    if device is None:
        return CpuMatrix(matrix)
    from prorec.models._gpu_matrix import GpuMatrix

    return GpuMatrix.from_scipy(matrix, device)


def multiply(matrix: csr_array, dense: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return matrix @ dense in single precision.

    >>> multiply(csr_array([[1.0, 0.0], [2.0, 3.0]]), np.eye(2, dtype=np.float32))
    array([[1., 0.],
           [2., 3.]], dtype=float32)
    """
    out = np.zeros((matrix.shape[0], dense.shape[1]), dtype=np.float32)
    dense = np.ascontiguousarray(dense, dtype=np.float32)
    data = matrix.data.astype(np.float32, copy=False)
    run_on_rows(
        lambda begin, end: _multiply_rows(data, matrix.indices, matrix.indptr, dense, begin, end, out),
        matrix.indptr,
        2 * N_CORES,
    )
    return out


def row_sums(matrix: csr_array) -> NDArray[np.float32]:
    """Return the sum of each row.

    >>> row_sums(csr_array(np.array([[1, 0.5], [0, 0], [0, 2]], dtype=np.float32)))
    array([1.5, 0. , 2. ], dtype=float32)
    """
    sums = np.zeros(matrix.shape[0], dtype=np.float32)
    rows = np.flatnonzero(np.diff(matrix.indptr))
    if len(rows):
        sums[rows] = np.add.reduceat(matrix.data, matrix.indptr[rows], dtype=np.float32)
    return sums


def drop_zeros(matrix: csr_array) -> csr_array:
    """Return the matrix without entries of 0; the matrix itself if it has none.

    >>> drop_zeros(csr_array(([1.0, 0.0], [0, 1], [0, 2]))).nnz
    1
    """
    if matrix.data.all():
        return matrix
    kept = matrix.copy()
    kept.eliminate_zeros()
    return kept


def normalize_rows(matrix: csr_array) -> csr_array:
    """Return the matrix with each row divided by its Euclidean norm; rows of zeros stay as they are.

    >>> normalize_rows(csr_array([[3.0, 4.0], [0.0, 0.0]])).toarray()
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    lengths = np.diff(matrix.indptr)
    squares = np.bincount(
        np.repeat(np.arange(matrix.shape[0]), lengths), matrix.data.astype(np.float64) ** 2, matrix.shape[0]
    )
    norms = np.sqrt(np.where(squares > 0, squares, 1))
    data = matrix.data / np.repeat(norms, lengths)
    return csr_array((data.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


def run_on_rows(work: Callable[[int, int], None], indptr: NDArray[np.int32], n_parts: int) -> None:
    """Call work(begin, end) on all cores, for parts of the rows that have about equal numbers of entries."""
    costs = indptr + np.arange(len(indptr))  # a row itself costs as much as one entry
    cuts = np.searchsorted(costs, np.linspace(0, costs[-1], n_parts + 1)[1:-1]).tolist()
    cuts = [0, *cuts, len(indptr) - 1]
    parts = [(begin, end) for begin, end in pairwise(cuts) if end > begin]
    for _ in map_in_order(lambda part: work(*parts[part]), len(parts), N_CORES):
        pass


@njit(cache=True, nogil=True, fastmath={"contract"})
def _multiply_rows(
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
        for entry in range(indptr[row], indptr[row + 1]):
            source, weight = dense[indices[entry]], data[entry]
            for column in range(width):
                target[column] += weight * source[column]
