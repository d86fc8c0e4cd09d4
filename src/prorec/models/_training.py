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
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from scipy.sparse import csr_array

from prorec._digest import digest
from prorec._random import generator
from prorec.data._files import naming, replacing
from prorec.errors import InputError
from prorec.evaluation.ranking import ranking_metrics
from prorec.interactions import Interactions
from prorec.models import _top
from prorec.models.autoencoder import normalised
from prorec.models.storage import Arrays, plain

try:
    import torch
except ModuleNotFoundError:
    raise InputError("CDAE and VAE need PyTorch, which is not installed: pip install 'prorec[torch]'") from None

if TYPE_CHECKING:
    from prorec.models.autoencoder import _Autoencoder


class Batch:
    """Some users' items on the device: their weights as targets, and a corrupted copy as input."""

    def __init__(
        self,
        matrix: csr_array,
        inputs: csr_array,
        rows: NDArray[np.int64],
        corruption: float,
        rng: np.random.Generator,
        device: Any,
    ) -> None:
        part = csr_array(matrix[rows])
        # Where each entry goes when the batch is transposed, for the gradient.
        order = csr_array((np.arange(part.nnz), part.indices, part.indptr), shape=part.shape).T.tocsr()
        data = inputs[rows].data * (rng.random(part.nnz) >= corruption) / np.float32(1 - corruption)
        at = np.repeat(np.arange(len(rows)), np.diff(part.indptr))

        def on_device(array: NDArray[Any], kind: type) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(array, dtype=kind)).to(device)

        self.users, self.rows = on_device(rows, np.int64), on_device(at, np.int64)
        self.items, self.weights = on_device(part.indices, np.int64), on_device(part.data, np.float32)
        self.begins = on_device(part.indptr[:-1], np.int64)
        self.values = on_device(data, np.float32)
        self._transposed = (
            on_device(at[order.data], np.int64),
            on_device(order.indptr[:-1], np.int64),
            on_device(data[order.data], np.float32),
        )

    def times(self, weights: torch.Tensor) -> torch.Tensor:
        """Corrupted input times a matrix of parameters."""
        given = self.items, self.begins, self.values
        product: torch.Tensor = _Times.apply(weights, given, self._transposed)  # type: ignore[no-untyped-call]
        return product

    def of_pairs(self, scores: torch.Tensor) -> torch.Tensor:
        """The scores of the batch's entries."""
        picked: torch.Tensor = _Pick.apply(scores, self.rows, self.items)  # type: ignore[no-untyped-call]
        return picked

    def of_rows(self, values: torch.Tensor) -> torch.Tensor:
        """Each user's value, once for each entry."""
        spread: torch.Tensor = _Spread.apply(values, self.rows, self.begins)  # type: ignore[no-untyped-call]
        return spread


# The three below have gradients of their own, because PyTorch's add up in whatever order the GPU comes to it: the same
# seed would not give the same model. Summing bags is done in order.
class _Times(torch.autograd.Function):
    """Sparse times dense; the gradient is the transposed sparse matrix times what comes back."""

    @staticmethod
    def forward(ctx: Any, dense: torch.Tensor, matrix: Any, transposed: Any) -> torch.Tensor:
        ctx.transposed = transposed
        return _sums_of_rows(dense, *matrix)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return _sums_of_rows(gradients[0].contiguous(), *ctx.transposed), None, None


class _Pick(torch.autograd.Function):
    """Entries of a matrix, none of them twice, so that the gradient can be put in place."""

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor, rows: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        ctx.places, ctx.shape = (rows, items), scores.shape
        return scores[rows, items]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        return gradients[0].new_zeros(ctx.shape).index_put(ctx.places, gradients[0]), None, None


class _Spread(torch.autograd.Function):
    """A value for each row, repeated for each of its entries; the gradient is summed by row."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, rows: torch.Tensor, begins: torch.Tensor) -> torch.Tensor:
        ctx.begins = begins
        return values[rows]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        column = gradients[0].reshape(-1, 1)
        everyone = torch.arange(len(column), device=column.device)
        return _sums_of_rows(column, everyone, ctx.begins, torch.ones_like(gradients[0])).ravel(), None, None


def _sums_of_rows(
    dense: torch.Tensor, indices: torch.Tensor, begins: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Weighted sums of rows of a matrix: those from each beginning to the next."""
    if not len(indices):
        return dense.new_zeros((len(begins), dense.shape[1]))
    return torch.nn.functional.embedding_bag(indices, dense, begins, mode="sum", per_sample_weights=weights)


