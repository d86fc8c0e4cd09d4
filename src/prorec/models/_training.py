"""Training of autoencoders with PyTorch: sparse batches in, full rows of scores out, never users × items at once."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.array_rules import ArrayRule, check_arrays
from prorec._core.checks import check_float
from prorec._core.digest import digest
from prorec._core.errors import DamagedFileError, InputError, MissingExtraError
from prorec._core.files import prefix_errors
from prorec._core.progress import Progress
from prorec._core.random import make_generator
from prorec._core.versions import advise_install
from prorec.interactions import Interactions
from prorec.models._top_k import rank_in_blocks
from prorec.models.storage import Arrays, json_default, read_checkpoint, write_checkpoint

try:
    import torch
except ModuleNotFoundError:
    raise MissingExtraError(f"CDAE and VAE need PyTorch, which is not installed: {advise_install('torch')}") from None

from prorec.models._batches import Batch, BatchMaker
from prorec.models._cpu_matrix import drop_zeros
from prorec.models._gpu_top_k import GpuRanker

if TYPE_CHECKING:
    from prorec.models.autoencoder import _Autoencoder

_log = logging.getLogger(__name__)

_MAX_SCORES = 10**9
"""Bytes of scores at a time."""
_NDCG_K = 10
"""Length of the lists by which training is stopped early."""


class Network:
    """Parameters of a network, and the way from a batch to scores.

    The last layer is linear: the scores of all items before the link are the hidden state times the parameters
    `items`, plus `item_bias`.

    Parameters
    ----------
    initial : dict of str to array
        Initial parameters by name.
    encode : callable
        Function of the parameters, a batch and the share of training that is done. It returns the last hidden state
        and a term of the loss of each user that does not depend on the items (Kullback–Leibler).
    is_multinomial : bool
        Whether the loss is the cross-entropy of one choice among all items, from inputs of unit norm; else it is that
        of a yes or no for each item.
    """

    def __init__(self, initial: Arrays, encode: Callable[..., Any], *, is_multinomial: bool) -> None:
        self.parameters = {name: torch.from_numpy(array.copy()) for name, array in initial.items()}
        self.encode = encode
        self.is_multinomial = is_multinomial
        self.start_digest = ""
        """Digest of the arrays that training starts from, if it starts from another model."""

    def score(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the scores of all items before the link."""
        return hidden @ self.parameters["items"].T + self.parameters["item_bias"]

    def start_from(self, arrays: Arrays) -> None:
        """Take parameters from the arrays of a fitted model; those that models do not keep stay as they are."""
        for name in self.parameters.keys() & arrays.keys():
            self.parameters[name] = torch.from_numpy(arrays[name])
        self.start_digest = digest(*(array for _, array in sorted(arrays.items())))

    def to_arrays(self) -> Arrays:
        """Return a copy of the parameters."""
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.parameters.items()}

    def move_to(self, device: torch.device) -> None:
        """Move the parameters to a device, ready for training."""
        self.parameters = {
            name: tensor.detach().to(device).requires_grad_() for name, tensor in self.parameters.items()
        }


