"""A transport plan π, users × items, that is never whole in memory unless somebody asks for that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_array, check_float
from prorec._core.errors import InputError
from prorec._core.progress import Progress
from prorec.transport.backend import Backend, entry_positions
from prorec.transport.blocks import DEFAULT_MEMORY, bind_task
from prorec.transport.kernels import cpu
from prorec.transport.marginals import Marginals
from prorec.transport.scores import Rows, split_into_parts
from prorec.transport.thresholds import Matching, Threshold, check_threshold, digest_pairs

Vector = NDArray[np.float64]
_MATCHING_TASK = "Finding thresholds"


@dataclass(frozen=True)
class MarginalErrors:
    """How far a plan's sums are from the marginals: Σ|sum − wanted|, which is 0 at best and 2 for disjoint plans."""

    users: float
    items: float


class Plan(ABC):
    """What every solver answers with.

    Attributes
    ----------
    marginals : the marginals it was made for
    """

    marginals: Marginals

    @property
    def shape(self) -> tuple[int, int]:
        """Users, items."""
        return self.marginals.shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]:,} users × {self.shape[1]:,} items)"

    @abstractmethod
    def rows(self, users: ArrayLike) -> NDArray[np.float64]:
        """π for some users, given by row number: one row for each, with all items."""

    @abstractmethod
    def values(self, users: ArrayLike, items: ArrayLike) -> Vector:
        """π at single pairs, given by row and column number."""

    @abstractmethod
    def match(
        self, observed: csr_array, threshold: Threshold = "personal", progress: Progress | None = None
    ) -> Matching:
        """Each user's threshold, and each observed pair's share of its user's mass.

        Shares compare the items of one user; where a plan gives a user no mass because the marginals have none, they
        are those that any mass would have.
        """

    @abstractmethod
    def _portions(self) -> Iterator[Rows]:
        """All users, in blocks small enough to ask for their rows."""

    def marginal_errors(self) -> MarginalErrors:
        """How far the sums by user and by item are from the marginals."""
        by_user, by_item = np.zeros(self.shape[0]), np.zeros(self.shape[1])
        for users in self._portions():
            rows = self.rows(users)
            by_user[users] = rows.sum(axis=1)
            by_item += rows.sum(axis=0)
        return MarginalErrors(
            float(np.abs(by_user - self.marginals.users).sum()), float(np.abs(by_item - self.marginals.items).sum())
        )

    def to_dense(self, memory: float = DEFAULT_MEMORY) -> NDArray[np.float64]:
        """The whole of π, where it fits into so many bytes."""
        n_users, n_items = self.shape
        needed, memory = 8 * n_users * n_items, check_float("memory", memory, 0)
        if needed > memory:
            raise InputError(
                f"memory must be at least {needed:,} bytes for a dense plan of {n_users:,} × {n_items:,}; "
                f"got {memory:,.0f}. rows() and values() give parts of it"
            )
        dense = np.empty(self.shape)
        for users in self._portions():
            dense[users] = self.rows(users)
        return dense

    def _positions(self, name: str, given: ArrayLike) -> Rows:
        count = dict(zip(("users", "items"), self.shape, strict=True))[name]
        positions = check_array(name, given)
        if positions.size == 0:
            return np.empty(0, dtype=np.intp)
        if positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise InputError(
                f"{name} must be a list of whole numbers; got {positions.ndim} dimensions of {positions.dtype}"
            )
        if positions.min() < 0 or positions.max() >= count:
            raise InputError(f"{name} must be from 0 to {count - 1}; got {positions.min()} to {positions.max()}")
        return positions.astype(np.intp, copy=False)

    def _pairs(self, users: ArrayLike, items: ArrayLike) -> tuple[Rows, Rows]:
        rows, columns = self._positions("users", users), self._positions("items", items)
        if len(rows) != len(columns):
            raise InputError(f"users and items must come in pairs; got {len(rows)} users and {len(columns)} items")
        return rows, columns

    def _checked(self, observed: Any) -> csr_array:
        try:
            matrix = csr_array(observed)
        except (TypeError, ValueError) as error:
            raise InputError(f"observed must be a sparse matrix of users × items: {error}") from None
        if matrix.shape != self.shape:
            raise InputError(f"observed is {matrix.shape}, users × items, but the plan is {self.shape}")
        if matrix.nnz and not 0 <= matrix.indices.min() <= matrix.indices.max() < self.shape[1]:
            raise InputError(f"observed has column numbers outside 0 to {self.shape[1] - 1}")
        return matrix


