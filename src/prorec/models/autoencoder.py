"""What CDAE and the VAE have in common: parameters of training, and factors from what was trained.

Training is PyTorch's (`_training.py`); everything after it, recommending, folding in, loading, does without.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from scipy.sparse import csr_array

from prorec._core.checks import check_choice, check_float, check_int
from prorec._core.device import explain_out_of_memory
from prorec._core.errors import InputError
from prorec._core.progress import Progress, check_progress
from prorec.interactions import Interactions
from prorec.models.model import Model, as_interactions
from prorec.models.storage import Arrays

if TYPE_CHECKING:
    from prorec.models._training import Network

Loss = Literal["ce", "t-ce", "r-ce"]


@dataclass(kw_only=True)
class _Autoencoder(Model):
    """A network from a user's items to a score for each item, with a linear last layer."""

    corruption: float = 0.5
    """The share of a user's items that is left out of the input, anew in every epoch."""
    regularization: float = 1e-5
    """ζ: weight of the squared parameters in the loss."""
    epochs: int = 100
    """How often every user is seen, at most."""
    batch_size: int = 500
    """How many users go through at once."""
    learning_rate: float = 1e-3
    """Of Adam."""
    loss: Loss = "ce"
    """`ce`: cross-entropy. `t-ce` leaves the positives with the largest loss out, `r-ce` weighs every term by how
    sure the model is of it (both Wang et al. 2021)."""
    drop_rate: float = 0.2
    """t-ce: the share of positives left out in the end."""
    drop_epochs: int = 10
    """t-ce: in how many epochs that share is reached, rising linearly from 0."""
    reweight_power: float = 0.25
    """r-ce: how strongly the model's sureness counts."""
    patience: int = 10
    """With a validation part: stop after so many epochs without a better NDCG@10, and keep the best."""
    device: str = field(default="auto", compare=False)
    """Where to train and to recommend: `auto`, a GPU if there is one and the data are large; `cpu`; or `cuda`."""
    seed: int = 0
    """Of initial parameters, order of users and corruption; on one device, the same seed gives the same model."""
    history_: list[dict[str, float]] = field(init=False, repr=False, compare=False, default_factory=list)

    supports_warm_start: ClassVar[bool] = True
    supports_checkpoint: ClassVar[bool] = True

    def fit(
        self,
        interactions: Interactions | csr_array,
        *,
        validation: Interactions | None = None,
        init_from: Model | None = None,
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        interactions : interactions, or a sparse matrix of weights in [0, 1]
        validation : what the same users did later, to stop early by
        init_from : a fitted model of the same kind and size, whose parameters to begin with
        checkpoint : a folder to keep the state of training in after every epoch; if it has one of the same model on
            the same interactions, training goes on from there
        progress : called with the name of the task, epochs done and epochs in all
        """
        from prorec.models import _training

        check_progress(progress)
        known = as_interactions(interactions)
        self.check_parameters(known.matrix.shape)
        if validation is not None:
            _check_validation(validation, known)
        network = self._network(known.matrix)
        if init_from is not None:
            network.begin_with(self._start_of(init_from, known))
        folder = None if checkpoint is None else Path(checkpoint)
        with explain_out_of_memory(
            self._device(known.matrix.shape), f"{type(self).__name__}, in batches of this size,"
        ):
            self.history_ = _training.train(self, network, known, validation, folder, progress)
        learned = self._arrays_of(network.arrays(), known.matrix)
        self._check_finite(learned)
        self.arrays_, self.interactions_ = learned, known
        return self

    @abstractmethod
    def _network(self, matrix: csr_array) -> Network:
        """The untrained network."""

    @abstractmethod
    def _arrays_of(self, parameters: Arrays, matrix: csr_array) -> Arrays:
        """What is kept of the trained parameters, with everybody's factors."""

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Raise InputError unless the parameters are valid for a matrix of this shape."""
        check_float("corruption", self.corruption, 0, 1)
        if self.corruption == 1:
            raise InputError("corruption must be below 1: nothing would be left to learn from")
        check_float("regularization", self.regularization, 0)
        check_int("epochs", self.epochs, 1)
        check_int("batch_size", self.batch_size, 1)
        if not check_float("learning_rate", self.learning_rate, 0) > 0:
            raise InputError(f"learning_rate must be above 0; got {self.learning_rate!r}")
        check_choice("loss", self.loss, ("ce", "t-ce", "r-ce"))
        check_float("drop_rate", self.drop_rate, 0, 1)
        check_int("drop_epochs", self.drop_epochs, 1)
        check_float("reweight_power", self.reweight_power, 0)
        check_int("patience", self.patience, 1)
        check_int("seed", self.seed, 0)
        self._device(shape)


def _check_validation(validation: Any, known: Interactions) -> None:
    if not isinstance(validation, Interactions):
        raise InputError(f"validation must be Interactions; got {type(validation).__name__}")
    same = np.array_equal(validation.users, known.users) and np.array_equal(validation.items, known.items)
    if not same:
        raise InputError("validation must have the users and items of the interactions: see validation.align(…)")
    if not validation.matrix.nnz:
        raise InputError("validation has no interactions to stop by")


def normalised(matrix: csr_array) -> csr_array:
    """Each row over its length, rows of zeros as they are."""
    squares = np.bincount(
        np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)),
        matrix.data.astype(np.float64) ** 2,
        matrix.shape[0],
    )
    lengths = np.sqrt(np.where(squares > 0, squares, 1))
    data = matrix.data / np.repeat(lengths, np.diff(matrix.indptr))
    return csr_array((data.astype(np.float32), matrix.indices, matrix.indptr), shape=matrix.shape)


def layer(rng: Any, n_in: int, n_out: int) -> Any:
    """Initial weights of one layer (Glorot and Bengio 2010)."""
    return (np.sqrt(2 / (n_in + n_out)) * rng.standard_normal((n_in, n_out))).astype(np.float32)