def train(
    model: _Autoencoder,
    network: Network,
    interactions: Interactions,
    validation: Interactions | None,
    folder: Path | None,
    progress: Progress | None,
) -> list[dict[str, float]]:
    """Train a network in place.

    Parameters
    ----------
    model : CDAE or VAE
        Parameters of training.
    network : Network
        Network to train; it ends with its best parameters if there is a validation part, else with its last.
    interactions, validation : Interactions
        Interactions to learn from, and those to stop early by.
    folder : Path, optional
        Folder of the checkpoint, written after every epoch.
    progress : callable, optional
        Called after every epoch.

    Returns
    -------
    list of dict
        For each epoch, `loss` and, with a validation part, `ndcg@10`.
    """
    matrix = interactions.matrix
    device = model._device(matrix.shape) or torch.device("cpu")
    on_gpu = _is_gpu(device)
    clicks = drop_zeros(matrix)  # an entry of weight 0 takes no part in anything that is drawn
    batches = BatchMaker(clicks, device, model.corruption, is_normalized=network.is_multinomial, draws_on_device=on_gpu)
    network.move_to(device)
    # The gradient of ζ·‖θ‖² is 2ζθ: Adam adds it without building the squares.
    decay = 2 * model.regularization
    optimizer = torch.optim.Adam(
        list(network.parameters.values()), lr=model.learning_rate, weight_decay=decay, fused=True
    )
    state = _State(model, network, optimizer, interactions, validation, folder)
    active = np.flatnonzero(np.diff(clicks.indptr))
    task = f"Training {type(model).__name__}"
    while state.epoch < model.epochs and state.n_waited < model.patience:
        rng = make_generator(model.seed + 1000 * (state.epoch + 1))
        torch.manual_seed(int(rng.integers(2**62)))
        order = rng.permutation(active)
        total = torch.zeros((), dtype=torch.float64, device=device)
        for begin in range(0, len(order), model.batch_size):
            rows = np.sort(order[begin : begin + model.batch_size])
            done = (state.epoch + begin / len(order)) / model.epochs
            optimizer.zero_grad(set_to_none=True)
            loss = _compute_gradients(model, network, batches.make(rows, rng), done, state.epoch)
            optimizer.step()
            total += loss.double() * len(rows)  # fetched after the epoch: each fetch would wait for the device
        record = {"loss": float(total) / max(len(order), 1)}
        if validation is not None:
            record["ndcg@10"] = _evaluate(model, network, matrix, validation, device)
        state.finish_epoch(record)
        if progress is not None:
            progress(task, state.epoch, model.epochs)
    if progress is not None and state.epoch < model.epochs:
        progress(task, state.epoch, state.epoch)  # stopped early, so the task is finished
    state.restore_best()
    return state.history


def _is_gpu(device: torch.device) -> bool:
    """Return whether random numbers are drawn on the device, and items are ranked there."""
    return device.type != "cpu"


