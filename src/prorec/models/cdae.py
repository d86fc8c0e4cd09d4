"""Collaborative denoising autoencoder (CDAE)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.array_rules import ArrayRule
from prorec._core.checks import check_int
from prorec._core.random import make_generator
from prorec.models._cpu_matrix import multiply
from prorec.models.autoencoder import _Autoencoder, init_layer
from prorec.models.model import Objective
from prorec.models.storage import Arrays
from prorec.transport.factors import Link

if TYPE_CHECKING:
    from prorec.models._batches import Batch
    from prorec.models._training import Network

_KEPT = ("encoder", "encoder_bias", "items", "item_bias")


@dataclass
class CDAE(_Autoencoder):
    """Predicts a yes or no for each item from a corrupted row of a user's items and a vector of the user.

    ŷ_i = σ(W'·z_i + b') with z_i = ReLU(Wᵀx̃_i + v_i + b), where x̃_i is the corrupted row and v_i the user's vector.
    The loss is the cross-entropy of Eq. 3. The hidden state z, W' and b' are the factors. A new user has the mean of
    the user vectors. On sparse data the model may learn little more than popularity.

    A pair is a click with its weight w as probability. The cross-entropy is linear in its target, so that the expected
    loss of a prediction is −w·log ŷ − (1 − w)·log(1 − ŷ): the weight is the target. The input is the expected row, the
    weights. Weights of c in place of 1 multiply the best predictions by c, which no regularizer does, but which leaves
    their order as it is.

    References
    ----------
    Y. Wu, C. DuBois, A. X. Zheng and M. Ester, "Collaborative denoising auto-encoders for top-N recommender systems",
    WSDM 2016.

    W. Wang, F. Feng, X. He, L. Nie and T.-S. Chua, "Denoising implicit feedback for recommendation", WSDM 2021: the
    losses t-ce and r-ce.
    """

    rank: int = 200
    """Width of the hidden layer."""

    objective: ClassVar[Objective] = "binary"
    regularized_arrays: ClassVar[tuple[str, ...]] = _KEPT
    link: ClassVar[Link] = "sigmoid"

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Check that the parameters are valid for a matrix of this shape."""
        super().check_parameters(shape)
        check_int("rank", self.rank, 1)

    def array_rules(self, shape: tuple[int, int]) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of the fitted model."""
        layers = {name: ArrayRule((shape[1], self.rank)) for name in ("encoder", "items")}
        vectors = {name: ArrayRule((self.rank,)) for name in ("encoder_bias", "new_user_vector")}
        return layers | vectors | {"users": ArrayRule((shape[0], self.rank)), "item_bias": ArrayRule((shape[1],))}

    def _make_network(self, matrix: csr_array) -> Network:
        from prorec.models._training import Network

        n_users, n_items = matrix.shape
        rng = make_generator(self.seed)
        initial = {
            "encoder": init_layer(rng, n_items, self.rank),
            "encoder_bias": np.zeros(self.rank, dtype=np.float32),
            "user_vectors": (0.01 * rng.standard_normal((n_users, self.rank))).astype(np.float32),
            "items": np.ascontiguousarray(init_layer(rng, self.rank, n_items).T),
            "item_bias": np.zeros(n_items, dtype=np.float32),
        }
        return Network(initial, _encode_batch, is_multinomial=False)

    def _to_arrays(self, parameters: Arrays, matrix: csr_array) -> Arrays:
        users = _encode_rows(parameters, matrix, parameters["user_vectors"])
        kept = {name: parameters[name] for name in _KEPT}
        return {**kept, "new_user_vector": parameters["user_vectors"].mean(axis=0), "users": users}

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return the hidden state z for rows of weights, with the mean of the user vectors."""
        arrays = self._fitted()
        return _encode_rows(arrays, matrix, arrays["new_user_vector"])


def _encode_rows(parameters: Arrays, matrix: csr_array, user_vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    hidden = multiply(matrix, parameters["encoder"]) + user_vectors + parameters["encoder_bias"]
    return np.asarray(np.maximum(hidden, 0))


def _encode_batch(parameters: dict[str, Any], batch: Batch, done: float) -> tuple[Any, Any]:
    hidden = batch.times(parameters["encoder"]) + parameters["user_vectors"][batch.users] + parameters["encoder_bias"]
    return hidden.relu(), hidden.new_zeros(1)
