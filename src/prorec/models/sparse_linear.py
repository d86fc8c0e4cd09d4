"""A linear item model with few weights for each item, for catalogues that are too large for EASE."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.array_rules import ArrayRule
from prorec._core.checks import check_float, check_int
from prorec._core.compilation import njit
from prorec._core.errors import InputError, MemoryLimitError
from prorec._core.parallel import N_CORES
from prorec.models._cpu_matrix import drop_zeros, run_on_rows
from prorec.models._user_counts import count_users
from prorec.models.model import Model, ScoreFunction
from prorec.models.storage import Arrays

_MAX_BYTES = 8e9
"""Memory that neighbours and item weights may take."""
_MIN_GAIN = 1e-9
"""Share of an item's largest gain below which another item is no neighbour, so that a vanishing weight is no click."""


@dataclass
class SparseLinear(Model):
    """Scores items by learned weights of a few other items each, S = X·B.

    Column j of B minimizes the loss of EASE, ‖X_j − X·b‖² + λ‖b‖², over weights b of at most `neighbors` other items.
    With G the expected Gram matrix, that is b_S = (G_SS + λI)⁻¹·G_Sj for the chosen items S, which are those that would
    lower the loss of item j most on their own, by G_ij² / (G_ii + λ). An item that shares no user with j, or hardly any
    weight, is not chosen. Where all items share users and all are chosen, B is that of EASE.

    A pair is a click with its weight w as probability, so that G has Σ_u w_ui·w_uj off the diagonal and Σ_u w_ui on it,
    as in EASE, and weights of c in place of 1 act as the same penalties. With `activity_power`, each user counts as
    often in these sums.

    Neither G nor its inverse is in memory, only 8 bytes for each of items × `neighbors` weights, and for each core a
    number for each user and each item. The time grows with the clicks of the chosen items. There are no factors;
    `scores_` is a function.

    References
    ----------
    H. Steck, "Embarrassingly shallow autoencoders for sparse data", WWW 2019.

    X. Ning and G. Karypis, "SLIM: sparse linear methods for top-N recommender systems", ICDM 2011.

    M. Spišák, R. Bartyzal, A. Hoskovec, L. Peška and M. Tůma, "Scalable approximate nonsymmetric autoencoder for
    collaborative filtering", RecSys 2023: the sparse approximation of EASE for large catalogues.
    """

    regularized_arrays: ClassVar[tuple[str, ...]] = ("item_weights",)

    neighbors: int = 100
    """Number of other items that an item is scored by, at most; an item that occurs together with fewer has fewer."""
    regularization: float = 100.0
    """Penalty λ on the squared item weights."""
    activity_power: float = 0.0
    """Exponent p of a user's activity; each user counts activity^(−p) times. With 0 all count the same."""
    seed: int = 0
    """Has no effect, because nothing is drawn at random; every model takes a seed."""
    _rows: tuple[Arrays, csr_array] | None = field(init=False, repr=False, compare=False, default=None)
    """The arrays that B was made of, and B by rows."""

    def check_parameters(self, shape: tuple[int, int]) -> None:
        """Check that the parameters are valid, and that the item weights fit into memory."""
        check_int("neighbors", self.neighbors, 1)
        if not check_float("regularization", self.regularization, 0) > 0:
            raise InputError(f"regularization must be above 0; got {self.regularization!r}")
        check_float("activity_power", self.activity_power, 0, 1)
        check_int("seed", self.seed, 0)
        needed = 8.0 * shape[1] * self._count_neighbors(shape)
        if needed > _MAX_BYTES:
            raise MemoryLimitError(
                f"SparseLinear needs {needed / 1e9:,.0f} GB for the weights of {shape[1]:,} items with "
                f"{self.neighbors:,} neighbors each; at most {_MAX_BYTES / 1e9:.0f} GB are allowed. "
                "Use fewer neighbors."
            )

    def _count_neighbors(self, shape: tuple[int, int]) -> int:
        """Return the width of the arrays."""
        return min(int(self.neighbors), max(shape[1] - 1, 1))

    def with_neutral_penalty(self, typical_weight: float) -> Self:
        """Return a copy with the penalty λ·c² for weights of c; that by popularity, which is added, stays."""
        return replace(self, regularization=self.regularization * typical_weight**2)

    def array_rules(self, shape: tuple[int, int]) -> dict[str, ArrayRule]:
        """Return the rules for the arrays of the fitted model."""
        of_items = shape[1], self._count_neighbors(shape)
        return {
            "neighbors": ArrayRule(of_items, "int32", 0, max(shape[1] - 1, 0)),
            "item_weights": ArrayRule(of_items),
        }

    def _learn(self, matrix: csr_array) -> Arrays:
        clicks = drop_zeros(matrix)
        n_items = matrix.shape[1]
        counts = count_users(matrix, self.activity_power)
        row_counts = np.ones(clicks.nnz) if counts is None else np.repeat(counts, np.diff(clicks.indptr))
        weights = clicks.data.astype(np.float64)
        diagonal = np.full(n_items, float(self.regularization))
        diagonal += np.bincount(clicks.indices, row_counts * weights, n_items)
        by_user = csr_array((np.sqrt(row_counts) * weights, clicks.indices, clicks.indptr), shape=clicks.shape)
        by_item = csr_array(by_user.T)
        shape = n_items, self._count_neighbors(matrix.shape)
        neighbors, item_weights = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.float32)
        of_users = by_user.data, by_user.indices, by_user.indptr
        of_items = by_item.data, by_item.indices, by_item.indptr

        def solve(begin: int, end: int) -> None:
            _solve_items(*of_users, *of_items, diagonal, neighbors, item_weights, begin, end)

        try:
            run_on_rows(solve, by_item.indptr, 64 * N_CORES)
        except np.linalg.LinAlgError:
            raise InputError(
                f"regularization of {self.regularization:g} is too small for these interactions: G + λI cannot be "
                "factorized; use a larger one"
            ) from None
        return {"neighbors": neighbors, "item_weights": item_weights}

    def _weights_by_row(self) -> csr_array:
        """Return B with the weights that an item has in the scores of others as a row."""
        arrays = self._fitted()
        if self._rows is None or self._rows[0] is not arrays:
            neighbors, item_weights = arrays["neighbors"], arrays["item_weights"]
            n_items, width = neighbors.shape
            ends = np.arange(0, n_items * width + 1, width)
            by_column = csr_array((item_weights.ravel(), neighbors.ravel(), ends), shape=(n_items, n_items))
            by_row = csr_array(by_column.T)
            by_row.eliminate_zeros()
            self._rows = arrays, by_row
        return self._rows[1]

    @property
    def scores_(self) -> ScoreFunction:
        """Function from row numbers of users to their scores."""
        matrix = self.interactions_.matrix
        return lambda rows: self.score_new_users(matrix[rows])

    def score_known_users(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return scores of fitted users."""
        return self.score_new_users(self.interactions_.matrix[rows])

    def score_new_users(self, matrix: csr_array) -> NDArray[np.float32]:
        """Return scores of new users, given by rows of weights."""
        return _multiply_to_dense(matrix, self._weights_by_row())

    @property
    def similarities_(self) -> ScoreFunction:
        """Function from item positions to their rows of B: how much an item raises the scores of others."""
        weights = self._weights_by_row()
        return lambda positions: weights[positions].toarray()


def _multiply_to_dense(left: csr_array, right: csr_array) -> NDArray[np.float32]:
    """Return the product of two sparse matrices as a dense one."""
    out = np.zeros((left.shape[0], right.shape[1]), dtype=np.float32)
    data = left.data.astype(np.float32, copy=False)
    _add_rows(data, left.indices, left.indptr, right.data, right.indices, right.indptr, out)
    return out


@njit(cache=True, nogil=True)
def _add_rows(
    left_data: NDArray[np.float32],
    left_indices: NDArray[np.int32],
    left_indptr: NDArray[np.int32],
    data: NDArray[np.float32],
    indices: NDArray[np.int32],
    indptr: NDArray[np.int32],
    out: NDArray[np.float32],
) -> None:
    for row in range(len(out)):
        for left in range(left_indptr[row], left_indptr[row + 1]):
            source = left_indices[left]
            for entry in range(indptr[source], indptr[source + 1]):
                out[row, indices[entry]] += left_data[left] * data[entry]


@njit(cache=True, nogil=True)
def _solve_items(
    user_data: NDArray[np.float64],
    user_items: NDArray[np.int32],
    user_starts: NDArray[np.int32],
    item_data: NDArray[np.float64],
    item_users: NDArray[np.int32],
    item_starts: NDArray[np.int32],
    diagonal: NDArray[np.float64],
    neighbors: NDArray[np.int32],
    item_weights: NDArray[np.float32],
    begin: int,
    end: int,
) -> None:
    """Choose neighbours of items and solve for their weights; `diagonal` is that of G + λI."""
    n_users, n_items = len(user_starts) - 1, len(item_starts) - 1
    width = neighbors.shape[1]
    column = np.zeros(n_items)  # G_ij of the item j at hand
    met = np.empty(n_items, dtype=np.int32)
    last_entry = np.full(n_users, -1)
    gram = np.zeros((width, width))
    for item in range(begin, end):
        n_met = _sum_column(user_data, user_items, user_starts, item_data, item_users, item_starts, item, column, met)
        chosen = _choose(column, met[:n_met], diagonal, width)
        n = len(chosen)
        if n:
            part = gram[:n, :n].copy()
            _sum_gram(item_data, item_users, item_starts, chosen, diagonal, last_entry, part)
            weights = _solve(part, column[chosen])
            for position in range(n):
                neighbors[item, position] = chosen[position]
                item_weights[item, position] = weights[position]
        column[met[:n_met]] = 0


@njit(cache=True, nogil=True)
def _sum_column(
    user_data: NDArray[np.float64],
    user_items: NDArray[np.int32],
    user_starts: NDArray[np.int32],
    item_data: NDArray[np.float64],
    item_users: NDArray[np.int32],
    item_starts: NDArray[np.int32],
    item: int,
    column: NDArray[np.float64],
    met: NDArray[np.int32],
) -> int:
    """Write G_ij into the column for all other items i that share users with item j; return their number."""
    n_met = 0
    for entry in range(item_starts[item], item_starts[item + 1]):
        user, weight = item_users[entry], item_data[entry]
        for other_entry in range(user_starts[user], user_starts[user + 1]):
            other = user_items[other_entry]
            product = weight * user_data[other_entry]
            if other != item and product > 0:
                if column[other] == 0:
                    met[n_met] = other
                    n_met += 1
                column[other] += product
    return n_met


@njit(cache=True, nogil=True)
def _choose(
    column: NDArray[np.float64], met: NDArray[np.int32], diagonal: NDArray[np.float64], width: int
) -> NDArray[np.int32]:
    """Return the items that lower the loss most on their own, in ascending order."""
    if not len(met):
        return met
    gains = column[met] ** 2 / diagonal[met]
    is_relevant = gains > _MIN_GAIN * gains.max()
    met, gains = met[is_relevant], gains[is_relevant]
    if len(met) > width:
        met = met[np.argsort(-gains)[:width]]
    return np.sort(met)


@njit(cache=True, nogil=True)
def _sum_gram(
    item_data: NDArray[np.float64],
    item_users: NDArray[np.int32],
    item_starts: NDArray[np.int32],
    chosen: NDArray[np.int32],
    diagonal: NDArray[np.float64],
    last_entry: NDArray[np.int64],
    gram: NDArray[np.float64],
) -> None:
    """Write the lower triangle of G + λI for the chosen items; `last_entry` is −1 for every user, before and after."""
    n_entries = 0
    for item in chosen:
        n_entries += item_starts[item + 1] - item_starts[item]
    previous = np.empty(n_entries, dtype=np.int64)  # of the same user
    positions, values = np.empty(n_entries, dtype=np.int32), np.empty(n_entries)
    n_entries = 0
    gram[:] = 0
    for position in range(len(chosen)):
        item = chosen[position]
        gram[position, position] = diagonal[item]
        for entry in range(item_starts[item], item_starts[item + 1]):
            user, weight = item_users[entry], item_data[entry]
            other = last_entry[user]
            while other >= 0:
                gram[position, positions[other]] += weight * values[other]
                other = previous[other]
            previous[n_entries], positions[n_entries], values[n_entries] = last_entry[user], position, weight
            last_entry[user] = n_entries
            n_entries += 1
    for item in chosen:
        for entry in range(item_starts[item], item_starts[item + 1]):
            last_entry[item_users[entry]] = -1


@njit(cache=True, nogil=True)
def _solve(lower: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the solution for a positive definite matrix, of which only the lower triangle is read."""
    factor = np.linalg.cholesky(lower)
    n = len(target)
    solution = target.copy()
    for row in range(n):
        solution[row] = (solution[row] - np.dot(factor[row, :row], solution[:row])) / factor[row, row]
    for row in range(n - 1, -1, -1):
        solution[row] /= factor[row, row]
        solution[:row] -= solution[row] * factor[row, :row]
    return solution
