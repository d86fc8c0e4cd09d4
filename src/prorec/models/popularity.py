"""The yardstick that anything personal must beat: everybody gets what most people like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec.models.model import Model
from prorec.models.storage import Arrays


@dataclass
class Popularity(Model):
    """Rank items by the sum of their weights, the same for all, less what each user has seen.

    Items are alike if the same users have them.

    >>> from prorec import Interactions
    >>> clicks = Interactions.from_matrix(csr_array([[1.0, 1, 0], [0, 1, 0], [0, 1, 1]]), users=["a", "b", "c"])
    >>> Popularity().fit(clicks).recommend(["b"], k=2).item_positions
    array([[0, 2]], dtype=int32)
    """

    seed: int = 0
    """Every model takes one; nothing here is left to chance, so it changes nothing."""

    def _learn(self, matrix: csr_array) -> Arrays:
        total = np.bincount(matrix.indices, matrix.data, matrix.shape[1])
        return {
            "users": np.ones((matrix.shape[0], 1), dtype=np.float32),
            "items": total.astype(np.float32).reshape(-1, 1),
        }

    def _likeness(self) -> Callable[[NDArray[np.int64], NDArray[np.float32]], None]:
        return self._likeness_by_users()

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors for rows of weights."""
        return np.ones((matrix.shape[0], 1), dtype=np.float32)
