"""Passes over all pairs on a GPU: users in chunks, with the fused kernels where they fit and plain PyTorch elsewhere.

Factors that fit into the device's memory stay there; larger ones come from the host in every pass, one chunk under way
while the one before is worked on. Whatever does not fit after all is tried again in smaller chunks.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._random import generator
from prorec.errors import InputError
from prorec.transport.blocks import Blocks, Progress
from prorec.transport.kernels import plain
from prorec.transport.marginals import Vector
from prorec.transport.passes import Matched
from prorec.transport.scores import ScaledFactors

try:
    import triton
    from triton.tools.tensor_descriptor import TensorDescriptor

    from prorec.transport.kernels import certificate, cuda
except ImportError:  # a build of PyTorch for a device that Triton does not know
    triton = None

Precision = Literal["high", "fast", "double"]

_LOG2_E = 1.4426950408889634
_WIDEST = 256  # factors of one user and item that the fused kernels hold at once
_SAMPLED = 1024
_ROOM = 2048  # values that each of the four threads of a row may collect
_STEP = 32
_LOOKS = 6
_CHANCES = 4.0
_SETTLE_WARPS = 4
_MOST_ROWS = 5 << 15
_PAIRS = 32
_REACH = 500.0  # the product of lengths over γ up to which sums are off by 2e-4 at most, and hardly ever by 1e-5
_LARGEST = 60.0  # S/γ, e to the power of which may be summed up in single precision over millions of users
_SMALLEST = 2.0**-80  # a row that sums up to less may have lost digits
_SEED = 20_220_418  # of the items that are sampled; any would do


class _Users(NamedTuple):
    """Some users' factors on the device, over γ·log 2, in two halves: hi + lo."""

    hi: torch.Tensor
    lo: torch.Tensor


class _Tiles(NamedTuple):
    """Users × items that one program has at once, and how it is compiled."""

    users: int
    items: int
    how: dict[str, int]