class ScaledPlan(Plan):
    """A plan in closed form: log π_ij = S_ij/γ + f_i + max(A_j, B_i).

    Relaxed plans have no f, Sinkhorn's have no B (−∞, that is). Asking for rows or values computes them in double
    precision from the scores.

    Attributes
    ----------
    passes : S/γ, and passes over it on the CPU or a GPU
    blocks : S/γ, in blocks of users
    user_offset : f
    user_potential : B
    item_potential : A
    """

    def __init__(
        self, passes: Backend, marginals: Marginals, user_offset: Vector, user_potential: Vector, item_potential: Vector
    ) -> None:
        self.marginals = marginals
        self.user_offset = user_offset
        self.user_potential = user_potential
        self.item_potential = item_potential
        self.backend = passes
        self.blocks = passes.blocks

    def rows(self, users: ArrayLike) -> NDArray[np.float64]:
        """π for some users, given by row number."""
        rows = self._positions("users", users)
        if not len(rows):
            return np.empty((0, self.shape[1]))
        block = self.blocks.scores.compute_double(rows)
        block += np.maximum(self.item_potential, self.user_potential[rows, None])
        block += self.user_offset[rows, None]
        return np.exp(block, out=block)

    def values(self, users: ArrayLike, items: ArrayLike) -> Vector:
        """π at single pairs, given by row and column number."""
        rows, columns = self._pairs(users, items)
        potential = np.maximum(self.item_potential[columns], self.user_potential[rows])
        values: Vector = np.exp(self.blocks.scores.compute_pairs(rows, columns) + potential + self.user_offset[rows])
        return values

    def match(
        self, observed: csr_array, threshold: Threshold = "personal", progress: Progress | None = None
    ) -> Matching:
        """Each user's threshold, and each observed pair's share of its user's mass: one pass over the scores."""
        matrix, k = self._checked(observed), check_threshold(threshold)
        report = bind_task(progress, _MATCHING_TASK)
        matched = self.backend.match(self.user_potential, self.item_potential, k, matrix, report)
        matching = Matching(*matched, matrix.indptr.astype(np.int64), digest_pairs(matrix))
        return matching.without_threshold(self.shape[1]) if threshold == "none" else matching

    def _portions(self) -> Iterator[Rows]:
        for rows in self.blocks.rows:
            yield from split_into_parts(rows)


class SparsePlan(Plan):
    """A plan with few pairs that have any mass, as exact solutions are."""

    def __init__(self, matrix: csr_array, marginals: Marginals) -> None:
        self.matrix = matrix
        self.marginals = marginals

    def rows(self, users: ArrayLike) -> NDArray[np.float64]:
        """π for some users, given by row number."""
        return np.asarray(self.matrix[self._positions("users", users)].toarray())

    def values(self, users: ArrayLike, items: ArrayLike) -> Vector:
        """π at single pairs, given by row and column number."""
        rows, columns = self._pairs(users, items)
        return np.asarray(self.matrix[rows, columns]).ravel() if len(rows) else np.empty(0)

    def match(
        self, observed: csr_array, threshold: Threshold = "personal", progress: Progress | None = None
    ) -> Matching:
        """Each user's threshold, and each observed pair's share of its user's mass."""
        matrix, k = self._checked(observed), check_threshold(threshold)
        report = bind_task(progress, _MATCHING_TASK)
        matching = Matching.empty(matrix)
        blocks = list(self._portions())
        for number_done, users in enumerate(blocks, 1):
            part = matrix[users]
            rows = self.rows(users)
            # So that single precision can hold them; a user without mass keeps a row of zeros.
            rows /= np.maximum(rows.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
            result = cpu.match_plan(rows, k, part.indptr.astype(np.int64), part.indices.astype(np.int32))
            matching.kappa[users], matching.threshold[users], shares = result
            matching.row_shares[entry_positions(matrix.indptr, users)] = shares
            if report is not None:
                report(number_done, len(blocks))
        return matching.without_threshold(self.shape[1]) if threshold == "none" else matching

    def _portions(self) -> Iterator[Rows]:
        n_users, n_items = self.shape
        rows = max(1, int(DEFAULT_MEMORY / (24 * n_items)))
        for begin in range(0, n_users, rows):
            yield np.arange(begin, min(begin + rows, n_users))
