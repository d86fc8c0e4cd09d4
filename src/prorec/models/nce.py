"""Noise-contrastive item embeddings and a ridge regression on top (NCE-PLRec, Wu et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from prorec._core.checks import check_float, check_int
from prorec.models._sparse import held, times
from prorec.models.model import Model
from prorec.models.storage import Arrays
from prorec.models.svd import leading_right_vectors


@dataclass
class NCE(Model):
    """Items embedded by how much more often they are clicked than noise would be, users by their items.

    With c_j the clicks on item j by M users, D_ij = max(log(M / c_j^power), 0)·X_ij on observed pairs; the
    leading right singular vectors Q and values σ of D embed the items, U = X·Q·diag(√σ) the users, and a ridge
    regression Y = (UᵀU + ζI)⁻¹·UᵀX predicts the clicks from the users' embeddings. A weight stands wherever a one
    stood, in D too; c_j is the sum of item j's weights over their mean, so that items don't become less popular when
    all weights are halved.
    """

    regularized_arrays: ClassVar[tuple[str, ...]] = ("items",)
    required_arrays: ClassVar[tuple[str, ...]] = ("users", "items", "projection")

    rank: int = 100
    """How many factors."""
    regularization: float = 1000.0
    """ζ of the ridge regression."""
    popularity_power: float = 1.0
    """How strongly popularity is discounted in D."""
    seed: int = 0
    """Of the decomposition's random start."""
    device: str = field(default="auto", repr=False, compare=False)
    """Where to learn and to recommend: `auto`, a GPU if there is one and the data are large; `cpu`; or `cuda`."""

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Raise InputError unless the parameters are valid for a matrix of this shape."""
        check_int("rank", self.rank, 1, min(shape), "the smaller side of the matrix")
        check_float("regularization", self.regularization, 0)
        check_float("popularity_power", self.popularity_power, 0, 10)
        check_int("seed", self.seed, 0)
        self._device(shape)

    def _learn(self, matrix: csr_array) -> Arrays:
        clicks = held(matrix, self._device(matrix.shape))
        popularity = clicks.column_sums()
        popularity *= clicks.count_nonzero() / max(popularity.sum(), np.finfo(np.float64).tiny)
        with np.errstate(divide="ignore"):  # an item that nobody clicked has no entry to be discounted
            discount = np.maximum(np.log(matrix.shape[0]) - self.popularity_power * np.log(popularity), 0)
        discount[popularity == 0] = 0  # of nobody's clicks, whatever entries there are
        values, vectors = leading_right_vectors(clicks.times_columns(discount), self.rank, self.seed)
        projection = (vectors * np.sqrt(values)).astype(np.float32)
        users = clicks.times(projection)
        # So little of a ridge, if it is less, that it changes nothing but a singular matrix.
        ridge = max(self.regularization, 1e-9 * clicks.squares(users) + 1e-12)
        gram = clicks.products(users) + ridge * np.eye(self.rank)
        clicked = clicks.to_host(clicks.transposed_times(users)).astype(np.float64)
        items = cho_solve(cho_factor(gram), clicked.T).T.astype(np.float32)
        return {"users": clicks.to_host(users), "items": np.ascontiguousarray(items), "projection": projection}

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors for rows of weights."""
        return times(matrix, self._fitted()["projection"])