class OnDevice:
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
        self._device, self._precision = device, precision
        n_users = self.shape[0]
        self._items = torch.from_numpy(scores.scaled_items).to(device)
        self._bias = torch.from_numpy(scores.scaled_bias).to(device)
        self._user_scale = torch.from_numpy(scores.user_scale).to(device)
        self._link_scale = scores.link_scale * _LOG2_E
        is_finite = bool(np.isfinite(scores.user_scale).all())
        self._fused = (
            triton is not None
            and (device.type == "cuda" or _interpreted())
            and precision != "double"
            and self._items.shape[1] <= _WIDEST
            and is_finite
        )
        reach = np.inf if precision == "double" or not is_finite else np.maximum(scores.reach, self._link_scale / 2)
        self._in_double = np.broadcast_to(reach > _REACH, n_users).copy()
        self._rows = min(_MOST_ROWS, n_users) if self._fused else self._dense_rows()
        self._resident: _Users | None = None
        self.tally: Counter[str] = Counter()
        """How many rows were settled in which way."""
        if self._fused:
            self._prepare_items()
            width = self._v_hi.shape[1]
            if device.type != "cuda" or 4 * n_users * width < _free(device) / 3:
                parts = [users for _, _, users in self._streamed(0)]
                self._resident = _Users(*(torch.cat(each) for each in zip(*parts, strict=True)))

    # ── what is asked for ───────────────────────────────────────────────────────────────────────────

    def log_sums(self, progress: Progress | None = None) -> tuple[Vector, Vector]:
        """R_i = log Σ_j e^(S_ij/γ) for each user, and C_j = log Σ_i e^(S_ij/γ) for each item."""
        return self._both_sums(None, None, progress)

    def scaled_log_sums(
        self, item_potential: Vector, user_log_mass: Vector, progress: Progress | None = None
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
        progress: Progress | None = None,
    ) -> Matched:
        """κ and the threshold's share of each user, and the shares of the observed pairs, in their order."""
        n_users = self.shape[0]
        kappa = np.empty(n_users, dtype=np.int64)
        threshold = np.empty(n_users, dtype=np.float32)
        shares = np.empty(observed.nnz, dtype=np.float32)
        for begin, end, result in self.matched(user_potential, item_potential, k, observed):
            part = slice(int(observed.indptr[begin]), int(observed.indptr[end]))
            kappa[begin:end], threshold[begin:end], shares[part] = (each.cpu().numpy() for each in result)
            if progress is not None:
                progress(end, n_users)
        return kappa, threshold, shares

    def matched(
        self, user_potential: Vector, item_potential: Vector, k: int, observed: csr_array
    ) -> Iterator[tuple[int, int, tuple[torch.Tensor, ...]]]:
        """The same, chunk by chunk on the device: from which user to which, κ, threshold, shares."""
        of_users, of_items = (self._tensor(each) for each in (user_potential, item_potential))
        splits = None
        if self._fused and k == 0:
            splits = _Splits(self, of_users, of_items)
            for _ in self._each_chunk(splits.look):
                pass
            splits.look_on()

        def work(begin: int, end: int, users: _Users | None) -> tuple[torch.Tensor, ...]:
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
        self, of_items: Vector | None, of_users: Vector | None, progress: Progress | None = None
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
        self, begin: int, end: int, users: _Users | None, g: torch.Tensor | None, f: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        in_double = self._in_double[begin:end]
        offset = torch.zeros(end - begin, dtype=torch.float64, device=self._device) if f is None else f[begin:end]
        if users is None:
            return self._sums_dense(np.arange(begin, end), offset, g)
        by_user, by_item = self._sums_fused(users, offset, g, self._tensor(in_double))
        too_large = ~(by_user - (0 if g is None else g.max()) <= _LARGEST) & torch.isfinite(offset)
        too_large &= ~self._tensor(in_double)
        if bool(too_large.any()):
            # No score is above its row's sum. Those that are too large must not be among the columns' sums either.
            self._in_double[begin:end] |= too_large.cpu().numpy()
            return self._sums_of_chunk(begin, end, users, g, f)
        redone = np.flatnonzero(in_double)
        if f is not None and not bool((by_item > np.log(1e-30) + offset.max()).all()):
            redone = np.arange(end - begin)  # an item that no user of the chunk comes near
            by_item = torch.full_like(by_item, -torch.inf)
        if len(redone):
            places = self._tensor(redone)
            by_user[places], columns = self._sums_dense(begin + redone, offset[places], g)
            by_item = torch.logaddexp(by_item, columns)
        return by_user, by_item

    def _sums_fused(
        self, users: _Users, offset: torch.Tensor, g: torch.Tensor | None, left_out: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        n_users, n_items = len(users.hi), len(self._v_hi)
        tiles = _tiles("sums", users.hi.shape[1])
        n_tiles = n_items // tiles.items
        # As many parts of the users as keep all multiprocessors busy to the end.
        per_split = max(tiles.users, min(-(-n_users // max(1, 2048 // n_tiles)), 1 << 14))
        per_split = -(-per_split // tiles.users) * tiles.users
        n_splits = -(-n_users // per_split)
        top_user = offset.max()
        top_user = torch.where(torch.isfinite(top_user), top_user, 0.0)
        f = torch.where(left_out, -torch.inf, (offset - top_user) * _LOG2_E).float()
        of_items = torch.zeros(n_items, dtype=torch.float32, device=self._device)
        top_item = torch.zeros((), dtype=torch.float64, device=self._device)
        if g is not None:
            top_item = g.max()
            of_items[: len(g)] = ((g - top_item) * _LOG2_E).float()
        row_sums = torch.empty((n_tiles, n_users), dtype=torch.float32, device=self._device)
        column_sums = torch.empty((n_splits, n_items), dtype=torch.float32, device=self._device)
        cuda.sums[(n_tiles, n_splits)](
            *_described(users, tiles.users), self._v_hi, self._v_lo, self._fused_bias, of_items, f, row_sums,
            column_sums, n_users, n_items, per_split, self._link_scale, **self._constants(users), BM=tiles.users,
            BN=tiles.items, **tiles.how,
        )  # fmt: skip
        by_user = torch.log(row_sums.sum(dim=0, dtype=torch.float64)) + top_item - f.double() / _LOG2_E
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
        self, begin: int, end: int, users: _Users, splits: _Splits, rows: torch.Tensor, items: torch.Tensor
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
                *users, self._v_hi, self._v_lo, self._fused_bias, splits.a, splits.b[part], rows.int(), items, values,
                len(rows), self._link_scale, BLOCK=_PAIRS, **_without(self._constants(users), "SPLIT"),
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
            kappa[part], threshold[part], values = plain.match(block, of_users[part], of_items, k)
            first, last = torch.searchsorted(rows, torch.tensor([part.start, part.stop], device=self._device)).tolist()
            shares[first:last] = values[rows[first:last] - part.start, items[first:last].long()]
        return kappa, threshold, shares

    # ── users and items on the device ───────────────────────────────────────────────────────────────

    def _prepare_items(self) -> None:
        n_items, width = self._items.shape
        padded = max(16, 1 << max(0, width - 1).bit_length())
        # Whole tiles, of any of the kernels.
        n_padded = -(-n_items // 128) * 128
        items = torch.zeros((n_padded, padded), dtype=torch.float32, device=self._device)
        items[:n_items, :width] = self._items.float()
        self._v_hi, self._v_lo = _halves(items)
        self._fused_bias = torch.full((n_padded,), -torch.inf, dtype=torch.float32, device=self._device)
        self._fused_bias[:n_items] = (self._bias * _LOG2_E).float()
        n_sampled = min(_SAMPLED, 1 << (n_items.bit_length() - 1))
        chosen = generator(_SEED).choice(n_items, n_sampled, replace=False)
        # Tiles of the sample are whole as well; what fills them up is no item.
        filled = np.full(max(n_sampled, 16), n_items, dtype=np.int64)
        filled[:n_sampled] = chosen
        if n_padded == n_items:
            filled = filled[:n_sampled]
        self._sampled = self._tensor(filled)

    def _split_users(self, part: torch.Tensor, is_left_out: torch.Tensor) -> _Users:
        """Users' factors over γ·log 2 as hi + lo; nothing for those who need double precision."""
        scaled = (part.double() * (self._user_scale * _LOG2_E)).float()
        scaled[is_left_out] = 0
        padded = torch.zeros((len(part), self._v_hi.shape[1]), dtype=torch.float32, device=self._device)
        padded[:, : scaled.shape[1]] = scaled
        return _Users(*_halves(padded))

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

    def _chunks(self, begin: int) -> Iterator[tuple[int, int, _Users | None]]:
        n_users = self.shape[0]
        if not self._fused or self._resident is not None:
            for start in range(begin, n_users, self._rows):
                end = min(start + self._rows, n_users)
                resident = self._resident
                yield start, end, None if resident is None else _Users(resident.hi[start:end], resident.lo[start:end])
            return
        yield from self._streamed(begin)

    def _streamed(self, begin: int) -> Iterator[tuple[int, int, _Users]]:
        """Users from the host, one chunk on its way while the one before is worked on."""
        n_users, rows = self.shape[0], self._rows
        on_its_way: tuple[int, int, Any] | None = None
        copies = _Copies(rows, self.scores.user_factors, self._device)
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
            users = self._tensor(self.scores.scaled_users(part)).to(kind)
            block = users @ self._items.to(kind).T
            block += self._bias.to(kind)
            if self._link_scale:
                block = torch.sigmoid(block) * (self._link_scale / _LOG2_E)
            yield slice(begin, begin + len(part)), block

    def _dense_rows(self) -> int:
        budget = 1e9 if self._device.type != "cuda" else min(4e9, _free(self._device) / 4)
        return max(1, min(4096, int(budget / (60 * self.shape[1]))))

    def _constants(self, users: _Users) -> dict[str, Any]:
        return {
            "D": users.hi.shape[1],
            "SPLIT": self._precision == "high",
            "SIGMOID": self._link_scale > 0,
        }

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return _shared(array).to(self._device)


class _Left(NamedTuple):
    """Rows whose best split is not proved yet, and what is known of them."""

    rows: torch.Tensor
    users: _Users
    found: certificate.Surveyed
    open: certificate.Open

    def of(self, chosen: torch.Tensor) -> _Left:
        """Some of them."""
        users = _Users(self.users.hi[chosen], self.users.lo[chosen])
        return _Left(self.rows[chosen], users, self.found.of(chosen), self.open.of(chosen))


class _Splits:
    """The least-squares split of each row (Eq. 20), proved where `is_settled` says so.

    A window is guessed from a sample of each row; values within it are collected and split, and what a survey of the
    whole row adds up tells whether a better split may be outside. If so, that is the next window. Rows of all chunks
    are looked at again together: a look takes its time however few they are.

    Attributes
    ----------
    kappa, threshold : κ, and the κ-th largest value
    total : the sum of the row
    """

    def __init__(self, passes: OnDevice, of_users: torch.Tensor, of_items: torch.Tensor) -> None:
        self._passes, self.of_users, self.of_items = passes, of_users, of_items
        n_users, device = len(of_users), of_users.device
        # A row may be scaled by anything: all potentials are relative to the items' largest, and where the user's is
        # above that, the items' make no difference.
        top = of_items.max()
        self.a = torch.full((len(passes._v_hi),), -torch.inf, dtype=torch.float32, device=device)
        self.a[: len(of_items)] = ((of_items - top) * _LOG2_E).float()
        self.b = torch.clamp((of_users - top) * _LOG2_E, max=0.0).float()
        self.kappa = torch.zeros(n_users, dtype=torch.int64, device=device)
        self.threshold = torch.zeros(n_users, dtype=torch.float32, device=device)
        self.total = torch.zeros(n_users, dtype=torch.float64, device=device)
        self.is_settled = torch.zeros(n_users, dtype=torch.bool, device=device)
        self._best = torch.zeros(n_users, dtype=torch.float64, device=device)
        self._left: list[_Left] = []

    def look(self, begin: int, end: int, users: _Users) -> None:
        """Look at a chunk of rows for the first time."""
        n_items = self._passes.shape[1]
        rows = torch.arange(begin, end, device=users.hi.device)
        self._passes.tally["rows"] += end - begin
        centre, cuts, window = self._guessed(users, self.b[begin:end])
        found, searched = self._search(rows, users, centre, cuts, window)
        self.total[begin:end] = n_items * centre.double() + found.total.double()
        # Values that are equal but for rounding have nothing to be split by.
        is_flat = found.top.double() * n_items - found.total.double() <= 1e-7 * self.total[begin:end]
        self.kappa[begin:end] = torch.where(is_flat, 1, self.kappa[begin:end])
        self.threshold[begin:end] = torch.where(is_flat, found.top + centre, self.threshold[begin:end])
        endless = torch.full_like(centre, torch.inf)
        left = certificate.still_open(found, searched, certificate.Span(-endless, endless), self._best[begin:end])
        self.is_settled[begin:end] = is_flat | (~left.rows & (self.kappa[begin:end] > 0))
        self._left.append(_Left(rows, users, found, left).of(torch.nonzero(left.rows & ~is_flat)[:, 0]))

    def look_on(self) -> None:
        """Look again where the best split may still be, until it is proved or that has been tried often enough."""
        for _ in range(_LOOKS):
            before, self._left = self._left, []
            for left in _together(before, self._passes._rows):
                self._passes.tally["looked at again"] += len(left.rows)
                span, found = left.open.span, left.found
                # What may hold too many values is only cut again.
                fits = left.open.n_values <= 0.9 * 4 * _ROOM
                window = certificate.Span(*(torch.where(fits, edge, torch.inf) for edge in span))
                cuts = certificate.spread(span, found)
                found, searched = self._search(left.rows, left.users, found.centre, cuts, window)
                best = torch.maximum(left.open.best, self._best[left.rows])
                on = certificate.still_open(found, searched, span, best)
                self.is_settled[left.rows] = ~on.rows & (self.kappa[left.rows] > 0)
                self._left.append(_Left(left.rows, left.users, found, on).of(torch.nonzero(on.rows)[:, 0]))
        self._left = []

    def _guessed(self, users: _Users, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, certificate.Span]:
        passes = self._passes
        chosen = passes._sampled
        n, n_rows, device = len(chosen), len(b), b.device
        values = torch.empty((n_rows, n), dtype=torch.float32, device=device)
        tile = min(n, 64)
        cuda.sample[(-(-n_rows // 64), n // tile)](
            *users, passes._v_hi[chosen], passes._v_lo[chosen], passes._fused_bias[chosen], self.a[chosen], b, values,
            n_rows, n, passes._link_scale, **passes._constants(users), BM=64, BN=tile,
        )  # fmt: skip
        centre, low, high = (torch.empty(n_rows, dtype=torch.float32, device=device) for _ in range(3))
        cuts = torch.empty((n_rows, cuda.CUTS), dtype=torch.float32, device=device)
        cuda.guess[(n_rows,)](values, centre, cuts, low, high, passes.shape[1], 4 * _ROOM, _CHANCES, N=n)
        return centre, cuts, certificate.Span(low, high)

    def _search(
        self, rows: torch.Tensor, users: _Users, centre: torch.Tensor, cuts: torch.Tensor, window: certificate.Span
    ) -> tuple[certificate.Surveyed, certificate.Span]:
        """Survey rows and take over what is best within their windows; what was found, and where all was seen."""
        passes = self._passes
        n_rows, device, n_items = len(rows), rows.device, len(passes._v_hi)
        found = torch.empty((n_rows, cuda.SUMS + cuda.CUTS), dtype=torch.float32, device=device)
        collected = torch.empty((n_rows, 4, _ROOM), dtype=torch.float32, device=device)
        counts = torch.empty((n_rows, 4), dtype=torch.int32, device=device)
        tiles = _tiles("survey", users.hi.shape[1])
        b = self.b[rows]
        # Open above, and with values to collect: that is most of them at first.
        is_from_top = torch.isinf(window.high) & ~torch.isinf(window.low)
        n_from_top = is_from_top.sum(dtype=torch.int32)
        order = torch.argsort(is_from_top, descending=True, stable=True).int()
        for from_top, which, n_which in (
            (True, order, n_from_top),
            (False, order.flip(0), n_rows - n_from_top),
        ):
            cuda.survey[(-(-n_rows // tiles.users),)](
                *users, *_described((passes._v_hi, passes._v_lo), tiles.items), passes._fused_bias, self.a, b, centre,
                cuts, *window, found, collected, counts, which, n_which, n_items, passes._link_scale,
                **passes._constants(users), BM=tiles.users, BN=tiles.items, ROOM=_ROOM, FROM_TOP=from_top,
                INTERPRETED=_interpreted(), **tiles.how,
            )  # fmt: skip
        # What fills up the last tile is no item, but has been added up as a value of 0.
        none = n_items - passes.shape[1]
        found[:, 0] += none * centre
        distances = found[:, cuda.SUMS :].double() - none * (cuts + centre[:, None]).abs().double()
        # Above a window that is open there are no cuts but its lower edge, again and again.
        half = cuda.CUTS // 2
        cuts = cuts.clone()
        cuts[:, :half] = torch.where(is_from_top[:, None], cuts[:, half : half + 1], cuts[:, :half])
        distances[:, :half] = torch.where(is_from_top[:, None], distances[:, half : half + 1], distances[:, :half])
        kappa = torch.empty(n_rows, dtype=torch.int64, device=device)
        threshold = torch.empty(n_rows, dtype=torch.float32, device=device)
        best = torch.empty(n_rows, dtype=torch.float64, device=device)
        spare = torch.empty((n_rows, cuda.FEW.value), dtype=torch.float32, device=device)
        cuda.settle[(n_rows,)](
            collected, counts, centre, *window, found, spare, kappa, threshold, best, passes.shape[1], ROOM=_ROOM,
            STEP=_STEP, num_warps=_SETTLE_WARPS,
        )  # fmt: skip
        is_better = (kappa > 0) & (best > self._best[rows])
        self.kappa[rows] = torch.where(is_better, kappa, self.kappa[rows])
        self.threshold[rows] = torch.where(is_better, threshold + centre, self.threshold[rows])
        self._best[rows] = torch.where(is_better, best, self._best[rows])
        low = torch.where(kappa >= 0, window.low, torch.inf)
        searched = certificate.Span(low, torch.where(kappa >= 0, window.high, -torch.inf))
        return certificate.Surveyed(centre, cuts, distances, found[:, 0], found[:, 1], passes.shape[1]), searched


def _together(parts: list[_Left], rows: int) -> Iterator[_Left]:
    """All of them, so many at a time."""
    parts = [part for part in parts if len(part.rows)]
    if not parts:
        return
    whole = _Left(
        torch.cat([part.rows for part in parts]),
        _Users(*(torch.cat([part.users[i] for part in parts]) for i in range(2))),
        certificate.joined([part.found for part in parts]),
        certificate.joined_open([part.open for part in parts]),
    )
    for begin in range(0, len(whole.rows), rows):
        yield whole.of(torch.arange(begin, min(begin + rows, len(whole.rows)), device=whole.rows.device))


class _Copies:
    """Copies of rows from the host to the device, by way of two buffers that the driver can read while we go on."""

    def __init__(self, rows: int, source: NDArray[Any], device: torch.device) -> None:
        self._source, self._device = source, device
        self._is_gpu = device.type == "cuda"
        if self._is_gpu:
            kind = torch.float64 if source.dtype == np.float64 else torch.float32
            self._buffers = [torch.empty((rows, source.shape[1]), dtype=kind, pin_memory=True) for _ in range(2)]
            self._done: list[torch.cuda.Event | None] = [None, None]
            self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            self._turn = 0

    def begin(self, start: int, end: int) -> Any:
        """Set off."""
        rows = _shared(self._source[start:end])
        if not self._is_gpu:
            return rows
        turn = self._turn
        self._turn = 1 - turn
        before = self._done[turn]
        if before is not None:
            before.synchronize()
        buffer = self._buffers[turn][: end - start]
        buffer.copy_(rows)
        with torch.cuda.stream(self._stream):
            copy = buffer.to(self._device, non_blocking=True)
            done = torch.cuda.Event()  # type: ignore[no-untyped-call]
            done.record(self._stream)
        self._done[turn] = done
        return copy, done

    def finish(self, under_way: Any) -> torch.Tensor:
        """The rows on the device, for work that is queued from now on."""
        if not self._is_gpu:
            rows: torch.Tensor = under_way.to(self._device)
            return rows
        copy: torch.Tensor = under_way[0]
        done = under_way[1]
        here = torch.cuda.current_stream(self._device)
        here.wait_event(done)
        copy.record_stream(here)
        return copy


def _shared(array: NDArray[Any]) -> torch.Tensor:
    """A tensor of the same memory; PyTorch takes only what may be written to, though nobody here does."""
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def _halves(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    hi = values.half()
    return hi, (values - hi.float()).half()


def _described(halves: tuple[torch.Tensor, torch.Tensor], rows: int) -> list[Any]:
    """Both as tensor descriptors, which are read so many rows at a time."""
    return [TensorDescriptor.from_tensor(each, [rows, each.shape[1]]) for each in halves]


def _pairs_of(chosen: torch.Tensor, rows: torch.Tensor, n_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which pairs are of the chosen rows, and the place of each one's row among them."""
    place = torch.full((n_rows,), -1, dtype=torch.int64, device=rows.device)
    place[chosen] = torch.arange(len(chosen), device=rows.device)
    pairs = torch.nonzero(place[rows] >= 0)[:, 0]
    return pairs, place[rows[pairs]]


def _tiles(kernel: str, width: int) -> _Tiles:
    """What was fastest on an H200, for factors of so many numbers."""
    if kernel == "sums":
        return (
            _Tiles(64, 64, {"num_warps": 4, "num_stages": 3})
            if width <= 64
            else _Tiles(64, 64, {"num_warps": 4, "num_stages": 2})
        )
    return (
        _Tiles(64, 64, {"num_warps": 4, "num_stages": 3})
        if width <= 64
        else _Tiles(64, 32, {"num_warps": 4, "num_stages": 2})
    )


def _without(given: dict[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in given.items() if each != name}


def _interpreted() -> bool:
    """Whether Triton runs kernels in Python, for tests where there is no GPU."""
    return bool(triton.knobs.runtime.interpret)


def _free(device: torch.device) -> float:
    return float(torch.cuda.mem_get_info(device)[0])
