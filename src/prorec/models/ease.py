"""A linear autoencoder without self-similarity, in closed form (EASE, Steck 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.sparse import csr_array

from prorec._core.checks import check_float
from prorec._core.errors import InputError
from prorec.models.model import Model
from prorec.models.storage import Arrays

if TYPE_CHECKING:
    import torch

_MEMORY = 8e9


@dataclass
class EASE(Model):
    """S = X·B with B = argmin ‖X − XB‖² + λ‖B‖², diag(B) = 0; so B_jk = −P_jk / P_kk with P = (XᵀX + λI)⁻¹.

    It has a weight for each pair of items, so it is for thousands of items, not for millions; more than 8 GB of them,
    or more than a GPU has room for, are refused. There are no factors: its scores come from a function.
    """

    required_arrays: ClassVar[tuple[str, ...]] = ("item_weights",)

    regularization: float = 250.0
    """λ."""
    seed: int = 0
    """Every model takes one; nothing here is left to chance, so it changes nothing."""
    device: str = field(default="auto", repr=False, compare=False)
    """Where to learn: `auto`, a GPU if there is one and the data are large; `cpu`; or `cuda`."""

    regularized_arrays: ClassVar[tuple[str, ...]] = ("item_weights",)

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Raise InputError unless the parameters are valid for a matrix of this shape."""
        if not check_float("regularization", self.regularization, 0) > 0:
            raise InputError(f"regularization must be above 0; got {self.regularization!r}")
        device = self._device(shape)
        needed, there_is, where = 16.0 * shape[1] ** 2, _MEMORY, ""
        if device is not None:
            from prorec._core.device import free_memory

            # The products of items, their factor, its inverse and room to work, in double precision.
            needed, there_is, where = 32.0 * shape[1] ** 2, free_memory(device), f" on {device}"
        if needed > there_is:
            raise InputError(
                f"EASE needs {needed / 1e9:,.0f} GB{where} for the weights between {shape[1]:,} items; "
                + (f"{there_is / 1e9:,.0f} GB are free" if where else f"it takes up to {there_is / 1e9:.0f} GB")
            )

    def _learn(self, matrix: csr_array) -> Arrays:
        device = self._device(matrix.shape)
        if device is not None:
            return {"item_weights": self._weights_on(device, matrix)}
        exact = matrix.astype(np.float64)
        gram = (exact.T @ exact).toarray()
        gram[np.diag_indices_from(gram)] += float(self.regularization)
        factor, info = lapack.dpotrf(gram, lower=True, overwrite_a=True)
        inverse, info = lapack.dpotri(factor, lower=True, overwrite_c=True) if info == 0 else (factor, info)
        if info != 0:
            raise self._too_small()
        lower = np.tril(inverse)
        inverse = lower + np.tril(lower, -1).T
        weights = inverse / -inverse.diagonal()
        np.fill_diagonal(weights, 0)
        return {"item_weights": weights.astype(np.float32)}

    def _weights_on(self, device: torch.device, matrix: csr_array) -> NDArray[np.float32]:
        """The same on a device."""
        import torch

        from prorec.models._on_device import Sparse, to_host

        gram = Sparse.of(matrix, device).gram()
        gram.diagonal().add_(float(self.regularization))
        factor, info = torch.linalg.cholesky_ex(gram)
        del gram
        if int(info) != 0:
            raise self._too_small()
        inverse = torch.cholesky_inverse(factor)
        del factor
        inverse /= -inverse.diagonal().clone()
        return to_host(inverse.fill_diagonal_(0).float())

    def _too_small(self) -> InputError:
        return InputError(f"regularization of {self.regularization:g} is too small for these interactions")

    @property
    def scores_(self) -> Callable[[NDArray[np.intp]], NDArray[np.float32]]:
        """A function from row numbers to scores."""
        weights, matrix = self._fitted()["item_weights"], self.interactions_.matrix
        return lambda rows: np.asarray(matrix[rows] @ weights)

    def score_known_users(self, rows: NDArray[np.int64], room: NDArray[np.float32]) -> None:
        """Write the scores of users that the model was fitted on."""
        self.score_new_users(self.interactions_.matrix[rows], room)

    def score_new_users(self, matrix: csr_array, room: NDArray[np.float32]) -> None:
        """Write the scores of new users."""
        room[:] = matrix @ self._fitted()["item_weights"]

    def _likeness(self) -> Callable[[NDArray[np.int64], NDArray[np.float32]], None]:
        """How much having one item speaks for another."""
        weights = self._fitted()["item_weights"]

        def likeness(columns: NDArray[np.int64], room: NDArray[np.float32]) -> None:
            room[:] = weights[columns]

        return likeness
