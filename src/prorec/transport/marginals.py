"""How much mass each user sends and each item receives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from prorec.errors import InputError, whole

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
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
        """In proportion to the interactions of each item and of each user; `matrix` is users × items."""
        items, users = (np.asarray(matrix.sum(axis=axis), dtype=np.float64).ravel() for axis in (0, 1))
        total = items.sum()
        if not total > 0:
            raise InputError("matrix has no interactions to take popularity from")
        return cls(items / total, users / users.sum())

    @classmethod
    def uniform(cls, n_users: int, n_items: int) -> Self:
        """The same for each item and the same for each user, as in Eq. 1."""
        n_users, n_items = whole("n_users", n_users, 1), whole("n_items", n_items, 1)
        return cls(np.full(n_items, 1 / n_items), np.full(n_users, 1 / n_users))

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
    try:
        values = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers: {error}") from None
    if values.ndim != 1 or not len(values):
        raise InputError(f"{name} must be a vector with at least one number; got shape {values.shape}")
    if not np.isfinite(values).all():
        raise InputError(f"{name} must be finite; number {int(np.argmin(np.isfinite(values)))} is not")
    if values.min() < 0:
        raise InputError(f"{name} must not be negative; number {int(np.argmin(values))} is {values.min():g}")
    if abs(values.sum() - 1) > 1e-6:
        raise InputError(f"{name} must sum to 1; the sum is {values.sum():.9g}")
    values /= values.sum()
    values.setflags(write=False)
    return values
