"""Noise-contrastive item embeddings and a ridge regression (NCE-PLRec)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from prorec._core.array_rules import ArrayRule
from prorec._core.checks import check_choice, check_float, check_int
from prorec._core.parallel import single_blas_thread
from prorec.models._cpu_matrix import multiply, to_device_matrix
from prorec.models._user_counts import count_users
from prorec.models.model import Model, WeightMeaning
from prorec.models.storage import Arrays
from prorec.models.svd import leading_right_vectors


@dataclass
class NCE(Model):
    """Embeds items by how much more often they are clicked than by chance, and users by their items.

    With c_j the clicks on item j by M users, D_ij = max(log(M / c_j^power), 0)·X_ij on observed pairs. The leading
    right singular vectors Q and values σ of D embed the items, U = X·Q·diag(√σ) embeds the users, and a ridge
    regression Y = (UᵀU + ζI)⁻¹·UᵀX predicts the clicks from the users' embeddings. U and Yᵀ are the factors.

    A pair is a click with its weight w as probability, so its expected value in X is w, and that in D is proportional
    to w. Given the embeddings, the expected squared errors of D's approximation and of the ridge regression are least
    where those of the expected values are, so that w stands wherever a 1 stood. The popularity c_j is the sum of item
    j's weights times Σw/Σw² over all weights. That factor is 1 for weights of 0 and 1, and keeps items as popular as
    they are if all weights are halved. Weights of c in place of 1 act as a penalty of ζ/c³.

    With `activity_power`, the rows of D and X are multiplied by the square root of how often the user counts, in the
    decomposition and in the regression.

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
    activity_power: float = 0.0
    """Exponent p of a user's activity; each user counts activity^(−p) times. With 0 all count the same."""
    weight_meaning: WeightMeaning = "probability"
    """Meaning of a weight: "probability" of a genuine click, or "value", which stands for X_ij itself; then c_j is the
    sum of the weights divided by the mean of those above 0, as in the reproduction of the ProRec paper."""
    seed: int = 0
    """Seed of the random start of the decomposition."""
    device: str = field(default="auto", repr=False, compare=False)
    """Device to fit and to recommend on: "auto" (a GPU if there is one and the data are large), "cpu" or "cuda"."""

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Check that the parameters are valid for a matrix of this shape."""
        check_int("rank", self.rank, 1, min(shape), "the smaller side of the matrix")
        check_float("regularization", self.regularization, 0)
        check_float("popularity_power", self.popularity_power, 0, 10)
        check_float("activity_power", self.activity_power, 0, 1)
        check_choice("weight_meaning", self.weight_meaning, ("probability", "value"))
        check_int("seed", self.seed, 0)
        self._device(shape)

    def with_neutral_penalty(self, typical_weight: float) -> Self:
        """Return a copy with the penalty ζ·c³ for weights of c."""
        return replace(self, regularization=self.regularization * typical_weight**3)

    def array_rules(self, shape: tuple[int, int]) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of the fitted model."""
        return super().array_rules(shape) | {"projection": ArrayRule((shape[1], self.rank))}

    def _learn(self, matrix: csr_array) -> Arrays:
        clicks = to_device_matrix(matrix, self._device(matrix.shape))
        popularity = clicks.column_sums()
        total = max(popularity.sum(), np.finfo(np.float64).tiny)
        if self.weight_meaning == "probability":
            squares = float(np.square(matrix.data, dtype=np.float64).sum())
            popularity *= total / squares if squares > 0 else 1.0
        else:
            popularity *= clicks.count_nonzero() / total
        with np.errstate(divide="ignore"):
            discount = np.maximum(np.log(matrix.shape[0]) - self.popularity_power * np.log(popularity), 0)
        discount[popularity == 0] = 0  # entries of weight 0 must not become infinite
        counts = count_users(matrix, self.activity_power)
        rows = clicks if counts is None else clicks.scale_rows(np.sqrt(counts))
        values, vectors = leading_right_vectors(rows.scale_columns(discount), self.rank, self.seed)
        projection = (vectors * np.sqrt(values)).astype(np.float32)
        regressors = rows.times(projection)
        # This ridge is so small that it changes only a singular matrix.
        ridge = max(self.regularization, 1e-9 * clicks.sum_of_squares(regressors) + 1e-12)
        targets = clicks.to_host(rows.transposed.times(regressors)).astype(np.float64)
        with single_blas_thread(self.rank):
            gram = clicks.dense_gram(regressors) + ridge * np.eye(self.rank)
            items = cho_solve(cho_factor(gram), targets.T).T.astype(np.float32)
        users = clicks.to_host(regressors if counts is None else clicks.times(projection))
        return {"users": users, "items": np.ascontiguousarray(items), "projection": projection}

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors U for rows of weights X."""
        return multiply(matrix, self._fitted()["projection"])
