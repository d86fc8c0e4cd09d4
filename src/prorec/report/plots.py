"""Figures of a fitted denoiser for notebooks, drawn with Matplotlib.

Charts that the page has too are drawn from the same description (`prorec.report.charts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError
from prorec.denoise.noise_table import user_row
from prorec.report.chart_types import AxesPlot, Bars, Chart, Line, Points
from prorec.report.charts import describe_loss, describe_thresholds, describe_weights
from prorec.report.findings import Findings, collect_findings
from prorec.report.formatting import truncate
from prorec.report.theme import BLUE, ORANGE, RC_PARAMS, RED, require_matplotlib
from prorec.report.user_matrices import find_neighbors, select_items

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from prorec.denoise.denoiser import ProRec

_N_POINTS = 20_000
_N_NEIGHBORS, _N_ITEMS = 7, 24
_NAME_LENGTH = 30
_PALEST, _DARKEST = 0.12, 0.9  # of the colour map: the palest cell must differ from an empty one


def plot_weights(denoiser: ProRec, ax: Axes | None = None) -> Axes:
    """Plot the histogram of the weights after relabelling, with flagged interactions in another colour.

    Parameters
    ----------
    denoiser : ProRec
        A fitted denoiser.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    NotFittedError
        If the denoiser is not fitted.
    InputError
        If `ax` is not Axes.
    MissingExtraError
        If Matplotlib is not installed.
    """
    return _plot_chart(describe_weights(collect_findings(denoiser)), ax)


def plot_thresholds(denoiser: ProRec, ax: Axes | None = None) -> Axes:
    """Plot κ, the number of items above a user's threshold, against the user's activity.

    Both scales are logarithmic. The line goes through the medians of eight groups of users of similar activity. Users
    without interactions are left out. Of more than 20,000 users a random sample is drawn; medians are over all users.

    Parameters
    ----------
    denoiser : ProRec
        A fitted denoiser.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    NotFittedError
        If the denoiser is not fitted.
    InputError
        If `ax` is not Axes, or fewer than two users have interactions.
    MissingExtraError
        If Matplotlib is not installed.
    """
    chart = describe_thresholds(collect_findings(denoiser), _N_POINTS)
    if chart is None:
        raise InputError("plot_thresholds needs at least two users with interactions; the log has fewer")
    return _plot_chart(chart, ax)


def plot_loss(denoiser: ProRec, ax: Axes | None = None) -> Axes:
    """Plot the loss L after each step of Algorithm 1 (left axis), and the share of weight that is kept (right axis).

    Steps are the first fit, and the relabelling and the refit of each round. Proposition 2 of the paper says that L
    decreases with each step.

    Parameters
    ----------
    denoiser : ProRec
        A denoiser fitted with `track_loss=True`.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes
        The left axes.

    Raises
    ------
    NotFittedError
        If the denoiser is not fitted.
    InputError
        If `ax` is not Axes, or the loss was not recorded.
    MissingExtraError
        If Matplotlib is not installed.
    """
    findings = collect_findings(denoiser)
    chart = describe_loss(findings)
    if chart is None:
        raise InputError("the loss of each round was not recorded, or is 0; call fit(…, track_loss=True)")
    axes = _plot_chart(chart, ax)
    rounds = np.array([each.number for each in findings.history])
    last_step = np.minimum(2 * rounds, len(chart.rows) - 1)  # without a refit, a round ends with the relabelling
    with _open_axes(axes, 1):
        right = axes.twinx()
        right.plot(
            last_step + 0.5, [each.mass_kept for each in findings.history], "^--", color=RED, label="weight kept"
        )
        right.set(ylabel="share of weight kept", ylim=(0, 1.05))
        right.grid(visible=False)
        right.spines["right"].set_visible(True)
        right.legend(fontsize=10)
    return axes


def plot_user_matrix(denoiser: ProRec, user: Any, ax: tuple[Axes, Axes] | None = None) -> tuple[Axes, Axes]:
    """Plot the weights around one user before and after denoising, as in Figure 3 of the paper.

    Rows are the user and the seven most similar users. Columns are the user's items, in order of falling weight; of
    more than 24 items, the 12 with the largest and the 12 with the smallest weights. Each row is shaded by its own
    weights, from its smallest (pale) to its largest (dark), and a red cell is a flagged interaction.

    Parameters
    ----------
    denoiser : ProRec
        A fitted denoiser.
    user : Any
        Id of the user.
    ax : tuple of two matplotlib Axes, optional
        Axes for before and after; a new figure by default.

    Returns
    -------
    tuple of two matplotlib Axes

    Raises
    ------
    NotFittedError
        If the denoiser is not fitted.
    InputError
        If `ax` is not two Axes, or the user is unknown or has no interactions.
    MissingExtraError
        If Matplotlib is not installed.
    """
    findings = collect_findings(denoiser)
    interactions = findings.interactions
    row = user_row(interactions, user)
    if not interactions.activity[row]:
        raise InputError(f"user {safe_repr(user)} has no interactions; choose a user who has some")
    neighbors = find_neighbors(interactions.matrix, np.array([row]), _N_NEIGHBORS)[0]
    rows = np.append(row, neighbors[neighbors >= 0])
    columns = select_items(interactions.matrix, findings.weights, row, _N_ITEMS)
    positions = interactions.pair_positions(np.repeat(rows, len(columns)), np.tile(columns, len(rows)))
    positions = positions.reshape(len(rows), len(columns))
    cells = [np.ma.array(each[positions], mask=positions < 0) for each in (interactions.matrix.data, findings.weights)]
    flagged = (positions >= 0) & findings.flagged[positions]
    size = (2.2 + 0.44 * max(len(columns), 10), 2.9 + 0.27 * len(rows))  # a notebook is 12 inches wide
    with _open_axes(ax, 2, size, grid=False) as (before, after):
        from matplotlib.patches import Rectangle

        for axes, values, name in ((before, cells[0], "before"), (after, cells[1], "after")):
            mesh = _draw_cells(axes, values)
            low, high = values.min(), values.max()
            title = f"every click has weight {low:.2g}" if low == high else f"weights {low:.2f} to {high:.2f}"
            axes.set_title(f"{name}: {title}")
            _label_cells(axes, findings, rows, columns)
        after.set(yticklabels=[], ylabel="")
        if ax is None:
            bar = after.figure.colorbar(mesh, ax=[before, after], label="weight, within the row", pad=0.01)
            bar.set_ticks([0, 1], labels=["smallest", "largest"])
        if flagged.any():
            for y, x in np.argwhere(flagged).tolist():
                after.add_patch(Rectangle((x + 0.04, y + 0.04), 0.92, 0.92, color=RED, lw=0))
            after.set_title(f"{after.get_title()} (red: flagged)")
    return before, after


def _plot_chart(chart: Chart, ax: Any) -> Axes:
    """Draw bars, points and lines with their axes, legend and title."""
    plot = chart.plot
    assert isinstance(plot, AxesPlot)
    with _open_axes(ax, 1) as (axes,):
        for mark in plot.marks:
            style: dict[str, Any] = {"color": RED if mark.color == "flag" else BLUE, "label": mark.label or None}
            match mark:
                case Bars():
                    left, bottom = np.asarray(mark.left), np.asarray(mark.bottom)
                    axes.bar(left, mark.top - bottom, mark.right - left, bottom, align="edge", **style)
                case Points():
                    is_dim = mark.color == "dim"
                    style |= {"alpha": 0.35 if is_dim else 1, "rasterized": is_dim}
                    axes.scatter(mark.x, mark.y, s=3 * mark.radius**2, linewidths=0, **style)
                case Line():
                    axes.plot(mark.x, mark.y, lw=2, **style)
                case _:
                    raise NotImplementedError(type(mark).__name__)
        for axis, name in ((plot.x, "x"), (plot.y, "y")):
            if axis.is_log:
                axes.set(**{f"{name}scale": "log"})
            axes.set(**{f"{name}label": axis.label})
            positions, texts = zip(*axis.ticks(), strict=True)
            (axes.set_xticks if name == "x" else axes.set_yticks)(positions, texts)
        axes.minorticks_off()
        axes.set_title(f"{chart.title}\n{fill(chart.caption.partition('. ')[0], 70)}", fontsize=11)
        if any(mark.label for mark in plot.marks):
            axes.legend(fontsize=10)
    return axes


@contextmanager
def _open_axes(
    ax: Any, n: int, size: tuple[float, float] = (7.2, 4.8), *, grid: bool = True
) -> Iterator[tuple[Axes, ...]]:
    """Yield `n` Axes, the given ones or those of a new figure, with the settings of the theme for the block."""
    require_matplotlib()
    import matplotlib
    from matplotlib.axes import Axes

    if ax is None:
        # Notebooks show only figures that pyplot knows. The first figure selects pyplot's back end, which the end of
        # rc_context would undo.
        from matplotlib import pyplot

        figure = pyplot.figure(figsize=size, layout="constrained")
    with matplotlib.rc_context({**RC_PARAMS, "axes.grid": grid}):
        if ax is None:
            yield tuple(figure.subplots(1, n, squeeze=False)[0])
            return
        several = isinstance(ax, tuple | list | np.ndarray)
        axes = (ax,) if n == 1 else tuple(ax) if several else ()
        if len(axes) != n or not all(isinstance(each, Axes) for each in axes):
            expected = "Matplotlib Axes" if n == 1 else "two Matplotlib Axes, for before and after"
            given = f"{len(ax)} values" if several else type(ax).__name__
            raise InputError(f"ax must be {expected}, or left out for a new figure; got {given}")
        yield axes


def _draw_cells(axes: Axes, values: Any) -> Any:
    """Draw cells, the first row on top, each row shaded by its own values; masked cells stay empty."""
    import matplotlib
    from matplotlib.colors import ListedColormap

    shades = ListedColormap(matplotlib.colormaps["Blues"](np.linspace(_PALEST, _DARKEST, 256)))
    low, high = values.min(axis=1, keepdims=True), values.max(axis=1, keepdims=True)
    # A row of equal weights is dark.
    shade = 1 - (high - values) / np.where(high > low, high - low, 1)
    mesh = axes.pcolormesh(shade, cmap=shades, vmin=0, vmax=1, edgecolors="white", lw=1.5)
    axes.invert_yaxis()
    return mesh


def _label_cells(axes: Axes, findings: Findings, rows: NDArray[Any], columns: NDArray[np.int32]) -> None:
    """Write users and items beside the cells, and mark the gap between largest and smallest weights."""
    interactions = findings.interactions
    names = interactions.items if interactions.item_names is None else interactions.item_names
    items, users = (
        [truncate(str(each), _NAME_LENGTH) for each in ids] for ids in (names[columns], interactions.users[rows])
    )
    plain: dict[str, Any] = {"parse_math": False}  # a name with $ signs is not a formula
    axes.set_xticks(np.arange(len(columns)) + 0.5, items, rotation=90, fontsize=9, **plain)
    axes.set_yticks(np.arange(len(rows)) + 0.5, users, fontsize=10, **plain)
    axes.get_yticklabels()[0].set_fontweight("bold")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_ylabel("user and similar users" if len(rows) > 1 else "user", fontsize=10)
    activity, n_smallest = int(interactions.activity[rows[0]]), len(columns) // 2
    if activity > len(columns):
        n_largest = len(columns) - n_smallest
        axes.axvline(n_largest, color=ORANGE, linestyle=":", lw=2)
        axes.set_xlabel(f"{n_largest} largest | {n_smallest} smallest weights of the user's {activity:,} items")
    else:
        axes.set_xlabel("the user's items, in order of falling weight")
