"""`prorec demo`: denoise a synthetic film club whose mistakes are known."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table

from prorec._core.sharing import share_results
from prorec._core.versions import advise_install
from prorec.cli.command import Options, as_command
from prorec.cli.console import make_table, print_plain
from prorec.cli.output_files import check_report
from prorec.data.cinema import MISTAKE, ORIGINS, Cinema, make_cinema
from prorec.data.films import GENRES
from prorec.data.splits import split_by_user
from prorec.denoise import ProRec
from prorec.denoise.controls import make_control, shuffle_weights
from prorec.evaluation import compare, detection_metrics, evaluate
from prorec.models import NCE, Popularity
from prorec.models.recommendations import Recommender
from prorec.noise import NoiseFinder
from prorec.report.page import write_report

_MEANINGS = ("a film of a genre they like", "real interest in a related genre", "nothing to do with what they like")
_STYLES = ("green", "cyan", "red")
_BARS = "▁▂▃▄▅▆▇█"
_RANK = 20  # chosen on a validation part
_FOLDS = 5  # more folds find a little more, and take longer
_FDR = 0.6  # kept for every noise rate in a wide interval, because the cinema's mistakes resemble real interest


@dataclass(frozen=True, kw_only=True)
class DemoOptions(Options):
    """The film club, and the report about it."""

    seed: int = 0
    """Seed of the film club; another seed makes another club."""
    report: Path = Path("prorec-demo.html")
    """Report to write; an existing file is replaced."""


@as_command
def demo(options: DemoOptions) -> None:
    """Denoise a synthetic film club whose mistakes are known, and write a report. Nothing is downloaded.

    Parameters
    ----------
    options : DemoOptions
        The film club and the report.

    Raises
    ------
    InputError
        If the report cannot be written.
    """
    has_report = find_spec("jinja2") is not None
    if has_report:
        check_report(options.report, force=True)
    console = Console()
    club = make_cinema(seed=options.seed)
    console.print(_describe_club(club))
    started = time.perf_counter()
    denoiser = demo_denoiser().fit(club.interactions, track_loss=True)
    seconds = time.perf_counter() - started
    console.print(_describe_user(club, denoiser))
    console.print(_describe_flags(club, denoiser))
    with share_results():  # the report measures the gain on the same split
        console.print(_describe_gain(club, options.seed))
        if has_report:
            title = "The cinema: which clicks are noise?"
            write_report(denoiser, options.report, title=title, is_noise=club.is_mistake, seconds=seconds)
    if has_report:
        print_plain(console, f"The report is in {options.report}. Open it in a browser.")
    else:
        print_plain(console, f"To get a report as well: {advise_install('report')}")


def demo_denoiser() -> ProRec:
    """Return the denoiser of the demo, not fitted.

    Returns
    -------
    ProRec
        With cross-fitting in few folds, and a false discovery rate that suits the cinema.
    """
    return ProRec(NCE(rank=_RANK), noise_method=NoiseFinder(folds=_FOLDS), fdr=_FDR)


def _describe_club(club: Cinema) -> RenderableType:
    """Return a panel with the counts of clicks by origin, and how activity and popularity are distributed."""
    clicks = club.interactions
    origins = make_table("origin of the click", "clicks", "share", "meaning")
    origins.columns[3].justify = "left"
    for code, (name, meaning) in enumerate(zip(ORIGINS, _MEANINGS, strict=True)):
        count = int((clicks.columns["origin"] == code).sum())
        origins.add_row(f"[{_STYLES[code]}]{name}", f"{count:,}", f"{count / len(clicks):.0%}", meaning)
    curves = Table.grid(padding=(0, 2))
    for name, counts in (("clicks of a user", clicks.activity), ("clicks on a film", clicks.popularity)):
        low, middle, high = np.quantile(counts, [0.1, 0.5, 0.9])
        curves.add_row(name, _draw_curve(counts), f"median {middle:.0f}, 80% in {low:.0f}–{high:.0f}")
    return _panel(
        "The cinema, a synthetic film club",
        f"{clicks.n_users:,} users, {clicks.n_items:,} films, {len(clicks):,} clicks. The club is synthetic, so the "
        "origin of every click is known.\n",
        origins,
        "\nFrom the largest to the smallest number, on a log scale:",
        curves,
    )


def _describe_user(club: Cinema, denoiser: ProRec) -> RenderableType:
    """Return a panel with the clicks of a user who has few clicks and three mistakes."""
    clicks = club.interactions
    mistakes = np.bincount(clicks.user_codes[club.is_mistake], minlength=clicks.n_users)
    user = int(np.argmin(np.abs(clicks.activity - 20) + 10 * (mistakes != 3)))
    row = np.arange(clicks.matrix.indptr[user], clicks.matrix.indptr[user + 1])
    row = row[np.argsort(-denoiser.noise_probability_[row], kind="stable")]
    assert clicks.item_names is not None
    assert clicks.item_categories is not None
    table = make_table("film", "genres", "origin", "noise", "weight", left=3)
    table.collapse_padding = True  # fits into 80 columns
    for position in row:
        film, origin = clicks.item_codes[position], clicks.columns["origin"][position]
        style = "[bold]" if denoiser.flagged_[position] else ""
        table.add_row(
            str(clicks.item_names[film]),
            "/".join(clicks.item_categories[film]),
            f"[{_STYLES[origin]}]{ORIGINS[origin]}",
            f"{style}{denoiser.noise_probability_[position]:.3f}",
            f"{denoiser.weights_.data[position]:.2f}",
        )
    tastes = club.tastes[user]
    genres = ", ".join(f"{GENRES[genre]} ({tastes[genre]:.0%})" for genre in np.argsort(-tastes) if tastes[genre])
    return _panel(
        f"User {clicks.users[user]}, {len(row)} clicks",
        f"Likes {genres}, which the denoiser does not know. Clicks by their noise probability, flagged ones in bold:\n",
        table,
    )


def _describe_flags(club: Cinema, denoiser: ProRec) -> RenderableType:
    """Return a panel with the flags by origin."""
    origins, flagged = club.interactions.columns["origin"], denoiser.flagged_
    table = make_table("origin of the click", "clicks", "flagged", "share")
    for code, name in enumerate(ORIGINS):
        n_clicks, n_flagged = int((origins == code).sum()), int(flagged[origins == code].sum())
        table.add_row(f"[{_STYLES[code]}]{name}", f"{n_clicks:,}", f"{n_flagged:,}", f"{n_flagged / n_clicks:.0%}")
    auroc = detection_metrics(denoiser.noise_probability_, club.is_mistake)["auroc"]
    mistakes = f"{club.is_mistake.mean():.0%} of all clicks are mistakes"
    if flagged.any():
        mistakes += f", and {club.is_mistake[flagged].mean():.0%} of the flagged ones"
    return _panel(
        "Flagged clicks",
        table,
        f"\n{mistakes}. A mistake has a higher noise probability than another click in {auroc:.0%} of all cases "
        f"(AUROC). The denoiser estimates the noise rate at {denoiser.finder_.noise_rate_}, which counts clicks that "
        "suit their users no better than random ones. Some mistakes suit their users by chance, so this rate is below "
        f"the share of mistakes. For this demo up to {_FDR:.0%} of the flags may be wrong, so that there are many to "
        "look at; the default of prorec denoise is 20%.",
    )


def _describe_gain(club: Cinema, seed: int) -> RenderableType:
    """Return a panel with the quality of recommendations of several models."""
    parts = split_by_user(club.interactions, (0.7, 0.3), seed=seed)
    train = parts.train
    # Nobody wants their mistakes recommended, so they are no test of a recommender.
    test = parts.test.select(parts.test.columns["origin"] != MISTAKE)
    models: dict[str, Recommender] = {
        "NCE": NCE(rank=_RANK).fit(train),
        "NCE + ProRec": demo_denoiser().fit(train),
        "NCE, shuffled weights": make_control(demo_denoiser(), shuffle_weights).fit(train),
        "NCE, true weights": NCE(rank=_RANK).fit(train.with_weights(train.columns["origin"] != MISTAKE)),
        "popularity": Popularity().fit(train),
    }
    results = {name: evaluate(model, test, k=10) for name, model in models.items()}
    gains = {row.model: row for row in compare(results, "NCE", metrics=["ndcg@10"])}
    table = make_table("model", "NDCG@10", "recall@10", "NDCG against NCE", "95% interval")
    for name, result in results.items():
        cells = [f"{result.mean[metric]:.4f}" for metric in ("ndcg@10", "recall@10")]
        if name in gains:
            gain, base = gains[name], gains[name].baseline_mean
            cells += [f"{gain.difference / base:+.1%}", f"{gain.low / base:+.1%} to {gain.high / base:+.1%}"]
        table.add_row(name, *cells)
    return _panel(
        f"Recommendations for {len(results['NCE'].users):,} users",
        table,
        "\nEach model is trained on 70% of each user's clicks and evaluated on the other 30% without its mistakes. "
        "The third row is a control, with the weights of ProRec at random places. The fourth row has weight 0 for "
        "every mistake and 1 for every other click.",
    )


def _panel(title: str, *parts: RenderableType) -> Panel:
    """Return a panel with its title on the left."""
    return Panel(Group(*parts), title=title, title_align="left")


def _draw_curve(counts: NDArray[np.int64], width: int = 24) -> str:
    """Return counts from the largest to the smallest as a row of bars on a log scale."""
    means = [part.mean() for part in np.array_split(np.sort(counts)[::-1], width)]
    heights = np.log1p(means) / np.log1p(means[0])
    return "".join(_BARS[min(int(height * len(_BARS)), len(_BARS) - 1)] for height in heights)
