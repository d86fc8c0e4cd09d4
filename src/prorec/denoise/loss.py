"""The loss L(X, U, V) of the paper (Eq. 2 and 3), which Proposition 2 says never rises."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.compilation import njit
from prorec._core.device import resolve_device
from prorec._core.parallel import N_CORES, map_in_order
from prorec.models.model import Model, Objective
from prorec.transport.backend import make_backend
from prorec.transport.blocks import DEFAULT_MEMORY
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals
from prorec.transport.scores import ScoreFunction

_N_USERS = 256
"""Users per block."""
_N_PAIRS = 1 << 16
"""Observed pairs per block."""


class Loss(NamedTuple):
    """L in its two parts.

    Examples
    --------
    >>> Loss(error=90.0, penalty=10.0).total
    100.0
    """

    error: float
    """Error of the scores against the weights, over all user–item pairs."""
    penalty: float
    """ζ times the sum of squares of the model's regularized arrays: ‖U‖² + ‖V‖² for WRMF, ‖V‖² for NCE, ‖B‖² for EASE;
    for a network, its regularized parameters, once per user; 0 for a model without regularization, or with a penalty on
    each step (BPR, LightGCN)."""

    @property
    def total(self) -> float:
        """L itself."""
        return self.error + self.penalty


class ModelLoss:
    """The loss of one fitted model as a function of the weights of the observed pairs.

    With S the scores before the link, the error is, by the model's `objective`:

    - `squared` (Eq. 2): Σ_ij (x_ij − S_ij)² = Σ_ij S_ij² + Σ_observed (x_ij² − 2·x_ij·S_ij);
    - `binary` (Eq. 3): Σ_ij log(1 + e^S_ij) − Σ_observed x_ij·S_ij;
    - `multinomial`: Σ_observed x_ij·(log Σ_k e^S_ik − S_ij).

    A network minimises more than that: it trains on corrupted input, and the VAE adds a Kullback–Leibler term. The sum
    over all pairs does not depend on the weights, so it is computed once: from UᵀU and VᵀV for factors with a squared
    error, and in blocks of users otherwise.

    Parameters
    ----------
    model : Model
        A fitted model.
    observed : csr_array
        Users × items; its entries are the observed pairs.
    device : str, default "cpu"
        Device for the sums over all pairs: "cpu", "cuda" or "auto".
    """

    def __init__(self, model: Model, observed: csr_array, device: str = "cpu") -> None:
        scores = model.scores_
        self._objective: Objective = model.objective
        self._sum_over_all, self._log_sums = 0.0, np.empty(0)
        squares = sum(map(_sum_of_squares, model.regularized_blocks()))
        self._penalty = float(getattr(model, "regularization", 0.0)) * squares
        if self._objective != "squared":  # a network's loss is a mean over users, this one a sum
            self._penalty *= np.count_nonzero(np.diff(observed.indptr))
        if not isinstance(scores, Factors):
            self._objective = "squared"
            self._sum_over_all, self._observed_scores = _function_sums(scores, observed)
            return
        self._observed_scores = _observed_scores(scores, observed)
        if self._objective == "squared":
            users, items = _with_bias(scores)
            self._sum_over_all = float(np.sum(_gram(users) * _gram(items)))
        elif self._objective == "binary":
            self._sum_over_all = _sum_of_softplus(scores, device)
        else:
            backend = make_backend(scores, Marginals.uniform(*observed.shape), 1.0, DEFAULT_MEMORY, device)
            self._log_sums = np.repeat(backend.log_sums()[0], np.diff(observed.indptr))

    def __call__(self, weights: NDArray[np.float32]) -> Loss:
        """Return L with these weights.

        Parameters
        ----------
        weights : NDArray of float32
            One weight per observed pair, in the order of `observed.data`.

        Returns
        -------
        Loss
        """
        x = weights.astype(np.float64)
        if self._objective == "squared":
            error = self._sum_over_all + float(np.dot(x, x) - 2 * np.dot(x, self._observed_scores))
        elif self._objective == "binary":
            error = self._sum_over_all - float(np.dot(x, self._observed_scores))
        else:
            error = float(np.dot(x, self._log_sums - self._observed_scores))
        return Loss(error, self._penalty)


def _observed_scores(factors: Factors, observed: csr_array) -> NDArray[np.float64]:
    """Return U·Vᵀ + b on the observed pairs."""
    values = np.empty(observed.nnz)
    users, items = (np.ascontiguousarray(each, dtype=np.float32) for each in (factors.users, factors.items))
    rows = np.repeat(np.arange(observed.shape[0], dtype=np.int32), np.diff(observed.indptr))

    def score_block(number: int) -> None:
        part = slice(number * _N_PAIRS, (number + 1) * _N_PAIRS)
        _dot_products(users, items, rows[part], observed.indices[part], values[part])

    for _ in map_in_order(score_block, -(-observed.nnz // _N_PAIRS), N_CORES):
        pass
    return values if factors.item_bias is None else values + factors.item_bias[observed.indices]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dot_products(
    users: NDArray[np.float32],
    items: NDArray[np.float32],
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    out: NDArray[np.float64],
) -> None:
    for pair in range(len(out)):
        user, item = users[rows[pair]], items[columns[pair]]
        total = np.float32(0)
        for factor in range(len(user)):
            total += user[factor] * item[factor]
        out[pair] = total


def _sum_of_squares(array: NDArray[np.floating]) -> float:
    """Return ‖A‖², summed in parts so that single precision suffices."""
    flat = array.ravel()
    parts = (flat[start : start + (1 << 14)] for start in range(0, flat.size, 1 << 14))
    return float(sum(float(np.dot(part, part)) for part in parts))


def _with_bias(factors: Factors) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """Return U and V with the bias as one more factor, which is 1 for every user."""
    if factors.item_bias is None:
        return factors.users, factors.items
    ones = np.ones((len(factors.users), 1), dtype=factors.users.dtype)
    return np.hstack([factors.users, ones]), np.column_stack([factors.items, factors.item_bias])


def _gram(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return VᵀV: products of a few thousand rows in the precision of V, their sum in double precision."""
    gram = np.zeros((vectors.shape[1], vectors.shape[1]))
    for start in range(0, len(vectors), 1 << 12):
        part = vectors[start : start + (1 << 12)]
        gram += part.T @ part
    return gram


