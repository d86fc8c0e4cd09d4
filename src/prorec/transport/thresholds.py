"""Thresholds: which of a user's pairs stand above the rest, and by how much."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_array, check_int, safe_repr
from prorec._core.digest import digest
from prorec._core.errors import InputError
from prorec.transport.kernels import cpu


@dataclass(frozen=True)
class Top:
    """The k-th largest value of each row is its threshold, the same k for all users (the paper's ROT ablation)."""

    k: int

    def __post_init__(self) -> None:
        check_int("k", self.k, 1)


Threshold = Literal["personal", "none"] | Top
"""`personal`: the least-squares split of each row (Eq. 20); `top(k)`; or `none`, which is a threshold of 0."""


def top(k: int) -> Top:
    """The same number of items above the threshold for all users; where there are fewer items, all of them.

    >>> top(20)
    Top(k=20)
    """
    return Top(k)


@dataclass(frozen=True, eq=False, repr=False)
class Matching:
    """Where each user's threshold is, and where the observed pairs are relative to it.

    A share is a plan value divided by the sum of its user's row: ρ in the paper.
    """

    kappa: NDArray[np.int64]
    """κ: how many of all items are in the upper group, for each user."""
    threshold: NDArray[np.float32]
    """ρ_κ: the least share in the upper group, for each user."""
    shares: NDArray[np.float32]
    """ρ: the share of each observed pair, in the order of the observed matrix's entries."""
    indptr: NDArray[np.int64]
    """Where each user's pairs begin and end in `shares`."""
    pairs: str
    """A fingerprint of which pairs were matched, in which order."""

    @classmethod
    def empty(cls, observed: csr_array) -> Self:
        """Room for a matching of these pairs."""
        n_users = observed.shape[0]
        return cls(
            np.empty(n_users, dtype=np.int64),
            np.empty(n_users, dtype=np.float32),
            np.empty(observed.nnz, dtype=np.float32),
            observed.indptr.astype(np.int64),
            fingerprint(observed),
        )

    def without_threshold(self, n_items: int) -> Self:
        """The same shares, with nothing below the threshold."""
        return replace(self, kappa=np.full_like(self.kappa, n_items), threshold=np.zeros_like(self.threshold))

    def __repr__(self) -> str:
        below = f"{np.mean(self.margins < 0):.1%}" if len(self.shares) else "none"
        return f"Matching({len(self.kappa):,} users, {len(self.shares):,} pairs, {below} of them below the threshold)"

    @property
    def margins(self) -> NDArray[np.float32]:
        """ρ − ρ_κ of each observed pair: below 0 it is in its user's lower group."""
        return self.shares - np.repeat(self.threshold, np.diff(self.indptr))


def fingerprint(matrix: csr_array) -> str:
    """What tells the entries of one sparse matrix, and their order, from those of another."""
    return digest(np.array(matrix.shape), matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


def split(rows: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """κ and the κ-th largest value of each row, by the least-squares split into two levels (Eq. 20).

    Rows are numbers ≥ 0 and taken in single precision, like those of a plan.

    >>> split([[9, 1, 8, 1, 0], [2, 2, 2, 2, 2]])
    (array([2, 1]), array([8., 2.], dtype=float32))
    """
    with np.errstate(over="ignore"):  # what is too large for single precision is refused below
        values = check_array("rows", rows).astype(np.float32) + np.float32(0)  # which turns −0 into 0
    if values.ndim != 2 or not values.shape[1]:
        raise InputError(f"rows must have two dimensions and at least one column; got shape {values.shape}")
    if not np.isfinite(values).all() or values.min(initial=0) < 0:
        raise InputError("rows must be finite in single precision and not negative")
    # A power of two more or less changes no split, and keeps sums of large numbers from overflowing.
    _, exponent = np.frexp(values.max(axis=1, initial=0))
    values = np.ldexp(values, -exponent[:, None])
    kappa = np.empty(len(values), dtype=np.int64)
    threshold = np.empty(len(values), dtype=np.float32)
    cpu.split_rows(values, kappa, threshold)
    return kappa, np.ldexp(threshold, exponent)


def as_k(threshold: Any) -> int:
    """What the block step is asked for: k, or 0 for personal thresholds; without any, what costs least."""
    if isinstance(threshold, Top):
        return min(threshold.k, 2**31)  # as good as all items
    if isinstance(threshold, str) and threshold in ("personal", "none"):
        return 0 if threshold == "personal" else 1
    raise InputError(f"threshold must be 'personal', 'none' or top(k); got {safe_repr(threshold)}")
