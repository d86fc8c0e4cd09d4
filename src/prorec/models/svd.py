"""Truncated singular value decomposition: the plain factor model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from prorec._random import generator
from prorec.errors import whole
from prorec.models._sparse import times
from prorec.models.model import Arrays, Model

_POWER_ITERATIONS = 10
_EXTRA = 16  # directions beyond the rank that are iterated with, for faster convergence


@dataclass
class SVD(Model):
    """X ≈ U·Vᵀ with V the leading right singular vectors of X and U = X·V.

    Found by subspace iteration from a random start, ten rounds.
    """

    rank: int = 50
    """How many factors."""
    seed: int = 0
    """Of the random start."""

    def _check_parameters(self, shape: tuple[int, int]) -> None:
        whole("rank", self.rank, 1, min(shape), "the smaller side of the matrix")

    def _learn(self, matrix: csr_array) -> Arrays:
        _, vectors = leading_right_vectors(matrix, self.rank, self.seed)
        return {"users": times(matrix, vectors), "items": vectors}

    def _encode(self, matrix: csr_array) -> NDArray[np.float32]:
        return times(matrix, self._fitted()["items"])


def leading_right_vectors(matrix: csr_array, rank: int, seed: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """The largest singular values of a sparse matrix, and their right singular vectors as columns.

    Each vector's sign is such that its largest entry is positive. A singular value of 0 has whatever vector completes
    the others.
    """
    n_users, n_items = matrix.shape
    width = min(rank + _EXTRA, n_users, n_items)
    transposed = csr_array(matrix.T)
    basis = _orthonormal(generator(seed).standard_normal((n_items, width)))
    for _ in range(_POWER_ITERATIONS):
        basis = _orthonormal(times(transposed, times(matrix, basis)))
    # Within the space found, the singular vectors are the eigenvectors of a small matrix.
    projected = times(matrix, basis).astype(np.float64)
    values, rotation = np.linalg.eigh(projected.T @ projected)
    values, rotation = np.sqrt(np.maximum(values[::-1][:rank], 0)), rotation[:, ::-1][:, :rank]
    vectors = basis.astype(np.float64) @ rotation
    vectors *= np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(rank)] < 0, -1, 1)
    return values, vectors.astype(np.float32)


def _orthonormal(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """An orthonormal basis of the same space; by the triangular factor of VᵀV where that is sound, which is faster."""
    vectors = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=0)
    if lengths.min() > 0:
        vectors = vectors / lengths
        try:
            triangle = np.linalg.cholesky(vectors.T @ vectors)
            if triangle.diagonal().min() > 1e-4:
                basis = solve_triangular(triangle, vectors.T, lower=True, check_finite=False).T
                return np.asarray(basis, dtype=np.float32)
        except np.linalg.LinAlgError:
            pass
    return np.asarray(np.linalg.qr(vectors)[0], dtype=np.float32)
