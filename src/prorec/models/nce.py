"""Noise-contrastive item embeddings and a ridge regression (NCE-PLRec)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from prorec._core.array_rules import ArrayRule
from prorec._core.checks import check_float, check_int
from prorec.models._cpu_matrix import multiply, to_device_matrix
from prorec.models.model import Model
from prorec.models.storage import Arrays
from prorec.models.svd import leading_right_vectors


@dataclass
class NCE(Model):
    """Embeds items by how much more often they are clicked than by chance, and users by their items.

    With c_j the clicks on item j by M users, D_ij = max(log(M / c_j^power), 0)·X_ij on observed pairs. The leading
    right singular vectors Q and values σ of D embed the items, U = X·Q·diag(√σ) embeds the users, and a ridge
    regression Y = (UᵀU + ζI)⁻¹·UᵀX predicts the clicks from the users' embeddings. U and Yᵀ are the factors.

    A weight stands wherever a 1 stood, in D too. The popularity c_j is the sum of item j's weights divided by the mean
    weight, so that no item becomes less popular when all weights are halved.

    References
    ----------
    G. Wu, M. Volkovs, C. L. Soon, S. Sanner and H. Rai, "Noise contrastive estimation for one-class collaborative
    filtering", SIGIR 2019.
    """

    regularized_arrays: ClassVar[tuple[str, ...]] = ("items",)

    rank: int = 100
    """Number of factors."""
    regularization: float = 1000.0
    """Penalty ζ of the ridge regression."""
    popularity_power: float = 1.0
    """Exponent of an item's popularity in D; larger values favour rare items."""
    seed: int = 0
    """Seed of the random start of the decomposition."""
    device: str = field(default="auto", repr=False, compare=False)
    """Device to fit and to recommend on: "auto" (a GPU if there is one and the data are large), "cpu" or "cuda"."""

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Check that the parameters are valid for a matrix of this shape."""
        check_int("rank", self.rank, 1, min(shape), "the smaller side of the matrix")
        check_float("regularization", self.regularization, 0)
        check_float("popularity_power", self.popularity_power, 0, 10)
        check_int("seed", self.seed, 0)
        self._device(shape)

    def array_rules(self, shape: tuple[int, int]) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of the fitted model."""
        return super().array_rules(shape) | {"projection": ArrayRule((shape[1], self.rank))}

    def _learn(self, matrix: csr_array) -> Arrays:
        clicks = to_device_matrix(matrix, self._device(matrix.shape))
        popularity = clicks.column_sums()
        popularity *= clicks.count_nonzero() / max(popularity.sum(), np.finfo(np.float64).tiny)
        with np.errstate(divide="ignore"):
            discount = np.maximum(np.log(matrix.shape[0]) - self.popularity_power * np.log(popularity), 0)
        discount[popularity == 0] = 0  # entries of weight 0 must not become infinite
        values, vectors = leading_right_vectors(clicks.scale_columns(discount), self.rank, self.seed)
        projection = (vectors * np.sqrt(values)).astype(np.float32)
        users = clicks.times(projection)
        # This ridge is so small that it changes only a singular matrix.
        ridge = max(self.regularization, 1e-9 * clicks.sum_of_squares(users) + 1e-12)
        gram = clicks.dense_gram(users) + ridge * np.eye(self.rank)
        targets = clicks.to_host(clicks.transposed.times(users)).astype(np.float64)
        items = cho_solve(cho_factor(gram), targets.T).T.astype(np.float32)
        return {"users": clicks.to_host(users), "items": np.ascontiguousarray(items), "projection": projection}

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors U for rows of weights X."""
        return multiply(matrix, self._fitted()["projection"])
