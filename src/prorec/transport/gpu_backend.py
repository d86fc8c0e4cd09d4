"""Passes over all pairs on a GPU, with fused kernels where they apply and plain PyTorch elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.device import free_memory, full_precision_matmul
from prorec._core.tensors import to_tensor
from prorec.transport.blocks import BlockProgress, Blocks
from prorec.transport.gpu_factors import (
    HAS_TRITON,
    LOG2_E,
    Product,
    UserChunks,
    Users,
    choose_tiles,
    make_descriptors,
    make_items,
    supports_kernels,
)
from prorec.transport.kernels import dense
from prorec.transport.kernels.cpu import MatchArrays, empty_match_arrays
from prorec.transport.marginals import Vector
from prorec.transport.scores import ScaledFactors

if HAS_TRITON:
    from prorec.transport.gpu_thresholds import RowSplits
    from prorec.transport.kernels import cuda

_MAX_HALF_BOUND = 2e4  # product of lengths up to which no factor is too large for 16 bits
_MAX_WIDTH = 256  # factors of one user and item that the fused kernels hold at once
_MAX_ROWS = 5 << 15
_PAIRS_PER_PROGRAM = 32
_MAX_SINGLE_BOUND = 500.0  # product of lengths over γ up to which sums are off by at most 2e-4, hardly ever by 1e-5
_MAX_SCORE = 60.0  # largest S/γ whose exponential may be summed in single precision over millions of users
_MIN_LOG_SUM = float(np.log(1e-30))  # logarithm of the smallest sum that single precision may hold
_MIN_ROW_SUM = 2.0**-80  # a row with a smaller sum may have lost digits

Sums = tuple[torch.Tensor, torch.Tensor]
MatchTensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""κ of each user, the row share at each user's threshold, and the row share of each observed pair."""


