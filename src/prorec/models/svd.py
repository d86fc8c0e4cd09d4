"""Truncated singular value decomposition: the plain factor model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_array

from prorec._parallel import one_blas_thread
from prorec._random import generator
from prorec.errors import whole
from prorec.models._sparse import times
from prorec.models.model import Arrays, Model

_BLOCKS = 5
_EXTRA = 8  # directions beyond the rank that are iterated with


@dataclass
class SVD(Model):
    """X ≈ U·Vᵀ with V the leading right singular vectors of X and U = X·V."""

    rank: int = 50
    """How many factors."""
    seed: int = 0
    """Of the random start."""

    def _check_parameters(self, shape: tuple[int, int]) -> None:
        whole("rank", self.rank, 1, min(shape), "the smaller side of the matrix")
        whole("seed", self.seed, 0)

    def _learn(self, matrix: csr_array) -> Arrays:
        _, vectors = leading_right_vectors(matrix, self.rank, self.seed)
        return {"users": times(matrix, vectors), "items": vectors}

    def _encode(self, matrix: csr_array) -> NDArray[np.float32]:
        return times(matrix, self._fitted()["items"])


def leading_right_vectors(matrix: csr_array, rank: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """The largest singular values of a sparse matrix, and their right singular vectors as columns.

    By a block Krylov space of XᵀX from a random start (Musco and Musco 2015): the best vectors in the span of Q, XᵀXQ,
    (XᵀX)²Q, … are far better than the last power alone. Small matrices are decomposed exactly. Each vector's sign is
    such that its largest entry is positive; a singular value of 0 has a vector of zeros.
    """
    n_users, n_items = matrix.shape
    transposed = csr_array(matrix.T)
    if min(n_users, n_items) <= _BLOCKS * (rank + _EXTRA):
        values, vectors = _exactly(matrix, transposed, rank)
    else:
        with one_blas_thread():
            basis, image = _krylov(matrix, transposed, rank + _EXTRA, seed)
            # Within that space, the singular vectors are the eigenvectors of a small matrix.
            values, rotation = _largest((basis.T @ image).astype(np.float64), rank)
            vectors = (basis @ rotation.astype(np.float32)).astype(np.float64)
    values = np.sqrt(np.maximum(values, 0))
    is_zero = values <= 1e-6 * values.max(initial=1e-30)
    values[is_zero], vectors[:, is_zero] = 0, 0
    vectors *= np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(rank)] < 0, -1, 1)
    return values, np.ascontiguousarray(vectors, dtype=np.float32)


def _krylov(
    matrix: csr_array, transposed: csr_array, width: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """An orthonormal basis of Q, XᵀXQ, (XᵀX)²Q, …, and XᵀX times it."""
    n_items = matrix.shape[1]
    basis, image = (np.empty((n_items, _BLOCKS * width), dtype=np.float32, order="F") for _ in range(2))
    new = generator(seed).standard_normal((n_items, width), dtype=np.float32)
    known = 0
    for _ in range(_BLOCKS):
        lengths = np.linalg.norm(new, axis=0)
        before = basis[:, :known]
        new -= before @ (before.T @ new)
        new = _orthonormal(new[:, np.linalg.norm(new, axis=0) > 1e-4 * lengths])
        if not new.shape[1]:
            break
        part = slice(known, known + new.shape[1])
        basis[:, part], image[:, part] = new, times(transposed, times(matrix, new))
        new, known = image[:, part].copy(), part.stop
    return basis[:, :known], image[:, :known]


def _exactly(matrix: csr_array, transposed: csr_array, rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Squared singular values and right vectors, by the products of all rows or of all columns with each other."""
    wide = matrix.astype(np.float64)
    if matrix.shape[1] <= matrix.shape[0]:
        return _largest((wide.T @ wide).toarray(), rank)
    values, left = _largest((wide @ wide.T).toarray(), rank)
    right = transposed.astype(np.float64) @ left
    lengths = np.linalg.norm(right, axis=0)
    return values, right / np.where(lengths > 0, lengths, 1)


def _largest(symmetric: NDArray[np.float64], rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The largest eigenvalues, descending, and their vectors."""
    n = len(symmetric)
    values, vectors = eigh((symmetric + symmetric.T) / 2, subset_by_index=[n - rank, n - 1], check_finite=False)
    return values[::-1].copy(), vectors[:, ::-1].copy()


def _orthonormal(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """An orthonormal basis of the same space; by the triangular factor of VᵀV where that is sound, which is faster."""
    unit = vectors / np.linalg.norm(vectors, axis=0)
    try:
        triangle = np.linalg.cholesky(unit.T.astype(np.float64) @ unit)
        if triangle.diagonal().min(initial=1) > 1e-3:
            return np.asarray(unit @ np.linalg.inv(triangle).T.astype(np.float32), dtype=np.float32)
    except np.linalg.LinAlgError:
        pass
    return np.asarray(np.linalg.qr(unit)[0], dtype=np.float32)
