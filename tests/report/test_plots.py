"""Figures, read back from Matplotlib and compared with the denoiser's arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from scipy.sparse import random_array

mpl.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from prorec import Interactions, MissingExtraError, ProRec
from prorec._core.errors import InputError, NotFittedError
from prorec.models import NCE, Popularity
from prorec.report import plot_loss, plot_thresholds, plot_user_matrix, plot_weights, plots
from prorec.report.theme import RED
from prorec.report.user_matrices import find_neighbors, select_items


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    yield
    pyplot.close("all")


def make_clicks(n_users: int = 60, n_items: int = 40) -> Interactions:
    """Make random clicks; one user has all items, one has none, and one item has a long name with $ signs."""
    matrix = random_array((n_users, n_items), density=0.2, rng=1, format="lil", dtype=np.float32)
    matrix[matrix != 0] = 1
    matrix[3] = np.ones((1, n_items))
    matrix[5] = 0
    users, items = [f"u{index}" for index in range(n_users)], [f"i{index}" for index in range(n_items)]
    names = {item: f"film {item}" for item in items}
    names["i0"] = "It costs $5_ or $_6 and its name is long"
    return Interactions.from_matrix(matrix.tocsr(), users=users, items=items).with_item_info(names)


@pytest.fixture(scope="module")
def denoiser() -> ProRec:
    return ProRec(NCE(rank=4), rounds=3, flag_fraction=0.1, tolerance=0.0, noise_method="plan").fit(
        make_clicks(), track_loss=True
    )


def test_bars_count_all_weights_and_red_ones_the_flagged(denoiser: ProRec) -> None:
    axes = plot_weights(denoiser)
    bars = [each for each in axes.patches if isinstance(each, Rectangle)]
    assert sum(bar.get_height() for bar in bars) == len(denoiser.interactions_)
    flagged = [bar for bar in bars if to_rgb(bar.get_facecolor()) == to_rgb(RED)]
    assert sum(bar.get_height() for bar in flagged) == denoiser.flagged_.sum() > 0
    # The other colour stands on top of the red bars, so that no bar hides another.
    weights = denoiser.weights_.data.astype(np.float64)
    for bar in flagged:
        low, width = bar.get_x(), bar.get_width()
        assert bar.get_y() == 0
        others = [each for each in bars if each is not bar and each.get_x() == low]
        assert [each.get_y() for each in others] == [bar.get_height()]
        inside = (weights >= low) & (weights < low + width)
        assert bar.get_height() + others[0].get_height() == pytest.approx(inside.sum(), abs=1)  # one on the edge
    assert f"flagged: {denoiser.flagged_.sum()}" in legend_of(axes)
    assert f"{denoiser.history_[-1].mass_kept:.0%}" in axes.get_title()


def legend_of(axes: Axes) -> list[str]:
    legend = axes.get_legend()
    assert legend is not None
    return [each.get_text() for each in legend.get_texts()]


def test_points_are_the_kappa_of_every_user(denoiser: ProRec) -> None:
    axes = plot_thresholds(denoiser)
    activity, kappa = denoiser.interactions_.activity, denoiser.thresholds_.kappa
    is_active = activity > 0
    assert not is_active.all()
    points = np.asarray(axes.collections[0].get_offsets())
    np.testing.assert_array_equal(points, np.column_stack([activity[is_active], kappa[is_active]]))
    assert axes.get_xscale() == axes.get_yscale() == "log"
    # The groups end at the eighths of the users, in order of activity.
    edges = sorted({float(np.quantile(activity[is_active], eighth / 8)) for eighth in range(9)})
    expected = []
    for low, high in pairwise(edges):
        group = is_active & (activity >= low) & ((activity < high) | (high == edges[-1]))
        if group.any():
            expected.append((np.median(activity[group]), np.median(kappa[group])))
    np.testing.assert_array_equal(np.asarray(axes.lines[0].get_xydata()), expected)
    assert len(expected) > 3


def test_sample_of_many_users_is_drawn_and_named(denoiser: ProRec, monkeypatch: pytest.MonkeyPatch) -> None:
    medians = np.asarray(plot_thresholds(denoiser).lines[0].get_xydata())
    monkeypatch.setattr(plots, "_N_POINTS", 20)
    axes = plot_thresholds(denoiser)
    points = np.asarray(axes.collections[0].get_offsets())
    assert len(points) == 20
    everybody = {*zip(denoiser.interactions_.activity, denoiser.thresholds_.kappa, strict=True)}
    assert {tuple(point) for point in points.astype(int).tolist()} <= everybody
    assert any("20 of 59 users" in text for text in legend_of(axes))
    assert axes.collections[0].get_rasterized()
    np.testing.assert_array_equal(np.asarray(axes.lines[0].get_xydata()), medians)  # medians are over all users


@pytest.mark.parametrize("user", ["u0", "u3"])
def test_cells_are_the_weights(denoiser: ProRec, user: str) -> None:
    interactions = denoiser.interactions_
    before, after = plot_user_matrix(denoiser, user)
    row = int(user[1:])
    rows = [row, *find_neighbors(interactions.matrix, np.array([row]), 7)[0]]
    columns = select_items(interactions.matrix, denoiser.weights_.data, row, 24)
    assert [each.get_text() for each in before.get_yticklabels()] == [f"u{index}" for index in rows]
    flagged = denoiser.weights_.copy()
    flagged.data = denoiser.flagged_.astype(np.float32)
    red = {(patch.get_y() // 1, patch.get_x() // 1) for patch in after.patches if isinstance(patch, Rectangle)}
    expected = set()
    for axes, matrix in ((before, interactions.matrix), (after, denoiser.weights_)):
        cells = axes.collections[0].get_array()
        assert isinstance(cells, np.ma.MaskedArray)
        mask = np.ma.getmaskarray(cells)
        assert cells.shape == (len(rows), len(columns))
        for i, index in enumerate(rows):
            # Each row is shaded from its smallest to its largest weight.
            weights = [matrix[index, column] for column in columns if interactions.matrix[index, column] > 0]
            low, high = min(weights), max(weights)
            for j, column in enumerate(columns):
                is_clicked = interactions.matrix[index, column] > 0
                assert is_clicked != mask[i, j]
                if is_clicked:
                    expected_shade = (matrix[index, column] - low) / (high - low) if high > low else 1
                    assert cells[i, j] == pytest.approx(expected_shade, abs=1e-6)
                    if flagged[index, column]:
                        expected.add((i, j))
    assert red == expected
    assert ("red: flagged" in after.get_title()) == bool(expected)
    if user == "u3":
        assert before.get_xlabel() == "12 largest | 12 smallest weights of the user's 40 items"
    assert before.yaxis_inverted()  # the user is on top


def test_names_are_truncated_and_not_formulas(denoiser: ProRec) -> None:
    interactions = denoiser.interactions_
    assert interactions.item_names is not None
    before, _ = plot_user_matrix(denoiser, "u3")
    names = [each.get_text() for each in before.get_xticklabels()]
    assert all(len(name) <= 30 for name in names)
    assert {name for name in names if not name.endswith("…")} <= set(interactions.item_names)
    has_item = interactions.matrix[:, [0]].toarray().ravel() > 0
    user = interactions.users[np.flatnonzero(has_item & (interactions.activity <= 24))[0]]
    before, _ = plot_user_matrix(denoiser, user)
    (label,) = [each for each in before.get_xticklabels() if each.get_text() == "It costs $5_ or $_6 and its n…"]
    assert not label.get_parse_math()
    before.figure.canvas.draw()  # which fails on half a formula


def test_items_without_names_show_their_ids() -> None:
    interactions = make_clicks()
    unnamed = ProRec(Popularity(), noise_method="plan").fit(Interactions.from_matrix(interactions.matrix))
    before, _ = plot_user_matrix(unnamed, 0)
    own = {str(item) for item in interactions.matrix[[0]].indices}
    assert {each.get_text() for each in before.get_xticklabels()} == own


def heights(axes: Axes) -> list[float]:
    return [each.get_height() for each in axes.patches if isinstance(each, Rectangle)]


def test_loss_of_each_step_and_weight_kept(denoiser: ProRec) -> None:
    axes = plot_loss(denoiser)
    rounds = denoiser.history_
    assert len(rounds) == 4
    expected: list[float] = []
    for each in rounds:
        assert each.loss_refitted is not None
        if each.number:
            assert each.loss_before is not None
            assert each.loss_relabeled is not None
            assert each.loss_before.total == pytest.approx(expected[-1])  # a round starts where the last one ended
            expected.append(each.loss_relabeled.total)
        expected.append(each.loss_refitted.total)
    np.testing.assert_array_equal(heights(axes), expected)
    (right,) = [each for each in axes.figure.axes if each is not axes]
    (line,) = right.lines
    # Bar n is between n and n + 1. A round has two bars, the first fit has one.
    points = [(2 * each.number + 0.5, each.mass_kept) for each in rounds]
    np.testing.assert_array_equal(np.asarray(line.get_xydata()), points)


def test_loss_without_the_last_fit_ends_with_the_relabelling() -> None:
    denoiser = ProRec(NCE(rank=4), noise_method="plan").fit(make_clicks(), refit=False, track_loss=True)
    axes = plot_loss(denoiser)
    first, last = denoiser.history_
    assert first.loss_refitted is not None
    assert last.loss_relabeled is not None
    assert heights(axes) == [first.loss_refitted.total, last.loss_relabeled.total]
    (right,) = [each for each in axes.figure.axes if each is not axes]
    assert np.asarray(right.lines[0].get_xdata()).tolist() == [0.5, 1.5]


def test_loss_must_be_tracked() -> None:
    with pytest.raises(InputError, match="track_loss=True"):
        plot_loss(ProRec(NCE(rank=4), noise_method="plan").fit(make_clicks()))


@pytest.mark.parametrize("plot", [plot_weights, plot_thresholds, plot_loss])
def test_given_axes_are_used_and_returned(denoiser: ProRec, plot: Callable[..., Axes]) -> None:
    figure, ax = pyplot.subplots()
    assert plot(denoiser, ax) is ax
    assert ax.has_data()
    assert pyplot.get_fignums() == [figure.number]
    own = plot(denoiser)
    assert isinstance(own.figure, Figure)
    assert own.figure.number in pyplot.get_fignums()  # so that a notebook shows it
    for axes in (ax, own):
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        assert axes.get_title()
    with pytest.raises(InputError, match=r"ax must be Matplotlib Axes, .*; got Figure"):
        plot(denoiser, figure)


@pytest.mark.parametrize("container", [tuple, list, np.asarray])
def test_two_given_axes_are_before_and_after(denoiser: ProRec, container: Callable[..., Any]) -> None:
    figure, ax = pyplot.subplots(1, 2)
    before, after = plot_user_matrix(denoiser, "u0", container(ax))
    assert (before, after) == tuple(ax)
    assert before.get_title() == "before: every click has weight 1"
    assert after.get_title().startswith("after: weights 0.")
    assert figure.axes == list(ax)  # no colour bar is added
    assert len(plot_user_matrix(denoiser, "u0")[0].figure.axes) == 3


def test_bad_arguments_are_refused(denoiser: ProRec) -> None:
    figure, ax = pyplot.subplots()
    bad: Sequence[Any] = (ax, [ax], [ax, figure], "left")
    for wrong in bad:
        with pytest.raises(InputError, match="ax must be two Matplotlib Axes"):
            plot_user_matrix(denoiser, "u0", wrong)
    with pytest.raises(InputError, match=r"one of the 60 users .*; got 'nobody'"):
        plot_user_matrix(denoiser, "nobody")
    with pytest.raises(InputError, match="'u5' has no interactions"):
        plot_user_matrix(denoiser, "u5")
    assert pyplot.get_fignums() == [figure.number]  # no empty figure is left behind


def test_unfitted_denoiser_is_refused() -> None:
    unfitted = ProRec(NCE(), noise_method="plan")
    for plot in (plot_weights, plot_thresholds, plot_loss, partial(plot_user_matrix, user=1)):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            plot(unfitted)


def test_missing_matplotlib_names_the_extra(denoiser: ProRec, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'matplotlib>="):
        plot_weights(denoiser)


def test_settings_are_restored(denoiser: ProRec) -> None:
    before = dict(mpl.rcParams)
    axes = plot_weights(denoiser)
    assert not axes.spines["top"].get_visible()
    assert dict(mpl.rcParams) == before
