"""Positions of pairs by group, in linear time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from prorec._core.compilation import njit


def group_positions(
    groups: NDArray[np.integer], n_groups: int, order: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the positions of the members of each group, one group after the other.

    Parameters
    ----------
    groups : array of int
        Group of each member, from 0.
    n_groups : int
        Number of groups.
    order : array of int, optional
        Order of the members within a group; by default that of the array.

    Returns
    -------
    positions : array of int
        Positions of all members, by group.
    starts : array of int
        Where each group starts in `positions`, and the number of members.

    Examples
    --------
    >>> group_positions(np.array([1, 0, 1]), 3)
    (array([1, 0, 2]), array([0, 1, 3, 3]))
    """
    starts = np.append(0, np.cumsum(np.bincount(groups, minlength=n_groups)))
    positions = np.empty(len(groups), dtype=np.int64)
    _write_positions(groups, np.arange(len(groups)) if order is None else order, starts[:-1].copy(), positions)
    return positions, starts


@njit(cache=True, nogil=True)
def _write_positions(groups, order, following, positions):  # type: ignore[no-untyped-def] # pragma: no cover - compiled
    for member in order:
        positions[following[groups[member]]] = member
        following[groups[member]] += 1
