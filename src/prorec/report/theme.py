"""Colours and Matplotlib settings that all figures share."""

from __future__ import annotations

from typing import Any

from prorec._core.errors import MissingExtraError
from prorec._core.versions import advise_install

GRAY, RED, BLUE, ORANGE = "#4d4d4d", "#d1495b", "#2e86ab", "#e09f1f"
"""Colours of figures. Red marks flagged interactions and results with denoising, gray results without."""
RC_PARAMS: dict[Any, Any] = {
    "font.size": 13,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.hashsalt": "prorec",  # the same figure gives the same bytes
}
"""Settings for `matplotlib.rc_context`."""


def require_matplotlib() -> None:
    """Check that Matplotlib is installed, before any work is done for a figure.

    Raises
    ------
    MissingExtraError
        If it is not; the message names the extra to install.
    """
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtraError(f"figures need Matplotlib, which is not installed: {advise_install('plots')}") from None
