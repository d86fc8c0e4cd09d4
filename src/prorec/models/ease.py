"""A linear autoencoder without self-similarity, in closed form (EASE, Steck 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.sparse import csr_array

from prorec.errors import InputError, number
from prorec.models.model import Model
from prorec.models.storage import Arrays

_MEMORY = 8e9


@dataclass
class EASE(Model):
    """S = X·B with B = argmin ‖X − XB‖² + λ‖B‖², diag(B) = 0; so B_jk = −P_jk / P_kk with P = (XᵀX + λI)⁻¹.

    It has a weight for each pair of items, so it is for thousands of items, not for millions; more than 8 GB of them
    are refused. There are no factors: its scores come from a function.
    """

    _keeps: ClassVar[tuple[str, ...]] = ("item_weights",)

    regularization: float = 250.0
    """λ."""
    seed: int = 0
    """Every model takes one; nothing here is left to chance, so it changes nothing."""

    penalised: ClassVar[tuple[str, ...]] = ("item_weights",)

    def _check_parameters(self, shape: tuple[int, int]) -> None:
        if not number("regularization", self.regularization, 0) > 0:
            raise InputError(f"regularization must be above 0; got {self.regularization!r}")
        needed = 16 * shape[1] ** 2
        if needed > _MEMORY:
            raise InputError(
                f"EASE needs {needed / 1e9:,.0f} GB for the weights between {shape[1]:,} items; "
                f"it takes up to {_MEMORY / 1e9:.0f} GB"
            )

    def _learn(self, matrix: csr_array) -> Arrays:
        exact = matrix.astype(np.float64)
        gram = (exact.T @ exact).toarray()
        gram[np.diag_indices_from(gram)] += float(self.regularization)
        factor, info = lapack.dpotrf(gram, lower=True, overwrite_a=True)
        inverse, info = lapack.dpotri(factor, lower=True, overwrite_c=True) if info == 0 else (factor, info)
        if info != 0:
            raise InputError(f"regularization of {self.regularization:g} is too small for these interactions")
        lower = np.tril(inverse)
        inverse = lower + np.tril(lower, -1).T
        weights = inverse / -inverse.diagonal()
        np.fill_diagonal(weights, 0)
        return {"item_weights": weights.astype(np.float32)}

    @property
    def scores_(self) -> Callable[[NDArray[np.intp]], NDArray[np.float32]]:
        """A function from row numbers to scores."""
        weights, matrix = self._fitted()["item_weights"], self.interactions_.matrix
        return lambda rows: np.asarray(matrix[rows] @ weights)

    def _score_known(self, rows: NDArray[np.int64], room: NDArray[np.float32]) -> None:
        self._score_new(self.interactions_.matrix[rows], room)

    def _score_new(self, matrix: csr_array, room: NDArray[np.float32]) -> None:
        room[:] = matrix @ self._fitted()["item_weights"]

    def _likeness(self) -> Callable[[NDArray[np.int64], NDArray[np.float32]], None]:
        """How much having one item speaks for another."""
        weights = self._fitted()["item_weights"]

        def likeness(columns: NDArray[np.int64], room: NDArray[np.float32]) -> None:
            room[:] = weights[columns]

        return likeness
