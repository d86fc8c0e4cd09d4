"""Whether a row's best split can be anywhere but in the window that was looked through.

With m the mean of a row's N values w and D_κ the sum of its κ largest less κ·m, the best split has the largest gain
D_κ²·N / (κ·(N − κ)). For any cut c, with H(c) = Σ max(w − c, 0),

    D_κ ≤ H(c) + κ·(c − m),    and equal where κ is the number of values ≥ c:

cuts give tangents to the path (κ, D_κ), which is concave and so lies below all of them. Along a tangent the gain is
convex, hence largest where two of them meet. A few cuts thus bound the gain of every split there is, and two of them
that of the splits between them. H needs neither a sort nor a comparison: Σ |w − c| = 2·H(c) + N·c − Σ w.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

_ROUNDING = 2e-6
"""What sums of many thousand numbers in single precision may be off by, relatively: ten times what was seen."""
_TIE = 1e-6


class Surveyed(NamedTuple):
    """What a survey of some rows has found; values are distances from each row's centre."""

    centre: torch.Tensor
    cuts: torch.Tensor
    """Rows × cuts, descending."""
    distances: torch.Tensor
    """Rows × cuts: Σ |w − c|."""
    total: torch.Tensor
    top: torch.Tensor
    n_items: int

    def of(self, rows: torch.Tensor) -> Surveyed:
        """What it has found of some of the rows."""
        centre, cuts, distances, total, top, n_items = self
        return Surveyed(centre[rows], cuts[rows], distances[rows], total[rows], top[rows], n_items)


class Span(NamedTuple):
    """Where a better split may be, for each row; `low` and `high` are edges of values."""

    low: torch.Tensor
    high: torch.Tensor

    def of(self, rows: torch.Tensor) -> Span:
        """That of some rows."""
        return Span(self.low[rows], self.high[rows])


class Open(NamedTuple):
    """What is left to look through."""

    rows: torch.Tensor
    """Whether there is anything."""
    span: Span
    n_values: torch.Tensor
    """No more values than that are within the span."""
    best: torch.Tensor
    """A gain that some split is known to have, if not which."""

    def of(self, rows: torch.Tensor) -> Open:
        """What is left of some of the rows."""
        return Open(self.rows[rows], self.span.of(rows), self.n_values[rows], self.best[rows])


def joined(parts: list[Surveyed]) -> Surveyed:
    """What several surveys have found, of rows with as many items."""
    columns = [torch.cat(each) for each in zip(*(part[:-1] for part in parts), strict=True)]
    centre, cuts, distances, total, top = columns
    return Surveyed(centre, cuts, distances, total, top, parts[0].n_items)


def joined_open(parts: list[Open]) -> Open:
    """What is left of all of them."""
    low, high = (torch.cat([part.span[i] for part in parts]) for i in range(2))
    rows, n_values, best = (torch.cat([getattr(part, name) for part in parts]) for name in ("rows", "n_values", "best"))
    return Open(rows, Span(low, high), n_values, best)


