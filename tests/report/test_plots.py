"""What is drawn is what was found: read back from the figures, and held against the denoiser's own arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial

import matplotlib as mpl
import numpy as np
import pytest
from scipy.sparse import random_array

mpl.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from prorec import Interactions, ProRec
from prorec._core.errors import InputError, NotFittedError
from prorec.models import NCE, Popularity
from prorec.report import plot_loss, plot_thresholds, plot_user_matrix, plot_weights, plots
from prorec.report.theme import DENOISED
from prorec.report.user_matrices import find_neighbors, select_items


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    pyplot.close("all")


def clicks_of(n_users: int = 60, n_items: int = 40) -> Interactions:
    """At random; one user has clicked on everything, one on nothing, and one item has a long name with $ in it."""
    matrix = random_array((n_users, n_items), density=0.2, rng=1, format="lil", dtype=np.float32)
    matrix[matrix != 0] = 1
    matrix[3] = np.ones((1, n_items))
    matrix[5] = 0
    known = Interactions.from_matrix(
        matrix.tocsr(), users=[f"u{at}" for at in range(n_users)], items=[f"i{at}" for at in range(n_items)]
    )
    names = {item: f"film {item}" for item in known.items}
    return known.with_item_info(names | {"i0": "It costs $5_ or $_6 and its name is long"})


@pytest.fixture(scope="module")
def denoiser() -> ProRec:
    return ProRec(NCE(rank=4), rounds=3, flag_fraction=0.1, tolerance=0.0).fit(clicks_of(), track_loss=True)


def test_the_bars_are_all_interactions_and_the_red_ones_the_flagged(denoiser: ProRec) -> None:
    axis = plot_weights(denoiser)
    bars = [each for each in axis.patches if isinstance(each, Rectangle)]
    assert sum(bar.get_height() for bar in bars) == len(denoiser.interactions_)
    flagged = [bar for bar in bars if to_rgb(bar.get_facecolor()) == to_rgb(DENOISED)]
    assert sum(bar.get_height() for bar in flagged) == denoiser.flagged_.sum() > 0
    # No bar begins where another one is: the two colours are on top of each other, not one behind the other.
    weights = denoiser.weights_.data.astype(np.float64)
    for bar in flagged:
        low, width = bar.get_x(), bar.get_width()
        over = [each for each in bars if each is not bar and each.get_x() == low]
        assert [each.get_y() for each in over] == [bar.get_height()]
        inside = (weights >= low) & (weights < low + width)
        assert bar.get_height() + over[0].get_height() == pytest.approx(inside.sum(), abs=1)  # one on the edge
    assert axis.get_legend() is not None
    assert f"flagged: {denoiser.flagged_.sum()}" in [each.get_text() for each in axis.get_legend().get_texts()]


def test_the_points_are_everybodys_kappa(denoiser: ProRec) -> None:
    axis = plot_thresholds(denoiser)
    activity, kappa = denoiser.interactions_.activity, denoiser.thresholds_.kappa
    here = activity > 0
    assert not here.all()
    points = np.asarray(axis.collections[0].get_offsets())
    np.testing.assert_array_equal(points, np.column_stack([activity[here], kappa[here]]))
    assert axis.get_xscale() == axis.get_yscale() == "log"
    median = axis.lines[0].get_xydata()
    expected = []
    for low in (1, 2, 4, 8, 16, 32):
        group = (activity >= low) & (activity < 2 * low)
        if group.any():
            expected.append((np.median(activity[group]), np.median(kappa[group])))
    np.testing.assert_array_equal(median, expected)


def test_of_very_many_users_some_are_drawn_and_the_title_says_so(
    denoiser: ProRec, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = plot_thresholds(denoiser).lines[0].get_xydata()
    monkeypatch.setattr(plots, "_POINTS", 20)
    axis = plot_thresholds(denoiser)
    points = np.asarray(axis.collections[0].get_offsets())
    assert len(points) == 20
    everybody = {*zip(denoiser.interactions_.activity, denoiser.thresholds_.kappa, strict=True)}
    assert {tuple(point) for point in points.astype(int).tolist()} <= everybody
    assert "20 of 59 users" in axis.get_title()
    assert axis.collections[0].get_rasterized()
    np.testing.assert_array_equal(axis.lines[0].get_xydata(), whole)  # medians are everybody's


@pytest.mark.parametrize("user", ["u0", "u3"])
def test_the_cells_are_the_weights(denoiser: ProRec, user: str) -> None:
    known = denoiser.interactions_
    before, after = plot_user_matrix(denoiser, user)
    row = int(user[1:])
    rows = [row, *find_neighbors(known.matrix, np.array([row]), 7)[0]]
    columns = select_items(known.matrix, denoiser.weights_.data, row, 24)
    assert [each.get_text() for each in before.get_yticklabels()] == [f"u{at}" for at in rows]
    flagged = denoiser.weights_.copy()
    flagged.data = denoiser.flagged_.astype(np.float32)
    frames = {(patch.get_y() // 1, patch.get_x() // 1) for patch in after.patches if isinstance(patch, Rectangle)}
    expected = set()
    for axis, matrix in ((before, known.matrix), (after, denoiser.weights_)):
        cells = axis.collections[0].get_array()
        assert cells.shape == (len(rows), len(columns))
        for i, at in enumerate(rows):
            for j, column in enumerate(columns):
                clicked = known.matrix[at, column] > 0
                assert clicked != cells.mask[i, j]
                if clicked:
                    assert cells[i, j] == matrix[at, column]
                    if flagged[at, column]:
                        expected.add((i, j))
    assert frames == expected
    assert ("framed" in after.get_title()) == bool(expected)
    ends = before.get_xlabel()
    assert ends == ("of the user's 40 items, the 12 heaviest | the 12 lightest" if user == "u3" else ends)
    assert before.yaxis_inverted()  # the user on top


def test_names_are_cut_and_no_formulas(denoiser: ProRec) -> None:
    before, _ = plot_user_matrix(denoiser, "u3")
    names = [each.get_text() for each in before.get_xticklabels()]
    assert all(len(name) <= 30 for name in names)
    assert {name for name in names if not name.endswith("…")} <= set(denoiser.interactions_.item_names)
    known = denoiser.interactions_
    has_it = known.matrix[:, [0]].toarray().ravel() > 0
    before, _ = plot_user_matrix(denoiser, known.users[np.flatnonzero(has_it & (known.activity <= 24))[0]])
    (label,) = [each for each in before.get_xticklabels() if each.get_text() == "It costs $5_ or $_6 and its n…"]
    assert not label.get_parse_math()
    before.figure.canvas.draw()  # which would fail on half a formula


def test_items_without_names_are_called_by_their_ids() -> None:
    known = clicks_of()
    bare = ProRec(Popularity()).fit(Interactions.from_matrix(known.matrix))
    before, _ = plot_user_matrix(bare, 0)
    own = {str(item) for item in known.matrix[[0]].indices}
    assert {each.get_text() for each in before.get_xticklabels()} == own


def test_the_history_is_that_of_the_rounds(denoiser: ProRec) -> None:
    axis = plot_loss(denoiser)
    lines = {line.get_label(): line for line in (line for each in axis.figure.axes for line in each.lines)}
    rounds = denoiser.history_
    assert len(rounds) == 4
    expected = {
        "before the round": [(each.number - 1, each.loss_before.total) for each in rounds[1:]],
        "relabelled": [(each.number - 0.5, each.loss_relabeled.total) for each in rounds[1:]],
        "refitted": [(each.number, each.loss_refitted.total) for each in rounds],
        "weight kept (right)": [(each.number, each.mass_kept) for each in rounds],
    }
    for label, points in expected.items():
        np.testing.assert_array_equal(lines[label].get_xydata(), points)


def test_a_run_without_the_last_fit_has_no_point_for_it() -> None:
    axis = plot_loss(ProRec(NCE(rank=4)).fit(clicks_of(), refit=False, track_loss=True))
    (line,) = [line for line in axis.lines if line.get_label() == "refitted"]
    assert line.get_xdata().tolist() == [0]


def test_the_loss_must_have_been_tracked() -> None:
    with pytest.raises(InputError, match="track_loss=True"):
        plot_loss(ProRec(NCE(rank=4)).fit(clicks_of()))


@pytest.mark.parametrize("plot", [plot_weights, plot_thresholds, plot_loss])
def test_given_axes_are_drawn_on_and_returned(denoiser: ProRec, plot: Callable[..., Axes]) -> None:
    figure, given = pyplot.subplots()
    assert plot(denoiser, given) is given
    assert given.has_data()
    assert pyplot.get_fignums() == [figure.number]
    own = plot(denoiser)
    assert own.figure.number in pyplot.get_fignums()  # so a notebook shows it
    for axis in (given, own):
        assert axis.get_xlabel()
        assert axis.get_ylabel()
        assert axis.get_title()
    with pytest.raises(InputError, match="ax must be Matplotlib Axes, or left out; got Figure"):
        plot(denoiser, figure)


@pytest.mark.parametrize("kind", [tuple, list, np.asarray])
def test_two_given_axes_are_before_and_after(denoiser: ProRec, kind: type) -> None:
    figure, given = pyplot.subplots(1, 2)
    before, after = plot_user_matrix(denoiser, "u0", kind(given))
    assert (before, after) == tuple(given)
    assert before.get_title() == "before: every click weighs 1"
    assert after.get_title().startswith("after: weights 0.")
    assert figure.axes == list(given)  # nothing more, such as a colour bar
    assert len(plot_user_matrix(denoiser, "u0")[0].figure.axes) == 3


def test_what_cannot_be_drawn_is_refused(denoiser: ProRec) -> None:
    figure, axis = pyplot.subplots()
    for wrong in (axis, [axis], [axis, figure], "left"):
        with pytest.raises(InputError, match="ax must be two Matplotlib Axes"):
            plot_user_matrix(denoiser, "u0", wrong)
    with pytest.raises(InputError, match=r"one of the 60 users .*; got 'nobody'"):
        plot_user_matrix(denoiser, "nobody")
    with pytest.raises(InputError, match="'u5' has no interactions"):
        plot_user_matrix(denoiser, "u5")
    assert pyplot.get_fignums() == [figure.number]  # and no empty figure is left behind


def test_before_fit_there_is_nothing_to_draw() -> None:
    unfitted = ProRec(NCE())
    for plot in (plot_weights, plot_thresholds, plot_loss, partial(plot_user_matrix, user=1)):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            plot(unfitted)


def test_without_matplotlib_the_extra_is_named(denoiser: ProRec, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'prorec\[report\]'"):
        plot_weights(denoiser)


def test_the_style_ends_with_the_figure(denoiser: ProRec) -> None:
    before = dict(mpl.rcParams)
    axis: Axes = plot_weights(denoiser)
    assert not axis.spines["top"].get_visible()
    assert dict(mpl.rcParams) == before
