"""The base of CDAE and VAE: parameters of training, and factors from the trained network.

Training needs PyTorch (`_training.py`). Recommending, fold-in and loading do not.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_choice, check_float, check_int, safe_repr
from prorec._core.device import explain_out_of_memory
from prorec._core.errors import InputError
from prorec._core.progress import Progress, check_progress
from prorec._core.random import preserve_torch_state
from prorec.interactions import Interactions
from prorec.models.model import Model, as_interactions
from prorec.models.storage import Arrays

if TYPE_CHECKING:
    from prorec.models._training import Network

Loss = Literal["ce", "t-ce", "r-ce"]
"""Cross-entropy, truncated cross-entropy or reweighted cross-entropy."""


@dataclass(kw_only=True)
class _Autoencoder(Model):
    """A network from a user's items to a score for each item, with a linear last layer."""

    corruption: float = 0.5
    """Share of a user's items that is left out of the input, drawn anew in every epoch."""
    regularization: float = 1e-5
    """Penalty ζ on the squared parameters."""
    epochs: int = 100
    """Maximum number of passes over all users."""
    batch_size: int = 500
    """Number of users in a batch."""
    learning_rate: float = 1e-3
    """Learning rate of Adam."""
    loss: Loss = "ce"
    """Loss: "ce" (cross-entropy), "t-ce" (without the positives of the largest loss) or "r-ce" (each term weighted by
    the model's confidence); the last two are denoising losses (Wang et al. 2021)."""
    drop_rate: float = 0.2
    """Share of the positives that t-ce leaves out in the end."""
    drop_epochs: int = 10
    """Number of epochs in which t-ce raises that share from 0."""
    reweight_power: float = 0.25
    """Exponent of the model's confidence in r-ce."""
    patience: int = 10
    """With a validation part: number of epochs without a better NDCG@10 after which training stops."""
    device: str = field(default="auto", compare=False)
    """Device to fit and to recommend on: "auto" (a GPU if there is one and the data are large), "cpu" or "cuda"."""
    seed: int = 0
    """Seed of initial parameters, order of users and corruption; the same seed gives the same model on one device."""
    history_: list[dict[str, float]] = field(init=False, repr=False, compare=False, default_factory=list)

    supports_warm_start: ClassVar[bool] = True
    supports_checkpoint: ClassVar[bool] = True

    def fit(
        self,
        interactions: Any,
        *,
        validation: Interactions | None = None,
        init_from: Model | None = None,
        checkpoint: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Train the network.

        Parameters
        ----------
        interactions : Interactions, DataFrame or sparse matrix
            Weights in [0, 1], users × items; a data frame has one row for each interaction.
        validation : Interactions, optional
            Later interactions of the same users. Training stops when NDCG@10 on them no longer rises, and keeps the
            best parameters.
        init_from : Model, optional
            Fitted model of the same class and size to start from.
        checkpoint : str or Path, optional
            Folder for the state of training after every epoch. If it holds the state of the same model on the same
            interactions, training continues from there.
        progress : callable, optional
            Function of a task's name, epochs done and epochs in all, such as a `prorec.ConsoleProgress`.

        Returns
        -------
        Self
            The model itself, fitted. `history_` has the loss of every epoch and, with a validation part, NDCG@10.

        Raises
        ------
        InputError
            If an argument is invalid, if the loss is not finite, or if the checkpoint is damaged or of another model.
        MissingExtraError
            If PyTorch is not installed.
        """
        check_progress(progress)
        interactions = as_interactions(interactions)
        from prorec.models import _training  # refused without PyTorch, after a table that cannot be read

        shape = interactions.matrix.shape
        self.check_parameters(shape)
        if validation is not None:
            _check_validation(validation, interactions)
        network = self._make_network(interactions.matrix)
        if init_from is not None:
            network.start_from(self._copy_start(init_from, shape))
        folder = None if checkpoint is None else Path(checkpoint)
        subject = f"{type(self).__name__} with batch_size={self.batch_size}"
        with preserve_torch_state(), explain_out_of_memory(self._device(shape), subject):
            self.history_ = _training.train(self, network, interactions, validation, folder, progress)
        return self._set_result(self._to_arrays(network.to_arrays(), interactions.matrix), interactions)

    @abstractmethod
    def _make_network(self, matrix: csr_array) -> Network:
        """Return the untrained network."""

    @abstractmethod
    def _to_arrays(self, parameters: Arrays, matrix: csr_array) -> Arrays:
        """Return the arrays of the fitted model: parameters that are kept, and the factors of all users."""

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Check that the parameters are valid for a matrix of this shape."""
        check_float("corruption", self.corruption, 0, 1)
        if self.corruption == 1:
            raise InputError("corruption must be below 1, or nothing is left to learn from; got 1")
        check_float("regularization", self.regularization, 0)
        check_int("epochs", self.epochs, 1)
        check_int("batch_size", self.batch_size, 1)
        if not check_float("learning_rate", self.learning_rate, 0) > 0:
            raise InputError(f"learning_rate must be above 0; got {safe_repr(self.learning_rate)}")
        check_choice("loss", self.loss, ("ce", "t-ce", "r-ce"))
        check_float("drop_rate", self.drop_rate, 0, 1)
        check_int("drop_epochs", self.drop_epochs, 1)
        check_float("reweight_power", self.reweight_power, 0)
        check_int("patience", self.patience, 1)
        check_int("seed", self.seed, 0)
        self._device(shape)


def _check_validation(validation: Any, interactions: Interactions) -> None:
    if not isinstance(validation, Interactions):
        raise InputError(f"validation must be Interactions; got {type(validation).__name__}")
    is_aligned = all(
        np.array_equal(getattr(validation, name), getattr(interactions, name)) for name in ("users", "items")
    )
    if not is_aligned:
        raise InputError(
            "validation must have the users and items of the interactions, but has others; use validation.align(…)"
        )
    if not validation.matrix.nnz:
        raise InputError("validation must have interactions to stop by; got none. Pass validation=None instead.")


def init_layer(rng: np.random.Generator, n_in: int, n_out: int) -> NDArray[np.float32]:
    """Return initial weights of a layer (Glorot and Bengio 2010).

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    n_in, n_out : int
        Width of the layer's input and output.

    Returns
    -------
    array of float32
        n_in × n_out, normal with variance 2 / (n_in + n_out).
    """
    weights: NDArray[np.float32] = (np.sqrt(2 / (n_in + n_out)) * rng.standard_normal((n_in, n_out))).astype(np.float32)
    return weights
