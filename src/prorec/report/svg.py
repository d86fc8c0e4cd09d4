"""Charts as inline SVG, coloured by the page's style sheet: they follow light and dark, scale, and print.

matplotlib draws for notebooks and papers; its SVG has colours of its own and is ten times as large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10

import numpy as np
from markupsafe import Markup

from prorec.report.formatting import truncate

WIDTH, HEIGHT = 440, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 66, 14, 14, 46
_ROW = 22
_LETTER = 7.0  # width of a letter, about


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from low to high, about so many.

    >>> ticks(0, 0.93)
    [0.0, 0.2, 0.4, 0.6, 0.8]
    """
    if not high > low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** floor(log10(raw))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= raw * (1 - 1e-9))
    return [round(step * at, 12) for at in range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)]


def powers(low: float, high: float) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, with 2 and 5 where there would be few.

    >>> powers(3, 800)
    [5, 10, 20, 50, 100, 200, 500]
    """
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    factors = (1, 2, 5) if log10(high / low) < 3 else (1,)
    places = [factor * 10**power for power in decades for factor in factors]
    return [place for place in places if low * (1 - 1e-9) <= place <= high * (1 + 1e-9)]


def short(value: float) -> str:
    """A number on an axis.

    >>> short(0.2), short(12000), short(3.4e6), short(2e-07)
    ('0.2', '12,000', '3.4M', '2e-07')
    """
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def percent(value: float) -> str:
    """A share on an axis.

    >>> percent(0.05), percent(0.0025)
    ('5%', '0.25%')
    """
    return f"{100 * value:.3g}%"


@dataclass(frozen=True)
class Scale:
    """From values to places along an axis."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """Where a value is."""
        low, high, at = self.low, self.high, value
        if self.is_log:
            low, high, at = log10(low), log10(high), log10(at)
        return self.start + (at - low) / ((high - low) or 1) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Where to write numbers."""
        return powers(self.low, self.high) if self.is_log else ticks(self.low, self.high)


@dataclass
class Chart:
    """Two axes, and what is drawn between them."""

    x: tuple[float, float]
    y: tuple[float, float]
    x_label: str
    y_label: str
    log: bool = False
    """Whether both axes are logarithmic."""
    x_ticks: Sequence[tuple[float, str]] | None = None
    """Places and words, where the axis has no numbers of its own."""
    y_format: str = "number"
    _marks: list[Markup] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._x = Scale(*self.x, _LEFT, WIDTH - _RIGHT, self.log)
        self._y = Scale(*self.y, HEIGHT - _BOTTOM, _TOP, self.log)

    def bar(self, left: float, right: float, low: float, high: float, kind: str, title: str) -> None:
        """A bar between two places on each axis."""
        a, b, top, bottom = self._x(left), self._x(right), self._y(high), self._y(low)
        self._marks.append(
            Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>')
            .format(kind, a + 0.5, top, max(b - a - 1, 0.5), max(bottom - top, 0), title)
        )  # fmt: skip

    def line(self, xs: Sequence[float], ys: Sequence[float], kind: str) -> None:
        """A line through points."""
        points = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in zip(xs, ys, strict=True))
        self._marks.append(Markup('<polyline class="line {}" points="{}"/>').format(kind, points))

    def dot(self, x: float, y: float, kind: str, title: str = "", radius: float = 2) -> None:
        """A point."""
        words = Markup("<title>{}</title>").format(title) if title else ""
        self._marks.append(
            Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="{}">{}</circle>').format(
                kind, self._x(x), self._y(y), radius, words
            )
        )

    def whisker(self, x: float, low: float, high: float, kind: str) -> None:
        """An upright line between two values."""
        at = self._x(x)
        self._marks.append(
            Markup('<line class="line {}" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>').format(
                kind, at, at, self._y(low), self._y(high)
            )
        )

    def drawn(self, name: str) -> Markup:
        """The chart; its name is for those who don't see it."""
        parts = [*self._y_axis(), *self._marks, *self._x_axis()]
        return _framed(name, HEIGHT, parts)

    def _y_axis(self) -> list[Markup]:
        form = percent if self.y_format == "percent" else short
        parts = []
        for tick in self._y.ticks():
            at = self._y(tick)
            parts.append(Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
                _LEFT, WIDTH - _RIGHT, at, at
            ))  # fmt: skip
            parts.append(_text(_LEFT - 6, at + 4, form(tick), "end"))
        middle = (HEIGHT - _BOTTOM + _TOP) / 2
        turned = Markup(
            '<text class="axis" text-anchor="middle" transform="translate(13 {:.0f}) rotate(-90)">{}</text>'
        )
        return [*parts, turned.format(middle, self.y_label)]

    def _x_axis(self) -> list[Markup]:
        places = self.x_ticks if self.x_ticks is not None else [(tick, short(tick)) for tick in self._x.ticks()]
        base = HEIGHT - _BOTTOM
        parts = [
            Markup('<line class="base" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(_LEFT, WIDTH - _RIGHT, base, base)
        ]
        parts += [_text(self._x(at), base + 17, words, "middle") for at, words in places]
        return [*parts, _text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 8, self.x_label, "middle")]


def rows_chart(
    name: str, labels: Sequence[str], values: Sequence[float], words: Sequence[str], titles: Sequence[str]
) -> Markup:
    """Horizontal bars, each with a label before it and its value, in words, behind; as high as it needs to be."""
    left = min(max(_LETTER * max(map(len, labels)) + 12, 60), 170)
    most_letters = int((left - 12) / _LETTER)
    scale = Scale(0, max(*values, 1e-12), left, WIDTH - 52)
    parts = []
    for at, (label, value, said, title) in enumerate(zip(labels, values, words, titles, strict=True)):
        y = _ROW * at + 6
        parts.append(_text(left - 6, y + 13, truncate(label, most_letters), "end"))
        parts.append(
            Markup('<rect class="main" x="{:.1f}" y="{}" width="{:.1f}" height="{}"><title>{}</title></rect>')
            .format(left, y, max(scale(value) - left, 0.5), _ROW - 6, title)
        )  # fmt: skip
        parts.append(_text(max(scale(value), left) + 5, y + 13, said, "start"))
    return _framed(name, _ROW * len(labels) + 10, parts)


def histogram(values: np.ndarray, bins: int, low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """How many values are in each of some bins of equal width; what is outside counts in the first or last."""
    edges = np.linspace(low, high, bins + 1)
    counts = np.bincount(
        np.clip(
            ((np.asarray(values, dtype=np.float64) - low) / ((high - low) or 1) * bins).astype(np.int64), 0, bins - 1
        ),
        minlength=bins,
    )
    return edges, counts


def _framed(name: str, height: float, parts: Sequence[Markup]) -> Markup:
    frame = Markup('<svg viewBox="0 0 {} {:.0f}" role="img" aria-label="{}" class="chart">{}</svg>')
    return frame.format(WIDTH, height, name, Markup("").join(parts))


def _text(x: float, y: float, words: str, anchor: str) -> Markup:
    return Markup('<text class="axis" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, words)
