"""`NoisyInteractions`: interactions with injected noise, and marks on what was injected."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec.interactions import Interactions
from prorec.interactions.assembly import assemble_matrix


@dataclass(frozen=True, eq=False)
class NoisyInteractions:
    """Interactions with injected noise, and a mark on the noise."""

    interactions: Interactions
    """The remaining true interactions and the noise. With "swap" the replaced true ones are in its `held_out`."""
    is_noise: NDArray[np.bool_]
    """Whether each interaction is noise, in the order of `interactions.matrix.data`."""
    is_injected_user: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    """Whether each user was injected, in the order of `interactions.users`; only kinds that add accounts inject any."""
    target_items: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Positions in `interactions.items` of the items that the injected accounts push; empty for other kinds."""

    def __repr__(self) -> str:
        accounts = f" from {self.is_injected_user.sum():,} injected users" if self.is_injected_user.any() else ""
        return (
            f"NoisyInteractions({len(self.is_noise):,} interactions, {self.is_noise.sum():,} of them noise{accounts})"
        )


def assemble_noisy(
    template: Interactions,
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    weights: NDArray[np.float32],
    columns: dict[str, NDArray[Any]],
    is_noise: NDArray[np.bool_],
) -> NoisyInteractions:
    """Return rows as interactions on the users and items of a template, with the mark in their order.

    Parameters
    ----------
    template : Interactions
        Users, items, names and held-out pairs of the result.
    users, items : ndarray of int32
        User and item of each row.
    weights : ndarray of float32
        Weight of each row.
    columns : dict of str to ndarray
        Other values of each row.
    is_noise : ndarray of bool
        Whether each row is noise.

    Returns
    -------
    NoisyInteractions
        Without injected users.
    """
    columns = {**columns, "is_noise": is_noise}
    assembled = assemble_matrix(users, items, template.matrix.shape, weights, columns, "error")
    is_noise = assembled.columns.pop("is_noise")
    noisy = replace(template, matrix=assembled.matrix, columns=assembled.columns)
    return NoisyInteractions(noisy, is_noise, np.zeros(noisy.n_users, dtype=bool))