def _sum_of_softplus(factors: Factors, device: str) -> float:
    """Return Σ_ij log(1 + e^S_ij)."""
    users, items = _with_bias(factors)
    n_blocks = -(-len(users) // _N_USERS)
    torch_device = resolve_device(device, float(len(users)) * len(items))
    if torch_device is not None:
        import torch

        columns = torch.as_tensor(items, device=torch_device).T
        blocks = (torch.as_tensor(block, device=torch_device) for block in np.array_split(users, n_blocks))
        return sum(float(torch.nn.functional.softplus(block @ columns).sum(dtype=torch.float64)) for block in blocks)

    def sum_block(number: int) -> float:
        block = users[number * _N_USERS : (number + 1) * _N_USERS] @ items.T
        positive = np.maximum(block, 0).sum(dtype=np.float64)
        np.abs(block, out=block)
        np.negative(block, out=block)
        return float(positive + np.log1p(np.exp(block, out=block), out=block).sum(dtype=np.float64))

    return sum(map_in_order(sum_block, n_blocks, N_CORES))


def _function_sums(score: ScoreFunction, observed: csr_array) -> tuple[float, NDArray[np.float64]]:
    """Return Σ_ij S_ij² and S on the observed pairs, for scores that come from a function."""
    total, on_observed = 0.0, np.empty(observed.nnz)
    for start in range(0, observed.shape[0], _N_USERS):
        rows = np.arange(start, min(start + _N_USERS, observed.shape[0]))
        block = np.asarray(score(rows))
        total += float(np.square(block, dtype=np.float64).sum())
        entries = slice(observed.indptr[start], observed.indptr[rows[-1] + 1])
        block_rows = np.repeat(rows - start, np.diff(observed.indptr[start : rows[-1] + 2]))
        on_observed[entries] = block[block_rows, observed.indices[entries]]
    return total, on_observed
