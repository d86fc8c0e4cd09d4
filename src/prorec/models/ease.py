"""A linear autoencoder without self-similarity, in closed form (EASE)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.sparse import csr_array

from prorec._core.array_rules import ArrayRule
from prorec._core.checks import check_choice, check_float, safe_repr
from prorec._core.errors import InputError, MemoryLimitError
from prorec._core.parallel import single_blas_thread
from prorec.models._cpu_matrix import CpuMatrix
from prorec.models._user_counts import count_users
from prorec.models.model import Model, ScoreFunction, WeightMeaning
from prorec.models.storage import Arrays

if TYPE_CHECKING:
    import torch

    from prorec.models._gpu_matrix import GpuMatrix

_Matrix = TypeVar("_Matrix", "CpuMatrix", "GpuMatrix")
_MAX_BYTES = 8e9
"""Memory that the item weights may take on the CPU."""


@dataclass
class EASE(Model):
    """Scores items by learned weights between items, S = X·B.

    B minimizes ‖X − XB‖² + λ‖B‖² with a diagonal of zeros, so B_jk = −P_jk / P_kk with P = (G + λI)⁻¹ and G = XᵀX.

    A pair is a click, X_ij = 1, with its weight w_ij as probability. The loss depends on X by XᵀX only, so its expected
    value is least for the expected G, which has Σ_i w_ij·w_ik off the diagonal and Σ_i w_ij on it, because X_ij² is
    X_ij. Weights of c in place of 1 act as a penalty of λ/c² + (1/c − 1)·n_j on row j of B, where n_j is the item's
    number of clicks. With `activity_power`, each user counts as often in the sums of G.

    The model has a weight for each pair of items and suits thousands of items, not millions. `fit` refuses more than
    8 GB of weights, or more than a GPU has free. There are no factors; `scores_` is a function.

    References
    ----------
    H. Steck, "Embarrassingly shallow autoencoders for sparse data", WWW 2019.
    """

    regularized_arrays: ClassVar[tuple[str, ...]] = ("item_weights",)

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
        """Check that the parameters are valid, and that the item weights fit into memory."""
        if not check_float("regularization", self.regularization, 0) > 0:
            raise InputError(f"regularization must be above 0; got {safe_repr(self.regularization)}")
        check_float("activity_power", self.activity_power, 0, 1)
        check_choice("weight_meaning", self.weight_meaning, ("probability", "value"))
        device = self._device(shape)
        needed, limit = 16.0 * shape[1] ** 2, _MAX_BYTES
        limit_text = f"at most {limit / 1e9:.0f} GB are allowed"
        if device is not None:
            from prorec._core.device import free_memory

            # The Gram matrix, its Cholesky factor, the inverse and a work space, in double precision.
            needed, limit = 32.0 * shape[1] ** 2, free_memory(device)
            limit_text = f"{limit / 1e9:,.0f} GB are free on {device}"
        if needed > limit:
            raise MemoryLimitError(
                f"EASE needs {needed / 1e9:,.0f} GB for the weights between {shape[1]:,} items; {limit_text}. "
                "Remove rare items, or use a model with factors."
            )

    def with_neutral_penalty(self, typical_weight: float) -> Self:
        """Return a copy with the penalty λ·c² for weights of c; that by popularity, which is added, stays."""
        return replace(self, regularization=self.regularization * typical_weight**2)

    def array_rules(self, shape: tuple[int, int]) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of the fitted model."""
        return {"item_weights": ArrayRule((shape[1], shape[1]))}

    def _learn(self, matrix: csr_array) -> Arrays:
        device = self._device(matrix.shape)
        if device is not None:
            return {"item_weights": self._learn_on_gpu(matrix, device)}
        rows, gain = self._prepare(CpuMatrix(matrix), matrix)
        gram = rows.gram()
        gram[np.diag_indices_from(gram)] += gain
        with single_blas_thread(len(gram)):
            factor, info = lapack.dpotrf(gram, lower=True, overwrite_a=True)
            inverse, info = lapack.dpotri(factor, lower=True, overwrite_c=True) if info == 0 else (factor, info)
        self._check_factorized(info)
        lower = np.tril(inverse)
        inverse = lower + np.tril(lower, -1).T
        weights = inverse / -inverse.diagonal()
        np.fill_diagonal(weights, 0)
        return {"item_weights": weights.astype(np.float32)}

    def _prepare(self, clicks: _Matrix, matrix: csr_array) -> tuple[_Matrix, NDArray[np.float64]]:
        """Return rows whose Gram matrix is G but for its diagonal, and what G + λI has more there."""
        counts = count_users(matrix, self.activity_power)
        rows = clicks if counts is None else clicks.scale_rows(np.sqrt(counts))
        gain = np.full(matrix.shape[1], float(self.regularization))
        if self.weight_meaning == "probability":
            weights = matrix.data.astype(np.float64)
            variance = weights * (1 - weights)
            if counts is not None:
                variance *= np.repeat(counts, np.diff(matrix.indptr))
            gain += np.bincount(matrix.indices, variance, matrix.shape[1])
        return rows, gain

    def _learn_on_gpu(self, matrix: csr_array, device: torch.device) -> NDArray[np.float32]:
        import torch

        from prorec._core.tensors import to_tensor
        from prorec.models._gpu_matrix import GpuMatrix, to_host

        rows, gain = self._prepare(GpuMatrix.from_scipy(matrix, device), matrix)
        gram = rows.gram_on_device()
        gram.diagonal().add_(to_tensor(gain, device))
        factor, info = torch.linalg.cholesky_ex(gram)
        del gram  # the inverse takes its memory
        self._check_factorized(int(info))
        inverse = torch.cholesky_inverse(factor)
        del factor
        inverse /= -inverse.diagonal().clone()
        return to_host(inverse.fill_diagonal_(0).float())

    def _check_factorized(self, info: int) -> None:
        """Raise InputError if a Cholesky factorization failed, as `info` of LAPACK says."""
        if info != 0:
            raise InputError(
                f"regularization of {self.regularization:g} is too small for these interactions: XᵀX + λI cannot be "
                "inverted; use a larger one"
            )

    @property
    def scores_(self) -> ScoreFunction:
        """Function from row numbers of users to their scores."""
        weights, matrix = self._fitted()["item_weights"], self.interactions_.matrix
        return lambda rows: np.asarray(matrix[rows] @ weights)

    def score_known_users(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return scores of fitted users."""
        return self.score_new_users(self.interactions_.matrix[rows])

    def score_new_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return scores of new users, given by rows of weights."""
        return np.asarray(matrix @ self._fitted()["item_weights"])

    @property
    def similarities_(self) -> ScoreFunction:
        """Function from item positions to their rows of B: how much an item raises the scores of others."""
        weights = self._fitted()["item_weights"]
        return lambda positions: weights[positions]
