"""A linear autoencoder without self-similarity, in closed form (EASE)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.sparse import csr_array, eye_array

from prorec._core.array_rules import ArrayRule
from prorec._core.checks import check_choice, check_float, safe_repr
from prorec._core.errors import DamagedFileError, InputError, MemoryLimitError
from prorec._core.parallel import single_blas_thread
from prorec.interactions import Interactions
from prorec.models._cpu_matrix import CpuMatrix
from prorec.models._user_counts import count_users
from prorec.models.model import Model, ScoreFunction, WeightMeaning
from prorec.models.storage import Arrays

if TYPE_CHECKING:
    import torch

    from prorec.models._gpu_matrix import GpuMatrix

_Matrix = TypeVar("_Matrix", "CpuMatrix", "GpuMatrix")
_MAX_BYTES = 8e9
"""Memory that the weights may take on the CPU."""
_MAX_BLOCK = 1 << 24
"""Numbers in a dense block beside the weights."""
_OF_ITEMS, _OF_USERS = ("item_weights",), ("user_weights", "inverse_penalty", "relative_residual")
"""Arrays of a model that has weights between items, and of one that has weights between users."""


@dataclass
class EASE(Model):
    """Scores items by learned weights between items, S = X·B.

    B minimizes ‖X − XB‖² + λ‖B‖² with a diagonal of zeros, so B_jk = −P_jk / P_kk with P = (G + λI)⁻¹ and G = XᵀX.

    A pair is a click, X_ij = 1, with its weight w_ij as probability. The loss depends on X by XᵀX only, so its expected
    value is least for the expected G, which has Σ_i w_ij·w_ik off the diagonal and Σ_i w_ij on it, because X_ij² is
    X_ij. Weights of c in place of 1 act as a penalty of λ/c² + (1/c − 1)·n_j on row j of B, where n_j is the item's
    number of clicks. With `activity_power`, each user counts as often in the sums of G.

    With fewer users than items, neither P nor B is computed. G + λI is WᵀCW + D, with the weights W, a diagonal C that
    says how often each user counts, and a diagonal D_jj = λ + Σ_i c_i·w_ij·(1 − w_ij), so that by Woodbury's identity

        P = D⁻¹ − D⁻¹·Wᵀ·A·W·D⁻¹ with A = √C·(I + √C·W·D⁻¹·Wᵀ·√C)⁻¹·√C,

    where A has a number for each pair of users. With q_k = 1 / (D_kk·P_kk), B is I − Q + D⁻¹·Wᵀ·A·W·Q, and X·B takes
    products with sparse matrices and with A. The result is the same, but for rounding.

    The model has a weight for each pair of items, or of users if they are fewer: it suits thousands of them, not
    millions. `fit` refuses more than 8 GB of weights, or more than a GPU has free. There are no factors; `scores_` is a
    function.

    References
    ----------
    H. Steck, "Embarrassingly shallow autoencoders for sparse data", WWW 2019.
    """

    regularized_arrays: ClassVar[tuple[str, ...]] = _OF_ITEMS

    regularization: float = 250.0
    """Penalty λ on the squared item weights."""
    activity_power: float = 0.0
    """Exponent p of a user's activity; each user counts activity^(−p) times. With 0 all count the same."""
    weight_meaning: WeightMeaning = "probability"
    """Meaning of a weight: "probability" of a genuine click, or "value", which stands for X_ij itself, so that G is the
    Gram matrix of the weights, as in the ProRec paper."""
    seed: int = 0
    """Has no effect, because nothing is drawn at random; every model takes a seed."""
    device: str = field(default="auto", repr=False, compare=False)
    """Device to fit on: "auto" (a GPU if there is one and the data are large), "cpu" or "cuda"."""

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Check that the parameters are valid, and that the weights fit into memory."""
        if not check_float("regularization", self.regularization, 0) > 0:
            raise InputError(f"regularization must be above 0; got {safe_repr(self.regularization)}")
        check_float("activity_power", self.activity_power, 0, 1)
        check_choice("weight_meaning", self.weight_meaning, ("probability", "value"))
        device = self._device(shape)
        side, n = ("users", shape[0]) if _has_fewer_users(shape) else ("items", shape[1])
        needed, limit = 16.0 * n**2, _MAX_BYTES
        limit_text = f"at most {limit / 1e9:.0f} GB are allowed"
        if device is not None:
            from prorec._core.device import free_memory

            # The matrix, its Cholesky factor, the inverse and a work space, in double precision.
            needed, limit = 32.0 * n**2, free_memory(device)
            limit_text = f"{limit / 1e9:,.0f} GB are free on {device}"
        if needed > limit:
            raise MemoryLimitError(
                f"EASE needs {needed / 1e9:,.0f} GB for the weights between {n:,} {side}; {limit_text}. Remove {side} "
                "with few interactions, or use SparseLinear or a model with factors."
            )

    def with_neutral_penalty(self, typical_weight: float) -> Self:
        """Return a copy with the penalty λ·c² for weights of c; that by popularity, which is added, stays."""
        return replace(self, regularization=self.regularization * typical_weight**2)

    def array_rules(self, shape: tuple[int, int]) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of the fitted model: those of one side."""
        lengths = {"item_weights": (shape[1], shape[1]), "user_weights": (shape[0], shape[0])}
        return {name: ArrayRule(lengths.get(name, (shape[1],)), is_optional=True) for name in (*_OF_ITEMS, *_OF_USERS)}

    @classmethod
    def restore(cls, parameters: dict[str, Any], arrays: Arrays, interactions: Interactions) -> Self:
        """Return a fitted model made of saved parts; see `Model.restore`."""
        if arrays.keys() not in ({*_OF_ITEMS}, {*_OF_USERS}):
            raise DamagedFileError(
                f"the model is incomplete or damaged: its arrays must be {', '.join(_OF_ITEMS)} alone, or "
                f"{', '.join(_OF_USERS)}; got {', '.join(map(safe_repr, sorted(arrays))) or 'none'}. Save it again"
            )
        return super().restore(parameters, arrays, interactions)

    # ── weights between items ───────────────────────────────────────────────────────────────────────

    def _learn(self, matrix: csr_array) -> Arrays:
        device = self._device(matrix.shape)
        counts = count_users(matrix, self.activity_power)
        penalty = self._penalize(matrix, counts)
        if _has_fewer_users(matrix.shape):
            return self._learn_user_weights(matrix, counts, penalty, device)
        if device is not None:
            return {"item_weights": self._learn_on_gpu(matrix, counts, penalty, device)}
        gram = _count_rows(CpuMatrix(matrix), counts).gram()
        gram[np.diag_indices_from(gram)] += penalty
        weights = self._invert(gram)
        weights /= -weights.diagonal()
        np.fill_diagonal(weights, 0)
        return {"item_weights": weights.astype(np.float32)}

    def _penalize(self, matrix: csr_array, counts: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Return D: what the diagonal of G + λI has more than that of the Gram matrix of the weights."""
        penalty = np.full(matrix.shape[1], float(self.regularization))
        if self.weight_meaning == "probability":
            weights = matrix.data.astype(np.float64)
            variance = weights * (1 - weights)
            if counts is not None:
                variance *= np.repeat(counts, np.diff(matrix.indptr))
            penalty += np.bincount(matrix.indices, variance, matrix.shape[1])
        return penalty

    def _learn_on_gpu(
        self,
        matrix: csr_array,
        counts: NDArray[np.float64] | None,
        penalty: NDArray[np.float64],
        device: torch.device,
    ) -> NDArray[np.float32]:
        from prorec._core.tensors import to_tensor
        from prorec.models._gpu_matrix import GpuMatrix, to_host

        def sum_gram() -> torch.Tensor:
            gram = _count_rows(GpuMatrix.from_scipy(matrix, device), counts).gram_on_device()
            gram.diagonal().add_(to_tensor(penalty, device))
            return gram

        inverse = self._invert_on_gpu(sum_gram)
        inverse /= -inverse.diagonal().clone()
        return to_host(inverse.fill_diagonal_(0).float())

    def _invert(self, gram: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the inverse of a positive definite matrix, in its memory."""
        with single_blas_thread(len(gram)):
            # LAPACK copies what is not in its own order; a symmetric matrix is its transpose.
            in_order = gram if gram.flags.f_contiguous else gram.T
            factor, info = lapack.dpotrf(in_order, lower=True, overwrite_a=True)
            inverse, info = lapack.dpotri(factor, lower=True, overwrite_c=True) if info == 0 else (factor, info)
        self._check_factorized(is_positive=info == 0)
        inverse = inverse.T  # its upper triangle is the result
        size = max(1, _MAX_BLOCK // max(len(inverse), 1))
        for begin in range(0, len(inverse), size):
            end = begin + size
            block = np.triu(inverse[begin:end, begin:end])
            inverse[begin:end, begin:end] = block + np.triu(block, 1).T
            inverse[end:, begin:end] = inverse[begin:end, end:].T
        return np.asarray(inverse)

    def _invert_on_gpu(self, sum_gram: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Return the inverse of a positive definite matrix, which is given up for the memory of the inverse."""
        import torch

        gram = sum_gram()
        factor, info = torch.linalg.cholesky_ex(gram)
        del gram
        self._check_factorized(is_positive=int(info) == 0)
        return torch.cholesky_inverse(factor)

    def _check_factorized(self, *, is_positive: bool) -> None:
        """Raise InputError if G + λI is not positive definite within the precision of the numbers."""
        if not is_positive:
            raise InputError(
                f"regularization of {self.regularization:g} is too small for these interactions: XᵀX + λI cannot be "
                "inverted; use a larger one"
            )

    # ── weights between users ───────────────────────────────────────────────────────────────────────

    def _learn_user_weights(
        self,
        matrix: csr_array,
        counts: NDArray[np.float64] | None,
        penalty: NDArray[np.float64],
        device: torch.device | None,
    ) -> Arrays:
        """Return A, the diagonal of D⁻¹, and q."""
        roots = np.sqrt(np.ones(matrix.shape[0]) if counts is None else counts)
        row_roots = np.repeat(roots, np.diff(matrix.indptr))
        scaled = _with_data(matrix, row_roots * matrix.data / np.sqrt(penalty)[matrix.indices])  # √C·W·√D⁻¹
        gram = (scaled @ scaled.T).toarray()
        gram[np.diag_indices_from(gram)] += 1
        if device is None:
            inverse = self._invert(gram)
        else:
            from prorec._core.tensors import to_tensor
            from prorec.models._gpu_matrix import to_host

            inverse = to_host(self._invert_on_gpu(lambda: to_tensor(gram, device)))
        # D_kk·P_kk is 1 less the quadratic form of column k of √C·W·√D⁻¹, and at least λ / (λ + n_k).
        by_item = csr_array(scaled.T)
        explained = np.empty(matrix.shape[1])
        size = max(1, _MAX_BLOCK // max(len(inverse), 1))
        for begin in range(0, len(explained), size):
            rows = by_item[begin : begin + size]
            explained[begin : begin + size] = rows.multiply(rows @ inverse).sum(axis=1)
        unexplained = 1 - explained
        self._check_factorized(is_positive=bool((unexplained > len(inverse) * np.finfo(np.float64).eps).all()))
        inverse *= roots
        inverse *= roots[:, None]
        arrays = inverse, 1 / penalty, 1 / unexplained
        return {name: array.astype(np.float32) for name, array in zip(_OF_USERS, arrays, strict=True)}

    def _score_by_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return rows of X times B = I − Q + D⁻¹·Wᵀ·A·W·Q."""
        user_weights, inverse_penalty, relative_residual = (self.arrays_[name] for name in _OF_USERS)
        fitted = self.interactions_.matrix
        shared = fitted @ _with_data(matrix, matrix.data * inverse_penalty[matrix.indices]).T
        scores = (fitted.T @ (user_weights @ shared.toarray())).T * relative_residual
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        np.add.at(scores, (rows, matrix.indices), matrix.data * (1 - relative_residual[matrix.indices]))
        return np.ascontiguousarray(scores)

    # ── scores ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def scores_(self) -> ScoreFunction:
        """Function from row numbers of users to their scores."""
        self._check_fitted()
        return self.score_known_users

    def score_known_users(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return scores of fitted users."""
        return self.score_new_users(self.interactions_.matrix[rows])

    def score_new_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return scores of new users, given by rows of weights."""
        arrays = self._fitted()
        return np.asarray(matrix @ arrays["item_weights"]) if "item_weights" in arrays else self._score_by_users(matrix)

    @property
    def similarities_(self) -> ScoreFunction:
        """Function from item positions to their rows of B: how much an item raises the scores of others."""
        arrays, n_items = self._fitted(), self.interactions_.n_items
        if "item_weights" in arrays:
            return lambda positions: np.asarray(arrays["item_weights"][positions])
        unit_rows = csr_array(eye_array(n_items, dtype=np.float32, format="csr"))
        return lambda positions: self._score_by_users(unit_rows[positions])

    def regularized_blocks(self) -> Iterator[NDArray[np.float32]]:
        """Yield B in blocks of rows."""
        n_items, similarities = self.interactions_.n_items, self.similarities_
        size = max(1, _MAX_BLOCK // max(n_items, 1))
        for begin in range(0, n_items, size):
            yield similarities(np.arange(begin, min(begin + size, n_items)))


def _has_fewer_users(shape: tuple[int, int]) -> bool:
    return shape[0] < shape[1]


def _count_rows(clicks: _Matrix, counts: NDArray[np.float64] | None) -> _Matrix:
    """Return rows √c_i·w_i, whose Gram matrix counts each user c_i times."""
    return clicks if counts is None else clicks.scale_rows(np.sqrt(counts))


def _with_data(matrix: csr_array, data: NDArray[np.floating]) -> csr_array:
    return csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
