"""The k best items of each user, from factors on a device of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from prorec._core.device import full_precision_matmul
from prorec._core.tensors import to_tensor
from prorec.models._gpu_matrix import find_entries, run_in_blocks, to_host
from prorec.models._top_k import Pattern, Ranked, check_scores

_GROUP = 64
"""Neighbouring items whose largest score is compared first."""
_MAX_BLOCK = 2**31
"""Bytes of a block of scores and of the arrays made of them."""
_MAX_WAITING = 2**29
"""Bytes of results that stay on the device before they are fetched."""


class GpuRanker:
    """Ranks all items for blocks of users, by factors.

    Parameters
    ----------
    arrays : mapping of str to array
        Factors `items`, and `item_bias` if there is one.
    k : int
        Number of items for each user.
    excluded : (indptr, indices), optional
        Pattern of a sparse matrix of users × items whose entries are not to be ranked.
    popularity : array of float, optional
        Scores of all items for users without any weight.
    device : torch.device
        Device to work on.
    """

    def __init__(
        self,
        arrays: Mapping[str, NDArray[np.float32]],
        k: int,
        excluded: Pattern | None,
        popularity: NDArray[np.float32] | None,
        device: torch.device,
    ) -> None:
        def move(array: NDArray[np.float32] | None) -> torch.Tensor | None:
            return None if array is None else to_tensor(array.astype(np.float32, copy=False), device)

        self.k, self.device, self.n_items = k, device, len(arrays["items"])
        self.items = to_tensor(arrays["items"].astype(np.float32, copy=False), device)
        self.bias, self.popularity = move(arrays.get("item_bias")), move(popularity)
        self.excluded = None if excluded is None else (excluded[0], to_tensor(excluded[1], device))
        self.n_groups = -(-self.n_items // _GROUP)
        self.n_candidates = _GROUP * min(k, self.n_groups)

    def rank(self, users: NDArray[np.float32], rows: NDArray[np.int64], is_empty: NDArray[np.bool_]) -> Ranked:
        """Return item positions and scores, best first; the first of equal items comes first.

        Parameters
        ----------
        users : array
            Factors of all users.
        rows : array of int
            Users to rank for, as rows of `users` and of the excluded pattern.
        is_empty : array of bool
            For each of the rows, whether the user has no weight and is ranked by popularity.
        """
        ranked = np.empty((len(rows), self.k), dtype=np.int32)
        best = np.empty((len(rows), self.k), dtype=np.float32)
        waiting: list[tuple[int, int, torch.Tensor, torch.Tensor]] = []

        def fetch() -> None:
            for begin, end, columns, scores in waiting:
                ranked[begin:end], best[begin:end] = to_host(columns), to_host(scores)
            waiting.clear()

        def rank_block(begin: int, end: int) -> None:
            waiting.append((begin, end, *self._rank_block(users, rows[begin:end], is_empty[begin:end])))
            if 8 * self.k * sum(last - first for first, last, *_ in waiting) > _MAX_WAITING:
                fetch()

        size = max(1, _MAX_BLOCK // (4 * _GROUP * self.n_groups + 32 * self.n_candidates))
        run_in_blocks(rank_block, [*range(0, len(rows), size), len(rows)])
        fetch()
        return check_scores(ranked, best)

    def _rank_block(
        self, users: NDArray[np.float32], rows: NDArray[np.int64], is_empty: NDArray[np.bool_]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        padded = torch.empty((len(rows), self.n_groups * _GROUP), device=self.device)
        padded[:, self.n_items :] = -torch.inf
        scores = padded[:, : self.n_items]
        with full_precision_matmul():
            torch.mm(to_tensor(_take_rows(users, rows), self.device), self.items.T, out=scores)
        if self.bias is not None:
            scores += self.bias
        if self.popularity is not None and is_empty.any():
            scores[to_tensor(np.flatnonzero(is_empty), self.device)] = self.popularity
        if self.excluded is not None:
            indptr, indices = self.excluded
            block_row, entries, _ = find_entries(rows, indptr, self.device)
            padded.view(-1)[block_row * padded.shape[1] + indices[entries]] = -torch.inf
        columns, best = self._top_k(padded.view(len(rows), self.n_groups, _GROUP))
        is_missing = best == -torch.inf
        return columns.masked_fill_(is_missing, -1).int(), best.masked_fill_(is_missing, 0)

    def _top_k(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the k best of users × groups × items of a group.

        The k groups with the largest scores, the first among equals, contain the k best items: if one of these were in
        another group, the largest item of each of the k groups would come before it.
        """
        if self.n_candidates == self.n_groups * _GROUP:
            candidates = scores.flatten(1)
            columns = _stable_top_k(candidates, self.k)
            return columns, candidates.gather(1, columns)
        # Groups stay in order, so that the first of equal candidates is the first item.
        groups = _stable_top_k(scores.amax(dim=2), self.k).sort(dim=1).values
        candidates = scores.gather(1, groups[:, :, None].expand(-1, -1, _GROUP)).flatten(1)
        positions = _stable_top_k(candidates, self.k)
        columns = groups.gather(1, positions // _GROUP) * _GROUP + positions % _GROUP
        return columns, candidates.gather(1, positions)


def _stable_top_k(scores: torch.Tensor, k: int) -> torch.Tensor:
    """Return columns of the k largest of each row, best first; the first of equal ones comes first.

    `topk` may take any of several equal numbers, so no two may be equal. It is therefore given integers: the bits of a
    score (in the order of the scores; −0 is 0), followed by the column, counted from the end.
    """
    bits = (scores + 0.0).view(torch.int32)
    bits ^= (bits >> 31) & 0x7FFFFFFF
    keys = bits.long() << 32
    keys += torch.arange(scores.shape[1] - 1, -1, -1, device=scores.device)
    return keys.topk(k, dim=1).indices


def _take_rows(users: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return rows of an array, without a copy if they follow each other."""
    first = int(rows[0])
    is_range = bool((rows == np.arange(first, first + len(rows))).all())
    return users[first : first + len(rows)] if is_range else users[rows]
