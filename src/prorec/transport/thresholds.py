"""Thresholds: the size of the upper group in each user's row of the plan, and the smallest row share in it."""

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
"""Choice of the threshold of each user: `"personal"`, `"none"` or a number κ.

- `"personal"`: the least-squares split of the user's row of the plan (Eq. 20).
- an integer κ ≥ 1: the κ-th largest value of the row, the same κ for all users (the paper's ROT ablation). With fewer
  than κ items, all of them are above the threshold.
- `"none"`: a threshold of 0, so that every pair is above it.
"""


@dataclass(frozen=True, eq=False, repr=False)
class Matching:
    """The threshold of each user, and the row share of each observed pair.

    A row share ρ is a value of the plan divided by the sum of its user's row.
    """

    kappa: NDArray[np.int64]
    """κ of each user: the number of items in the upper group."""
    threshold: NDArray[np.float32]
    """ρ_κ of each user: the smallest row share in the upper group."""
    row_shares: NDArray[np.float32]
    """ρ of each observed pair, in the order of the observed matrix's entries."""
    indptr: NDArray[np.int64]
    """Positions in `row_shares` at which each user's pairs begin and end."""
    pairs_digest: str
    """Digest of the matched pairs and their order."""

    @classmethod
    def from_arrays(
        cls,
        observed: csr_array,
        kappa: NDArray[np.int64],
        threshold: NDArray[np.float32],
        row_shares: NDArray[np.float32],
    ) -> Self:
        """Make a matching of the entries of a matrix.

        Parameters
        ----------
        observed : csr_array, users × items
            The observed pairs.
        kappa, threshold : array
            κ and ρ_κ of each user.
        row_shares : array
            ρ of each entry of `observed`.

        Returns
        -------
        Matching
        """
        return cls(kappa, threshold, row_shares, observed.indptr.astype(np.int64), digest_pairs(observed))

    def without_threshold(self, n_items: int) -> Self:
        """Return the same row shares with a threshold of 0 and all items in the upper group.

        Parameters
        ----------
        n_items : int
            Number of items, κ of each user.

        Returns
        -------
        Matching
        """
        return replace(self, kappa=np.full_like(self.kappa, n_items), threshold=np.zeros_like(self.threshold))

    def __repr__(self) -> str:
        below = f"{np.mean(self.margins < 0):.1%}" if len(self.row_shares) else "none"
        return (
            f"Matching({len(self.kappa):,} users, {len(self.row_shares):,} pairs, {below} of them below the threshold)"
        )

    @property
    def margins(self) -> NDArray[np.float32]:
        """ρ − ρ_κ of each observed pair; below 0 the pair is in its user's lower group."""
        return self.row_shares - np.repeat(self.threshold, np.diff(self.indptr))


def digest_pairs(matrix: csr_array) -> str:
    """Compute a digest of the entries of a sparse matrix and their order, whatever their values.

    Parameters
    ----------
    matrix : csr_array
        The matrix.

    Returns
    -------
    str
    """
    return digest(np.array(matrix.shape), matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


def find_row_thresholds(rows: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Find the least-squares split of each row into two groups (Eq. 20).

    Parameters
    ----------
    rows : array, rows × columns
        Finite numbers of at least 0, such as rows of a plan. They are taken in single precision.

    Returns
    -------
    kappa : array of int
        κ of each row: the number of values in the upper group. A row of equal values has κ = 1.
    threshold : array of float
        The κ-th largest value of each row.

    Raises
    ------
    InputError
        If the rows have other values, or no column.

    Examples
    --------
    >>> find_row_thresholds([[9, 1, 8, 1, 0], [2, 2, 2, 2, 2]])
    (array([2, 1]), array([8., 2.], dtype=float32))
    """
    with np.errstate(over="ignore"):  # values too large for single precision are refused below
        values = check_array("rows", rows).astype(np.float32) + np.float32(0)  # turns −0 into 0
    if values.ndim != 2 or not values.shape[1]:
        raise InputError(f"rows must have two dimensions and at least one column; got shape {values.shape}")
    if not np.isfinite(values).all() or values.min(initial=0) < 0:
        raise InputError("rows must be finite in single precision and not negative")
    # A power of two changes no split, and keeps sums of large numbers from overflowing.
    _, exponent = np.frexp(values.max(axis=1, initial=0))
    values = np.ldexp(values, -exponent[:, None])
    kappa = np.empty(len(values), dtype=np.int64)
    threshold = np.empty(len(values), dtype=np.float32)
    cpu.split_rows(values, kappa, threshold)
    return kappa, np.ldexp(threshold, exponent)


def check_threshold(threshold: Any) -> int:
    """Check a threshold and return the k that the block step takes.

    Parameters
    ----------
    threshold : {"personal", "none"} or int
        See `Threshold`.

    Returns
    -------
    int
        0 for personal thresholds, else κ. `"none"` becomes 1, the cheapest to find, because its result is overwritten.

    Raises
    ------
    InputError
        If it is none of these.

    Examples
    --------
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
