"""Marginals: the mass that each user sends and each item receives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_array, check_int
from prorec._core.errors import InputError
from prorec.interactions.pairs import check_compressed

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Marginals:
    """The two marginals of a transport problem: p over items and q over users.

    Each must have finite numbers of at least 0 that sum to 1 within 1e-6. They are divided by their sum.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> marginals = Marginals.popularity(csr_array([[1, 1, 0], [1, 0, 0]]))
    >>> marginals.items.round(2), marginals.users.round(2)
    (array([0.67, 0.33, 0.  ]), array([0.67, 0.33]))
    """

    items: Vector
    """p: the share of the mass that each item receives."""
    users: Vector
    """q: the share of the mass that each user sends."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", _check_distribution("items", self.items))
        object.__setattr__(self, "users", _check_distribution("users", self.users))

    def __repr__(self) -> str:
        return f"Marginals({len(self.items):,} items, {len(self.users):,} users)"

    @classmethod
    def popularity(cls, matrix: Any) -> Self:
        """Make marginals in proportion to the weights of each item and of each user, as in Eq. 4.

        Parameters
        ----------
        matrix : sparse or dense array, users × items
            Weights, finite and at least 0.

        Returns
        -------
        Marginals

        Raises
        ------
        InputError
            If the matrix has other values, or no weight above 0.
        """
        try:
            weights = csr_array(matrix)
        except (TypeError, ValueError) as error:
            raise InputError(f"matrix must be a matrix of users × items: {error}") from None
        if weights.ndim != 2 or weights.dtype.kind not in "biuf":
            raise InputError(
                f"matrix must be users × items of numbers; got {weights.ndim} dimensions of {weights.dtype}"
            )
        n_users, n_items = weights.shape
        check_compressed(weights)
        data = check_array("matrix", weights.data).astype(np.float64)
        if not (np.isfinite(data).all() and data.min(initial=0) >= 0):
            raise InputError("matrix must have finite weights of at least 0")
        # matrix.sum would add up single precision in single precision.
        rows = np.repeat(np.arange(n_users), np.diff(weights.indptr))
        items = np.bincount(weights.indices, data, n_items)
        users = np.bincount(rows, data, n_users)
        total = items.sum()
        if not total > 0:
            raise InputError(f"matrix must have interactions to take popularity from; its weights sum to {total:g}")
        return cls(items=items / total, users=users / total)

    @classmethod
    def uniform(cls, n_users: int, n_items: int) -> Self:
        """Make marginals with the same mass for each item and the same mass for each user, as in Eq. 1.

        Parameters
        ----------
        n_users, n_items : int
            Numbers of users and items, at least 1.

        Returns
        -------
        Marginals
        """
        n_users, n_items = check_int("n_users", n_users, 1, 2**31), check_int("n_items", n_items, 1, 2**31)
        return cls(items=np.full(n_items, 1 / n_items), users=np.full(n_users, 1 / n_users))

    @cached_property
    def log_items(self) -> Vector:
        """The logarithm of p, −∞ for an item without mass."""
        return _log(self.items)

    @cached_property
    def log_users(self) -> Vector:
        """The logarithm of q, −∞ for a user without mass."""
        return _log(self.users)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of users and items."""
        return len(self.users), len(self.items)


def _log(mass: Vector) -> Vector:
    with np.errstate(divide="ignore"):
        return np.log(mass)


def _check_distribution(name: str, values: ArrayLike) -> Vector:
    """Check non-negative numbers that sum to 1, and return them divided by their sum."""
    mass = check_array(name, values).astype(np.float64)
    if mass.ndim != 1 or not len(mass):
        raise InputError(f"{name} must be a vector with at least one number; got shape {mass.shape}")
    if not np.isfinite(mass).all():
        position = int(np.argmin(np.isfinite(mass)))
        raise InputError(f"{name} must be finite; {name}[{position}] is {mass[position]}")
    if mass.min() < 0:
        raise InputError(f"{name} must not be negative; {name}[{np.argmin(mass)}] is {mass.min():g}")
    if abs(mass.sum() - 1) > 1e-6:
        raise InputError(f"{name} must sum to 1; the sum is {mass.sum():.9g}")
    mass /= mass.sum()
    mass.setflags(write=False)
    return mass
