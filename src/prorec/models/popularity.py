"""The most popular items for everybody: the baseline that a personal recommender must beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.models.model import Model, ScoreFunction
from prorec.models.storage import Arrays


@dataclass
class Popularity(Model):
    """Ranks items by the sum of their weights, S_ij = Σ_u X_uj.

    A weight is the probability that a click is genuine, so the sum is the item's expected number of genuine clicks.
    Two items are similar if they have the same users.

    Examples
    --------
    >>> from prorec import Interactions
    >>> clicks = Interactions.from_matrix(csr_array([[1.0, 1, 0], [0, 1, 0], [0, 1, 1]]), users=["a", "b", "c"])
    >>> Popularity().fit(clicks).recommend(["b"], k=2).item_positions
    array([[0, 2]], dtype=int32)
    """

    seed: int = 0
    """Has no effect, because nothing is drawn at random; every model takes a seed."""

    def _learn(self, matrix: csr_array) -> Arrays:
        popularity = np.bincount(matrix.indices, matrix.data, matrix.shape[1])
        return {
            "users": np.ones((matrix.shape[0], 1), dtype=np.float32),
            "items": popularity.astype(np.float32).reshape(-1, 1),
        }

    @property
    def similarities_(self) -> ScoreFunction:
        """Function from item positions to the cosine of their columns of weights with those of all items."""
        self._check_fitted()
        return self._similarities_by_users()

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors for rows of weights: a 1 for each user."""
        return np.ones((matrix.shape[0], 1), dtype=np.float32)