class Network:
    """Parameters, and how a batch goes through them.

    Parameters
    ----------
    initial : the parameters to begin with, by name
    forward : from parameters, batch and the share of training that is done to the scores of all items before the
        link, and a term of the loss that has nothing to do with the items (Kullback–Leibler), one for each user
    is_multinomial : cross-entropy of one choice among all items, from rows of unit length; or of a yes or no for each
    """

    def __init__(self, initial: Arrays, forward: Callable[..., Any], *, is_multinomial: bool) -> None:
        self.parameters = {name: torch.from_numpy(array.copy()) for name, array in initial.items()}
        self.forward = forward
        self.is_multinomial = is_multinomial
        self.start = ""
        """What tells the model it began with from others, if it began with one."""

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
    *,
    show_progress: bool,
) -> list[dict[str, float]]:
    """Train in place; what happened in each epoch."""
    matrix = known.matrix
    device = device_of(model, matrix.shape)
    inputs = normalised(matrix) if network.is_multinomial else matrix
    network.to(device)
    # The gradient of ζ·‖θ‖² is 2ζθ: Adam adds it without building the squares.
    decay = 2 * model.regularization
    optimizer = torch.optim.Adam(
        list(network.parameters.values()), lr=model.learning_rate, weight_decay=decay, fused=True
    )
    state = _State(model, network, optimizer, known, validation, folder)
    active = np.flatnonzero(np.diff(matrix.indptr))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, disable=not show_progress) as bar:
        task = bar.add_task("training", total=model.epochs, completed=state.epoch)
        while state.epoch < model.epochs and state.waited < model.patience:
            rng = generator(model.seed + 1000 * (state.epoch + 1))
            torch.manual_seed(int(rng.integers(2**62)))
            order = rng.permutation(active)
            total = 0.0
            for begin in range(0, len(order), model.batch_size):
                rows = np.sort(order[begin : begin + model.batch_size])
                batch = Batch(matrix, inputs, rows, model.corruption, rng, device)
                done = (state.epoch + begin / len(order)) / model.epochs
                loss = _loss(model, network, batch, done, state.epoch)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                total += float(loss.detach()) * len(rows)
            report = {"loss": total / max(len(order), 1)}
            if validation is not None:
                report["ndcg@10"] = _ndcg(model, network, known, validation)
            state.finish_epoch(report)
            bar.update(task, advance=1, description=f"loss {report['loss']:.4f}")
    state.take_best()
    return state.history


def device_of(model: _Autoencoder, shape: tuple[int, int]) -> torch.device:
    """Where to train; PyTorch's own CPU, where that of everything else is none of PyTorch's."""
    return model._device(shape) or torch.device("cpu")


def _loss(model: _Autoencoder, network: Network, batch: Batch, done: float, epoch: int) -> torch.Tensor:
    """Mean over users of cross-entropy (Eq. 3) and what the network adds to it; ζ is the optimizer's business."""
    scores, extra = network.forward(network.parameters, batch, done)
    positive = batch.of_pairs(scores)
    if network.is_multinomial:
        surprise = batch.of_rows(torch.logsumexp(scores, dim=1)) - positive  # −log ŷ of what was clicked
        rest = torch.zeros((), device=scores.device)
    else:
        surprise = torch.nn.functional.softplus(-positive)
        # −(1 − t)·log(1 − ŷ): for all pairs as if t were 0, and then right on the observed ones.
        negative = torch.nn.functional.softplus(scores)
        if model.loss == "r-ce":
            negative = torch.sigmoid(-scores.detach()) ** model.reweight_power * negative
        rest = negative.sum() - (batch.weights * batch.of_pairs(negative)).sum()
    terms = batch.weights * surprise
    if model.loss == "r-ce":
        terms = torch.exp(-surprise.detach()) ** model.reweight_power * terms
    if model.loss == "t-ce":
        rate = model.drop_rate * min(epoch / model.drop_epochs, 1.0)
        kept = len(terms) - int(rate * len(terms))
        terms = torch.topk(terms, kept, largest=False).values
    total: torch.Tensor = (terms.sum() + rest + extra.sum()) / len(batch.users)
    return total


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
        self._of = json.dumps([type(model).__name__, settings, content, network.start], default=plain)
        if folder is not None:
            path = folder / "training.npz"
            with naming(path):
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
        with replacing(path) as temporary, temporary.open("wb") as file:
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


def _ndcg(model: _Autoencoder, network: Network, known: Interactions, validation: Interactions) -> float:
    """NDCG@10 on what the users did later."""
    learned = model._arrays_of(network.arrays(), known.matrix)
    rows = np.flatnonzero(validation.activity)
    ranked = np.empty((len(rows), 10), dtype=np.int32)
    best = np.empty((len(rows), 10), dtype=np.float32)
    for begin in range(0, len(rows), 512):
        part = rows[begin : begin + 512]
        scores = learned["users"][part] @ learned["items"].T + learned["item_bias"]
        _top.mask(scores, part, known.matrix.indptr, known.matrix.indices)
        _top.top_k(scores, 10, ranked[begin : begin + 512], best[begin : begin + 512])
    values = ranking_metrics(ranked, validation.matrix[rows], (10,), "standard")["ndcg@10"]
    return float(values.mean())
