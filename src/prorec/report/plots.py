"""Figures of a fitted denoiser, drawn by Matplotlib for notebooks.

Each function draws on the given Axes, or on those of a new figure, and returns them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prorec._core.errors import InputError
from prorec.denoise.noise_table import user_row
from prorec.report.theme import CEILING, DENOISED, PAPER, PLAIN, RC_PARAMS, require_matplotlib
from prorec.report.user_matrices import find_neighbors, select_items

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from prorec.denoise.denoiser import ProRec
    from prorec.denoise.loss import Loss
    from prorec.interactions import Interactions

_BINS = 40
_POINTS = 20_000
_NEIGHBOURS, _ITEMS = 7, 24
_LETTERS = 30  # of an item's name
_PALEST, _DARKEST = 0.12, 0.9  # of the colour map: the palest must not look as if there were nothing


def plot_weights(denoiser: ProRec, ax: Axes | None = None) -> Axes:
    """How many interactions have which weight after relabelling; those that are flagged in another colour."""
    with _open_axes(denoiser, ax, 1, (7.2, 4.4)) as (axis,):
        weights, flagged = denoiser.weights_.data.astype(np.float64), denoiser.flagged_
        low, high = np.floor(weights.min() * 20) / 20, np.ceil(weights.max() * 20) / 20
        edges = np.linspace(low, max(high, low + 0.05), _BINS + 1)
        bottom = np.zeros(_BINS)
        # The flagged ones are few: on top of the others they would be lost.
        for which, label, colour in ((flagged, "flagged", DENOISED), (~flagged, "not flagged", CEILING)):
            counts = np.histogram(weights[which], edges)[0]
            axis.bar(
                edges[:-1], counts, np.diff(edges), bottom, align="edge", color=colour, label=_counted(label, which)
            )
            bottom += counts
        kept = denoiser.history_[-1].mass_kept
        axis.set(
            title=f"Weights after relabelling: {kept:.0%} of all weight is kept",
            xlabel="weight",
            ylabel="interactions",
        )
        axis.legend(fontsize=10)
    return axis


def plot_thresholds(denoiser: ProRec, ax: Axes | None = None) -> Axes:
    """Each user's κ, how many items are above the threshold, against how many the user has clicked on.

    Both are on logarithmic scales; users without interactions are left out. The line goes through the medians of
    users with 1, 2 to 3, 4 to 7, … interactions. Of more than 20,000 users, as many are drawn at random; medians
    are over all of them.
    """
    with _open_axes(denoiser, ax, 1, (7.2, 4.8)) as (axis,):
        activity = denoiser.interactions_.activity
        here = np.flatnonzero(activity)
        activity, kappa = activity[here], denoiser.thresholds_.kappa[here]
        shown, about = np.arange(len(here)), f"{len(here):,} users"
        if len(here) > _POINTS:
            shown = np.sort(np.random.default_rng(0).choice(len(here), _POINTS, replace=False))
            about = f"{_POINTS:,} of {len(here):,} users, at random"
        axis.scatter(
            activity[shown],
            kappa[shown],
            s=10,
            alpha=0.35,
            linewidths=0,
            color=CEILING,
            label="a user",
            rasterized=True,
        )
        bins = np.floor(np.log2(activity))
        groups = [bins == each for each in np.unique(bins)]
        places = [np.median(activity[group]) for group in groups]
        axis.plot(
            places,
            [np.median(kappa[group]) for group in groups],
            "o-",
            lw=2,
            color=DENOISED,
            label="median of users with 1, 2–3, 4–7, … interactions",
        )
        axis.set(
            title=f"How many items are above each user's threshold\n({about})",
            xlabel="activity: interactions of the user",
            ylabel="κ: items above the threshold",
            xscale="log",
            yscale="log",
        )
        _plain_numbers(axis)
        axis.legend(fontsize=10)
    return axis


def plot_user_matrix(denoiser: ProRec, user: Any, ax: tuple[Axes, Axes] | None = None) -> tuple[Axes, Axes]:
    """The paper's Figure 3 around one user: who clicked on what, before and after.

    In rows the user and the seven users most like them, in columns the user's items, heaviest first; where there
    are more than 24, the 12 heaviest and the 12 lightest. The darker, the more a click weighs; what is flagged has
    a frame.

    Parameters
    ----------
    user : the user's id
    ax : two Axes, for before and after
    """
    denoiser._check_fitted()
    known = denoiser.interactions_
    row = user_row(known, user)
    if not known.activity[row]:
        raise InputError(f"user {user!r} has no interactions: there is nothing to show")
    near = find_neighbors(known.matrix, np.array([row]), _NEIGHBOURS)[0]
    rows = np.append(row, near[near >= 0])
    columns = select_items(known.matrix, denoiser.weights_.data, row, _ITEMS)
    size = (2.2 + 0.44 * max(len(columns), 10), 2.9 + 0.27 * len(rows))  # a notebook has room for 12 inches
    with _open_axes(denoiser, ax, 2, size, grid=False) as (before, after):
        places = known.pair_positions(np.repeat(rows, len(columns)), np.tile(columns, len(rows)))
        places = places.reshape(len(rows), len(columns))
        values = [
            np.ma.array(weights[places], mask=places < 0) for weights in (known.matrix.data, denoiser.weights_.data)
        ]
        low, high = min(float(each.min()) for each in values), max(float(each.max()) for each in values)
        for axis, cells, when in zip((before, after), values, ("before", "after"), strict=True):
            mesh = _cells(axis, cells, low, high)
            least, largest = cells.min(), cells.max()
            weighs = f"every click weighs {least:.2g}" if least == largest else f"weights {least:.2f} to {largest:.2f}"
            axis.set_title(f"{when}: {weighs}")
            _name(axis, known, rows, columns)
        after.set(yticklabels=[], ylabel="")
        if ax is None:
            axis.figure.colorbar(mesh, ax=[before, after], label="weight", pad=0.01)
        framed = _frame(after, (places >= 0) & denoiser.flagged_[places])
        if framed:
            after.set_title(f"{after.get_title()} (framed: flagged)")
    return before, after


def plot_loss(denoiser: ProRec, ax: Axes | None = None) -> Axes:
    """The loss L before each round, with its new weights, and with its new model; and the weight that was kept.

    L is on the left axis, the share of weight on the right one. Proposition 2 says that L goes down with each step.
    """
    denoiser._check_fitted()
    if denoiser.history_[0].loss_refitted is None:
        raise InputError("plot_loss requires recorded losses, and this denoiser has none; fit it with track_loss=True")
    with _open_axes(denoiser, ax, 1, (7.2, 4.4)) as (axis,):
        rounds = denoiser.history_
        steps: dict[str, list[tuple[float, Loss | None]]] = {
            "before the round": [(each.number - 1, each.loss_before) for each in rounds],
            "relabelled": [(each.number - 0.5, each.loss_relabeled) for each in rounds],
            "refitted": [(each.number, each.loss_refitted) for each in rounds],
        }
        path = sorted((at, loss.total) for each in steps.values() for at, loss in each if loss is not None)
        axis.plot([at for at, _ in path], [loss for _, loss in path], color=PLAIN, lw=1, alpha=0.5)
        for (label, points), marker, colour in zip(steps.items(), "osD", ("none", DENOISED, PLAIN), strict=True):
            there = [(at, loss.total) for at, loss in points if loss is not None]
            size = 11 if marker == "o" else 7  # the model before the round is the last one's: around its point
            axis.plot(
                [at for at, _ in there],
                [loss for _, loss in there],
                marker,
                ms=size,
                mfc=colour,
                mec=PLAIN if colour == "none" else colour,
                label=label,
            )
        kept = axis.twinx()
        kept.plot(
            [each.number for each in rounds],
            [each.mass_kept for each in rounds],
            "^--",
            color=CEILING,
            label="weight kept (right)",
        )
        kept.grid(visible=False)
        kept.spines["right"].set_visible(True)
        kept.set(ylabel="share of weight kept", ylim=(0, 1.05))
        axis.set(title="The loss, round by round", xlabel="round (0: the first fit)", ylabel="L, the loss")
        axis.set_ylim(bottom=0)
        axis.set_xticks([each.number for each in rounds][:: -(-len(rounds) // 12)])
        lines = [*axis.get_legend_handles_labels()[0], *kept.get_legend_handles_labels()[0]]
        axis.legend(handles=lines, fontsize=10, loc="lower left")  # both lines come from the upper left
    return axis


@contextmanager
def _open_axes(
    denoiser: ProRec, given: Any, count: int, size: tuple[float, float], *, grid: bool = True
) -> Iterator[tuple[Axes, ...]]:
    """The Axes to draw on, given or those of a new figure, in the style of the house.

    The style ends with the figure: others of the notebook stay as they are.
    """
    denoiser._check_fitted()
    require_matplotlib()
    import matplotlib

    figure = None
    if given is None:
        # Only a figure that pyplot knows is shown by a notebook. Not within the style: the first one settles how
        # all are shown, which would be taken back with it.
        from matplotlib import pyplot

        figure = pyplot.figure(figsize=size, layout="constrained")
    with matplotlib.rc_context({**RC_PARAMS, "axes.grid": grid}):
        yield _checked(given, count) if figure is None else tuple(figure.subplots(1, count, squeeze=False)[0])


def _checked(given: Any, count: int) -> tuple[Axes, ...]:
    from matplotlib.axes import Axes

    several = tuple(given) if isinstance(given, tuple | list | np.ndarray) else ()
    axes = (given,) if count == 1 else several
    if len(axes) != count or not all(isinstance(axis, Axes) for axis in axes):
        wanted = "Matplotlib Axes" if count == 1 else "two Matplotlib Axes, for before and after"
        raise InputError(f"ax must be {wanted}, or left out; got {_said(given)}")
    return axes


def _said(given: Any) -> str:
    return f"{len(given)} of them" if isinstance(given, tuple | list | np.ndarray) else type(given).__name__


def _counted(label: str, which: NDArray[np.bool_]) -> str:
    return f"{label}: {np.count_nonzero(which):,}"


def _plain_numbers(axis: Axes) -> None:
    """10 and 1,000 rather than powers of ten."""
    from matplotlib.ticker import StrMethodFormatter

    for each in (axis.xaxis, axis.yaxis):
        each.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def _cells(axis: Axes, cells: Any, low: float, high: float) -> Any:
    """Shaded boxes, the first row on top; nothing where there was no click."""
    import matplotlib
    from matplotlib.colors import ListedColormap

    shades = ListedColormap(matplotlib.colormaps["Blues"](np.linspace(_PALEST, _DARKEST, 256)))
    # Where all weigh the same, they are as dark as can be.
    mesh = axis.pcolormesh(
        cells, cmap=shades, vmin=low if low < high else 0, vmax=high or 1, edgecolors="white", lw=1.5
    )
    axis.invert_yaxis()
    return mesh


def _frame(axis: Axes, which: NDArray[np.bool_]) -> int:
    from matplotlib.patches import Rectangle

    found = np.argwhere(which)
    for row, column in found.tolist():
        axis.add_patch(Rectangle((column + 0.06, row + 0.06), 0.88, 0.88, fill=False, edgecolor=DENOISED, lw=2))
    return len(found)


def _name(axis: Axes, known: Interactions, rows: NDArray[Any], columns: NDArray[np.int32]) -> None:
    names = known.items if known.item_names is None else known.item_names
    items, users = ([_short(each) for each in ids] for ids in (names[columns], known.users[rows]))
    how: dict[str, Any] = {"parse_math": False}  # what costs $5 is no formula
    axis.set_xticks(np.arange(len(columns)) + 0.5, items, rotation=90, fontsize=9, **how)
    axis.set_yticks(np.arange(len(rows)) + 0.5, users, fontsize=10, **how)
    axis.get_yticklabels()[0].set_fontweight("bold")
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    axis.set_ylabel("user, and those most like them" if len(rows) > 1 else "user", fontsize=10)
    activity = int(known.activity[rows[0]])
    if activity > len(columns):
        half = len(columns) // 2
        axis.axvline(len(columns) - half, color=PAPER, linestyle=":", lw=2)
        axis.set_xlabel(f"of the user's {activity:,} items, the {len(columns) - half} heaviest | the {half} lightest")
    else:
        axis.set_xlabel("the user's items, heaviest first")


def _short(name: Any) -> str:
    text = str(name)
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1].rstrip()}…"
