"""Collaborative denoising autoencoder (Wu et al. 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_int
from prorec._core.random import make_generator
from prorec.models._sparse import times
from prorec.models.autoencoder import _Autoencoder, layer
from prorec.models.model import Objective
from prorec.models.storage import Arrays
from prorec.transport.factors import Link

if TYPE_CHECKING:
    from prorec.models._batches import Batch
    from prorec.models._training import Network


@dataclass
class CDAE(_Autoencoder):
    """ReLU(corrupted x·W + user vector + b)·W' + b', and a sigmoid: a yes or no for each item.

    The hidden state, W' and b' are the factors. A new user has the mean of the user vectors. On sparse data it may
    learn little more than popularity.
    """

    rank: int = 200
    """Width of the hidden layer."""

    objective: ClassVar[Objective] = "binary"
    regularized_arrays: ClassVar[tuple[str, ...]] = ("encoder", "encoder_bias", "items", "item_bias")
    link: ClassVar[Link] = "sigmoid"
    required_arrays: ClassVar[tuple[str, ...]] = (
        "users",
        "items",
        "item_bias",
        "encoder",
        "encoder_bias",
        "new_user_vector",
    )

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Raise InputError unless the parameters are valid for a matrix of this shape."""
        super().check_parameters(shape)
        check_int("rank", self.rank, 1)

    def _network(self, matrix: csr_array) -> Network:
        from prorec.models._training import Network

        n_users, n_items = matrix.shape
        rng = make_generator(self.seed)
        initial = {
            "encoder": layer(rng, n_items, self.rank),
            "encoder_bias": np.zeros(self.rank, dtype=np.float32),
            "user_vectors": (0.01 * rng.standard_normal((n_users, self.rank))).astype(np.float32),
            "items": np.ascontiguousarray(layer(rng, self.rank, n_items).T),
            "item_bias": np.zeros(n_items, dtype=np.float32),
        }
        return Network(initial, _encode_batch, is_multinomial=False)

    def _arrays_of(self, parameters: Arrays, matrix: csr_array) -> Arrays:
        users = _hidden(parameters, matrix, parameters["user_vectors"])
        kept = {name: parameters[name] for name in ("encoder", "encoder_bias", "items", "item_bias")}
        return {**kept, "new_user_vector": parameters["user_vectors"].mean(axis=0), "users": users}

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors for rows of weights."""
        learned = self._fitted()
        return _hidden(learned, matrix, learned["new_user_vector"])


def _hidden(parameters: Arrays, matrix: csr_array, user_vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(np.maximum(times(matrix, parameters["encoder"]) + user_vectors + parameters["encoder_bias"], 0))


def _encode_batch(parameters: dict[str, Any], batch: Batch, done: float) -> tuple[Any, Any]:
    hidden = batch.times(parameters["encoder"]) + parameters["user_vectors"][batch.users] + parameters["encoder_bias"]
    return hidden.relu(), hidden.new_zeros(1)
