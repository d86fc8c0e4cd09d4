"""Factors that are smoothed over the graph of users and items (LightGCN)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.array_rules import ArrayRule
from prorec._core.checks import check_choice, check_float, check_int
from prorec._core.errors import InputError
from prorec.models._cpu_matrix import drop_zeros, multiply, row_sums
from prorec.models.model import Model, Objective
from prorec.models.storage import Arrays

RankingLoss = Literal["bpr", "softmax"]
"""A pairwise loss, or the cross-entropy of one choice among all items."""


@dataclass
class LightGCN(Model):
    """Smooths the factors of users and items over their graph, and ranks by the products of the result.

    With Ã_ui = w_ui / √(d_u·d_i), where d_u and d_i are the sums of the user's and the item's weights, layer l + 1 has
    x_u = Σ_i Ã_ui·y_i and y_i = Σ_u Ã_ui·x_u of layer l. The factors are the means over layers 0 to `layers`; those of
    layer 0 are learned, by Adam. A user or an item without clicks has factors of 0, as in least squares.

    A pair is a click with its weight w as probability. Ã is the normalized graph of the expected clicks: an edge of
    weight 0 is none, and weights of c in place of 1 leave Ã as it is. With `loss="bpr"`, the loss on this graph is
    that of `BPR` in its expected value, by clicks and other items that are drawn in proportion to w_ui·(1 − w_uj).
    With `loss="softmax"`, it is Σ w_ui·(log Σ_j exp s_uj − s_ui), which is linear in w. The squares of the factors of
    layer 0 of each user and item of a step are penalized. Weights of c in place of 1 act as c times as many steps.

    A new user's factors are the mean over the layers, with 0 in layer 0 and the items' layers as they are. Training
    needs PyTorch, recommending does not. Each step smooths over the whole graph, so that large data need a GPU.

    References
    ----------
    X. He, K. Deng, X. Wang, Y. Li, Y. Zhang and M. Wang, "LightGCN: simplifying and powering graph convolution network
    for recommendation", SIGIR 2020.
    """

    objective: ClassVar[Objective] = "multinomial"

    rank: int = 64
    """Number of factors."""
    layers: int = 3
    """Number of times that factors are smoothed over the graph."""
    loss: RankingLoss = "bpr"
    """Loss: "bpr" (pairs of a click and another item) or "softmax" (a click among all items)."""
    regularization: float = 1e-4
    """Penalty on the squared factors of layer 0 of each step."""
    learning_rate: float = 0.005
    """Learning rate of Adam."""
    epochs: int = 100
    """Number of passes over all clicks."""
    batch_size: int = 2048
    """Number of clicks in a batch."""
    seed: int = 0
    """Seed of the initial factors, the order of the clicks and the items that are drawn."""
    device: str = field(default="auto", repr=False, compare=False)
    """Device to fit and to recommend on: "auto" (a GPU if there is one and the data are large), "cpu" or "cuda"."""

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Check that the parameters are valid for a matrix of this shape."""
        check_int("rank", self.rank, 1, min(shape), "the smaller side of the matrix")
        check_int("layers", self.layers, 1)
        check_choice("loss", self.loss, ("bpr", "softmax"))
        check_float("regularization", self.regularization, 0)
        if not check_float("learning_rate", self.learning_rate, 0) > 0:
            raise InputError(f"learning_rate must be above 0; got {self.learning_rate!r}")
        check_int("epochs", self.epochs, 1)
        check_int("batch_size", self.batch_size, 1)
        check_int("seed", self.seed, 0)
        self._device(shape)

    def array_rules(self, shape: tuple[int, int]) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of the fitted model."""
        widths = {"users": shape[0], "items": shape[1], "projection": shape[1]}
        return {name: ArrayRule((length, self.rank)) for name, length in widths.items()}

    def _learn(self, matrix: csr_array) -> Arrays:
        from prorec.models._graph_training import train

        return train(self, drop_zeros(matrix), self._device(matrix.shape))

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors for rows of weights, with 0 in layer 0."""
        sums = row_sums(matrix)
        scale = 1 / np.sqrt(np.where(sums > 0, sums, 1))
        data = (matrix.data * np.repeat(scale, np.diff(matrix.indptr))).astype(np.float32)
        rows = csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
        return multiply(rows, self._fitted()["projection"])
