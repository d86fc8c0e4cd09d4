"""Thresholds on a GPU: the best split of each row, found in a window of values and proved to be the best of all.

A window is guessed from a sample of the row. One pass over the row collects the values within the window and computes
sums that bound the gain of every split outside (`kernels/optimality.py`). If a better split may be outside, that is the
next window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from prorec.transport.gpu_factors import LOG2_E, Product, Users, choose_tiles, is_interpreted, make_descriptors
from prorec.transport.kernels import cuda, optimality
from prorec.transport.kernels.optimality import Interval, Remaining, Survey, concat_rows, take_rows

BUFFER_SIZE = 2048
"""Number of values that each of the four threads of a row may collect."""
_MAX_SEARCHES = 6
_MAX_UNPROVED_CHUNKS = 8
_DEVIATIONS = 4.0  # standard deviations by which the split of a sample may differ from the row's, roughly
_STEP = 32
_WARPS = 4


class UnprovedRows(NamedTuple):
    """Rows whose best split is not proved yet."""

    rows: torch.Tensor
    """Row numbers."""
    users: Users
    """The users' factors."""
    survey: Survey
    """Result of the last survey."""
    remaining: Remaining
    """Values among which the best split may be."""


class RowSplits:
    """The least-squares split of each row (Eq. 20).

    Unproved rows of all chunks are searched again together, because a search takes its time however few they are.

    Parameters
    ----------
    product : Product
        Arguments of the kernels.
    for_users, for_items : tensor
        B of each user and A of each item, natural logarithms.
    chunk_rows : int
        Number of users in a chunk.

    Attributes
    ----------
    kappa, threshold : tensor
        κ and the κ-th largest value of each row.
    total : tensor
        Sum of each row.
    is_proved : tensor
        Whether the split of each row is proved to be the best.
    user_potential, item_potential : tensor
        B and A relative to the largest A, in base 2.
    """

    def __init__(self, product: Product, for_users: torch.Tensor, for_items: torch.Tensor, chunk_rows: int) -> None:
        self._product, self.for_users, self.for_items, self._chunk_rows = product, for_users, for_items, chunk_rows
        n_users, device = len(for_users), for_users.device
        # A row may have any scale. If a user's potential is above the items' largest, the items' make no difference.
        top = for_items.max()
        self.item_potential = torch.full((len(product.items.hi),), -torch.inf, dtype=torch.float32, device=device)
        self.item_potential[: len(for_items)] = ((for_items - top) * LOG2_E).float()
        self.user_potential = torch.clamp((for_users - top) * LOG2_E, max=0.0).float()
        self.kappa = torch.zeros(n_users, dtype=torch.int64, device=device)
        self.threshold = torch.zeros(n_users, dtype=torch.float32, device=device)
        self.total = torch.zeros(n_users, dtype=torch.float64, device=device)
        self.is_proved = torch.zeros(n_users, dtype=torch.bool, device=device)
        self._best_gain = torch.zeros(n_users, dtype=torch.float64, device=device)
        self._unproved: list[UnprovedRows] = []

    def search_chunk(self, start: int, end: int, users: Users) -> None:
        """Search a chunk of rows for the first time.

        Parameters
        ----------
        start, end : int
            First row of the chunk, and the end of the chunk.
        users : Users
            The users' factors.
        """
        n_items = self._product.items.n_items
        part = slice(start, end)
        rows = torch.arange(start, end, device=users.hi.device)
        center, cuts, window = self._guess_windows(users, self.user_potential[part])
        survey, searched = self._search(rows, users, center, cuts, window)
        self.total[part] = n_items * center.double() + survey.total.double()
        # Values that are equal up to rounding cannot be split.
        is_flat = survey.top.double() * n_items - survey.total.double() <= 1e-7 * self.total[part]
        self.kappa[part] = torch.where(is_flat, 1, self.kappa[part])
        self.threshold[part] = torch.where(is_flat, survey.top + center, self.threshold[part])
        infinity = torch.full_like(center, torch.inf)
        limits = Interval(-infinity, infinity)
        remaining = optimality.find_remaining(survey, searched, limits, self._best_gain[part])
        self.is_proved[part] = is_flat | (~remaining.is_open & (self.kappa[part] > 0))
        unproved = torch.nonzero(remaining.is_open & ~is_flat)[:, 0]
        # Their factors stay on the device. If they are too many, the rows are sorted in the end.
        n_unproved = sum(len(each.rows) for each in self._unproved) + len(unproved)
        if n_unproved <= _MAX_UNPROVED_CHUNKS * self._chunk_rows:
            self._unproved.append(take_rows(UnprovedRows(rows, users, survey, remaining), unproved))

    def search_again(self) -> None:
        """Search the unproved rows again where the best split may be, a limited number of times."""
        try:
            for _ in range(_MAX_SEARCHES):
                self._search_unproved()
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()  # the remaining rows are sorted, in smaller parts
        self._unproved = []

    def _search_unproved(self) -> None:
        before, self._unproved = self._unproved, []
        for rows, users, survey, remaining in _batches(before, self._chunk_rows):
            # An interval that may hold too many values is only surveyed with other cuts.
            fits = remaining.max_values <= 0.9 * 4 * BUFFER_SIZE
            window = Interval(*(torch.where(fits, edge, torch.inf) for edge in remaining.interval))
            cuts = optimality.make_cuts(remaining.interval, survey)
            new_survey, searched = self._search(rows, users, survey.center, cuts, window)
            best_gain = torch.maximum(remaining.best_gain, self._best_gain[rows])
            still = optimality.find_remaining(new_survey, searched, remaining.interval, best_gain)
            self.is_proved[rows] = ~still.is_open & (self.kappa[rows] > 0)
            unproved = UnprovedRows(rows, users, new_survey, still)
            self._unproved.append(take_rows(unproved, torch.nonzero(still.is_open)[:, 0]))

    def _guess_windows(self, users: Users, user_potential: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, Interval]:
        """Guess a center, cuts and a window for each row from a sample of its values."""
        items, scale = self._product
        sampled = items.sampled
        n, n_rows, device = len(sampled), len(user_potential), user_potential.device
        values = torch.empty((n_rows, n), dtype=torch.float32, device=device)
        tile = min(n, 64)
        cuda.sample_values[(-(-n_rows // 64), n // tile)](
            *users, items.hi[sampled], items.lo[sampled], items.bias[sampled], self.item_potential[sampled],
            user_potential, values, n_rows, n, scale, **self._product.constants, BM=64, BN=tile,
        )  # fmt: skip
        center, low, high = (torch.empty(n_rows, dtype=torch.float32, device=device) for _ in range(3))
        cuts = torch.empty((n_rows, cuda.CUTS), dtype=torch.float32, device=device)
        cuda.guess_window[(n_rows,)](values, center, cuts, low, high, items.n_items, 4 * BUFFER_SIZE, _DEVIATIONS, N=n)
        return center, cuts, Interval(low, high)

    def _search(
        self, rows: torch.Tensor, users: Users, center: torch.Tensor, cuts: torch.Tensor, window: Interval
    ) -> tuple[Survey, Interval]:
        """Survey rows and keep the best split within their windows; return the survey and the intervals searched."""
        items, scale = self._product
        n_rows, device, n_items = len(rows), rows.device, len(items.hi)
        sums = torch.empty((n_rows, cuda.SUMS + cuda.CUTS), dtype=torch.float32, device=device)
        collected = torch.empty((n_rows, 4, BUFFER_SIZE), dtype=torch.float32, device=device)
        counts = torch.empty((n_rows, 4), dtype=torch.int32, device=device)
        tiles = choose_tiles("survey_rows", users.hi.shape[1])
        user_potential = self.user_potential[rows]
        # Most windows have no upper edge at first. A window with nothing to collect has both edges at ∞.
        is_from_top = torch.isinf(window.high) & ~torch.isinf(window.low)
        n_from_top = is_from_top.sum(dtype=torch.int32)
        order = torch.argsort(is_from_top, descending=True, stable=True).int()
        for from_top, row_numbers, n_selected in (
            (True, order, n_from_top),
            (False, order.flip(0), n_rows - n_from_top),
        ):
            cuda.survey_rows[(-(-n_rows // tiles.users),)](
                *users, *make_descriptors(items[:2], tiles.items), items.bias, self.item_potential,
                user_potential, center, cuts, *window, sums, collected, counts, row_numbers, n_selected,
                n_items, scale, **self._product.constants, BM=tiles.users, BN=tiles.items, BUFFER=BUFFER_SIZE,
                FROM_TOP=from_top, INTERPRETED=is_interpreted(), **tiles.options,
            )  # fmt: skip
        # Padding was added up as values of 0.
        n_padding = n_items - items.n_items
        sums[:, 0] += n_padding * center
        distances = sums[:, cuda.SUMS :].double() - n_padding * (cuts + center[:, None]).abs().double()
        # A window without an upper edge has no cuts above it: its lower edge stands for them.
        half = cuda.CUTS // 2
        cuts = cuts.clone()
        cuts[:, :half] = torch.where(is_from_top[:, None], cuts[:, half : half + 1], cuts[:, :half])
        distances[:, :half] = torch.where(is_from_top[:, None], distances[:, half : half + 1], distances[:, :half])
        kappa = torch.empty(n_rows, dtype=torch.int64, device=device)
        threshold = torch.empty(n_rows, dtype=torch.float32, device=device)
        gain = torch.empty(n_rows, dtype=torch.float64, device=device)
        buffer = torch.empty((n_rows, cuda.MAX_SORTED.value), dtype=torch.float32, device=device)
        cuda.split_window[(n_rows,)](
            collected, counts, center, *window, sums, buffer, kappa, threshold, gain, items.n_items,
            BUFFER=BUFFER_SIZE, STEP=_STEP, num_warps=_WARPS,
        )  # fmt: skip
        is_better = (kappa > 0) & (gain > self._best_gain[rows])
        self.kappa[rows] = torch.where(is_better, kappa, self.kappa[rows])
        self.threshold[rows] = torch.where(is_better, threshold + center, self.threshold[rows])
        self._best_gain[rows] = torch.where(is_better, gain, self._best_gain[rows])
        low = torch.where(kappa >= 0, window.low, torch.inf)
        searched = Interval(low, torch.where(kappa >= 0, window.high, -torch.inf))
        return Survey(center, cuts, distances, sums[:, 0], sums[:, 1], items.n_items), searched


def _batches(parts: list[UnprovedRows], n_rows: int) -> Iterator[UnprovedRows]:
    """Join rows of several chunks, and yield at most `n_rows` of them at a time."""
    parts = [part for part in parts if len(part.rows)]
    if not parts:
        return
    joined = concat_rows(parts)
    n_joined = len(joined.rows)
    for start in range(0, n_joined, n_rows):
        yield take_rows(joined, torch.arange(start, min(start + n_rows, n_joined), device=joined.rows.device))
