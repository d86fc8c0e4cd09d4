"""Training autoencoders with PyTorch: sparse batches in, a full row of scores out, never users × items at once."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.digest import digest
from prorec._core.errors import InputError
from prorec._core.files import atomic_write, prefix_errors
from prorec._core.progress import Progress
from prorec._core.random import make_generator
from prorec.interactions import Interactions
from prorec.models import _top
from prorec.models.autoencoder import normalised
from prorec.models.storage import Arrays, json_default

try:
    import torch
except ModuleNotFoundError:
    raise InputError("CDAE and VAE need PyTorch, which is not installed: pip install 'prorec[torch]'") from None

from prorec.models._batches import Batch
from prorec.models._on_device import Sparse
from prorec.models._top_on_device import Best

if TYPE_CHECKING:
    from prorec.models.autoencoder import _Autoencoder

_SCORES = 10**9  # bytes of scores at a time


class Network:
    """Parameters, and how a batch goes through them.

    Parameters
    ----------
    initial : the parameters to begin with, by name
    encode : from parameters, batch and the share of training that is done to the last hidden state, and a term of the
        loss that has nothing to do with the items (Kullback–Leibler), one for each user. The last layer is linear: the
        scores of all items before the link are the hidden state times the parameters `items`, plus `item_bias`
    is_multinomial : cross-entropy of one choice among all items, from rows of unit length; or of a yes or no for each
    """

    def __init__(self, initial: Arrays, encode: Callable[..., Any], *, is_multinomial: bool) -> None:
        self.parameters = {name: torch.from_numpy(array.copy()) for name, array in initial.items()}
        self.encode = encode
        self.is_multinomial = is_multinomial
        self.start = ""
        """What tells the model it began with from others, if it began with one."""

    def scores(self, hidden: torch.Tensor) -> torch.Tensor:
        """Of all items, before the link."""
        return hidden @ self.parameters["items"].T + self.parameters["item_bias"]

    def begin_with(self, learned: Arrays) -> None:
        """Take over what another network has learned; parameters that models don't keep stay as they are."""
        for name in self.parameters.keys() & learned.keys():
            self.parameters[name] = torch.from_numpy(learned[name].copy())
        self.start = digest(*(array for _, array in sorted(learned.items())))

    def arrays(self) -> Arrays:
        """The parameters as they are now."""
        return {name: tensor.detach().cpu().numpy().copy() for name, tensor in self.parameters.items()}

    def to(self, device: Any) -> None:
        """Move the parameters, ready to be trained."""
        self.parameters = {
            name: tensor.detach().to(device).requires_grad_() for name, tensor in self.parameters.items()
        }


def train(
    model: _Autoencoder,
    network: Network,
    known: Interactions,
    validation: Interactions | None,
    folder: Path | None,
    progress: Progress | None,
) -> list[dict[str, float]]:
    """Train in place; what happened in each epoch."""
    matrix = known.matrix
    device = device_of(model, matrix.shape)
    batch_of = _batches(matrix, network, model.corruption, device)
    network.to(device)
    # The gradient of ζ·‖θ‖² is 2ζθ: Adam adds it without building the squares.
    decay = 2 * model.regularization
    optimizer = torch.optim.Adam(
        list(network.parameters.values()), lr=model.learning_rate, weight_decay=decay, fused=True
    )
    state = _State(model, network, optimizer, known, validation, folder)
    active = np.flatnonzero(np.diff(matrix.indptr))
    task = f"Training {type(model).__name__}"
    while state.epoch < model.epochs and state.waited < model.patience:
        rng = make_generator(model.seed + 1000 * (state.epoch + 1))
        torch.manual_seed(int(rng.integers(2**62)))
        order = rng.permutation(active)
        total = torch.zeros((), dtype=torch.float64, device=device)
        for begin in range(0, len(order), model.batch_size):
            rows = np.sort(order[begin : begin + model.batch_size])
            done = (state.epoch + begin / len(order)) / model.epochs
            optimizer.zero_grad(set_to_none=True)
            loss = _gradients(model, network, batch_of(rows, rng), done, state.epoch)
            optimizer.step()
            total += loss.double() * len(rows)  # not fetched from the device before the end: that would wait for it
        report = {"loss": float(total) / max(len(order), 1)}
        if validation is not None:
            report["ndcg@10"] = _ndcg(model, network, known, validation, device)
        state.finish_epoch(report)
        if progress is not None:
            progress(task, state.epoch, model.epochs)
    if progress is not None and state.epoch < model.epochs:
        progress(task, state.epoch, state.epoch)  # stopped early: the task is finished
    state.take_best()
    return state.history


def device_of(model: _Autoencoder, shape: tuple[int, int]) -> torch.device:
    """Where to train; PyTorch's own CPU, where that of everything else is none of PyTorch's."""
    return model._device(shape) or torch.device("cpu")


def _cuts_there(device: torch.device) -> bool:
    """Whether batches are cut on the device: there are thousands, and each would travel in a dozen pieces."""
    return device.type != "cpu"


