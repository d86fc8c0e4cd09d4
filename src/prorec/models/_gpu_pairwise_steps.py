"""Steps of a pairwise loss on a device of PyTorch: those of `_pairwise_steps`, many clicks at a time.

The steps of a batch start from the same factors and are added. Sums have a fixed order, and random numbers come from a
generator of their own, so that the same seed gives the same bits on one device.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array

from prorec._core.tensors import to_tensor
from prorec.models._gpu_matrix import GpuMatrix, sum_rows, to_host
from prorec.models._pairwise_steps import StepSizes
from prorec.models.storage import Arrays

_BATCH = 4096
"""Clicks of a batch; in larger ones, the steps of a popular item would add up to one that is too long."""


def run_on_device(
    matrix: csr_array, start: Arrays, sizes: StepSizes, rng: np.random.Generator, device: torch.device
) -> Arrays:
    """Return arrays after all epochs.

    Parameters
    ----------
    matrix : csr_array
        Weights above 0, users × items, with sorted indices.
    start : dict of str to array
        `users`, `items` and possibly `item_bias`.
    sizes : StepSizes
        Sizes of the steps, and the number of epochs.
    rng : numpy.random.Generator
        Source of the device's seed.
    device : torch.device
        Device to work on.

    Returns
    -------
    dict of str to array
    """
    generator = torch.Generator(device).manual_seed(int(rng.integers(2**62)))
    draws = PairDraws(GpuMatrix.from_scipy(matrix, device))
    users, items = (to_tensor(start[name].copy(), device) for name in ("users", "items"))
    bias = to_tensor(start["item_bias"].copy(), device) if "item_bias" in start else None
    for epoch in range(sizes.epochs if matrix.nnz else 0):
        step_size, penalty = map(float, sizes.at(epoch))
        order = torch.randperm(matrix.nnz, generator=generator, device=device)
        for entries in torch.split(order, _BATCH):
            user, clicked, drawn, is_taken = draws.draw(entries, generator)
            x, p, q = users[user], items[clicked], items[drawn]
            margin = (x * (p - q)).sum(dim=1)
            if bias is not None:
                margin += bias[clicked] - bias[drawn]
            taken = step_size * is_taken
            slope, decay = (taken * torch.sigmoid(-margin))[:, None], (penalty * taken)[:, None]
            both = torch.cat([clicked, drawn])
            add_rows(users, user, slope * (p - q) - decay * x)
            add_rows(items, both, torch.cat([slope * x - decay * p, -slope * x - decay * q]))
            if bias is not None:
                steps = torch.cat([slope, -slope]) - torch.cat([decay, decay]) * bias[both, None]
                add_rows(bias[:, None], both, steps)
    learned = {"users": users, "items": items} | ({} if bias is None else {"item_bias": bias})
    return {name: to_host(tensor) for name, tensor in learned.items()}


class PairDraws:
    """Clicks, and draws of clicks and other items in proportion to their weights.

    Parameters
    ----------
    clicks : GpuMatrix
        Weights, with sorted indices.
    """

    def __init__(self, clicks: GpuMatrix) -> None:
        self._n_items, self._weights = clicks.shape[1], clicks.values
        self._rows, self._items = clicks.pattern.rows.long(), clicks.pattern.indices.long()
        self._keys = self._rows * self._n_items + self._items

    def take(self, entries: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return user, item and weight of each entry."""
        return self._rows[entries], self._items[entries], self._weights[entries]

    def draw(
        self, entries: torch.Tensor, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return user, clicked item and other item of each entry, and 1 where the pair of items is drawn, else 0.

        A click is drawn with its weight w as probability; an item that is a click of the user with 1 − w.
        """
        user, clicked, weights = self.take(entries)
        others = max(self._n_items - 1, 1)
        drawn = torch.randint(others, (len(entries),), generator=generator, device=entries.device)
        drawn = (drawn + (drawn >= clicked)).clamp(max=self._n_items - 1)
        keys = user * self._n_items + drawn
        found = torch.searchsorted(self._keys, keys).clamp(max=len(self._keys) - 1)
        other_weight = torch.where(self._keys[found] == keys, self._weights[found], 0.0)
        chances = torch.rand((2, len(entries)), generator=generator, device=entries.device)
        is_taken = (chances[0] < weights) & (chances[1] >= other_weight) & (drawn != clicked)
        return user, clicked, drawn, is_taken.float()


def add_rows(target: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> None:
    """Add values to rows of a matrix; those of one row are summed in their order."""
    ordered, order = torch.sort(rows, stable=True)
    changed, counts = torch.unique_consecutive(ordered, return_counts=True)
    starts = torch.nn.functional.pad(counts.cumsum(0), (1, 0))[:-1]
    target[changed] += sum_rows(values, order, [starts])
