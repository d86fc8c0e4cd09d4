"""Truncated singular value decomposition, and the decomposition that NCE uses too."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_array

from prorec._core.array_rules import ArrayRule
from prorec._core.checks import check_choice, check_float, check_int
from prorec._core.parallel import single_blas_thread
from prorec._core.random import make_generator
from prorec._core.sharing import is_sharing, share
from prorec.models._cpu_matrix import CpuMatrix, Dense, multiply, to_device_matrix
from prorec.models._user_counts import count_users
from prorec.models.model import Model, WeightMeaning
from prorec.models.storage import Arrays

if TYPE_CHECKING:
    from prorec.models._gpu_matrix import GpuMatrix

_OF_ITEMS = ("items", "encoder")
_MIN_TYPICAL_WEIGHT = 1e-3
"""Smallest typical weight of an item, relative to the largest."""
_KRYLOV_BLOCKS = 5
"""Blocks Q, XᵀXQ, … of the Krylov space."""
_OVERSAMPLING = 8
"""Vectors of a block beyond the rank."""
_MAX_EXACT_ROWS = 6000
"""Rows whose Gram matrix, of 288 MB, may be decomposed exactly."""

Decomposition = tuple[NDArray[np.float64], NDArray[np.float32]]
"""Singular values, descending, and right singular vectors as columns."""


@dataclass
class SVD(Model):
    """Approximates the matrix by its leading singular vectors.

    X ≈ U·Vᵀ, with V the leading right singular vectors of X and U = X·V. U and V are the factors.

    A pair is a click with its weight w as probability. The expected squared error of a score s is (w − s)² + w·(1 − w),
    so that the best approximation of the weights has the least, and X is the matrix of weights. The errors of item j
    count 1/c_j² times, where c_j = Σ_i w_ij² / Σ_i w_ij is its typical weight: the decomposition is that of X·D⁻¹ with
    a diagonal D of all c_j, U is X·D⁻¹·V, and D·V are the factors of the items. So weights of c in place of 1 multiply
    the scores by c, of all items or of one, and do nothing else. Without that, an item whose clicks are all doubtful
    would hardly take part in V, and U and V would be those of popular items, whose clicks are trusted more.

    With `activity_power`, V is that of the matrix whose rows are multiplied by the square root of how often the user
    counts, which gives the error of each user that factor.

    References
    ----------
    P. Cremonesi, Y. Koren and R. Turrin, "Performance of recommender algorithms on top-N recommendation tasks",
    RecSys 2010 (PureSVD).
    """

    rank: int = 50
    """Number of factors."""
    activity_power: float = 0.0
    """Exponent p of a user's activity; each user counts activity^(−p) times. With 0 all count the same."""
    weight_meaning: WeightMeaning = "probability"
    """Meaning of a weight: "probability" of a genuine click, or "value", which stands for X_ij itself, so that the
    errors of all items count the same, as in the ProRec paper."""
    seed: int = 0
    """Seed of the random start of the decomposition."""
    device: str = field(default="auto", repr=False, compare=False)
    """Device to fit and to recommend on: "auto" (a GPU if there is one and the data are large), "cpu" or "cuda"."""

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Check that the parameters are valid for a matrix of this shape."""
        check_int("rank", self.rank, 1, min(shape), "the smaller side of the matrix")
        check_float("activity_power", self.activity_power, 0, 1)
        check_choice("weight_meaning", self.weight_meaning, ("probability", "value"))
        check_int("seed", self.seed, 0)
        self._device(shape)

    def array_rules(self, shape: tuple[int, int]) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of the fitted model; without `encoder`, it is V as `items` is."""
        of_items = {name: ArrayRule((shape[1], self.rank), is_optional=name == "encoder") for name in _OF_ITEMS}
        return {"users": ArrayRule((shape[0], self.rank)), **of_items}

    def _learn(self, matrix: csr_array) -> Arrays:
        clicks = to_device_matrix(matrix, self._device(matrix.shape))
        typical = _relative_typical_weights(matrix) if self.weight_meaning == "probability" else None
        scaled = clicks if typical is None else clicks.scale_columns(1 / typical)
        counts = count_users(matrix, self.activity_power)
        rows = scaled if counts is None else scaled.scale_rows(np.sqrt(counts))
        _, vectors = leading_right_vectors(rows, self.rank, self.seed)
        arrays = {"users": clicks.to_host(scaled.times(vectors)), "items": vectors}
        if typical is not None:
            column = typical[:, None].astype(np.float32)
            arrays |= {"items": vectors * column, "encoder": vectors / column}
        return arrays

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors U for rows of weights X."""
        arrays = self._fitted()
        return multiply(matrix, arrays.get("encoder", arrays["items"]))


def _relative_typical_weights(matrix: csr_array) -> NDArray[np.float64] | None:
    """Return c_j = Σ_i w_ij² / Σ_i w_ij of each item, relative to the largest; None if all are the same.

    Items without weights have 1. Others have at least a thousandth, so that a vanishing weight is no click.

    >>> _relative_typical_weights(csr_array([[0.5, 1.0, 0.0], [0.5, 0.0, 0.0]]))
    array([0.5, 1. , 1. ])
    >>> _relative_typical_weights(csr_array([[0.5, 0.5]]))
    """
    weights, n_items = matrix.data.astype(np.float64), matrix.shape[1]
    sums = np.bincount(matrix.indices, weights, n_items)
    typical = np.bincount(matrix.indices, weights**2, n_items) / np.where(sums > 0, sums, 1)
    largest = typical.max(initial=0)
    typical = np.where(sums > 0, np.maximum(typical / max(largest, 1e-300), _MIN_TYPICAL_WEIGHT), 1.0)
    return None if np.allclose(typical, 1, rtol=1e-6) else typical


def leading_right_vectors(matrix: csr_array | CpuMatrix | GpuMatrix, rank: int, seed: int) -> Decomposition:
    """Return the largest singular values of a sparse matrix and their right singular vectors.

    The vectors are the best in a block Krylov space, the span of Q, XᵀXQ, (XᵀX)²Q, … from a random Q, which are far
    better than those of the last power alone. A matrix is decomposed exactly where that takes no longer.

    Parameters
    ----------
    matrix : csr_array, CpuMatrix or GpuMatrix
        Matrix X.
    rank : int
        Number of singular values, at most the smaller side of the matrix.
    seed : int
        Seed of the random start.

    Returns
    -------
    values : array of float64
        Singular values, descending.
    vectors : array of float32
        Right singular vectors as columns. The largest entry of a vector is positive; a singular value of 0 has a
        vector of zeros.

    References
    ----------
    C. Musco and C. Musco, "Randomized block Krylov methods for stronger and faster approximate singular value
    decomposition", NeurIPS 2015.
    """
    matrix = CpuMatrix(matrix) if isinstance(matrix, csr_array) else matrix
    if not is_sharing():
        return _decompose(matrix, rank, seed)
    values, vectors = share(("SVD", matrix.digest(), rank, seed), lambda: _decompose(matrix, rank, seed))
    return values.copy(), vectors.copy()


def _decompose(matrix: CpuMatrix | GpuMatrix, rank: int, seed: int) -> Decomposition:
    n_users, n_items = matrix.shape
    scale = matrix.max_value()
    if scale == 0:
        return np.zeros(rank), np.zeros((n_items, rank), dtype=np.float32)
    matrix = matrix.divide(scale)
    if _is_exact_faster(n_users, n_items, _KRYLOV_BLOCKS * (rank + _OVERSAMPLING)):
        with single_blas_thread(min(n_users, n_items)):
            vectors = _find_exact_vectors(matrix, rank).astype(np.float32)
    else:
        with single_blas_thread() if isinstance(matrix, CpuMatrix) else nullcontext():
            basis, image = _build_krylov_basis(matrix, rank + _OVERSAMPLING, seed)
            # Within the Krylov space, the singular vectors are the eigenvectors of a small matrix.
            projected = matrix.to_host(basis.T @ image).astype(np.float64)
            rotation = _leading_eigenvectors(projected, min(rank, basis.shape[1]))
            vectors = matrix.to_host(basis @ matrix.to_device(rotation.astype(np.float32)))
        vectors = np.pad(vectors, ((0, 0), (0, rank - vectors.shape[1])))
    vectors = np.ascontiguousarray(vectors)
    values = matrix.column_norms_double(matrix.times(vectors))
    is_zero = values <= 1e-5 * values.max()
    values[is_zero], vectors[:, is_zero] = 0, 0
    vectors *= np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(rank)] < 0, -1, 1).astype(np.float32)
    return values * scale, vectors


def _is_exact_faster(n_users: int, n_items: int, width: int) -> bool:
    """Return whether an exact decomposition takes no longer than a Krylov basis of `width` vectors.

    The former costs n³ for the smaller side n, the latter n_items·width². The constant was measured on four data sets.
    """
    n = min(n_users, n_items)
    return n <= width or (n <= _MAX_EXACT_ROWS and n**3 <= 1.5 * n_items * width**2)


def _build_krylov_basis(matrix: CpuMatrix | GpuMatrix, width: int, seed: int) -> tuple[Dense, Dense]:
    """Return an orthonormal basis of Q, XᵀXQ, (XᵀX)²Q, …, and XᵀX times the basis."""
    n_items = matrix.shape[1]
    basis, image = (matrix.empty(n_items, _KRYLOV_BLOCKS * width) for _ in range(2))
    block = matrix.to_device(make_generator(seed).standard_normal((n_items, width), dtype=np.float32))
    n_vectors = 0
    for _ in range(_KRYLOV_BLOCKS):
        previous = basis[:, :n_vectors]
        block /= matrix.column_norms(block).clip(1e-30)
        for attempt in range(2):
            overlap = previous.T @ block
            if attempt and np.abs(matrix.to_host(overlap)).max(initial=0) < 1e-4:
                break  # the second attempt removes only what rounding left over
            block -= previous @ overlap
            block = _orthonormalize(matrix, block)
        if not block.shape[1]:
            break
        part = slice(n_vectors, n_vectors + block.shape[1])
        basis[:, part] = block
        block = matrix.transposed.times(matrix.times(block))
        image[:, part], n_vectors = block, part.stop
    return basis[:, :n_vectors], image[:, :n_vectors]


def _find_exact_vectors(matrix: CpuMatrix | GpuMatrix, rank: int) -> NDArray[np.float64]:
    """Return right singular vectors by the Gram matrix of the smaller side."""
    if matrix.shape[1] <= matrix.shape[0]:
        return _leading_eigenvectors(matrix.gram(), rank)
    left = _leading_eigenvectors(matrix.transposed.gram(), rank)
    right = matrix.transposed.times_double(left)
    norms = np.linalg.norm(right, axis=0)
    return np.asarray(right / np.where(norms > 1e-7 * norms.max(), norms, np.inf))


def _leading_eigenvectors(symmetric: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
    """Return the eigenvectors of the largest eigenvalues, descending."""
    n = len(symmetric)
    _, vectors = eigh((symmetric + symmetric.T) / 2, subset_by_index=[n - rank, n - 1], check_finite=False)
    return np.asarray(vectors[:, ::-1].copy())


def _orthonormalize(matrix: CpuMatrix | GpuMatrix, vectors: Dense) -> Dense:
    """Return an orthonormal basis of vectors of about unit length, without directions that are mere rounding.

    The eigenvectors of VᵀV are faster to compute than a decomposition of V.
    """
    values, rotation = np.linalg.eigh(matrix.dense_gram(vectors))
    is_kept = values > 1e-8
    return vectors @ matrix.to_device((rotation[:, is_kept] / np.sqrt(values[is_kept])).astype(np.float32))