def still_open(surveyed: Surveyed, searched: Span, outside: Span, best: torch.Tensor) -> Open:
    """Where a split may be better than the best one that is known.

    Parameters
    ----------
    surveyed : what the survey has found
    searched : the window that was looked through
    outside : where nothing is left to find beyond
    best : the largest gain that was found
    """
    n = surveyed.n_items
    cuts, total = surveyed.cuts.double(), surveyed.total.double()[:, None]
    centre, distances = surveyed.centre.double()[:, None], surveyed.distances.double()
    mean = total / n
    slack = _ROUNDING * distances
    heights = torch.clamp((distances + total - n * cuts) / 2, min=0)
    # Two more tangents: no value is above the largest, none below 0.
    top = torch.maximum(surveyed.top.double()[:, None], cuts[:, :1])
    slopes = torch.cat([top, cuts, -centre], dim=1)
    nothing = torch.zeros_like(total)
    heights = torch.cat([nothing, heights, total + n * centre], dim=1)
    slack = torch.cat([nothing, slack, nothing], dim=1)

    upper, lower = slopes[:, :-1], slopes[:, 1:]
    apart = upper > lower
    gap = torch.where(apart, upper - lower, 1.0)
    raised = heights + slack
    count = (raised[:, 1:] - raised[:, :-1]) / gap
    bound = _gain(count, raised[:, :-1] + count * (upper - mean), n)
    best = torch.maximum(best, _surely(slopes - mean, heights, slack, apart, gap, n))
    is_searched = (lower >= searched.low[:, None]) & (upper <= searched.high[:, None])
    is_outside = (upper > outside.high[:, None]) | (lower < outside.low[:, None])
    # A threshold lies midway between two means or above: never below half the mean of all.
    is_too_low = upper <= (mean - centre) / 2
    is_open = apart & ~is_searched & ~is_outside & ~is_too_low & (bound >= best[:, None] * (1 - _TIE))

    n_spans = bound.shape[1]
    places = torch.arange(n_spans, device=bound.device)
    first = torch.where(is_open, places, n_spans).amin(dim=1, keepdim=True).clamp(max=n_spans - 1)
    last = torch.where(is_open, places, -1).amax(dim=1, keepdim=True).clamp(min=0)
    high = torch.where(first == 0, torch.inf, upper.gather(1, first))[:, 0]
    # Between two cuts, a tangent's meeting point with the next is at a number between theirs.
    counts = torch.nn.functional.pad(torch.where(apart, count, torch.nan), (1, 1))
    counts[:, -1] = n
    n_values = counts.gather(1, last + 2) - counts.gather(1, first)
    n_values = torch.where(n_values.isnan(), float(n), n_values)[:, 0]
    # As edges go, half the mean will do, one step down for its rounding.
    low = torch.maximum(lower.gather(1, last), (mean - centre) / 2)[:, 0].float()
    low = torch.where(low > lower.gather(1, last)[:, 0], low - 1e-6 * (low.abs() + surveyed.centre), low)
    span = Span(low, high.float())
    return Open(is_open.any(dim=1), span, n_values, best)


def spread(span: Span, surveyed: Surveyed) -> torch.Tensor:
    """New cuts for the next survey, from the upper edge of a span to the lower in equal ratios of values."""
    centre = surveyed.centre
    high = torch.minimum(span.high, torch.maximum(surveyed.top, span.low)) + centre
    low = torch.clamp(span.low + centre, min=torch.finfo(torch.float32).tiny)
    high = torch.maximum(high, low)
    share = torch.linspace(0, 1, surveyed.cuts.shape[1], device=centre.device)
    cuts = high[:, None] * (low / high)[:, None] ** share - centre[:, None]
    cuts[:, 0] = torch.where(torch.isfinite(span.high), span.high, high - centre)
    cuts[:, -1] = span.low
    return torch.cummin(cuts, dim=1).values


def _gain(count: torch.Tensor, distance: torch.Tensor, n: int) -> torch.Tensor:
    distance = torch.clamp(distance, min=0)
    inside = (count > 0) & (count < n)
    gain = torch.where(inside, distance**2 * n / torch.where(inside, count * (n - count), 1.0), 0.0)
    return torch.where((count >= n) & (distance > 0), torch.inf, gain)


def _surely(
    slopes: torch.Tensor, heights: torch.Tensor, slack: torch.Tensor, apart: torch.Tensor, gap: torch.Tensor, n: int
) -> torch.Tensor:
    """A gain that the best split has at least.

    The path touches every tangent somewhere between its meeting points with the next two, though we don't know where.
    There, the gain is least at κ = hN/(cN + 2h), h being the tangent's height at 0 and c its slope, or at an end.
    """
    rise, error = heights[:, 1:] - heights[:, :-1], slack[:, 1:] + slack[:, :-1]
    least = torch.where(apart, (rise - error) / gap, 0.0).clamp(0, n)[:, :-1]
    most = torch.where(apart, (rise + error) / gap, float(n)).clamp(0, n)[:, 1:]
    height, slope = torch.clamp(heights - slack, min=0)[:, 1:-1], slopes[:, 1:-1]
    divisor = slope * n + 2 * height
    at = torch.where(divisor > 0, height * n / torch.where(divisor > 0, divisor, 1.0), float(n))
    at = torch.minimum(torch.maximum(at, least), torch.maximum(most, least))
    sure = torch.where(at < n, _gain(at, height + slope * at, n), 0.0)
    return sure.amax(dim=1)
