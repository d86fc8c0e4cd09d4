"""Passes over all pairs on a GPU: users in chunks, with the fused kernels where they fit and plain PyTorch elsewhere.

Factors that fit into the device's memory stay there; larger ones come from the host in every pass, one chunk under way
while the one before is worked on. Whatever does not fit after all is tried again in smaller chunks.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.device import free_memory, full_precision_matmul
from prorec._core.errors import InputError
from prorec._core.tensors import to_tensor
from prorec.transport.backend import Matched
from prorec.transport.blocks import BlockProgress, Blocks
from prorec.transport.gpu_factors import (
    HAS_TRITON,
    LOG2_E,
    Copies,
    Product,
    Users,
    described,
    halves,
    interpreted,
    is_fit,
    items_on,
    tiles_for,
)
from prorec.transport.kernels import dense
from prorec.transport.marginals import Vector
from prorec.transport.scores import ScaledFactors

if HAS_TRITON:
    from prorec.transport.gpu_thresholds import Splits
    from prorec.transport.kernels import cuda

Precision = Literal["high", "fast", "double"]

_WIDEST_HALF = 2e4  # the product of lengths up to which no factor is too large for 16 bits
_WIDEST = 256  # factors of one user and item that the fused kernels hold at once
_MOST_ROWS = 5 << 15
_PAIRS = 32
_REACH = 500.0  # the product of lengths over γ up to which sums are off by 2e-4 at most, and hardly ever by 1e-5
_LARGEST = 60.0  # S/γ, e to the power of which may be summed up in single precision over millions of users
_LEAST = float(np.log(1e-30))  # the logarithm of what sums in single precision should not be below
_SMALLEST = 2.0**-80  # a row that sums up to less may have lost digits


class GpuBackend:
    """Scores over γ on a device of PyTorch's: what `passes.OnCpu` is on the CPU.

    Parameters
    ----------
    blocks : scores over γ, of factors, in blocks for the CPU
    device : where
    precision : `high`, in the error of single precision; `fast`, with one product of 16-bit numbers instead of three,
        which leaves some 1e-3 in the plan where S/γ is 15; or `double`
    """

    def __init__(self, blocks: Blocks, device: torch.device, precision: Precision = "high") -> None:
        scores = blocks.scores
        assert isinstance(scores, ScaledFactors), "a function's scores are not on the device"
        self.blocks, self.scores = blocks, scores
        self.shape = scores.shape
        self.n_steps = scores.shape[0]
        self._device = device
        n_users = self.shape[0]
        self._items = torch.from_numpy(scores.scaled_items).to(device)
        self._bias = torch.from_numpy(scores.scaled_bias).to(device)
        self._user_scale = torch.from_numpy(scores.user_scale).to(device)
        self._link_scale = scores.link_scale * LOG2_E
        is_finite = bool(np.isfinite(scores.user_scale).all())
        self._fused = (
            HAS_TRITON
            and (is_fit(device) or interpreted())
            and precision != "double"
            and self._items.shape[1] <= _WIDEST
            and is_finite
        )
        self._in_double = np.full(n_users, precision == "double" or not is_finite)
        self._in_double |= scores.reach > _REACH
        if self._link_scale:  # whose slope made light of what is before it; but half precision has to hold that
            self._in_double |= scores.reach * (4 / scores.link_scale) > _WIDEST_HALF
        self._rows = min(_MOST_ROWS, n_users) if self._fused else self._dense_rows()
        self._resident: Users | None = None
        self.tally: Counter[str] = Counter()
        """How many rows were settled in which way."""
        if self._fused:
            self._product = Product(items_on(self._items, self._bias), precision == "high", self._link_scale)
            width = self._product.items.hi.shape[1]
            if 4 * n_users * width < free_memory(device) / 3:
                self._resident = self._all_users()

    # ── what is asked for ───────────────────────────────────────────────────────────────────────────

    def log_sums(self, progress: BlockProgress | None = None) -> tuple[Vector, Vector]:
        """R_i = log Σ_j e^(S_ij/γ) for each user, and C_j = log Σ_i e^(S_ij/γ) for each item."""
        return self._both_sums(None, None, progress)

    def scaled_log_sums(
        self, item_potential: Vector, user_log_mass: Vector, progress: BlockProgress | None = None
    ) -> tuple[Vector, Vector]:
        """Sums for both halves of a Sinkhorn iteration, see `Passes`."""
        by_user, _ = self._both_sums(item_potential, None)
        _, by_item = self._both_sums(None, user_log_mass - by_user, progress)
        return by_user, by_item

    def match(
        self,
        user_potential: Vector,
        item_potential: Vector,
        k: int,
        observed: csr_array,
        progress: BlockProgress | None = None,
    ) -> Matched:
        """κ and the threshold's share of each user, and the shares of the observed pairs, in their order."""
        n_users = self.shape[0]
        kappa = np.empty(n_users, dtype=np.int64)
        threshold = np.empty(n_users, dtype=np.float32)
        shares = np.empty(observed.nnz, dtype=np.float32)
        for begin, end, result in self.match_chunks(user_potential, item_potential, k, observed):
            part = slice(int(observed.indptr[begin]), int(observed.indptr[end]))
            kappa[begin:end], threshold[begin:end], shares[part] = (each.cpu().numpy() for each in result)
            if progress is not None:
                progress(end, n_users)
        return kappa, threshold, shares

    def match_chunks(
        self, user_potential: Vector, item_potential: Vector, k: int, observed: csr_array
    ) -> Iterator[tuple[int, int, tuple[torch.Tensor, ...]]]:
        """The same, chunk by chunk on the device: from which user to which, κ, threshold, shares."""
        of_users, of_items = (self._tensor(each) for each in (user_potential, item_potential))
        splits = None
        if self._fused and k == 0:
            splits = Splits(self._product, of_users, of_items, self._rows, self.tally)
            for _ in self._each_chunk(splits.look):
                pass
            splits.look_on()

        def work(begin: int, end: int, users: Users | None) -> tuple[torch.Tensor, ...]:
            pairs = slice(int(observed.indptr[begin]), int(observed.indptr[end]))
            items = self._tensor(observed.indices[pairs]).int()
            activity = self._tensor(np.diff(observed.indptr[begin : end + 1])).long()
            rows = torch.repeat_interleave(torch.arange(end - begin, device=self._device), activity)
            if splits is not None and users is not None:
                return self._match_fused(begin, end, users, splits, rows, items)
            return self._match_dense(np.arange(begin, end), of_users[begin:end], of_items, k, rows, items)

        yield from self._each_chunk(work)

    # ── sums ────────────────────────────────────────────────────────────────────────────────────────

    def _both_sums(
        self, of_items: Vector | None, of_users: Vector | None, progress: BlockProgress | None = None
    ) -> tuple[Vector, Vector]:
        """Row sums of e^(x_ij + g_j), and column sums of e^(x_ij + f_i), as logarithms."""
        n_users, n_items = self.shape
        by_user = np.empty(n_users)
        by_item = torch.full((n_items,), -torch.inf, dtype=torch.float64, device=self._device)
        g = None if of_items is None else self._tensor(of_items)
        f = None if of_users is None else self._tensor(of_users)
        work = functools.partial(self._sums_of_chunk, g=g, f=f)
        for begin, end, (row_sums, column_sums) in self._each_chunk(work):
            by_user[begin:end] = row_sums.cpu().numpy()
            by_item = torch.logaddexp(by_item, column_sums)
            if progress is not None:
                progress(end, n_users)
        return by_user, by_item.cpu().numpy()

    def _sums_of_chunk(
        self, begin: int, end: int, users: Users | None, g: torch.Tensor | None, f: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        in_double = self._in_double[begin:end]
        offset = torch.zeros(end - begin, dtype=torch.float64, device=self._device) if f is None else f[begin:end]
        if users is None:
            return self._sums_dense(np.arange(begin, end), offset, g)
        by_user, by_item = self._sums_fused(users, offset, g, self._tensor(in_double))
        # No score is above its row's sum. Rows that are too large for single precision must not be among the columns'
        # sums either, and of those that are too small nothing is left.
        sizes = by_user - (0.0 if g is None else g.max())
        unfit = ~(sizes <= _LARGEST)
        if f is None:
            unfit |= sizes < _LEAST
        unfit &= torch.isfinite(offset) & ~self._tensor(in_double)
        if bool(unfit.any()):
            self._in_double[begin:end] |= unfit.cpu().numpy()
            return self._sums_of_chunk(begin, end, users, g, f)
        if g is None:
            vanished = torch.nonzero(~(by_item > _LEAST + offset.max()))[:, 0]
            if len(vanished):  # items that no user of the chunk comes near
                others = np.flatnonzero(~in_double)
                by_item[vanished] = self._column_sums(begin + others, offset[self._tensor(others)], vanished)
        redone = np.flatnonzero(in_double)
        if len(redone):
            places = self._tensor(redone)
            by_user[places], columns = self._sums_dense(begin + redone, offset[places], g)
            by_item = torch.logaddexp(by_item, columns)
        return by_user, by_item

    def _column_sums(self, rows: NDArray[np.intp], offset: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Column sums of a few items in double precision."""
        sums = torch.full((len(items),), -torch.inf, dtype=torch.float64, device=self._device)
        step = max(1, (1 << 27) // max(1, len(items)))
        for begin in range(0, len(rows), step):
            part = slice(begin, begin + step)
            block = self._block(rows[part], torch.float64, items) + offset[part][:, None]
            sums = torch.logaddexp(sums, torch.logsumexp(block, dim=0))
        return sums

    def _sums_fused(
        self, users: Users, offset: torch.Tensor, g: torch.Tensor | None, left_out: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        items = self._product.items
        n_users, n_items = len(users.hi), len(items.hi)
        tiles = tiles_for("sums", users.hi.shape[1])
        n_tiles = n_items // tiles.items
        # As many parts of the users as keep all multiprocessors busy to the end.
        per_split = max(tiles.users, min(-(-n_users // max(1, 2048 // n_tiles)), 1 << 14))
        per_split = -(-per_split // tiles.users) * tiles.users
        n_splits = -(-n_users // per_split)
        top_user = offset.max()
        top_user = torch.where(torch.isfinite(top_user), top_user, 0.0)
        f = torch.where(left_out, -torch.inf, (offset - top_user) * LOG2_E).float()
        of_items = torch.zeros(n_items, dtype=torch.float32, device=self._device)
        top_item = torch.zeros((), dtype=torch.float64, device=self._device)
        if g is not None:
            top_item = g.max()
            of_items[: len(g)] = ((g - top_item) * LOG2_E).float()
        row_sums = torch.empty((n_tiles, n_users), dtype=torch.float32, device=self._device)
        column_sums = torch.empty((n_splits, n_items), dtype=torch.float32, device=self._device)
        cuda.sums[(n_tiles, n_splits)](
            *described(users, tiles.users), *items[:3], of_items, f, row_sums, column_sums, n_users, n_items, per_split,
            self._link_scale, **self._product.constants, BM=tiles.users, BN=tiles.items, **tiles.how,
        )  # fmt: skip
        by_user = torch.log(row_sums.sum(dim=0, dtype=torch.float64)) + top_item - f.double() / LOG2_E
        by_item = torch.log(column_sums.sum(dim=0, dtype=torch.float64))[: self.shape[1]] + top_user
        return by_user, by_item

    def _sums_dense(
        self, rows: NDArray[np.intp], offset: torch.Tensor, g: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        by_user = torch.empty(len(rows), dtype=torch.float64, device=self._device)
        by_item = torch.full((self.shape[1],), -torch.inf, dtype=torch.float64, device=self._device)
        for part, block in self._dense(rows):
            if g is not None:
                by_user[part] = torch.logsumexp(block + g.to(block.dtype), dim=1).double()
            else:
                by_user[part] = torch.logsumexp(block, dim=1).double()
            block += offset[part].to(block.dtype)[:, None]
            by_item = torch.logaddexp(by_item, torch.logsumexp(block, dim=0).double())
        return by_user, by_item

    # ── thresholds and shares ───────────────────────────────────────────────────────────────────────

    def _match_fused(
        self, begin: int, end: int, users: Users, splits: Splits, rows: torch.Tensor, items: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Shares of the observed pairs; and whatever the kernels have left, sorted, in double precision if need be."""
        part = slice(begin, end)
        kappa, value, total = splits.kappa[part], splits.threshold[part].double(), splits.total[part]
        doubtful = self._tensor(self._in_double[part]) | ~(total > _SMALLEST)
        left = torch.nonzero(~splits.is_settled[part] | doubtful)[:, 0]
        self.tally["by sorting"] += len(left)
        values = torch.empty(len(rows), dtype=torch.float32, device=self._device)
        if len(rows):
            cuda.at_pairs[(-(-len(rows) // _PAIRS),)](
                *users, *self._product.items[:3], splits.a, splits.b[part], rows.int(), items, values, len(rows),
                self._link_scale, D=users.hi.shape[1], BLOCK=_PAIRS, SIGMOID=self._link_scale > 0,
            )  # fmt: skip
        scale = 1 / torch.where(doubtful, 1.0, total)
        # The product here and the one that the threshold comes from round differently: a pair is at its threshold
        # where it is so but for that.
        at_rows = value[rows]
        near = torch.abs(values - at_rows) <= 4e-6 * at_rows
        shares = (torch.where(near, at_rows, values.double()) * scale[rows]).float()
        threshold = (value * scale).float()
        for redone in (left[~doubtful[left]], left[doubtful[left]]) if len(left) else ():
            if len(redone):
                places, number_of = _pairs_of(redone, rows, end - begin)
                of_users = splits.of_users[part][redone]
                kappa[redone], threshold[redone], shares[places] = self._match_dense(
                    begin + redone.cpu().numpy(), of_users, splits.of_items, 0, number_of, items[places]
                )
        return kappa, threshold, shares

    def _match_dense(
        self,
        users: NDArray[np.intp],
        of_users: torch.Tensor,
        of_items: torch.Tensor,
        k: int,
        rows: torch.Tensor,
        items: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The same with blocks in memory; `rows` are places in `users`, ascending."""
        kappa = torch.empty(len(users), dtype=torch.int64, device=self._device)
        threshold = torch.empty(len(users), dtype=torch.float32, device=self._device)
        shares = torch.empty(len(rows), dtype=torch.float32, device=self._device)
        for part, block in self._dense(users):
            kappa[part], threshold[part], values = dense.match(block, of_users[part], of_items, k)
            first, last = torch.searchsorted(rows, torch.tensor([part.start, part.stop], device=self._device)).tolist()
            shares[first:last] = values[rows[first:last] - part.start, items[first:last].long()]
        return kappa, threshold, shares

    # ── users and items on the device ───────────────────────────────────────────────────────────────

    def _all_users(self) -> Users | None:
        """All users' factors on the device, if there is room for them after all."""
        try:
            parts = [users for _, _, users in self._streamed(0)]
            return Users(*(torch.cat(each) for each in zip(*parts, strict=True)))
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return None

    def _split_users(self, part: torch.Tensor, is_left_out: torch.Tensor) -> Users:
        """Users' factors over γ·log 2 as hi + lo; nothing for those who need double precision."""
        scaled = (part.double() * (self._user_scale * LOG2_E)).float()
        scaled[is_left_out] = 0
        padded = torch.zeros((len(part), self._product.items.hi.shape[1]), dtype=torch.float32, device=self._device)
        padded[:, : scaled.shape[1]] = scaled
        return Users(*halves(padded))

    def _each_chunk(self, work: Callable[..., Any]) -> Iterator[tuple[int, int, Any]]:
        """`work(begin, end, users)` for one chunk after the other; in smaller ones, where memory runs out."""
        n_users = self.shape[0]
        begin = 0
        while begin < n_users:
            try:
                for first, end, users in self._chunks(begin):
                    yield first, end, work(first, end, users)
                    begin = end
            except torch.OutOfMemoryError:
                if self._rows == 1:
                    raise InputError(
                        f"one user with {self.shape[1]:,} items does not fit into the memory left on {self._device}"
                    ) from None
                self._rows = -(-self._rows // 2)
                torch.cuda.empty_cache()

    def _chunks(self, begin: int) -> Iterator[tuple[int, int, Users | None]]:
        n_users = self.shape[0]
        if not self._fused or self._resident is not None:
            for start in range(begin, n_users, self._rows):
                end = min(start + self._rows, n_users)
                resident = self._resident
                yield start, end, None if resident is None else Users(resident.hi[start:end], resident.lo[start:end])
            return
        yield from self._streamed(begin)

    def _streamed(self, begin: int) -> Iterator[tuple[int, int, Users]]:
        """Users from the host, one chunk on its way while the one before is worked on."""
        n_users, rows = self.shape[0], self._rows
        on_its_way: tuple[int, int, Any] | None = None
        copies = Copies(rows, self.scores.user_factors, self._device)
        for start in [*range(begin, n_users, rows), None]:
            arrived = on_its_way
            if start is not None:
                end = min(start + rows, n_users)
                on_its_way = start, end, copies.begin(start, end)
            if arrived is not None:
                first, last, copy = arrived
                part = copies.finish(copy)
                yield first, last, self._split_users(part, self._tensor(self._in_double[first:last]))

    def _dense(self, rows: NDArray[np.intp]) -> Iterator[tuple[slice, torch.Tensor]]:
        """S/γ of some users in blocks: places in `rows`, and the block, in double precision where it must be."""
        step = self._dense_rows()
        for begin in range(0, len(rows), step):
            part = rows[begin : begin + step]
            kind = torch.float64 if self._in_double[part].any() else torch.float32
            yield slice(begin, begin + len(part)), self._block(part, kind)

    def _block(self, rows: NDArray[np.intp], kind: torch.dtype, items: torch.Tensor | None = None) -> torch.Tensor:
        """S/γ of some users, and of all items or of some."""
        factors, bias = (self._items, self._bias) if items is None else (self._items[items], self._bias[items])
        with full_precision_matmul():
            block = self._tensor(self.scores.scaled_users(rows)).to(kind) @ factors.to(kind).T
        block += bias.to(kind)
        return torch.sigmoid(block) * (self._link_scale / LOG2_E) if self._link_scale else block

    def _dense_rows(self) -> int:
        budget = min(4e9 if self._device.type == "cuda" else 1e9, free_memory(self._device) / 4)
        return max(1, min(4096, int(budget / (60 * self.shape[1]))))

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return to_tensor(array, self._device)


def _pairs_of(chosen: torch.Tensor, rows: torch.Tensor, n_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which pairs are of the chosen rows, and the place of each one's row among them."""
    place = torch.full((n_rows,), -1, dtype=torch.int64, device=rows.device)
    place[chosen] = torch.arange(len(chosen), device=rows.device)
    pairs = torch.nonzero(place[rows] >= 0)[:, 0]
    return pairs, place[rows[pairs]]
