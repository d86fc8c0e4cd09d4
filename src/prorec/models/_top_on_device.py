"""The k best items of each user on a device of PyTorch's: what `_top` finds, from factors."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from prorec._core.device import full_precision_matmul
from prorec._core.tensors import to_tensor
from prorec.models._on_device import entries_of, in_blocks, to_host

_GROUP = 64  # neighbouring items whose largest score is looked at first
_BLOCK = 2**31  # bytes of scores at a time, and of what is made of them
_WAITING = 2**29  # bytes of results that wait on the device


class Best:
    """The best items by factors, for some users after the other.

    Parameters
    ----------
    items, item_bias : factors and bias (or None) of the items
    k : how many
    seen : where each row of a sparse matrix begins, and its columns: what is left out; or None
    popularity : scores of all items for users who are unknown; or None
    """

    def __init__(
        self,
        items: NDArray[np.float32],
        item_bias: NDArray[np.float32] | None,
        k: int,
        seen: tuple[NDArray[np.int32], NDArray[np.int32]] | None,
        popularity: NDArray[np.float32] | None,
        device: torch.device,
    ) -> None:
        self.k, self.device, self.n_items = k, device, len(items)
        self.items = to_tensor(items.astype(np.float32, copy=False), device)
        self.bias = None if item_bias is None else to_tensor(item_bias.astype(np.float32, copy=False), device)
        self.popularity = None if popularity is None else to_tensor(popularity, device)
        self.indptr = None if seen is None else seen[0]
        self.columns = None if seen is None else to_tensor(seen[1], device)
        self.n_groups = -(-self.n_items // _GROUP)
        self.n_candidates = _GROUP * min(k, self.n_groups)

    def of(
        self, users: NDArray[np.float32], rows: NDArray[np.int64], is_unknown: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Columns and scores, best first, among equals the first; −1 and 0 where nothing is left.

        Parameters
        ----------
        users : factors of all users
        rows : which users, as rows of `users` and of what was seen
        is_unknown : for each of the rows, whether popularity is all there is to go by
        """
        ranked = np.empty((len(rows), self.k), dtype=np.int32)
        best = np.empty((len(rows), self.k), dtype=np.float32)
        waiting: list[tuple[int, int, torch.Tensor, torch.Tensor]] = []

        def fetch() -> None:
            for begin, end, columns, scores in waiting:
                ranked[begin:end], best[begin:end] = to_host(columns), to_host(scores)
            waiting.clear()

        def work(begin: int, end: int) -> None:
            waiting.append((begin, end, *self._block(users, rows[begin:end], is_unknown[begin:end])))
            if 8 * self.k * sum(last - first for first, last, *_ in waiting) > _WAITING:
                fetch()

        size = max(1, _BLOCK // (4 * _GROUP * self.n_groups + 32 * self.n_candidates))
        in_blocks(work, [*range(0, len(rows), size), len(rows)])
        fetch()
        return ranked, best

    def _block(
        self, users: NDArray[np.float32], rows: NDArray[np.int64], is_unknown: NDArray[np.bool_]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        scores = torch.empty((len(rows), self.n_groups * _GROUP), device=self.device)
        scores[:, self.n_items :] = -torch.inf
        of_items = scores[:, : self.n_items]
        with full_precision_matmul():
            torch.mm(to_tensor(_picked(users, rows), self.device), self.items.T, out=of_items)
        if self.bias is not None:
            of_items += self.bias
        if self.popularity is not None and is_unknown.any():
            of_items[to_tensor(np.flatnonzero(is_unknown), self.device)] = self.popularity
        if self.columns is not None and self.indptr is not None:
            block_row, places, _ = entries_of(rows, self.indptr, self.device)
            scores.view(-1)[block_row * scores.shape[1] + self.columns[places]] = -torch.inf
        columns, best = self._best(scores.view(len(rows), self.n_groups, _GROUP))
        is_none = best == -torch.inf
        return columns.masked_fill_(is_none, -1).int(), best.masked_fill_(is_none, 0)

    def _best(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The k best of users × groups × items of a group.

        The k groups with the largest scores, the first among equals, have the k best items: if one of these were in
        another group, the largest item of each of the k groups would come before it.
        """
        if self.n_candidates < self.n_groups * _GROUP:
            groups = _first_of_largest(scores.amax(dim=2), self.k).sort(dim=1).values
            candidates = scores.gather(1, groups[:, :, None].expand(-1, -1, _GROUP)).flatten(1)
        else:
            groups, candidates = None, scores.flatten(1)
        # Groups are in order, so that among equal candidates the first is the first item.
        at = _first_of_largest(candidates, self.k)
        best = candidates.gather(1, at)
        return at if groups is None else groups.gather(1, at // _GROUP) * _GROUP + at % _GROUP, best


def _first_of_largest(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Columns of the k largest of each row, best first; among equals, the first.

    `topk` leaves open which of several equals it takes, so no two may be equal: it is asked about whole numbers, a
    score's bits (in the order of the scores; −0 is 0) above the column's number, the other way around.
    """
    bits = (scores + 0.0).view(torch.int32)
    bits ^= (bits >> 31) & 0x7FFFFFFF
    keys = bits.long() << 32
    keys += torch.arange(scores.shape[1] - 1, -1, -1, device=scores.device)
    return keys.topk(k, dim=1).indices


def _picked(users: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Rows of an array, without a copy where they follow each other."""
    first = int(rows[0])
    is_range = bool((rows == np.arange(first, first + len(rows))).all())
    return users[first : first + len(rows)] if is_range else users[rows]
