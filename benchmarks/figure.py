"""Figures of the documentation, as SVG files that are the same bytes for the same numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FIGURES = Path(__file__).parent.parent / "docs" / "figures"


def make_axes(n_rows: int, n_columns: int, size: tuple[float, float]) -> tuple[Any, Any]:
    """Return a matplotlib figure and its array of axes, ready to be saved without a display."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "prorec"
    from matplotlib import pyplot

    return pyplot.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)


def save_svg(figure: Any, name: str) -> None:
    """Write a figure into the documentation's folder of figures, without a date."""
    figure.savefig(FIGURES / f"{name}.svg", metadata={"Date": None, "Creator": None})
