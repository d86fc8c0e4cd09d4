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


class Open(NamedTuple):
    """Where a better split may still be."""

    rows: torch.Tensor
    """Whether there is any such place."""
    low: torch.Tensor
    high: torch.Tensor


def still_open(surveyed: Surveyed, low: torch.Tensor, high: torch.Tensor, best: torch.Tensor) -> Open:
    """In which rows a split outside of the window [low, high) may be better than the best one within, and where."""
    n = surveyed.n_items
    cuts, total = surveyed.cuts.double(), surveyed.total.double()[:, None]
    centre, distances = surveyed.centre.double()[:, None], surveyed.distances.double()
    mean = total / n
    slack = _ROUNDING * distances
    intercepts = torch.clamp((distances + total - n * cuts) / 2, min=0) + slack
    # Two more tangents: no value is above the largest, none below 0.
    top = torch.maximum(surveyed.top.double()[:, None], cuts[:, :1])
    slopes = torch.cat([top, cuts, -centre], dim=1)
    nothing = torch.zeros_like(total)
    intercepts = torch.cat([nothing, intercepts, total + n * centre], dim=1)

    upper, lower = slopes[:, :-1], slopes[:, 1:]
    apart = upper > lower
    gap = torch.where(apart, upper - lower, 1.0)
    count = (intercepts[:, 1:] - intercepts[:, :-1]) / gap
    distance = torch.clamp(intercepts[:, :-1] + count * (upper - mean), min=0)
    inside = (count > 0) & (count < n)
    bound = torch.where(inside, distance**2 * n / torch.where(inside, count * (n - count), 1.0), 0.0)
    bound = torch.where((count >= n) & (distance > 0), torch.inf, bound)
    is_within = (lower >= low[:, None]) & (upper <= high[:, None])
    # A threshold lies midway between two means or above: never below half the mean of all.
    is_too_low = upper <= (mean - centre) / 2
    is_open = apart & ~is_within & ~is_too_low & (bound >= best[:, None] * (1 - _TIE))
    places = torch.arange(bound.shape[1], device=bound.device)
    first = torch.where(is_open, places, bound.shape[1]).amin(dim=1).clamp(max=bound.shape[1] - 1)
    last = torch.where(is_open, places, -1).amax(dim=1).clamp(min=0)
    highest = torch.where(first == 0, torch.inf, upper.gather(1, first[:, None])[:, 0])
    return Open(is_open.any(dim=1), lower.gather(1, last[:, None])[:, 0].float(), highest.float())
