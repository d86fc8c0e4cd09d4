"""Matrix factorization with a pairwise loss: Bayesian personalized ranking (BPR)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.array_rules import ArrayRule
from prorec._core.checks import check_float, check_int, safe_repr
from prorec._core.errors import InputError
from prorec._core.random import make_generator
from prorec.models._cpu_matrix import drop_zeros
from prorec.models._pairwise_steps import PairwiseSteps, StepSizes, fold_in_users
from prorec.models.model import Model, Objective
from prorec.models.storage import Arrays

_INITIAL_SCALE = 0.1
"""Standard deviation of the initial factors."""


@dataclass
class BPR(Model):
    """Factorizes the matrix so that a user's clicks have higher scores than the other items.

    With s_ui = x_u·y_i + b_i, the loss is Σ_u Σ_i Σ_j x_ui·(1 − x_uj)·log(1 + exp(s_uj − s_ui)) / (N − 1) over all
    pairs of a clicked item i and another of the N items j, where x_ui is 1 for a click and 0 for no click. Each step
    of stochastic gradient descent adds λ·(‖x_u‖² + ‖y_i‖² + ‖y_j‖² + b_i² + b_j²) / 2.

    A pair is a click with its weight w as probability, independently of other pairs. The loss is linear in each x, and
    i ≠ j, so that its expected value has w_ui·(1 − w_uj) in place of x_ui·(1 − x_uj). An epoch visits every click. A
    click of weight w takes a step with probability w, against an item j that is drawn from all others, and that is
    passed over with probability w_uj; so the mean of a step is the gradient of the expected loss. A click of weight 0
    takes no step and is an item j like any unobserved one; one of weight 1 is always visited, and never is an item j.
    Weights of c in place of 1 act as c times as many epochs, with a click among the items j with probability 1 − c.

    Steps run on all cores. Users and items are cut into blocks that threads never share, so that the same seed gives
    the same bits on any number of cores. A new user's vector is learned by the same steps with the items' vectors
    fixed. Without clicks it is 0.

    References
    ----------
    S. Rendle, C. Freudenthaler, Z. Gantner and L. Schmidt-Thieme, "BPR: Bayesian personalized ranking from implicit
    feedback", UAI 2009.

    R. Gemulla, E. Nijkamp, P. J. Haas and Y. Sismanis, "Large-scale matrix factorization with distributed stochastic
    gradient descent", KDD 2011: the blocks.
    """

    supports_warm_start: ClassVar[bool] = True
    objective: ClassVar[Objective] = "multinomial"

    rank: int = 64
    """Number of factors."""
    regularization: float = 0.01
    """Penalty λ on the squared factors of each step."""
    learning_rate: float = 0.1
    """Size of the first steps; it falls linearly to 0."""
    epochs: int = 100
    """Number of passes over all clicks."""
    item_bias: bool = False
    """Whether items have a number b of their own beside their factors."""
    seed: int = 0
    """Seed of the initial factors, the order of the clicks and the items that are drawn."""
    device: str = field(default="auto", repr=False, compare=False)
    """Device to fit and to recommend on: "auto" (a GPU if there is one and the data are large), "cpu" or "cuda"."""

    def array_rules(self, shape: tuple[int, int]) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of the fitted model."""
        rules = super().array_rules(shape)
        return rules | {"item_bias": replace(rules["item_bias"], is_optional=not self.item_bias)}

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Check that the parameters are valid for a matrix of this shape."""
        check_int("rank", self.rank, 1, min(shape), "the smaller side of the matrix")
        check_float("regularization", self.regularization, 0)
        if not check_float("learning_rate", self.learning_rate, 0) > 0:
            raise InputError(f"learning_rate must be above 0; got {self.learning_rate!r}")
        check_int("epochs", self.epochs, 1)
        if not isinstance(self.item_bias, bool):
            raise InputError(f"item_bias must be True or False; got {safe_repr(self.item_bias)}")
        check_int("seed", self.seed, 0)
        self._device(shape)

    def _learn(self, matrix: csr_array) -> Arrays:
        rng = make_generator(self.seed)
        users, items = (
            np.float32(_INITIAL_SCALE) * rng.standard_normal((n, self.rank), dtype=np.float32) for n in matrix.shape
        )
        return self._learn_from(matrix, {"users": users, "items": items})

    def _learn_from(self, matrix: csr_array, start: Arrays) -> Arrays:
        clicks = drop_zeros(matrix)
        if self.item_bias:
            start.setdefault("item_bias", np.zeros(matrix.shape[1], dtype=np.float32))
        else:
            start.pop("item_bias", None)
        device = self._device(matrix.shape)
        rng = make_generator(self.seed)
        if device is not None:
            from prorec.models._gpu_pairwise_steps import run_on_device

            return run_on_device(clicks, start, self._step_sizes, rng, device)
        steps = PairwiseSteps(clicks, start, self._step_sizes)
        for epoch in range(self.epochs):
            steps.run_epoch(epoch, rng)
        return start

    @property
    def _step_sizes(self) -> StepSizes:
        return StepSizes(float(self.learning_rate), float(self.regularization), self.epochs)

    def encode_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return user factors x for rows of weights, with the items' vectors fixed."""
        return fold_in_users(drop_zeros(matrix), self._fitted(), self._step_sizes, self.seed)
