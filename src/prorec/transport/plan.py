"""Transport plans π of users × items, whose values are computed in blocks of users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_array, check_float
from prorec._core.errors import InputError, MemoryLimitError
from prorec._core.progress import Progress
from prorec.interactions.pairs import check_compressed
from prorec.transport.backend import Backend, entry_positions
from prorec.transport.blocks import DEFAULT_MEMORY, BlockProgress, bind_task
from prorec.transport.kernels.cpu import MatchArrays, empty_match_arrays, match_plan
from prorec.transport.marginals import Marginals, Vector
from prorec.transport.scores import Rows, split_into_parts
from prorec.transport.thresholds import Matching, Threshold, check_threshold


@dataclass(frozen=True)
class MarginalErrors:
    """Distances Σ|sum − marginal| of a plan's sums from its marginals: 0 at best, 2 at worst."""

    users: float
    """Distance of the sums by user from q."""
    items: float
    """Distance of the sums by item from p."""


class Plan(ABC):
    """A transport plan: the result of every solver.

    Attributes
    ----------
    marginals : Marginals
        The marginals that the plan was computed for.
    """

    marginals: Marginals

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of users and items."""
        return self.marginals.shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]:,} users × {self.shape[1]:,} items)"

    @abstractmethod
    def rows(self, users: ArrayLike) -> NDArray[np.float64]:
        """Compute rows of π.

        Parameters
        ----------
        users : array of int
            Row numbers.

        Returns
        -------
        array of float, users × items
        """

    @abstractmethod
    def values(self, users: ArrayLike, items: ArrayLike) -> Vector:
        """Compute π at single pairs.

        Parameters
        ----------
        users, items : array of int
            Row and column numbers, of equal length.

        Returns
        -------
        array of float
        """

    def match(
        self, observed: csr_array, threshold: Threshold = "personal", progress: Progress | None = None
    ) -> Matching:
        """Find each user's threshold, and the row share of each observed pair.

        Row shares compare the items of one user. If the marginals give a user no mass, they are the shares that any
        mass would have.

        Parameters
        ----------
        observed : csr_array, users × items
            The observed pairs; their values do not matter.
        threshold : {"personal", "none"} or int, default "personal"
            Choice of the threshold of each user, see `Threshold`.
        progress : callable, optional
            Called after each block with the task, the number of blocks done and the number of all blocks.

        Returns
        -------
        Matching

        Raises
        ------
        InputError
            If an argument is invalid.
        """
        matrix, k = self._check_observed(observed), check_threshold(threshold)
        matching = Matching.from_arrays(matrix, *self._match(matrix, k, bind_task(progress, "Finding thresholds")))
        return matching.without_threshold(self.shape[1]) if threshold == "none" else matching

    @abstractmethod
    def _match(self, observed: csr_array, k: int, progress: BlockProgress | None) -> MatchArrays:
        """Find thresholds and row shares; k is 0 for the least-squares split, else κ."""

    @abstractmethod
    def _blocks_of_users(self) -> Iterator[Rows]:
        """Yield all users, in blocks whose rows fit in memory."""

    def marginal_errors(self) -> MarginalErrors:
        """Compute how far the sums by user and by item are from the marginals.

        Returns
        -------
        MarginalErrors
        """
        by_user, by_item = np.zeros(self.shape[0]), np.zeros(self.shape[1])
        for users in self._blocks_of_users():
            rows = self.rows(users)
            by_user[users] = rows.sum(axis=1)
            by_item += rows.sum(axis=0)
        return MarginalErrors(
            float(np.abs(by_user - self.marginals.users).sum()), float(np.abs(by_item - self.marginals.items).sum())
        )

    def to_dense(self, memory: float = DEFAULT_MEMORY) -> NDArray[np.float64]:
        """Compute the whole of π.

        Parameters
        ----------
        memory : float, default 256e6
            Maximum size of the result in bytes.

        Returns
        -------
        array of float, users × items

        Raises
        ------
        MemoryLimitError
            If the result is larger than `memory`.
        """
        n_users, n_items = self.shape
        needed, memory = 8 * n_users * n_items, check_float("memory", memory, 0)
        if needed > memory:
            raise MemoryLimitError(
                f"memory must be at least {needed:,} bytes for a dense plan of {n_users:,} × {n_items:,}; "
                f"got {memory:,.0f}. rows() and values() compute parts of it"
            )
        dense = np.empty(self.shape)
        for users in self._blocks_of_users():
            dense[users] = self.rows(users)
        return dense

    def _check_pairs(self, users: ArrayLike, items: ArrayLike) -> tuple[Rows, Rows]:
        rows, columns = _check_positions("users", users, self.shape[0]), _check_positions("items", items, self.shape[1])
        if len(rows) != len(columns):
            raise InputError(f"users and items must come in pairs; got {len(rows)} users and {len(columns)} items")
        return rows, columns

    def _check_observed(self, observed: Any) -> csr_array:
        try:
            matrix = csr_array(observed)
        except (TypeError, ValueError) as error:
            raise InputError(f"observed must be a sparse matrix of users × items: {error}") from None
        if matrix.shape != self.shape:
            raise InputError(f"observed must be users × items as the plan, {self.shape}; got {matrix.shape}")
        check_compressed(matrix, "observed")
        return matrix


class ScaledPlan(Plan):
    """A plan in closed form: log π_ij = S_ij/γ + f_i + max(A_j, B_i).

    Relaxed plans have f = 0, and Sinkhorn's plans have B = −∞. Rows and values are computed from the scores in double
    precision.

    Attributes
    ----------
    backend : Backend
        S/γ, and passes over it on the CPU or on a GPU.
    blocks : Blocks
        S/γ in blocks of users, on the CPU.
    user_offset : array of float
        f.
    user_potential : array of float
        B.
    item_potential : array of float
        A.
    """

    def __init__(
        self,
        backend: Backend,
        marginals: Marginals,
        user_offset: Vector,
        user_potential: Vector,
        item_potential: Vector,
    ) -> None:
        self.marginals = marginals
        self.user_offset = user_offset
        self.user_potential = user_potential
        self.item_potential = item_potential
        self.backend = backend
        self.blocks = backend.blocks

    def rows(self, users: ArrayLike) -> NDArray[np.float64]:
        """Compute rows of π, see `Plan.rows`."""
        rows = _check_positions("users", users, self.shape[0])
        if not len(rows):
            return np.empty((0, self.shape[1]))
        block = self.blocks.scores.compute_double(rows)
        block += np.maximum(self.item_potential, self.user_potential[rows, None])
        block += self.user_offset[rows, None]
        return np.exp(block, out=block)

    def values(self, users: ArrayLike, items: ArrayLike) -> Vector:
        """Compute π at single pairs, see `Plan.values`."""
        rows, columns = self._check_pairs(users, items)
        potential = np.maximum(self.item_potential[columns], self.user_potential[rows])
        values: Vector = np.exp(self.blocks.scores.compute_pairs(rows, columns) + potential + self.user_offset[rows])
        return values

    def _match(self, observed: csr_array, k: int, progress: BlockProgress | None) -> MatchArrays:
        return self.backend.match(self.user_potential, self.item_potential, k, observed, progress)

    def _blocks_of_users(self) -> Iterator[Rows]:
        for rows in self.blocks.rows:
            yield from split_into_parts(rows)


class SparsePlan(Plan):
    """A plan with few pairs that have mass, as exact solutions are.

    Attributes
    ----------
    matrix : csr_array, users × items
        π.
    """

    def __init__(self, matrix: csr_array, marginals: Marginals) -> None:
        self.matrix = matrix
        self.marginals = marginals

    def rows(self, users: ArrayLike) -> NDArray[np.float64]:
        """Return rows of π, see `Plan.rows`."""
        return np.asarray(self.matrix[_check_positions("users", users, self.shape[0])].toarray())

    def values(self, users: ArrayLike, items: ArrayLike) -> Vector:
        """Return π at single pairs, see `Plan.values`."""
        rows, columns = self._check_pairs(users, items)
        return np.asarray(self.matrix[rows, columns]).ravel() if len(rows) else np.empty(0)

    def _match(self, observed: csr_array, k: int, progress: BlockProgress | None) -> MatchArrays:
        kappa, threshold, shares = empty_match_arrays(self.shape[0], observed.nnz)
        blocks = list(self._blocks_of_users())
        for n_done, users in enumerate(blocks, 1):
            pairs, rows = observed[users], self.rows(users)
            # Single precision can hold rows relative to their maximum; a user without mass keeps a row of zeros.
            rows /= np.maximum(rows.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
            result = match_plan(rows, k, pairs.indptr.astype(np.int64), pairs.indices.astype(np.int32))
            kappa[users], threshold[users], shares[entry_positions(observed.indptr, users)] = result
            if progress is not None:
                progress(n_done, len(blocks))
        return kappa, threshold, shares

    def _blocks_of_users(self) -> Iterator[Rows]:
        n_users, n_items = self.shape
        n_rows = max(1, int(DEFAULT_MEMORY / (24 * n_items)))
        for start in range(0, n_users, n_rows):
            yield np.arange(start, min(start + n_rows, n_users))


def _check_positions(name: str, values: ArrayLike, count: int) -> Rows:
    """Check row or column numbers below `count`."""
    positions = check_array(name, values)
    if positions.size == 0:
        return np.empty(0, dtype=np.intp)
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a list of whole numbers; got {positions.ndim} dimensions of {positions.dtype}"
        )
    if positions.min() < 0 or positions.max() >= count:
        raise InputError(f"{name} must be from 0 to {count - 1}; got {positions.min()} to {positions.max()}")
    return positions.astype(np.intp, copy=False)