def _batches(
    matrix: csr_array, network: Network, corruption: float, device: torch.device
) -> Callable[[NDArray[np.int64], np.random.Generator], Batch]:
    """A function from users, and chance, to their batch."""
    if _cuts_there(device):
        clicks = Sparse.of(matrix, device)
        given = clicks.unit_rows().values if network.is_multinomial else clicks.values
        return lambda rows, rng: Batch.cut(clicks, given, rows, corruption)
    inputs = normalised(matrix) if network.is_multinomial else matrix
    return lambda rows, rng: Batch.of(matrix, inputs, rows, corruption, rng, device)


def _gradients(model: _Autoencoder, network: Network, batch: Batch, done: float, epoch: int) -> torch.Tensor:
    """Put the gradients in place; the loss: the mean over users of cross-entropy and what the network adds to it.

    ζ is the optimizer's business. Where the scores of the batch would take too much memory, they are worked out for
    some users after the other, down to the hidden state, whose gradient then goes on from there.
    """
    hidden, extra = network.encode(network.parameters, batch, done)
    n_users = len(hidden)
    size = max(1, _SCORES // (4 * len(network.parameters["items"])))
    if size >= n_users:
        loss: torch.Tensor = (_loss(model, network, network.scores(hidden), batch, epoch) + extra.sum()) / n_users
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()
    parts = [(begin, min(begin + size, n_users)) for begin in range(0, n_users, size)]
    leaf = hidden.detach().requires_grad_()
    kept = None
    if model.loss == "t-ce":
        with torch.no_grad():
            scored = ((network.scores(leaf[begin:end]), batch.part(begin, end)) for begin, end in parts)
            kept = _kept(model, torch.cat([_terms(model, network, *each) for each in scored]), epoch)
    total = extra.sum() / n_users
    loss = total.detach()
    for begin, end in parts:
        part_kept = None if kept is None else kept[slice(*batch.ends[[begin, end]].tolist())]
        scores = network.scores(leaf[begin:end])
        part = _loss(model, network, scores, batch.part(begin, end), epoch, part_kept) / n_users
        part.backward()  # type: ignore[no-untyped-call]
        loss = loss + part.detach()
    (total + (hidden * leaf.grad).sum()).backward()
    return loss


def _loss(
    model: _Autoencoder,
    network: Network,
    scores: torch.Tensor,
    batch: Batch,
    epoch: int,
    kept: torch.Tensor | None = None,
) -> torch.Tensor:
    """Cross-entropy (Eq. 3), summed over users; for t-ce, of what is `kept`, or what is to be kept of this batch."""
    terms = _terms(model, network, scores, batch)
    rest = torch.zeros((), device=scores.device)
    if not network.is_multinomial:
        # −(1 − t)·log(1 − ŷ): for all pairs as if t were 0, and then right on the observed ones.
        negative = torch.nn.functional.softplus(scores)
        if model.loss == "r-ce":
            negative = torch.sigmoid(-scores.detach()) ** model.reweight_power * negative
        rest = negative.sum() - (batch.weights * batch.of_pairs(negative)).sum()
    if model.loss == "t-ce":
        terms = torch.where(_kept(model, terms, epoch) if kept is None else kept, terms, 0.0)
    return terms.sum() + rest


def _terms(model: _Autoencoder, network: Network, scores: torch.Tensor, batch: Batch) -> torch.Tensor:
    """What each positive adds to the loss."""
    positive = batch.of_pairs(scores)
    if network.is_multinomial:
        surprise = batch.of_rows(torch.logsumexp(scores, dim=1)) - positive  # −log ŷ of what was clicked
    else:
        surprise = torch.nn.functional.softplus(-positive)
    terms = batch.weights * surprise
    if model.loss == "r-ce":
        terms = torch.exp(-surprise.detach()) ** model.reweight_power * terms
    return terms


def _kept(model: _Autoencoder, terms: torch.Tensor, epoch: int) -> torch.Tensor:
    """For t-ce, which positives are left: those with the smallest terms."""
    rate = model.drop_rate * min(epoch / model.drop_epochs, 1.0)
    n_kept = len(terms) - int(rate * len(terms))
    is_kept = torch.zeros_like(terms, dtype=torch.bool)
    is_kept[torch.topk(terms.detach(), n_kept, largest=False).indices] = True
    return is_kept


class _State:
    """Where training stands: what it can be taken up from, and the best it came to."""

    def __init__(
        self,
        model: _Autoencoder,
        network: Network,
        optimizer: Any,
        known: Interactions,
        validation: Interactions | None,
        folder: Path | None,
    ) -> None:
        self.network, self.optimizer, self.folder = network, optimizer, folder
        self.history: list[dict[str, float]] = []
        self.waited = 0
        self._best: Arrays | None = None
        self._best_ndcg = -1.0
        settings = {name: value for name, value in asdict(model).items() if name not in ("history_", "device")}
        parts = [part.matrix for part in (known, validation) if part is not None]
        content = digest(*(array for part in parts for array in (part.indptr, part.indices, part.data)))
        self._of = json.dumps([type(model).__name__, settings, content, network.start], default=json_default)
        if folder is not None:
            path = folder / "training.npz"
            with prefix_errors(path):
                folder.mkdir(parents=True, exist_ok=True)
                try:
                    self._resume(path)
                except (ValueError, KeyError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile) as error:
                    if isinstance(error, InputError):
                        raise
                    raise InputError(f"this checkpoint is damaged; remove it to start anew ({error})") from None

    @property
    def epoch(self) -> int:
        """How many epochs are done."""
        return len(self.history)

    def finish_epoch(self, report: dict[str, float]) -> None:
        """Remember the epoch, and the parameters if they are the best so far."""
        if not np.isfinite(report["loss"]):
            raise InputError(f"the loss is no longer finite in epoch {self.epoch + 1}: learning_rate is too large")
        self.history.append(report)
        if "ndcg@10" in report:
            if report["ndcg@10"] > self._best_ndcg:
                self._best, self._best_ndcg, self.waited = self.network.arrays(), report["ndcg@10"], 0
            else:
                self.waited += 1
        if self.folder is not None:
            self._keep(self.folder / "training.npz")

    def take_best(self) -> None:
        """Put the best parameters in place of the last."""
        if self._best is not None:
            self.network.parameters = {name: torch.from_numpy(array) for name, array in self._best.items()}

    def _keep(self, path: Path) -> None:
        arrays = {f"now.{name}": array for name, array in self.network.arrays().items()}
        arrays |= {f"best.{name}": array for name, array in (self._best or {}).items()}
        for name, tensor in self.network.parameters.items():
            for key, value in self.optimizer.state[tensor].items():
                arrays[f"adam.{name}.{key}"] = torch.as_tensor(value).cpu().numpy()
        about = {"of": self._of, "history": self.history, "waited": self.waited, "best": self._best_ndcg}
        arrays["about"] = np.array(json.dumps(about))
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    def _resume(self, path: Path) -> None:
        if not path.exists():
            return
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about = json.loads(str(arrays["about"]))
        if about["of"] != self._of:
            raise InputError("this is a checkpoint of other parameters or other interactions")
        self.history, self.waited, self._best_ndcg = about["history"], about["waited"], about["best"]
        self._best = {name[5:]: array for name, array in arrays.items() if name.startswith("best.")} or None
        for name, tensor in self.network.parameters.items():
            with torch.no_grad():
                tensor.copy_(torch.from_numpy(arrays[f"now.{name}"]))
            prefix = f"adam.{name}."
            self.optimizer.state[tensor] = {
                key.removeprefix(prefix): torch.from_numpy(array).to(tensor.device)
                for key, array in arrays.items()
                if key.startswith(prefix)
            }


def _ndcg(
    model: _Autoencoder, network: Network, known: Interactions, validation: Interactions, device: torch.device
) -> float:
    """NDCG@10 on what the users did later."""
    learned = model._arrays_of(network.arrays(), known.matrix)
    rows = np.flatnonzero(validation.activity)
    seen = known.matrix.indptr, known.matrix.indices
    if _cuts_there(device):
        k = min(10, known.n_items)
        best_k = Best(learned["items"], learned["item_bias"], k, seen, None, device)
        ranked = best_k.of(learned["users"], rows, np.zeros(len(rows), dtype=bool))[0]
        ranked = np.pad(ranked, ((0, 0), (0, 10 - k)), constant_values=-1)
    else:
        ranked = np.empty((len(rows), 10), dtype=np.int32)
        best = np.empty((len(rows), 10), dtype=np.float32)
        for begin in range(0, len(rows), 512):
            part = rows[begin : begin + 512]
            scores = learned["users"][part] @ learned["items"].T + learned["item_bias"]
            _top.mask(scores, part, *seen)
            _top.top_k(scores, 10, ranked[begin : begin + 512], best[begin : begin + 512])
    return float(_ndcg_of(ranked, validation.matrix[rows]).mean())


def _ndcg_of(ranked: NDArray[np.int32], relevant: csr_array) -> NDArray[np.float64]:
    """Each row's NDCG; evaluation, which has it among other metrics, is above the models."""
    n_rows, k = ranked.shape
    users = np.repeat(np.arange(n_rows), np.diff(relevant.indptr))
    is_hit = np.isin(
        np.arange(n_rows)[:, None] * relevant.shape[1] + ranked, users * relevant.shape[1] + relevant.indices
    )
    user, place = np.nonzero(is_hit & (ranked >= 0))
    discount = 1 / np.log2(np.arange(1, k + 1) + 1)
    ideal = np.cumsum(discount)[np.minimum(np.diff(relevant.indptr), k) - 1]
    return np.asarray(np.bincount(user, discount[place], n_rows) / ideal)