class GpuBackend:
    """Passes on a device of PyTorch. See `Backend`.

    Parameters
    ----------
    blocks : Blocks
        Scores over γ of factors, in blocks for the CPU.
    device : torch.device
        The device.
    in_double : bool, default False
        Compute everything in double precision.
    """

    def __init__(self, blocks: Blocks, device: torch.device, *, in_double: bool = False) -> None:
        scores = blocks.scores
        assert isinstance(scores, ScaledFactors), "the scores of a function stay on the CPU"
        self.blocks, self.scores = blocks, scores
        self.shape = scores.shape
        self.n_steps = scores.shape[0]
        self._device = device
        n_users = self.shape[0]
        self._items = torch.from_numpy(scores.scaled_items).to(device)
        self._bias = torch.from_numpy(scores.scaled_bias).to(device)
        self._link_scale = scores.link_scale * LOG2_E
        is_finite = bool(np.isfinite(scores.user_scale).all())
        has_width = self._items.shape[1] <= _MAX_WIDTH
        self._fused = supports_kernels(device) and not in_double and has_width and is_finite
        self._in_double = np.full(n_users, in_double or not is_finite)
        self._in_double |= scores.score_bound > _MAX_SINGLE_BOUND
        if self._link_scale:  # half precision has to hold the factors, whose bound the link's slope made smaller
            self._in_double |= scores.score_bound * (4 / scores.link_scale) > _MAX_HALF_BOUND
        width = 0
        if self._fused:
            self._product = Product(make_items(self._items, self._bias), self._link_scale)
            width = self._product.items.hi.shape[1]
        n_rows = min(_MAX_ROWS, n_users) if self._fused else self._dense_rows()
        self._users = UserChunks(scores, device, width, self._in_double, n_rows)

    def log_sums(self, progress: BlockProgress | None = None) -> tuple[Vector, Vector]:
        """Compute log-sums by user and by item, see `Backend.log_sums`."""
        return self._sum_all(None, None, progress)

    def scaled_log_sums(
        self, item_potential: Vector, user_log_mass: Vector, progress: BlockProgress | None = None
    ) -> tuple[Vector, Vector]:
        """Compute the log-sums of a Sinkhorn iteration, see `Backend.scaled_log_sums`."""
        by_user, _ = self._sum_all(item_potential, None)
        _, by_item = self._sum_all(None, user_log_mass - by_user, progress)
        return by_user, by_item

    def match(
        self,
        user_potential: Vector,
        item_potential: Vector,
        k: int,
        observed: csr_array,
        progress: BlockProgress | None = None,
    ) -> MatchArrays:
        """Find thresholds and row shares, see `Backend.match`."""
        n_users = self.shape[0]
        kappa, threshold, shares = empty_match_arrays(n_users, observed.nnz)
        for start, end, result in self.match_chunks(user_potential, item_potential, k, observed):
            pairs = slice(int(observed.indptr[start]), int(observed.indptr[end]))
            kappa[start:end], threshold[start:end], shares[pairs] = (each.cpu().numpy() for each in result)
            if progress is not None:
                progress(end, n_users)
        return kappa, threshold, shares

    def match_chunks(
        self, user_potential: Vector, item_potential: Vector, k: int, observed: csr_array
    ) -> Iterator[tuple[int, int, MatchTensors]]:
        """Find thresholds and row shares, and leave them on the device.

        Parameters
        ----------
        user_potential, item_potential, k, observed
            See `Backend.match`.

        Yields
        ------
        start, end : int
            First user of the chunk, and the end of the chunk.
        result : tuple of tensor
            κ and the threshold of each user of the chunk, and the row shares of their observed pairs.
        """
        for_users, for_items = self._tensor(user_potential), self._tensor(item_potential)
        splits = None
        if self._fused and k == 0:
            splits = RowSplits(self._product, for_users, for_items, self._users.n_rows)
            for _ in self._users.map(splits.search_chunk):
                pass
            splits.search_again()

        def step(start: int, end: int, users: Users | None) -> MatchTensors:
            pairs = slice(int(observed.indptr[start]), int(observed.indptr[end]))
            items = self._tensor(observed.indices[pairs]).int()
            activity = self._tensor(np.diff(observed.indptr[start : end + 1])).long()
            rows = torch.repeat_interleave(torch.arange(end - start, device=self._device), activity)
            if splits is not None and users is not None:
                return self._match_fused(start, end, users, splits, rows, items)
            return self._match_dense(np.arange(start, end), for_users[start:end], for_items, k, rows, items)

        yield from self._users.map(step)

    # ── sums ────────────────────────────────────────────────────────────────────────────────────────

    def _sum_all(
        self, item_offset: Vector | None, user_offset: Vector | None, progress: BlockProgress | None = None
    ) -> tuple[Vector, Vector]:
        """Compute the logarithms of the row sums of e^(x_ij + g_j) and of the column sums of e^(x_ij + f_i)."""
        n_users, n_items = self.shape
        by_user = np.empty(n_users)
        by_item = torch.full((n_items,), -torch.inf, dtype=torch.float64, device=self._device)
        g = None if item_offset is None else self._tensor(item_offset)
        f = None if user_offset is None else self._tensor(user_offset)
        step = functools.partial(self._sum_chunk, g=g, f=f)
        for start, end, (row_sums, column_sums) in self._users.map(step):
            by_user[start:end] = row_sums.cpu().numpy()
            by_item = torch.logaddexp(by_item, column_sums)
            if progress is not None:
                progress(end, n_users)
        return by_user, by_item.cpu().numpy()

    def _sum_chunk(
        self, start: int, end: int, users: Users | None, g: torch.Tensor | None, f: torch.Tensor | None
    ) -> Sums:
        in_double = self._in_double[start:end]
        offset = torch.zeros(end - start, dtype=torch.float64, device=self._device) if f is None else f[start:end]
        if users is None:
            return self._sum_dense(np.arange(start, end), offset, g)
        by_user, by_item = self._sum_fused(users, offset, g, self._tensor(in_double))
        # No score is above its row's sum. Rows that are too large for single precision must not be part of the column
        # sums, and rows that are too small have lost all digits.
        sizes = by_user - (0.0 if g is None else g.max())
        is_unfit = ~(sizes <= _MAX_SCORE)
        if f is None:
            is_unfit |= sizes < _MIN_LOG_SUM
        is_unfit &= torch.isfinite(offset) & ~self._tensor(in_double)
        if bool(is_unfit.any()):
            self._in_double[start:end] |= is_unfit.cpu().numpy()
            return self._sum_chunk(start, end, users, g, f)
        if g is None:
            vanished = torch.nonzero(~(by_item > _MIN_LOG_SUM + offset.max()))[:, 0]
            if len(vanished):  # items with tiny values for all users of the chunk
                others = np.flatnonzero(~in_double)
                by_item[vanished] = self._sum_columns(start + others, offset[self._tensor(others)], vanished)
        redone = np.flatnonzero(in_double)
        if len(redone):
            positions = self._tensor(redone)
            by_user[positions], columns = self._sum_dense(start + redone, offset[positions], g)
            by_item = torch.logaddexp(by_item, columns)
        return by_user, by_item

    def _sum_columns(self, rows: NDArray[np.intp], offset: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Compute log-sums of a few columns in double precision."""
        sums = torch.full((len(items),), -torch.inf, dtype=torch.float64, device=self._device)
        step = max(1, (1 << 27) // max(1, len(items)))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            block = self._block(rows[part], torch.float64, items) + offset[part][:, None]
            sums = torch.logaddexp(sums, torch.logsumexp(block, dim=0))
        return sums

    def _sum_fused(self, users: Users, offset: torch.Tensor, g: torch.Tensor | None, excluded: torch.Tensor) -> Sums:
        items = self._product.items
        n_users, n_items = len(users.hi), len(items.hi)
        tiles = choose_tiles("compute_sums", users.hi.shape[1])
        n_tiles = n_items // tiles.items
        # As many parts of the users as keep all multiprocessors busy to the end.
        per_split = max(tiles.users, min(-(-n_users // max(1, 2048 // n_tiles)), 1 << 14))
        per_split = -(-per_split // tiles.users) * tiles.users
        n_splits = -(-n_users // per_split)
        top_user = offset.max()
        top_user = torch.where(torch.isfinite(top_user), top_user, 0.0)
        user_offset = torch.where(excluded, -torch.inf, (offset - top_user) * LOG2_E).float()
        item_offset = torch.zeros(n_items, dtype=torch.float32, device=self._device)
        top_item = torch.zeros((), dtype=torch.float64, device=self._device)
        if g is not None:
            top_item = g.max()
            item_offset[: len(g)] = ((g - top_item) * LOG2_E).float()
        row_sums = torch.empty((n_tiles, n_users), dtype=torch.float32, device=self._device)
        column_sums = torch.empty((n_splits, n_items), dtype=torch.float32, device=self._device)
        cuda.compute_sums[(n_tiles, n_splits)](
            *make_descriptors(users, tiles.users), *items[:3], item_offset, user_offset, row_sums, column_sums, n_users,
            n_items, per_split, self._link_scale, **self._product.constants, BM=tiles.users, BN=tiles.items,
            **tiles.options,
        )  # fmt: skip
        by_user = torch.log(row_sums.sum(dim=0, dtype=torch.float64)) + top_item - user_offset.double() / LOG2_E
        by_item = torch.log(column_sums.sum(dim=0, dtype=torch.float64))[: self.shape[1]] + top_user
        return by_user, by_item

    def _sum_dense(self, rows: NDArray[np.intp], offset: torch.Tensor, g: torch.Tensor | None) -> Sums:
        by_user = torch.empty(len(rows), dtype=torch.float64, device=self._device)
        by_item = torch.full((self.shape[1],), -torch.inf, dtype=torch.float64, device=self._device)
        for part, block in self._dense_blocks(rows):
            by_user[part] = torch.logsumexp(block if g is None else block + g.to(block.dtype), dim=1).double()
            block += offset[part].to(block.dtype)[:, None]
            by_item = torch.logaddexp(by_item, torch.logsumexp(block, dim=0).double())
        return by_user, by_item

    # ── thresholds and row shares ───────────────────────────────────────────────────────────────────

    def _match_fused(
        self, start: int, end: int, users: Users, splits: RowSplits, rows: torch.Tensor, items: torch.Tensor
    ) -> MatchTensors:
        """Compute row shares of the observed pairs, and sort the rows whose split the kernels have not proved."""
        part = slice(start, end)
        kappa, value, total = splits.kappa[part], splits.threshold[part].double(), splits.total[part]
        is_doubtful = self._tensor(self._in_double[part]) | ~(total > _MIN_ROW_SUM)
        unproved = torch.nonzero(~splits.is_proved[part] | is_doubtful)[:, 0]
        values = torch.empty(len(rows), dtype=torch.float32, device=self._device)
        if len(rows):
            cuda.compute_pairs[(-(-len(rows) // _PAIRS_PER_PROGRAM),)](
                *users, *self._product.items[:3], splits.item_potential, splits.user_potential[part], rows.int(), items,
                values, len(rows), self._link_scale, BLOCK=_PAIRS_PER_PROGRAM, **self._product.constants,
            )  # fmt: skip
        scale = 1 / torch.where(is_doubtful, 1.0, total)
        # This product and the threshold's round differently: a pair within rounding of its threshold is at it.
        at_threshold = value[rows]
        is_near = torch.abs(values - at_threshold) <= 4e-6 * at_threshold
        shares = (torch.where(is_near, at_threshold, values.double()) * scale[rows]).float()
        threshold = (value * scale).float()
        for redone in (unproved[~is_doubtful[unproved]], unproved[is_doubtful[unproved]]) if len(unproved) else ():
            if len(redone):
                pairs, positions = _pairs_of_rows(redone, rows, end - start)
                kappa[redone], threshold[redone], shares[pairs] = self._match_dense(
                    start + redone.cpu().numpy(), splits.for_users[part][redone], splits.for_items, 0, positions,
                    items[pairs],
                )  # fmt: skip
        return kappa, threshold, shares

    def _match_dense(
        self,
        users: NDArray[np.intp],
        for_users: torch.Tensor,
        for_items: torch.Tensor,
        k: int,
        rows: torch.Tensor,
        items: torch.Tensor,
    ) -> MatchTensors:
        """Match by blocks in memory; `rows` are the pairs' positions in `users`, ascending."""
        kappa = torch.empty(len(users), dtype=torch.int64, device=self._device)
        threshold = torch.empty(len(users), dtype=torch.float32, device=self._device)
        shares = torch.empty(len(rows), dtype=torch.float32, device=self._device)
        for part, block in self._dense_blocks(users):
            kappa[part], threshold[part], values = dense.match(block, for_users[part], for_items, k)
            first, last = torch.searchsorted(rows, torch.tensor([part.start, part.stop], device=self._device)).tolist()
            shares[first:last] = values[rows[first:last] - part.start, items[first:last].long()]
        return kappa, threshold, shares

    # ── blocks in memory ────────────────────────────────────────────────────────────────────────────

    def _dense_blocks(self, rows: NDArray[np.intp]) -> Iterator[tuple[slice, torch.Tensor]]:
        """Yield S/γ of some users in blocks, in double precision if one of them needs it."""
        step = self._dense_rows()
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            dtype = torch.float64 if self._in_double[part].any() else torch.float32
            yield slice(start, start + len(part)), self._block(part, dtype)

    def _block(self, rows: NDArray[np.intp], dtype: torch.dtype, items: torch.Tensor | None = None) -> torch.Tensor:
        """Compute S/γ of some users, for all items or for some."""
        factors, bias = (self._items, self._bias) if items is None else (self._items[items], self._bias[items])
        with full_precision_matmul():
            block = self._tensor(self.scores.scaled_users(rows)).to(dtype) @ factors.to(dtype).T
        block += bias.to(dtype)
        return torch.sigmoid(block) * (self._link_scale / LOG2_E) if self._link_scale else block

    def _dense_rows(self) -> int:
        budget = min(4e9 if self._device.type == "cuda" else 1e9, free_memory(self._device) / 4)
        return max(1, min(4096, int(budget / (60 * self.shape[1]))))

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return to_tensor(array, self._device)


def _pairs_of_rows(chosen: torch.Tensor, rows: torch.Tensor, n_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the positions of the pairs in the chosen rows, and the position of each pair's row among these."""
    position = torch.full((n_rows,), -1, dtype=torch.int64, device=rows.device)
    position[chosen] = torch.arange(len(chosen), device=rows.device)
    pairs = torch.nonzero(position[rows] >= 0)[:, 0]
    return pairs, position[rows[pairs]]
