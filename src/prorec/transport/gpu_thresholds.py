"""Thresholds on a device: the best split of each row, looked for in a window and proved to be the best of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import torch

from prorec.transport.gpu_factors import LOG2_E, Product, Users, described, interpreted, tiles_for
from prorec.transport.kernels import cuda, optimality

ROOM = 2048
"""Values that each of the four threads of a row may collect."""
_LOOKS = 6
_MOST_LEFT = 8  # chunks
_CHANCES = 4.0  # standard deviations, roughly, by which a sample's split may be off
_STEP = 32
_WARPS = 4


class Left(NamedTuple):
    """Rows whose best split is not proved yet, and what is known of them."""

    rows: torch.Tensor
    users: Users
    found: optimality.Surveyed
    open: optimality.Open

    def of(self, chosen: torch.Tensor) -> Left:
        """Some of them."""
        users = Users(self.users.hi[chosen], self.users.lo[chosen])
        return Left(self.rows[chosen], users, self.found.of(chosen), self.open.of(chosen))


class Splits:
    """The least-squares split of each row (Eq. 20), proved where `is_settled` says so.

    A window is guessed from a sample of each row; values within it are collected and split, and what a survey of the
    whole row adds up tells whether a better split may be outside. If so, that is the next window. Rows of all chunks
    are looked at again together: a look takes its time however few they are.

    Attributes
    ----------
    kappa, threshold : κ, and the κ-th largest value
    total : the sum of the row
    """

    def __init__(
        self, product: Product, of_users: torch.Tensor, of_items: torch.Tensor, rows: int, tally: Counter[str]
    ) -> None:
        self._product, self.of_users, self.of_items, self._rows, self._tally = product, of_users, of_items, rows, tally
        n_users, device = len(of_users), of_users.device
        # A row may be scaled by anything: all potentials are relative to the items' largest, and where the user's is
        # above that, the items' make no difference.
        top = of_items.max()
        self.a = torch.full((len(product.items.hi),), -torch.inf, dtype=torch.float32, device=device)
        self.a[: len(of_items)] = ((of_items - top) * LOG2_E).float()
        self.b = torch.clamp((of_users - top) * LOG2_E, max=0.0).float()
        self.kappa = torch.zeros(n_users, dtype=torch.int64, device=device)
        self.threshold = torch.zeros(n_users, dtype=torch.float32, device=device)
        self.total = torch.zeros(n_users, dtype=torch.float64, device=device)
        self.is_settled = torch.zeros(n_users, dtype=torch.bool, device=device)
        self._best = torch.zeros(n_users, dtype=torch.float64, device=device)
        self._left: list[Left] = []

    def look(self, begin: int, end: int, users: Users) -> None:
        """Look at a chunk of rows for the first time."""
        n_items = self._product.items.n_items
        rows = torch.arange(begin, end, device=users.hi.device)
        centre, cuts, window = self._guessed(users, self.b[begin:end])
        found, searched = self._search(rows, users, centre, cuts, window)
        self.total[begin:end] = n_items * centre.double() + found.total.double()
        # Values that are equal but for rounding have nothing to be split by.
        is_flat = found.top.double() * n_items - found.total.double() <= 1e-7 * self.total[begin:end]
        self.kappa[begin:end] = torch.where(is_flat, 1, self.kappa[begin:end])
        self.threshold[begin:end] = torch.where(is_flat, found.top + centre, self.threshold[begin:end])
        endless = torch.full_like(centre, torch.inf)
        left = optimality.still_open(found, searched, optimality.Span(-endless, endless), self._best[begin:end])
        self.is_settled[begin:end] = is_flat | (~left.rows & (self.kappa[begin:end] > 0))
        unproved = torch.nonzero(left.rows & ~is_flat)[:, 0]
        # Their factors stay on the device: those that would be too many are sorted in the end.
        if sum(len(each.rows) for each in self._left) + len(unproved) <= _MOST_LEFT * self._rows:
            self._left.append(Left(rows, users, found, left).of(unproved))
        self._tally["rows"] += end - begin

    def look_on(self) -> None:
        """Look again where the best split may still be, until it is proved or that has been tried often enough."""
        try:
            for _ in range(_LOOKS):
                self._look_again()
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()  # what is not settled will be sorted, in smaller parts
        self._left = []

    def _look_again(self) -> None:
        before, self._left = self._left, []
        for left in _together(before, self._rows):
            self._tally["looked at again"] += len(left.rows)
            span, found = left.open.span, left.found
            # What may hold too many values is only cut again.
            fits = left.open.n_values <= 0.9 * 4 * ROOM
            window = optimality.Span(*(torch.where(fits, edge, torch.inf) for edge in span))
            cuts = optimality.spread(span, found)
            found, searched = self._search(left.rows, left.users, found.centre, cuts, window)
            best = torch.maximum(left.open.best, self._best[left.rows])
            on = optimality.still_open(found, searched, span, best)
            self.is_settled[left.rows] = ~on.rows & (self.kappa[left.rows] > 0)
            self._left.append(Left(left.rows, left.users, found, on).of(torch.nonzero(on.rows)[:, 0]))

    def _guessed(self, users: Users, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, optimality.Span]:
        items, _, scale = self._product
        chosen = items.sampled
        n, n_rows, device = len(chosen), len(b), b.device
        values = torch.empty((n_rows, n), dtype=torch.float32, device=device)
        tile = min(n, 64)
        cuda.sample[(-(-n_rows // 64), n // tile)](
            *users, items.hi[chosen], items.lo[chosen], items.bias[chosen], self.a[chosen], b, values, n_rows, n, scale,
            **self._product.constants, BM=64, BN=tile,
        )  # fmt: skip
        centre, low, high = (torch.empty(n_rows, dtype=torch.float32, device=device) for _ in range(3))
        cuts = torch.empty((n_rows, cuda.CUTS), dtype=torch.float32, device=device)
        cuda.guess[(n_rows,)](values, centre, cuts, low, high, items.n_items, 4 * ROOM, _CHANCES, N=n)
        return centre, cuts, optimality.Span(low, high)

    def _search(
        self, rows: torch.Tensor, users: Users, centre: torch.Tensor, cuts: torch.Tensor, window: optimality.Span
    ) -> tuple[optimality.Surveyed, optimality.Span]:
        """Survey rows and take over what is best within their windows; what was found, and where all was seen."""
        items, _, scale = self._product
        n_rows, device, n_items = len(rows), rows.device, len(items.hi)
        found = torch.empty((n_rows, cuda.SUMS + cuda.CUTS), dtype=torch.float32, device=device)
        collected = torch.empty((n_rows, 4, ROOM), dtype=torch.float32, device=device)
        counts = torch.empty((n_rows, 4), dtype=torch.int32, device=device)
        tiles = tiles_for("survey", users.hi.shape[1])
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
                *users, *described(items[:2], tiles.items), items.bias, self.a, b, centre, cuts, *window, found,
                collected, counts, which, n_which, n_items, scale, **self._product.constants, BM=tiles.users,
                BN=tiles.items, ROOM=ROOM, FROM_TOP=from_top, INTERPRETED=interpreted(), **tiles.how,
            )  # fmt: skip
        # What fills up the last tile is no item, but has been added up as a value of 0.
        none = n_items - items.n_items
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
            collected, counts, centre, *window, found, spare, kappa, threshold, best, items.n_items, ROOM=ROOM,
            STEP=_STEP, num_warps=_WARPS,
        )  # fmt: skip
        is_better = (kappa > 0) & (best > self._best[rows])
        self.kappa[rows] = torch.where(is_better, kappa, self.kappa[rows])
        self.threshold[rows] = torch.where(is_better, threshold + centre, self.threshold[rows])
        self._best[rows] = torch.where(is_better, best, self._best[rows])
        low = torch.where(kappa >= 0, window.low, torch.inf)
        searched = optimality.Span(low, torch.where(kappa >= 0, window.high, -torch.inf))
        return optimality.Surveyed(centre, cuts, distances, found[:, 0], found[:, 1], items.n_items), searched


def _together(parts: list[Left], rows: int) -> Iterator[Left]:
    """All of them, so many at a time."""
    parts = [part for part in parts if len(part.rows)]
    if not parts:
        return
    whole = Left(
        torch.cat([part.rows for part in parts]),
        Users(*(torch.cat([part.users[i] for part in parts]) for i in range(2))),
        optimality.joined([part.found for part in parts]),
        optimality.joined_open([part.open for part in parts]),
    )
    for begin in range(0, len(whole.rows), rows):
        yield whole.of(torch.arange(begin, min(begin + rows, len(whole.rows)), device=whole.rows.device))
