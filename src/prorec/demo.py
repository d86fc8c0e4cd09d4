"""What `prorec demo` shows: the made-up film club, and how well a plain baseline does on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table

from prorec.data._titles import GENRES
from prorec.data.cinema import MISTAKE, ORIGINS, TASTE, Cinema, make_cinema
from prorec.data.splits import split_by_user
from prorec.evaluation import Evaluation, evaluate
from prorec.models import Popularity

_MEANING = ("a film of a genre they like", "real interest in a related genre", "nothing to do with what they like")
_STYLE = ("green", "cyan", "red")
_BARS = "▁▂▃▄▅▆▇█"


def run_demo(console: Console, seed: int = 0) -> None:
    """Make the cinema, show it, and judge the popularity baseline on it."""
    club = make_cinema(seed=seed)
    parts = split_by_user(club.interactions, (0.5, 0.2, 0.3), seed=seed)
    train = parts.train_and_valid
    result = evaluate(Popularity().fit(train), parts.test, k=10)
    told = train.with_weights(train.columns["origin"] != MISTAKE)
    told_result = evaluate(Popularity().fit(told), parts.test, k=10)
    console.print(_described(club))
    console.print(_member(club))
    console.print(_judged(result, told_result))


def _described(club: Cinema) -> RenderableType:
    clicks = club.interactions
    table = Table(title_justify="left", box=None, pad_edge=False)
    table.add_column("clicks that are")
    table.add_column("number", justify="right")
    table.add_column("share", justify="right")
    table.add_column("meaning")
    for code, (name, meaning) in enumerate(zip(ORIGINS, _MEANING, strict=True)):
        count = int((clicks.columns["origin"] == code).sum())
        table.add_row(f"[{_STYLE[code]}]{name}", f"{count:,}", f"{count / len(clicks):.0%}", meaning)
    curves = Table.grid(padding=(0, 2))
    for what, values in (("clicks of a user", clicks.activity), ("clicks on a film", clicks.popularity)):
        low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
        curves.add_row(what, _curve(values), f"median {middle:.0f}, 80% in {low:.0f}–{high:.0f}")
    return Panel(
        Group(
            f"{clicks.n_users:,} users, {clicks.n_items:,} films, {len(clicks):,} clicks. "
            "Made up, so the truth about every click is known.\n",
            table,
            "\nFrom the most to the least, on a log scale:",
            curves,
        ),
        title="The cinema, a synthetic film club",
        title_align="left",
    )


def _curve(values: NDArray[np.int64], width: int = 24) -> str:
    """Values from the largest to the smallest, as a row of bars on a log scale."""
    means = [part.mean() for part in np.array_split(np.sort(values)[::-1], width)]
    heights = np.log1p(means) / np.log1p(means[0])
    return "".join(_BARS[min(int(height * len(_BARS)), len(_BARS) - 1)] for height in heights)


def _member(club: Cinema) -> RenderableType:
    """One user with a mistake or two among not too many clicks: what a denoiser should see through."""
    clicks = club.interactions
    mistakes = np.bincount(clicks.user_codes[club.is_mistake], minlength=clicks.n_users)
    user = int(np.argmin(np.abs(clicks.activity - 12) + 10 * (mistakes != 2)))
    row = slice(clicks.matrix.indptr[user], clicks.matrix.indptr[user + 1])
    films, origins = clicks.item_codes[row], clicks.columns["origin"][row]
    table = Table(box=None, pad_edge=False)
    for name in ("film", "genres", "what the click was"):
        table.add_column(name)
    # A few of what they like, everything else whole.
    shown = np.concatenate([np.flatnonzero(origins == TASTE)[:5], np.flatnonzero(origins != TASTE)])
    assert clicks.item_names is not None
    assert clicks.item_categories is not None
    for at in shown:
        film, origin = films[at], origins[at]
        name = f"[{_STYLE[origin]}]{ORIGINS[origin]}"
        table.add_row(str(clicks.item_names[film]), ", ".join(clicks.item_categories[film]), name)
    order = np.argsort(-club.tastes[user])
    tastes = ", ".join(
        f"{GENRES[genre]} ({club.tastes[user, genre]:.0%})" for genre in order if club.tastes[user, genre]
    )
    return Panel(
        Group(f"likes {tastes}\n", table),
        title=f"User {clicks.users[user]}, {len(shown)} of {len(films)} clicks",
        title_align="left",
    )


def _judged(result: Evaluation, told: Evaluation) -> RenderableType:
    table = Table(box=None, pad_edge=False)
    table.add_column("top 10, the same for everybody")
    table.add_column("popularity", justify="right")
    table.add_column("95% interval", justify="right")
    table.add_column("told the mistakes", justify="right")
    for name, value in result.mean.items():
        between = "–".join(f"{end:.4f}" for end in result.interval(name)) if name in result.per_user else ""
        table.add_row(name, f"{value:.4f}", between, f"{told.mean[name]:.4f}")
    return Panel(
        Group(
            "Trained on 70% of each user's clicks, judged by the other 30%, mistakes and all.\n",
            table,
            "\nThis is the line that anything personal must beat. The last column is what popularity would score if "
            "somebody took the mistakes out of its training data: about the same. It has little to be misled about.",
        ),
        title=f"A baseline, judged on {len(result.users):,} users",
        title_align="left",
    )
