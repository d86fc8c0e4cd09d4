"""Thresholds: which of a user's pairs stand above the rest, and by how much."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from prorec._core.checks import check_array, safe_repr
from prorec._core.digest import digest
from prorec._core.errors import InputError
from prorec.transport.kernels import cpu

Threshold = Literal["personal", "none"] | int
"""How a user's threshold is chosen: `"personal"`, `"none"` or a number κ.

- `"personal"`: the least-squares split of the user's row of the plan (Eq. 20).
- an integer κ ≥ 1: the κ-th largest value of the row, the same κ for all users (the paper's ROT ablation). With fewer
  than κ items, all of them are above the threshold.
- `"none"`: a threshold of 0, so that every pair is above it.
"""


@dataclass(frozen=True, eq=False, repr=False)
class Matching:
    """Where each user's threshold is, and where the observed pairs are relative to it.

    A share is a plan value divided by the sum of its user's row: ρ in the paper.
    """

    kappa: NDArray[np.int64]
    """κ: how many of all items are in the upper group, for each user."""
    threshold: NDArray[np.float32]
    """ρ_κ: the least share in the upper group, for each user."""
    row_shares: NDArray[np.float32]
    """ρ: the share of each observed pair, in the order of the observed matrix's entries."""
    indptr: NDArray[np.int64]
    """Where each user's pairs begin and end in `row_shares`."""
    pairs_digest: str
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
            digest_pairs(observed),
        )

    def without_threshold(self, n_items: int) -> Self:
        """The same shares, with nothing below the threshold."""
        return replace(self, kappa=np.full_like(self.kappa, n_items), threshold=np.zeros_like(self.threshold))

    def __repr__(self) -> str:
        below = f"{np.mean(self.margins < 0):.1%}" if len(self.row_shares) else "none"
        return (
            f"Matching({len(self.kappa):,} users, {len(self.row_shares):,} pairs, {below} of them below the threshold)"
        )

    @property
    def margins(self) -> NDArray[np.float32]:
        """ρ − ρ_κ of each observed pair: below 0 it is in its user's lower group."""
        return self.row_shares - np.repeat(self.threshold, np.diff(self.indptr))


def digest_pairs(matrix: csr_array) -> str:
    """What tells the entries of one sparse matrix, and their order, from those of another."""
    return digest(np.array(matrix.shape), matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


def find_row_thresholds(rows: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """κ and the κ-th largest value of each row, by the least-squares split into two levels (Eq. 20).

    Rows are numbers ≥ 0 and taken in single precision, like those of a plan.

    >>> find_row_thresholds([[9, 1, 8, 1, 0], [2, 2, 2, 2, 2]])
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


def check_threshold(threshold: Any) -> int:
    """Check a threshold and return the κ that the block step is called with.

    0 stands for personal thresholds. `"none"` becomes 1, the cheapest to find, because its result is overwritten.

    >>> check_threshold("personal"), check_threshold(20), check_threshold("none")
    (0, 20, 1)
    """
    if isinstance(threshold, str) and threshold in ("personal", "none"):
        return 0 if threshold == "personal" else 1
    if isinstance(threshold, Integral) and not isinstance(threshold, bool) and int(threshold) >= 1:
        return min(int(threshold), 2**31)  # no row has more items
    raise InputError(
        "threshold must be 'personal', 'none' or a whole number of at least 1 (the number of items above it); "
        f"got {safe_repr(threshold)}"
    )
