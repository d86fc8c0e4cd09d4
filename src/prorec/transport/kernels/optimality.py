"""Bounds that prove a split of a row to be the best, without seeing all values of the row.

With m the mean of a row's N values w and D_κ the sum of its κ largest minus κ·m, the best split has the largest gain
D_κ²·N / (κ·(N − κ)). For any cut c, with H(c) = Σ max(w − c, 0),

    D_κ ≤ H(c) + κ·(c − m),    with equality if κ is the number of values ≥ c.

So cuts give tangents to the path (κ, D_κ), which is concave and lies below all of them. Along a tangent the gain is
convex, hence largest where two tangents meet. A few cuts bound the gain of every split, and two cuts bound the gain of
the splits between them. H needs neither a sort nor a comparison: Σ |w − c| = 2·H(c) + N·c − Σ w.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, cast

import torch

_ROUNDING = 2e-6
"""Relative error of sums of many thousand numbers in single precision: ten times the largest that was seen."""
_TIE = 1e-6

T = TypeVar("T")


class Survey(NamedTuple):
    """Sums over some rows; values are relative to each row's center."""

    center: torch.Tensor
    """A number near the mean of each row."""
    cuts: torch.Tensor
    """Cuts c of each row, descending: rows × cuts."""
    distances: torch.Tensor
    """Σ |w − c| for each cut: rows × cuts."""
    total: torch.Tensor
    """Σ w of each row."""
    top: torch.Tensor
    """The largest w of each row."""
    n_items: int
    """Number of values of a row."""


class Interval(NamedTuple):
    """An interval of values for each row."""

    low: torch.Tensor
    high: torch.Tensor


class Remaining(NamedTuple):
    """Values among which a better split may be."""

    is_open: torch.Tensor
    """Whether there are any, for each row."""
    interval: Interval
    """Interval of these values."""
    max_values: torch.Tensor
    """Upper bound of the number of values in the interval."""
    best_gain: torch.Tensor
    """A gain that some split has, though it may not be known which."""


def take_rows(value: T, rows: torch.Tensor) -> T:
    """Select rows of every tensor in a nested named tuple.

    Parameters
    ----------
    value : tensor or named tuple
        Tensors with one entry per row; other values are kept.
    rows : tensor
        Positions of the rows.

    Returns
    -------
    tensor or named tuple
    """
    result: Any = value
    if isinstance(result, torch.Tensor):
        result = result[rows]
    elif isinstance(result, tuple):
        result = type(result)(*(take_rows(each, rows) for each in result))
    return cast("T", result)


def concat_rows(parts: list[T]) -> T:
    """Concatenate every tensor in nested named tuples, the inverse of `take_rows`.

    Parameters
    ----------
    parts : list of tensor or named tuple
        At least one part; other values are those of the first part.

    Returns
    -------
    tensor or named tuple
    """
    all_parts: Any = parts
    result: Any = parts[0]
    if isinstance(result, torch.Tensor):
        result = torch.cat(all_parts)
    elif isinstance(result, tuple):
        result = type(result)(*(concat_rows(list(each)) for each in zip(*all_parts, strict=True)))
    return cast("T", result)


