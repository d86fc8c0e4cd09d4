"""L(X, U, V): what Proposition 2 says goes down with every step (Eq. 2 and 3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.parallel import N_CORES, map_in_order
from prorec.models.model import Model, Objective
from prorec.transport.backend import make_backend
from prorec.transport.blocks import DEFAULT_MEMORY
from prorec.transport.factors import Factors
from prorec.transport.marginals import Marginals
from prorec.transport.scores import ScoreFunction

_ROWS = 256  # users at a time
_PAIRS = 1 << 16  # observed pairs at a time


class Loss(NamedTuple):
    """L in its two parts."""

    error: float
    """How far the scores are from the weights, over all pairs."""
    penalty: float
    """ζ times the squares of what the model's `regularization` keeps small: ‖U‖² + ‖V‖² for WRMF, ‖V‖² for NCE, ‖B‖²
    for EASE; for a network, its kept parameters, once for each user; 0 for a model without any."""

    @property
    def total(self) -> float:
        """L itself."""
        return self.error + self.penalty


class LossOf:
    """The loss of one fitted model, for any weights on the observed pairs.

    With S the scores before the link, for a model whose `objective` is

    - `squared` (Eq. 2): Σ_ij (x_ij − S_ij)² = Σ_ij S_ij² + Σ_observed (x_ij² − 2·x_ij·S_ij);
    - `binary` (Eq. 3): Σ_ij log(1 + e^S_ij) − Σ_observed x_ij·S_ij;
    - `multinomial`: Σ_observed x_ij·(log Σ_k e^S_ik − S_ij).

    A network trains on more than that: corrupted input, and the VAE a Kullback–Leibler term. The sum over all pairs
    does not depend on the weights: it is taken once, from UᵀU and VᵀV where the scores are factors and the objective is
    squared, and block by block otherwise.
    """

    def __init__(self, model: Model, observed: csr_array, device: str = "cpu") -> None:
        scores = model.scores_
        self._objective: Objective = model.objective
        self._everywhere, self._observed = 0.0, np.empty(0)
        self._by_pair = np.empty(0)
        kept = [model.arrays_[name] for name in model.regularized_arrays if name in model.arrays_]
        self._penalty = float(getattr(model, "regularization", 0.0)) * sum(map(_squares, kept))
        if self._objective != "squared":  # networks take the mean over users, this is the sum
            self._penalty *= np.count_nonzero(np.diff(observed.indptr))
        if isinstance(scores, Factors):
            self._observed = _at(scores, observed)
            if self._objective == "squared":
                self._everywhere = _sum_of_squares(scores)
            elif self._objective == "binary":
                self._everywhere = _sum_of_softplus(scores)
            else:
                self._by_pair = np.repeat(_log_sums(scores, observed.shape, device), np.diff(observed.indptr))
        else:
            self._objective = "squared"
            self._everywhere, self._observed = _of_function(scores, observed)

    def __call__(self, weights: NDArray[np.float32]) -> Loss:
        """L with these weights on the observed pairs."""
        x = weights.astype(np.float64)
        if self._objective == "squared":
            error = self._everywhere + float(np.dot(x, x) - 2 * np.dot(x, self._observed))
        elif self._objective == "binary":
            error = self._everywhere - float(np.dot(x, self._observed))
        else:
            error = float(np.dot(x, self._by_pair - self._observed))
        return Loss(error, self._penalty)


def _at(factors: Factors, observed: csr_array) -> NDArray[np.float64]:
    """U·Vᵀ + b on the observed pairs."""
    values = np.empty(observed.nnz)
    users, items = (np.ascontiguousarray(each, dtype=np.float32) for each in (factors.users, factors.items))
    rows = np.repeat(np.arange(observed.shape[0], dtype=np.int32), np.diff(observed.indptr))

    def work(place: int) -> None:
        part = slice(place * _PAIRS, (place + 1) * _PAIRS)
        _dots(users, items, rows[part], observed.indices[part], values[part])

    for _ in map_in_order(work, -(-observed.nnz // _PAIRS), N_CORES):
        pass
    return values if factors.item_bias is None else values + factors.item_bias[observed.indices]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dots(
    users: NDArray[np.float32],
    items: NDArray[np.float32],
    rows: NDArray[np.int32],
    columns: NDArray[np.int32],
    out: NDArray[np.float64],
) -> None:
    for pair in range(len(out)):
        user, item = users[rows[pair]], items[columns[pair]]
        total = np.float32(0)
        for at in range(len(user)):
            total += user[at] * item[at]
        out[pair] = total


def _squares(array: NDArray[np.floating]) -> float:
    flat = array.ravel()
    parts = (flat[begin : begin + (1 << 14)] for begin in range(0, flat.size, 1 << 14))
    return float(sum(float(np.dot(part, part)) for part in parts))


def _with_bias(factors: Factors) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """U and V with the bias as one more factor, which all users have in common."""
    if factors.item_bias is None:
        return factors.users, factors.items
    ones = np.ones((len(factors.users), 1), dtype=factors.users.dtype)
    return np.hstack([factors.users, ones]), np.column_stack([factors.items, factors.item_bias])


def _sum_of_squares(factors: Factors) -> float:
    """Σ_ij S_ij² = Σ_kl (UᵀU)_kl·(VᵀV)_kl."""
    users, items = _with_bias(factors)
    return float(np.sum(_gram(users) * _gram(items)))


def _gram(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    """VᵀV, of a few thousand rows at a time in the precision of V, in all in double."""
    gram = np.zeros((vectors.shape[1], vectors.shape[1]))
    for begin in range(0, len(vectors), 1 << 12):
        part = vectors[begin : begin + (1 << 12)]
        gram += part.T @ part
    return gram


def _sum_of_softplus(factors: Factors) -> float:
    users, items = _with_bias(factors)

    def work(place: int) -> float:
        block = users[place * _ROWS : (place + 1) * _ROWS] @ items.T
        positive = np.maximum(block, 0).sum(dtype=np.float64)
        np.abs(block, out=block)
        np.negative(block, out=block)
        return float(positive + np.log1p(np.exp(block, out=block), out=block).sum(dtype=np.float64))

    return sum(map_in_order(work, -(-len(users) // _ROWS), N_CORES))


def _log_sums(factors: Factors, shape: tuple[int, int], device: str) -> NDArray[np.float64]:
    """Of each user, log Σ_j e^S_ij."""
    return make_backend(factors, Marginals.uniform(*shape), 1.0, DEFAULT_MEMORY, device).log_sums()[0]


def _of_function(function: ScoreFunction, observed: csr_array) -> tuple[float, NDArray[np.float64]]:
    """Σ_ij S_ij², and S on the observed pairs."""
    everywhere, on_observed = 0.0, np.empty(observed.nnz)
    for begin in range(0, observed.shape[0], _ROWS):
        rows = np.arange(begin, min(begin + _ROWS, observed.shape[0]))
        block = np.asarray(function(rows))
        everywhere += float(np.square(block, dtype=np.float64).sum())
        place = slice(observed.indptr[begin], observed.indptr[rows[-1] + 1])
        local = np.repeat(rows - begin, np.diff(observed.indptr[begin : rows[-1] + 2]))
        on_observed[place] = block[local, observed.indices[place]]
    return everywhere, on_observed
