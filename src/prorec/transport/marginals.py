"""How much mass each user sends and each item receives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_array, check_int
from prorec._core.errors import InputError

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Marginals:
    """The two sides of a transport problem: p over items, q over users, each summing to 1.

    >>> from scipy.sparse import csr_array
    >>> marginals = Marginals.popularity(csr_array([[1, 1, 0], [1, 0, 0]]))
    >>> marginals.items.round(2), marginals.users.round(2)
    (array([0.67, 0.33, 0.  ]), array([0.67, 0.33]))
    """

    items: Vector
    """p: the share of each item."""
    users: Vector
    """q: the share of each user."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", _distribution("items", self.items))
        object.__setattr__(self, "users", _distribution("users", self.users))

    def __repr__(self) -> str:
        return f"Marginals({len(self.items):,} items, {len(self.users):,} users)"

    @classmethod
    def popularity(cls, matrix: Any) -> Self:
        """In proportion to the weights of each item and of each user; `matrix` is users × items, sparse or dense."""
        try:
            weights = csr_array(matrix)
        except (TypeError, ValueError) as error:
            raise InputError(f"matrix must be a matrix of users × items: {error}") from None
        if weights.ndim != 2 or weights.dtype.kind not in "biuf":
            raise InputError(
                f"matrix must be users × items of numbers; got {weights.ndim} dimensions of {weights.dtype}"
            )
        n_users, n_items = weights.shape
        if weights.nnz and not 0 <= weights.indices.min() <= weights.indices.max() < n_items:
            raise InputError(f"matrix has column numbers outside 0 to {n_items - 1}")
        data = check_array("matrix", weights.data).astype(np.float64)
        if not (np.isfinite(data).all() and data.min(initial=0) >= 0):
            raise InputError("matrix must have finite weights of at least 0")
        # Not matrix.sum, which adds single precision up in single precision.
        rows = np.repeat(np.arange(n_users), np.diff(weights.indptr))
        items = np.bincount(weights.indices, data, n_items)
        users = np.bincount(rows, data, n_users)
        total = items.sum()
        if not total > 0:
            raise InputError(f"matrix must have interactions to take popularity from; its weights sum to {total:g}")
        return cls(items=items / total, users=users / total)

    @classmethod
    def uniform(cls, n_users: int, n_items: int) -> Self:
        """The same for each item and the same for each user, as in Eq. 1."""
        n_users, n_items = check_int("n_users", n_users, 1, 2**31), check_int("n_items", n_items, 1, 2**31)
        return cls(items=np.full(n_items, 1 / n_items), users=np.full(n_users, 1 / n_users))

    @cached_property
    def log_items(self) -> Vector:
        """Log p, −∞ for an item without mass."""
        return _log(self.items)

    @cached_property
    def log_users(self) -> Vector:
        """Log q, −∞ for a user without mass."""
        return _log(self.users)

    @property
    def shape(self) -> tuple[int, int]:
        """Users, items."""
        return len(self.users), len(self.items)


def _log(mass: Vector) -> Vector:
    with np.errstate(divide="ignore"):
        return np.log(mass)


def _distribution(name: str, given: ArrayLike) -> Vector:
    """Non-negative numbers that sum to 1, exactly so when they leave here."""
    values = check_array(name, given).astype(np.float64)
    if values.ndim != 1 or not len(values):
        raise InputError(f"{name} must be a vector with at least one number; got shape {values.shape}")
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        raise InputError(f"{name} must be finite; {name}[{at}] is {values[at]}")
    if values.min() < 0:
        raise InputError(f"{name} must not be negative; {name}[{np.argmin(values)}] is {values.min():g}")
    if abs(values.sum() - 1) > 1e-6:
        raise InputError(f"{name} must sum to 1; the sum is {values.sum():.9g}")
    values /= values.sum()
    values.setflags(write=False)
    return values
