"""Charts as inline SVG for the page.

The page's style sheet colours them, so that they follow the light and the dark theme. Matplotlib's SVG has fixed
colours and is ten times as large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log10
from typing import Any

from markupsafe import Markup

from prorec.report.chart_types import AxesPlot, Axis, BarList, Bars, Chart, Intervals, Line, Mark, Points
from prorec.report.formatting import truncate

WIDTH, HEIGHT = 440, 270
"""Size of a chart in pixels, before it is scaled to the page."""
LEFT, RIGHT, TOP, BOTTOM = 66, 14, 14, 46
"""Margins of a chart in pixels."""
_ROW_HEIGHT = 22
_LETTER_WIDTH = 7.0  # on average

Scale = Callable[[float], float]


def draw_svg(chart: Chart) -> Markup:
    """Draw a chart as an SVG element.

    Parameters
    ----------
    chart : Chart
        Description of the chart. Its title becomes the label for screen readers.

    Returns
    -------
    Markup
        The element. Texts in it are escaped.
    """
    if isinstance(chart.plot, BarList):
        height, parts = _ROW_HEIGHT * len(chart.plot.labels) + 10, list(_draw_bar_list(chart.plot))
    else:
        height, parts = HEIGHT, list(_draw_plot(chart.plot))
    contents = Markup("").join(parts)
    attributes = {"viewBox": f"0 0 {WIDTH} {height}", "role": "img", "aria-label": chart.title, "class": "chart"}
    return _element("svg", contents, **attributes)


def _draw_plot(plot: AxesPlot) -> Iterator[Markup]:
    """Yield the elements of a plot, from back to front."""
    x, y = _make_scale(plot.x, LEFT, WIDTH - RIGHT), _make_scale(plot.y, HEIGHT - BOTTOM, TOP)
    base = HEIGHT - BOTTOM
    for value, text in plot.y.ticks():
        yield _line("grid", LEFT, WIDTH - RIGHT, y(value), y(value))
        yield _text(LEFT - 6, y(value) + 4, text, "end")
    turn = f"translate(13 {(base + TOP) / 2:.0f}) rotate(-90)"
    yield _element("text", plot.y.label, **{"class": "axis", "text-anchor": "middle", "transform": turn})
    for mark in plot.marks:
        yield from _draw_mark(mark, x, y)
    yield _line("base", LEFT, WIDTH - RIGHT, base, base)
    for value, text in plot.x.ticks():
        yield _text(x(value), base + 17, text, "middle")
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, plot.x.label, "middle")


def _draw_mark(mark: Mark, x: Scale, y: Scale) -> Iterator[Markup]:
    match mark:
        case Bars():
            bars = zip(mark.left, mark.right, mark.bottom, mark.top, mark.tooltips, strict=True)
            for left, right, low, high, tooltip in bars:
                if high != low:
                    width = max(x(right) - x(left) - 1, 0.5)
                    yield _rectangle(mark.color, x(left) + 0.5, y(high), width, max(y(low) - y(high), 0), tooltip)
        case Points():
            for index, (a, b) in enumerate(zip(mark.x, mark.y, strict=True)):
                title = _element("title", mark.tooltips[index]) if mark.tooltips else ""
                yield _element("circle", title, **{"class": mark.color}, cx=x(a), cy=y(b), r=mark.radius)
        case Line():
            points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(mark.x, mark.y, strict=True))
            yield _element("polyline", **{"class": f"line {mark.color}"}, points=points)
        case Intervals():
            for a, low, high in zip(mark.x, mark.low, mark.high, strict=True):
                yield _line(f"line {mark.color}", x(a), x(a), y(low), y(high))


def _draw_bar_list(bars: BarList) -> Iterator[Markup]:
    """Yield the elements of horizontal bars; long labels are cut."""
    left = min(max(_LETTER_WIDTH * max(map(len, bars.labels)) + 12, 60), 170)
    n_letters = int((left - 12) / _LETTER_WIDTH)
    scale = _make_scale(Axis("", 0, max(*bars.values, 1e-12)), left, WIDTH - 52)
    rows = zip(bars.labels, bars.values, bars.texts, bars.tooltips, strict=True)
    for index, (label, value, text, tooltip) in enumerate(rows):
        top, end = _ROW_HEIGHT * index + 6, scale(value)
        yield _text(left - 6, top + 13, truncate(label, n_letters), "end")
        yield _rectangle("main", left, top, max(end - left, 0.5), _ROW_HEIGHT - 6, tooltip)
        yield _text(end + 5, top + 13, text, "start")


def _make_scale(axis: Axis, start: float, end: float) -> Scale:
    """Return the function from values on an axis to pixels from `start` to `end`."""
    transform: Scale = log10 if axis.is_log else float
    low, high = transform(axis.low), transform(axis.high)
    return lambda value: start + (transform(value) - low) / ((high - low) or 1) * (end - start)


def _element(tag: str, contents: str = "", **attributes: Any) -> Markup:
    """Return an element; all texts but `Markup` are escaped, and pixels are rounded to tenths."""
    pairs = [(name, f"{value:.1f}" if isinstance(value, float) else value) for name, value in attributes.items()]
    text = Markup("").join(Markup(' {}="{}"').format(*pair) for pair in pairs)
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), text, contents)


def _line(css_class: str, x1: float, x2: float, y1: float, y2: float) -> Markup:
    return _element("line", **{"class": css_class}, x1=x1, x2=x2, y1=y1, y2=y2)


def _rectangle(css_class: str, x: float, y: float, width: float, height: float, tooltip: str) -> Markup:
    title = _element("title", tooltip)
    return _element("rect", title, **{"class": css_class}, x=x, y=y, width=width, height=height)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return _element("text", text, **{"class": "axis", "text-anchor": anchor}, x=x, y=y)
