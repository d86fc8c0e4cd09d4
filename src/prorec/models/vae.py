"""Variational autoencoder with a multinomial likelihood (Liang et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_float, check_int
from prorec._core.random import make_generator
from prorec.models._sparse import times
from prorec.models.autoencoder import _Autoencoder, layer, normalised
from prorec.models.model import Objective
from prorec.models.storage import Arrays

if TYPE_CHECKING:
    from prorec.models._batches import Batch
    from prorec.models._training import Network


@dataclass
class VAE(_Autoencoder):
    """A user's items to a normal distribution in a latent space, and from there to a choice among all items.

    With `hidden`, the original: one tanh layer on either side of the latent one. Without (None), linear: what is
    usually called VAE-CF in comparisons. The last hidden state, the decoder's weights and bias are the factors.
    """

    objective: ClassVar[Objective] = "multinomial"
    regularized_arrays: ClassVar[tuple[str, ...]] = ("encoder", "mean", "decoder", "items", "item_bias")
    required_arrays: ClassVar[tuple[str, ...]] = ("users", "items", "item_bias", "mean", "mean_bias")

    rank: int = 200
    """Width of the latent layer."""
    hidden: int | None = 600
    """Width of the tanh layers; None for none."""
    kl_weight: float = 0.2
    """Weight of the Kullback–Leibler term in the end; it rises linearly over the first half of the epochs."""

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Raise InputError unless the parameters are valid for a matrix of this shape."""
        super().check_parameters(shape)
        check_int("rank", self.rank, 1)
        if self.hidden is not None:
            check_int("hidden", self.hidden, 1)
        check_float("kl_weight", self.kl_weight, 0)

    @property
    def _width(self) -> int:
        return self.hidden or self.rank

    def _network(self, matrix: csr_array) -> Network:
        from prorec.models._training import Network

        n_items = matrix.shape[1]
        rng = make_generator(self.seed)
        inner = self.hidden or self.rank
        initial: Arrays = {}
        if self.hidden:
            initial["encoder"] = layer(rng, n_items, self.hidden)
            initial["encoder_bias"] = np.zeros(self.hidden, dtype=np.float32)
            initial["decoder"] = layer(rng, self.rank, self.hidden)
            initial["decoder_bias"] = np.zeros(self.hidden, dtype=np.float32)
        for name in ("mean", "log_variance"):
            initial[name] = layer(rng, self.hidden or n_items, self.rank)
            initial[f"{name}_bias"] = np.zeros(self.rank, dtype=np.float32)
        initial["items"] = np.ascontiguousarray(layer(rng, inner, n_items).T)
        initial["item_bias"] = np.zeros(n_items, dtype=np.float32)
        weight = self.kl_weight

        def encode(parameters: dict[str, Any], batch: Batch, done: float) -> tuple[Any, Any]:
            return _encode_batch(parameters, batch, weight * min(2 * done, 1.0))

        return Network(initial, encode, is_multinomial=True)

    def _arrays_of(self, parameters: Arrays, matrix: csr_array) -> Arrays:
        kept = {name: array for name, array in parameters.items() if not name.startswith("log_variance")}
        return {**kept, "users": _state(parameters, matrix)}

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors for rows of weights."""
        return _state(self._fitted(), matrix)


def _state(parameters: Arrays, matrix: csr_array) -> NDArray[np.float32]:
    """The last hidden state at the mean of the latent distribution."""
    x = normalised(matrix)
    if "encoder" not in parameters:
        return times(x, parameters["mean"]) + parameters["mean_bias"]
    hidden = np.tanh(times(x, parameters["encoder"]) + parameters["encoder_bias"])
    latent = hidden @ parameters["mean"] + parameters["mean_bias"]
    return np.asarray(np.tanh(latent @ parameters["decoder"] + parameters["decoder_bias"]))


def _encode_batch(parameters: dict[str, Any], batch: Batch, kl_weight: float) -> tuple[Any, Any]:
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