def _compute_gradients(model: _Autoencoder, network: Network, batch: Batch, done: float, epoch: int) -> torch.Tensor:
    """Compute gradients, and return the loss: the mean over users of the cross-entropy and the network's own term.

    The optimizer adds the penalty ζ. Where the scores of the batch would take too much memory, they are computed for
    parts of the users, down to the hidden state, whose gradient is then passed on at once.
    """
    hidden, extra = network.encode(network.parameters, batch, done)
    n_users = len(hidden)
    size = max(1, _MAX_SCORES // (4 * len(network.parameters["items"])))
    if size >= n_users:
        loss: torch.Tensor = (_sum_loss(model, network, network.score(hidden), batch, epoch) + extra.sum()) / n_users
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()
    parts = [(begin, min(begin + size, n_users)) for begin in range(0, n_users, size)]
    leaf = hidden.detach().requires_grad_()
    is_kept = None
    if model.loss == "t-ce":
        with torch.no_grad():
            scored = ((network.score(leaf[begin:end]), batch.take(begin, end)) for begin, end in parts)
            is_kept = _select_kept(model, torch.cat([_positive_terms(model, network, *each) for each in scored]), epoch)
    total = extra.sum() / n_users
    loss = total.detach()
    for begin, end in parts:
        part_kept = None if is_kept is None else is_kept[slice(*batch.bounds[[begin, end]].tolist())]
        scores = network.score(leaf[begin:end])
        part = _sum_loss(model, network, scores, batch.take(begin, end), epoch, part_kept) / n_users
        part.backward()  # type: ignore[no-untyped-call]
        loss = loss + part.detach()
    (total + (hidden * leaf.grad).sum()).backward()
    return loss


def _sum_loss(
    model: _Autoencoder,
    network: Network,
    scores: torch.Tensor,
    batch: Batch,
    epoch: int,
    is_kept: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the cross-entropy (Eq. 3), summed over users; t-ce sums only positives that are kept."""
    terms = _positive_terms(model, network, scores, batch)
    rest = torch.zeros((), device=scores.device)
    if not network.is_multinomial:
        # −(1 − t)·log(1 − ŷ): summed over all pairs with t = 0, then corrected on the observed ones.
        negative = torch.nn.functional.softplus(scores)
        if model.loss == "r-ce":
            negative = torch.sigmoid(-scores.detach()) ** model.reweight_power * negative
        rest = negative.sum() - (batch.weights * batch.pick(negative)).sum()
    if model.loss == "t-ce":
        terms = torch.where(_select_kept(model, terms, epoch) if is_kept is None else is_kept, terms, 0.0)
    return terms.sum() + rest


def _positive_terms(model: _Autoencoder, network: Network, scores: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Return the term −t·log ŷ of each observed pair, reweighted for r-ce."""
    positive = batch.pick(scores)
    if network.is_multinomial:
        surprise = batch.repeat(torch.logsumexp(scores, dim=1)) - positive
    else:
        surprise = torch.nn.functional.softplus(-positive)
    terms = batch.weights * surprise
    if model.loss == "r-ce":
        terms = torch.exp(-surprise.detach()) ** model.reweight_power * terms
    return terms


def _select_kept(model: _Autoencoder, terms: torch.Tensor, epoch: int) -> torch.Tensor:
    """Return which positives t-ce keeps: those with the smallest terms."""
    rate = model.drop_rate * min(epoch / model.drop_epochs, 1.0)
    n_kept = len(terms) - int(rate * len(terms))
    is_kept = torch.zeros_like(terms, dtype=torch.bool)
    is_kept[torch.topk(terms.detach(), n_kept, largest=False).indices] = True
    return is_kept


class _State:
    """State of training: its history, the best parameters so far, and the checkpoint of both."""

    def __init__(
        self,
        model: _Autoencoder,
        network: Network,
        optimizer: Any,
        interactions: Interactions,
        validation: Interactions | None,
        folder: Path | None,
    ) -> None:
        self.network, self.optimizer = network, optimizer
        self.history: list[dict[str, float]] = []
        self._best: Arrays = {}
        settings = {name: value for name, value in asdict(model).items() if name not in ("history_", "device")}
        matrices = [part.matrix for part in (interactions, validation) if part is not None]
        content = digest(*(array for each in matrices for array in (each.indptr, each.indices, each.data)))
        identity = [type(model).__name__, settings, content, network.start_digest]
        self._identity = json.dumps(identity, default=json_default)
        self._path = None if folder is None else folder / "training.npz"
        if folder is not None:
            with prefix_errors(folder):
                folder.mkdir(parents=True, exist_ok=True)
            self._resume(folder / "training.npz")

    @property
    def epoch(self) -> int:
        """Number of finished epochs."""
        return len(self.history)

    @property
    def n_waited(self) -> int:
        """Number of epochs since the best one; 0 without a validation part."""
        values = [record["ndcg@10"] for record in self.history if "ndcg@10" in record]
        return len(values) - 1 - int(np.argmax(values)) if values else 0

    def finish_epoch(self, record: dict[str, float]) -> None:
        """Store the record of an epoch, the parameters if they are the best so far, and the checkpoint."""
        if not np.isfinite(record["loss"]):
            raise InputError(
                f"the loss must be finite, but it is not in epoch {self.epoch + 1}; use a smaller learning_rate"
            )
        self.history.append(record)
        if "ndcg@10" in record and self.n_waited == 0:
            self._best = self.network.to_arrays()
        if self._path is not None:
            self._save(self._path)

    def restore_best(self) -> None:
        """Replace the last parameters by the best, if there is a validation part."""
        if self._best:
            self.network.parameters = {name: torch.from_numpy(array) for name, array in self._best.items()}

    def _save(self, path: Path) -> None:
        arrays = {f"now.{name}": array for name, array in self.network.to_arrays().items()}
        arrays |= {f"best.{name}": array for name, array in self._best.items()}
        for name, tensor in self.network.parameters.items():
            for key, value in self.optimizer.state[tensor].items():
                arrays[f"adam.{name}.{key}"] = torch.as_tensor(value).cpu().numpy()
        write_checkpoint(path, self._identity, {"history": self.history}, arrays)

    def _array_rules(self, *, has_best: bool) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of a checkpoint: parameters now and at best, and the state of Adam."""
        rules: dict[str, ArrayRule] = {}
        for name, tensor in self.network.parameters.items():
            shape = tuple(tensor.shape)
            rules |= {f"{part}.{name}": ArrayRule(shape) for part in ("now", "best")[: 1 + has_best]}
            rules |= {f"adam.{name}.exp_avg": ArrayRule(shape), f"adam.{name}.exp_avg_sq": ArrayRule(shape, minimum=0)}
            rules[f"adam.{name}.step"] = ArrayRule((), minimum=0)
        return rules

    def _resume(self, path: Path) -> None:
        """Continue from a checkpoint, if there is one."""
        stored = read_checkpoint(path, self._identity)
        if stored is None:
            return
        record, arrays = stored
        with prefix_errors(path):
            has_best = "best.items" in arrays
            check_arrays(arrays, self._array_rules(has_best=has_best), "this checkpoint")
            self.history = _read_history(record.get("history"), has_best=has_best)
        _log.info("continuing from the checkpoint of epoch %d", len(self.history))
        self._best = _select_prefix(arrays, "best.")
        for name, tensor in self.network.parameters.items():
            with torch.no_grad():
                tensor.copy_(torch.from_numpy(arrays[f"now.{name}"]))
            self.optimizer.state[tensor] = {
                key: torch.from_numpy(array).to(tensor.device)
                for key, array in _select_prefix(arrays, f"adam.{name}.").items()
            }


def _read_history(records: Any, *, has_best: bool) -> list[dict[str, float]]:
    """Return the records of the finished epochs of a checkpoint."""
    names = {"loss", "ndcg@10"} if has_best else {"loss"}
    if not isinstance(records, list) or not all(isinstance(each, dict) and each.keys() == names for each in records):
        raise DamagedFileError(f"this checkpoint is damaged: each epoch must have {names}; remove it to start anew")
    return [{name: check_float(name, value) for name, value in each.items()} for each in records]


def _select_prefix(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _evaluate(
    model: _Autoencoder, network: Network, matrix: csr_array, validation: Interactions, device: torch.device
) -> float:
    """Return the mean NDCG@10 on the validation part."""
    arrays = model._to_arrays(network.to_arrays(), matrix)
    rows = np.flatnonzero(validation.activity)
    excluded = matrix.indptr, matrix.indices
    k = min(_NDCG_K, matrix.shape[1])
    if _is_gpu(device):
        ranker = GpuRanker(arrays, k, excluded, None, device)
        ranked, _ = ranker.rank(arrays["users"], rows, np.zeros(len(rows), dtype=bool))
    else:
        users, items, bias = arrays["users"], arrays["items"], arrays["item_bias"]
        ranked, _ = rank_in_blocks(lambda part: users[rows[part]] @ items.T + bias, rows, k, excluded)
    return float(_ndcg(ranked, validation.matrix[rows]).mean())


def _ndcg(ranked: NDArray[np.int32], relevant: csr_array) -> NDArray[np.float64]:
    """Return the NDCG of each row, as `prorec.evaluation` defines it; models may not import from there."""
    n_rows, n_items = relevant.shape
    n_relevant = np.diff(relevant.indptr)
    relevant_pairs = np.repeat(np.arange(n_rows), n_relevant) * n_items + relevant.indices
    is_hit = np.isin(np.arange(n_rows)[:, None] * n_items + ranked, relevant_pairs) & (ranked >= 0)
    row, rank = np.nonzero(is_hit)
    discount = 1 / np.log2(np.arange(_NDCG_K) + 2)
    ideal = np.cumsum(discount)[np.minimum(n_relevant, _NDCG_K) - 1]
    return np.asarray(np.bincount(row, discount[rank], n_rows) / ideal)
