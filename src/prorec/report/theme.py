"""What all figures have in common: colours, letters and lines."""

from __future__ import annotations

from typing import Any

from prorec._core.errors import InputError

PLAIN, DENOISED, CEILING, PAPER = "#4d4d4d", "#d1495b", "#2e86ab", "#e09f1f"
"""Without denoising, with it, the best there could be, and what was published; elsewhere, four that go together."""
RC_PARAMS: dict[Any, Any] = {
    "font.size": 13,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.hashsalt": "prorec",  # the same figure, the same bytes
}


def require_matplotlib() -> None:
    """Refuse to draw where there is nothing to draw with."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise InputError("figures need Matplotlib, which is not installed: pip install 'prorec[report]'") from None
