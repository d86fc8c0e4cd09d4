"""Variational autoencoder with a multinomial likelihood (VAE)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.array_rules import ArrayRule
from prorec._core.checks import check_float, check_int
from prorec._core.random import make_generator
from prorec.models._cpu_matrix import multiply, normalize_rows
from prorec.models.autoencoder import _Autoencoder, init_layer
from prorec.models.model import Objective
from prorec.models.storage import Arrays

if TYPE_CHECKING:
    from prorec.models._batches import Batch
    from prorec.models._training import Network


@dataclass
class VAE(_Autoencoder):
    """Encodes a user's items as a normal distribution, and decodes it to a choice among all items.

    Maximizes E_q[Σ_j x_ij·log π_j(z_i)] − β·KL(q(z_i | x_i) ‖ N(0, I)) with π the softmax of the decoder's scores and
    q = N(μ(x_i), diag σ²(x_i)). β rises linearly to `kl_weight` over the first half of the epochs.

    A pair is a click with its weight w as probability. The loss is linear in x_ij, so that w takes the place of x_ij in
    its expected value. The input is the expected row, the weights, divided by its Euclidean norm. Weights of c in place
    of 1 therefore act as a KL weight of β/c and a penalty of ζ/c.

    With `hidden`, there is one tanh layer on either side of the latent one, as in the reference. With `hidden=None` the
    network is linear, which comparisons often call VAE-CF. The last hidden state at z = μ, the decoder's weights and
    its bias are the factors.

    References
    ----------
    D. Liang, R. G. Krishnan, M. D. Hoffman and T. Jebara, "Variational autoencoders for collaborative filtering",
    WWW 2018.
    """

    objective: ClassVar[Objective] = "multinomial"
    regularized_arrays: ClassVar[tuple[str, ...]] = ("encoder", "mean", "decoder", "items", "item_bias")

    rank: int = 200
    """Width of the latent layer."""
    hidden: int | None = 600
    """Width of the tanh layers; None for a linear network."""
    kl_weight: float = 0.2
    """Final weight β of the Kullback–Leibler term."""

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Check that the parameters are valid for a matrix of this shape."""
        super().check_parameters(shape)
        check_int("rank", self.rank, 1)
        if self.hidden is not None:
            check_int("hidden", self.hidden, 1)
        check_float("kl_weight", self.kl_weight, 0)

    def array_rules(self, shape: tuple[int, int]) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of the fitted model."""
        (n_users, n_items), width = shape, self._width
        shapes: dict[str, tuple[int, ...]] = {"users": (n_users, width), "items": (n_items, width)}
        shapes |= {"item_bias": (n_items,), "mean": (self.hidden or n_items, self.rank), "mean_bias": (self.rank,)}
        if self.hidden:
            shapes |= {"encoder": (n_items, width), "encoder_bias": (width,)}
            shapes |= {"decoder": (self.rank, width), "decoder_bias": (width,)}
        return {name: ArrayRule(each) for name, each in shapes.items()}

    @property
    def _width(self) -> int:
        return self.hidden or self.rank

    def _make_network(self, matrix: csr_array) -> Network:
        from prorec.models._training import Network

        n_items = matrix.shape[1]
        rng = make_generator(self.seed)
        initial: Arrays = {}
        if self.hidden:
            initial["encoder"] = init_layer(rng, n_items, self.hidden)
            initial["encoder_bias"] = np.zeros(self.hidden, dtype=np.float32)
            initial["decoder"] = init_layer(rng, self.rank, self.hidden)
            initial["decoder_bias"] = np.zeros(self.hidden, dtype=np.float32)
        for name in ("mean", "log_variance"):
            initial[name] = init_layer(rng, self.hidden or n_items, self.rank)
            initial[f"{name}_bias"] = np.zeros(self.rank, dtype=np.float32)
        initial["items"] = np.ascontiguousarray(init_layer(rng, self._width, n_items).T)
        initial["item_bias"] = np.zeros(n_items, dtype=np.float32)
        kl_weight = self.kl_weight

        def encode(parameters: dict[str, Any], batch: Batch, done: float) -> tuple[Any, Any]:
            return _encode_batch(parameters, batch, kl_weight * min(2 * done, 1.0))

        return Network(initial, encode, is_multinomial=True)

    def _to_arrays(self, parameters: Arrays, matrix: csr_array) -> Arrays:
        kept = {name: array for name, array in parameters.items() if not name.startswith("log_variance")}
        return {**kept, "users": _encode_rows(parameters, matrix)}

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return the last hidden state at z = μ for rows of weights."""
        return _encode_rows(self._fitted(), matrix)


def _encode_rows(parameters: Arrays, matrix: csr_array) -> NDArray[np.float32]:
    inputs = normalize_rows(matrix)
    if "encoder" not in parameters:
        return multiply(inputs, parameters["mean"]) + parameters["mean_bias"]
    hidden = np.tanh(multiply(inputs, parameters["encoder"]) + parameters["encoder_bias"])
    latent = hidden @ parameters["mean"] + parameters["mean_bias"]
    return np.asarray(np.tanh(latent @ parameters["decoder"] + parameters["decoder_bias"]))


def _encode_batch(parameters: dict[str, Any], batch: Batch, kl_weight: float) -> tuple[Any, Any]:
    """Return the last hidden state at a sample of z, and the weighted Kullback–Leibler divergence of each user."""
    if "encoder" in parameters:
        hidden = (batch.times(parameters["encoder"]) + parameters["encoder_bias"]).tanh()
        mean, log_variance = (hidden @ parameters[name] for name in ("mean", "log_variance"))
    else:
        mean, log_variance = (batch.times(parameters[name]) for name in ("mean", "log_variance"))
    mean, log_variance = mean + parameters["mean_bias"], log_variance + parameters["log_variance_bias"]
    latent = mean + mean.new_empty(mean.shape).normal_() * (0.5 * log_variance).exp()
    if "decoder" in parameters:
        latent = (latent @ parameters["decoder"] + parameters["decoder_bias"]).tanh()
    divergence = 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(dim=1)
    return latent, kl_weight * divergence
