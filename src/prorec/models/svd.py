"""Truncated singular value decomposition: the plain factor model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_array

from prorec._core.checks import check_int
from prorec._core.parallel import single_blas_thread
from prorec._core.random import make_generator
from prorec.models._sparse import Dense, OnHost, held, times
from prorec.models.model import Model
from prorec.models.storage import Arrays

if TYPE_CHECKING:
    from prorec.models._on_device import Sparse

_BLOCKS = 5
_EXTRA = 8  # directions beyond the rank that are iterated with
_LARGEST_EXACT = 6000  # rows, whose products with each other take 288 MB

Decomposition = tuple[NDArray[np.float64], NDArray[np.float32]]
_MOST_SHARED = 8
_shared: ContextVar[dict[tuple[str, int, int], Decomposition] | None] = ContextVar("decompositions", default=None)


@dataclass
class SVD(Model):
    """X ≈ U·Vᵀ with V the leading right singular vectors of X and U = X·V."""

    rank: int = 50
    """How many factors."""
    seed: int = 0
    """Of the random start."""
    device: str = field(default="auto", repr=False, compare=False)
    """Where to learn and to recommend: `auto`, a GPU if there is one and the data are large; `cpu`; or `cuda`."""

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Raise InputError unless the parameters are valid for a matrix of this shape."""
        check_int("rank", self.rank, 1, min(shape), "the smaller side of the matrix")
        check_int("seed", self.seed, 0)
        self._device(shape)

    def _learn(self, matrix: csr_array) -> Arrays:
        held_matrix = held(matrix, self._device(matrix.shape))
        _, vectors = leading_right_vectors(held_matrix, self.rank, self.seed)
        return {"users": held_matrix.to_host(held_matrix.times(vectors)), "items": vectors}

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors for rows of weights."""
        return times(matrix, self._fitted()["items"])


@contextmanager
def share_decompositions() -> Iterator[None]:
    """Within this, the last few matrices that were decomposed are not decomposed again.

    Trials of tuning often differ in what comes after the decomposition, which takes most of the time.
    """
    token = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(token)


def leading_right_vectors(matrix: csr_array | OnHost | Sparse, rank: int, seed: int) -> Decomposition:
    """The largest singular values of a sparse matrix, and their right singular vectors as columns (`_decomposed`)."""
    matrix = OnHost(matrix) if isinstance(matrix, csr_array) else matrix
    shared = _shared.get()
    if shared is None:
        return _decomposed(matrix, rank, seed)
    key = matrix.digest(), rank, seed
    found = shared.pop(key, None) or _decomposed(matrix, rank, seed)
    shared[key] = found  # the last, because it was used last
    if len(shared) > _MOST_SHARED:
        del shared[next(iter(shared))]
    return found[0].copy(), found[1].copy()


def _decomposed(matrix: OnHost | Sparse, rank: int, seed: int) -> Decomposition:
    """The largest singular values of a sparse matrix, and their right singular vectors as columns.

    By a block Krylov space of XᵀX from a random start (Musco and Musco 2015): the best vectors in the span of Q, XᵀXQ,
    (XᵀX)²Q, … are far better than the last power alone. Matrices are decomposed exactly where that takes no longer.
    Each vector's sign is such that its largest entry is positive; a singular value of 0 has a vector of zeros.
    """
    n_users, n_items = matrix.shape
    largest = matrix.largest()
    if largest == 0:
        return np.zeros(rank), np.zeros((n_items, rank), dtype=np.float32)
    matrix = matrix.over(largest)
    if _is_small(n_users, n_items, _BLOCKS * (rank + _EXTRA)):
        vectors = _exactly(matrix, rank).astype(np.float32)
    else:
        with single_blas_thread() if isinstance(matrix, OnHost) else nullcontext():
            basis, image = _krylov(matrix, rank + _EXTRA, seed)
            # Within that space, the singular vectors are the eigenvectors of a small matrix.
            within = matrix.to_host(basis.T @ image).astype(np.float64)
            rotation = _largest(within, min(rank, basis.shape[1]))[1]
            vectors = matrix.to_host(basis @ matrix.here(rotation.astype(np.float32)))
        vectors = np.pad(vectors, ((0, 0), (0, rank - vectors.shape[1])))
    vectors = np.ascontiguousarray(vectors)
    values = matrix.lengths_times(vectors)
    is_zero = values <= 1e-5 * values.max()
    values[is_zero], vectors[:, is_zero] = 0, 0
    vectors *= np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(rank)] < 0, -1, 1).astype(np.float32)
    return values * largest, vectors


def _is_small(n_users: int, n_items: int, width: int) -> bool:
    """Whether all singular vectors take no longer than a basis of so many vectors.

    The former costs n³ for the smaller side n, the latter n_items·width²; two thirds is what one takes of the other,
    measured on four data sets.
    """
    n = min(n_users, n_items)
    return n <= width or (n <= _LARGEST_EXACT and n**3 <= 1.5 * n_items * width**2)


def _krylov(matrix: OnHost | Sparse, width: int, seed: int) -> tuple[Dense, Dense]:
    """An orthonormal basis of Q, XᵀXQ, (XᵀX)²Q, …, and XᵀX times it."""
    n_items = matrix.shape[1]
    basis, image = (matrix.room(n_items, _BLOCKS * width) for _ in range(2))
    new = matrix.here(make_generator(seed).standard_normal((n_items, width), dtype=np.float32))
    known = 0
    for _ in range(_BLOCKS):
        before = basis[:, :known]
        new /= matrix.lengths(new).clip(1e-30)
        for attempt in range(2):
            overlap = before.T @ new
            if attempt and np.abs(matrix.to_host(overlap)).max(initial=0) < 1e-4:
                break  # the second time is for what rounding left over
            new -= before @ overlap
            new = _orthonormal(matrix, new)
        if not new.shape[1]:
            break
        part = slice(known, known + new.shape[1])
        basis[:, part] = new
        new = matrix.squared_times(new)
        image[:, part], known = new, part.stop
    return basis[:, :known], image[:, :known]


def _exactly(matrix: OnHost | Sparse, rank: int) -> NDArray[np.float64]:
    """Right singular vectors, by the products of all rows or of all columns with each other."""
    if matrix.shape[1] <= matrix.shape[0]:
        return _largest(matrix.columns_gram(), rank)[1]
    right = matrix.wide_transposed_times(_largest(matrix.rows_gram(), rank)[1])
    lengths = np.linalg.norm(right, axis=0)
    return np.asarray(right / np.where(lengths > 1e-7 * lengths.max(), lengths, np.inf))


def _largest(symmetric: NDArray[np.float64], rank: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The largest eigenvalues, descending, and their vectors."""
    n = len(symmetric)
    values, vectors = eigh((symmetric + symmetric.T) / 2, subset_by_index=[n - rank, n - 1], check_finite=False)
    return values[::-1].copy(), vectors[:, ::-1].copy()


def _orthonormal(matrix: OnHost | Sparse, vectors: Dense) -> Dense:
    """An orthonormal basis of the space of some vectors of about unit length, less directions that are mere rounding.

    By the eigenvectors of VᵀV, which are faster to come by than a decomposition of V.
    """
    values, rotation = np.linalg.eigh(matrix.products(vectors))
    kept = values > 1e-8
    return vectors @ matrix.here((rotation[:, kept] / np.sqrt(values[kept])).astype(np.float32))