def find_remaining(survey: Survey, searched: Interval, limits: Interval, best_gain: torch.Tensor) -> Remaining:
    """Find the values among which a split may be better than the best known one.

    Parameters
    ----------
    survey : Survey
        Sums over the rows.
    searched : Interval
        The interval whose splits are all known.
    limits : Interval
        The interval outside of which no better split exists.
    best_gain : tensor
        The largest known gain of each row.

    Returns
    -------
    Remaining
    """
    n = survey.n_items
    cuts, total = survey.cuts.double(), survey.total.double()[:, None]
    center, distances = survey.center.double()[:, None], survey.distances.double()
    mean = total / n
    slack = _ROUNDING * distances
    heights = torch.clamp((distances + total - n * cuts) / 2, min=0)
    # Two more tangents: no value is above the maximum, none below 0.
    top = torch.maximum(survey.top.double()[:, None], cuts[:, :1])
    slopes = torch.cat([top, cuts, -center], dim=1)
    zero = torch.zeros_like(total)
    heights = torch.cat([zero, heights, total + n * center], dim=1)
    slack = torch.cat([zero, slack, zero], dim=1)

    upper, lower = slopes[:, :-1], slopes[:, 1:]
    differs = upper > lower
    gap = torch.where(differs, upper - lower, 1.0)
    raised = heights + slack
    count = (raised[:, 1:] - raised[:, :-1]) / gap
    bound = _gain(count, raised[:, :-1] + count * (upper - mean), n)
    # The number of values ≥ a cut is between the points at which its tangent meets the next two.
    rise, error = heights[:, 1:] - heights[:, :-1], slack[:, 1:] + slack[:, :-1]
    low_count, high_count = ((each / gap).clamp(0, n) for each in (rise - error, rise + error))
    low_end, high_end = torch.where(differs, low_count, 0.0)[:, :-1], torch.where(differs, high_count, float(n))[:, 1:]
    gain = _guaranteed_gain(slopes - mean, heights - slack, low_end, high_end, n)
    best_gain = torch.maximum(best_gain, gain)
    is_searched = (lower >= searched.low[:, None]) & (upper <= searched.high[:, None])
    is_outside = (upper > limits.high[:, None]) | (lower < limits.low[:, None])
    # A threshold is at least halfway between two means: never below half the mean of all values.
    is_too_low = upper <= (mean - center) / 2
    is_open = differs & ~is_searched & ~is_outside & ~is_too_low & (bound >= best_gain[:, None] * (1 - _TIE))

    n_intervals = bound.shape[1]
    positions = torch.arange(n_intervals, device=bound.device)
    first = torch.where(is_open, positions, n_intervals).amin(dim=1, keepdim=True).clamp(max=n_intervals - 1)
    last = torch.where(is_open, positions, -1).amax(dim=1, keepdim=True).clamp(min=0)
    high = torch.where(first == 0, torch.inf, upper.gather(1, first))[:, 0]
    above_high = torch.nn.functional.pad(torch.where(differs, low_count, torch.nan), (1, 0))
    above_low = torch.nn.functional.pad(torch.where(differs, high_count, torch.nan), (0, 1), value=n)
    max_values = above_low.gather(1, last + 1) - above_high.gather(1, first)
    max_values = torch.where(max_values.isnan(), float(n), max_values)[:, 0]
    # Half the mean is a lower edge too, one step lower for its rounding.
    low = torch.maximum(lower.gather(1, last), (mean - center) / 2)[:, 0].float()
    low = torch.where(low > lower.gather(1, last)[:, 0], low - 1e-6 * (low.abs() + survey.center), low)
    return Remaining(is_open.any(dim=1), Interval(low, high.float()), max_values, best_gain)


def make_cuts(interval: Interval, survey: Survey) -> torch.Tensor:
    """Make cuts for the next survey, from the upper edge of an interval to the lower, in equal ratios of values.

    Parameters
    ----------
    interval : Interval
        Values among which a better split may be.
    survey : Survey
        The last survey.

    Returns
    -------
    tensor
        Rows × cuts, descending.
    """
    center = survey.center
    high = torch.minimum(interval.high, torch.maximum(survey.top, interval.low)) + center
    low = torch.clamp(interval.low + center, min=torch.finfo(torch.float32).tiny)
    high = torch.maximum(high, low)
    fraction = torch.linspace(0, 1, survey.cuts.shape[1], device=center.device)
    cuts = high[:, None] * (low / high)[:, None] ** fraction - center[:, None]
    cuts[:, 0] = torch.where(torch.isfinite(interval.high), interval.high, high - center)
    cuts[:, -1] = interval.low
    return torch.cummin(cuts, dim=1).values


def _gain(count: torch.Tensor, distance: torch.Tensor, n: int) -> torch.Tensor:
    """Compute the gain of a split after `count` values, whose sum minus `count` means is `distance`."""
    distance = torch.clamp(distance, min=0)
    inside = (count > 0) & (count < n)
    gain = torch.where(inside, distance**2 * n / torch.where(inside, count * (n - count), 1.0), 0.0)
    return torch.where((count >= n) & (distance > 0), torch.inf, gain)


def _guaranteed_gain(
    slopes: torch.Tensor, heights: torch.Tensor, low_end: torch.Tensor, high_end: torch.Tensor, n: int
) -> torch.Tensor:
    """Compute a gain that the best split has at least.

    The path touches every tangent at some κ from `low_end` to `high_end`. There, the gain is smallest at one of the two
    ends or at κ = hN/(cN + 2h), with h the tangent's height at 0 and c its slope.
    """
    height, slope = torch.clamp(heights, min=0)[:, 1:-1], slopes[:, 1:-1]
    divisor = slope * n + 2 * height
    count = torch.where(divisor > 0, height * n / torch.where(divisor > 0, divisor, 1.0), float(n))
    count = torch.minimum(torch.maximum(count, low_end), torch.maximum(high_end, low_end))
    return torch.where(count < n, _gain(count, height + slope * count, n), 0.0).amax(dim=1)
