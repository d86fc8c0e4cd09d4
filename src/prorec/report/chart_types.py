"""Description of a chart: data, axes, labels and numbers, without a way to draw them.

`prorec.report.svg` draws a description for the page, `prorec.report.plots` with Matplotlib for notebooks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Color = Literal["main", "flag", "dim", "ideal"]
"""Role of a mark: ordinary, flagged, in the background, or the line of an ideal result."""
Values = Sequence[float] | NDArray[np.floating] | NDArray[np.integer]
"""Numbers along an axis."""


@dataclass(frozen=True)
class Axis:
    """One axis of a chart."""

    label: str
    """Text beside the axis."""
    low: float
    """Smallest value shown."""
    high: float
    """Largest value shown."""
    is_log: bool = False
    """Whether the scale is logarithmic."""
    is_percent: bool = False
    """Whether ticks are written in percent."""
    named_ticks: Sequence[tuple[float, str]] | None = None
    """Positions and texts of the ticks, in place of round numbers."""

    def ticks(self) -> list[tuple[float, str]]:
        """Return positions and texts of the ticks.

        >>> Axis("share", 0, 0.45, is_percent=True).ticks()
        [(0.0, '0%'), (0.1, '10%'), (0.2, '20%'), (0.3, '30%'), (0.4, '40%')]
        """
        if self.named_ticks is not None:
            return list(self.named_ticks)
        values = log_ticks(self.low, self.high) if self.is_log else linear_ticks(self.low, self.high)
        return [(value, f"{100 * value:.3g}%" if self.is_percent else format_tick(value)) for value in values]


@dataclass(frozen=True)
class Mark:
    """Something drawn between the axes; the base of all marks."""

    color: Color
    """Role of the mark."""
    label: str = field(default="", kw_only=True)
    """Text in the legend; none if empty."""
    tooltips: Sequence[str] = field(default=(), kw_only=True)
    """One text for each bar or dot, or none."""


@dataclass(frozen=True)
class Bars(Mark):
    """Upright bars."""

    left: Values
    """Left edges."""
    right: Values
    """Right edges."""
    bottom: Values
    """Lower ends."""
    top: Values
    """Upper ends."""


@dataclass(frozen=True)
class Points(Mark):
    """Dots."""

    x: Values
    """Horizontal positions."""
    y: Values
    """Vertical positions."""
    radius: float = 2
    """Radius in pixels."""


@dataclass(frozen=True)
class Line(Mark):
    """A line through points."""

    x: Values
    """Horizontal positions."""
    y: Values
    """Vertical positions."""


@dataclass(frozen=True)
class Intervals(Mark):
    """Upright lines from a lower to an upper value."""

    x: Values
    """Horizontal positions."""
    low: Values
    """Lower ends."""
    high: Values
    """Upper ends."""


@dataclass(frozen=True)
class AxesPlot:
    """Marks between two axes; later marks cover earlier ones."""

    x: Axis
    """Horizontal axis."""
    y: Axis
    """Vertical axis."""
    marks: Sequence[Mark]
    """The marks."""


@dataclass(frozen=True)
class BarList:
    """Horizontal bars below each other, each with a label in front and a text behind."""

    labels: Sequence[str]
    """Label of each bar."""
    values: Sequence[float]
    """Length of each bar."""
    texts: Sequence[str]
    """Value of each bar, as a text."""
    tooltips: Sequence[str]
    """One text for each bar."""


@dataclass(frozen=True)
class Chart:
    """A plot with its title, a caption that states what it shows, and its numbers as a table."""

    key: str
    """Short name, for links."""
    title: str
    """Heading."""
    caption: str
    """Sentences about these data."""
    plot: AxesPlot | BarList
    """What is drawn."""
    columns: Sequence[str]
    """Headers of the table."""
    rows: Sequence[Sequence[str]]
    """Rows of the table, as texts."""


def linear_ticks(low: float, high: float, n: int = 5) -> list[float]:
    """Return about `n` round numbers from `low` to `high`.

    >>> linear_ticks(0, 0.93)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    """
    if not high > low:
        return [low]
    smallest_step = (high - low) / n
    power = 10.0 ** floor(log10(smallest_step))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= smallest_step * (1 - 1e-9))
    return [round(step * index, 12) for index in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return the powers of ten from `low` to `high`, and their multiples by 2 and 5 if the range is short.

    >>> log_ticks(3, 800)
    [5, 10, 20, 50, 100, 200, 500]
    """
    factors = (1, 2, 5) if log10(high / low) < 3 else (1,)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    values = [factor * 10**power for power in powers for factor in factors]
    return [value for value in values if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]


def format_tick(value: float) -> str:
    """Return a number as short as an axis needs it.

    >>> format_tick(0.2), format_tick(12000), format_tick(3.4e6), format_tick(2e-07)
    ('0.2', '12,000', '3.4M', '2e-07')
    """
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
