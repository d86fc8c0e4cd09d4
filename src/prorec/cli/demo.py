"""What `prorec demo` shows: the made-up film club, what the denoiser finds in it, and what recommendation gains."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table

from prorec.cli.streams import check_report_free
from prorec.data.cinema import MISTAKE, ORIGINS, Cinema, make_cinema
from prorec.data.films import GENRES
from prorec.data.splits import Split, split_by_user
from prorec.denoise import ProRec
from prorec.evaluation import Evaluation, compare, detection_metrics, evaluate
from prorec.models import NCE, Popularity
from prorec.models.model import Model
from prorec.noise import NoiseFinder
from prorec.report.page import write_report

_MEANING = ("a film of a genre they like", "real interest in a related genre", "nothing to do with what they like")
_STYLE = ("green", "cyan", "red")
_RANK = 20  # chosen on a validation part
_FOLDS = 5  # of cross-fitting: more find a little more, and take longer
_FDR = 0.4  # the cinema's mistakes are hard to tell from real interest: fewer wrong flags would be next to no flags
_BARS = "▁▂▃▄▅▆▇█"


def _model() -> NCE:
    return NCE(rank=_RANK)


def demo_denoiser() -> ProRec:
    """The denoiser that is shown, not fitted yet."""
    return ProRec(_model(), noise_method=NoiseFinder(folds=_FOLDS), fdr=_FDR)


def run_demo(console: Console, seed: int = 0, report: Path | None = None) -> None:
    """Make the cinema, show it, denoise it, say what was found and what recommendation gained, and write a report."""
    club = make_cinema(seed=seed)
    console.print(_described(club))
    begin = time.perf_counter()
    denoiser = demo_denoiser().fit(club.interactions)
    seconds = time.perf_counter() - begin
    console.print(_member(club, denoiser))
    console.print(_found(club, denoiser))
    parts = split_by_user(club.interactions, (0.7, 0.3), seed=seed)
    console.print(_gained(parts))
    if report is not None:
        title = "The cinema: which clicks are noise?"
        write_report(denoiser, report, title=title, is_noise=club.is_mistake, seconds=seconds)
        console.print(
            f"The report is in {report}: open it in a browser.", markup=False, highlight=False, soft_wrap=True
        )


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


def _member(club: Cinema, denoiser: ProRec) -> RenderableType:
    """One user with a few mistakes among not too many clicks, as the denoiser sees them."""
    clicks = club.interactions
    mistakes = np.bincount(clicks.user_codes[club.is_mistake], minlength=clicks.n_users)
    user = int(np.argmin(np.abs(clicks.activity - 20) + 10 * (mistakes != 3)))
    row = np.arange(clicks.matrix.indptr[user], clicks.matrix.indptr[user + 1])
    row = row[np.argsort(-denoiser.noise_probability_[row], kind="stable")]
    films, origins = clicks.item_codes[row], clicks.columns["origin"][row]
    table = Table(box=None, pad_edge=False)
    for name in ("film", "genres", "what the click was"):
        table.add_column(name)
    for name in ("noise probability", "weight"):
        table.add_column(name, justify="right")
    assert clicks.item_names is not None
    assert clicks.item_categories is not None
    for place, film, origin in zip(row, films, origins, strict=True):
        probability = denoiser.noise_probability_[place]
        table.add_row(
            str(clicks.item_names[film]),
            ", ".join(clicks.item_categories[film]),
            f"[{_STYLE[origin]}]{ORIGINS[origin]}",
            f"{'[bold]' if denoiser.flagged_[place] else ''}{probability:.3f}",
            f"{denoiser.weights_.data[place]:.2f}",
        )
    order = np.argsort(-club.tastes[user])
    tastes = ", ".join(
        f"{GENRES[genre]} ({club.tastes[user, genre]:.0%})" for genre in order if club.tastes[user, genre]
    )
    return Panel(
        Group(f"likes {tastes}. The denoiser does not know that; most suspicious first, flagged in bold:\n", table),
        title=f"User {clicks.users[user]}, {len(films)} clicks",
        title_align="left",
    )


def _found(club: Cinema, denoiser: ProRec) -> RenderableType:
    origins, flagged = club.interactions.columns["origin"], denoiser.flagged_
    table = Table(box=None, pad_edge=False)
    table.add_column("clicks that are")
    for name in ("number", "flagged", "share"):
        table.add_column(name, justify="right")
    for code, name in enumerate(ORIGINS):
        inside = origins == code
        count = int(flagged[inside].sum())
        table.add_row(f"[{_STYLE[code]}]{name}", f"{inside.sum():,}", f"{count:,}", f"{count / inside.sum():.0%}")
    detected = detection_metrics(denoiser.noise_probability_, club.is_mistake)
    right = float(club.is_mistake[flagged].mean()) if flagged.any() else 0.0
    return Panel(
        Group(
            table,
            f"\nOf what is flagged, {right:.0%} are mistakes; of all clicks, {club.is_mistake.mean():.0%}. A mistake "
            f"is more suspicious than another click {detected['auroc']:.0%} of the time (AUROC). The denoiser was told "
            f"that {_FDR:.0%} of its flags may be wrong, and estimates that {denoiser.finder_.noise_rate_} of all "
            "clicks are noise.",
        ),
        title="What was found",
        title_align="left",
    )


def _gained(parts: Split) -> RenderableType:
    train = parts.train
    # Nobody wants their mistakes recommended, so they are no test of a recommender.
    test = parts.test.select(parts.test.columns["origin"] != MISTAKE)
    denoiser = ProRec(_model()).fit(train)
    mean_weight = float(denoiser.weights_.data.mean())
    told = train.with_weights(train.columns["origin"] != MISTAKE)
    models: dict[str, Model] = {
        "NCE": _model().fit(train),
        "NCE + ProRec": denoiser,
        "NCE, all weights scaled alike": _model().fit(train.with_weights(np.full(len(train), mean_weight))),
        "NCE, told the mistakes": _model().fit(told),
        "popularity": Popularity().fit(train),
    }
    results: dict[str, Evaluation] = {name: evaluate(model, test, k=10) for name, model in models.items()}
    gains = {row.model: row for row in compare(results, "NCE", metrics=["ndcg@10"])}
    table = Table(box=None, pad_edge=False)
    table.add_column("trained on 70% of each user's clicks")
    for name in ("NDCG@10", "recall@10", "NDCG against NCE", "95% interval"):
        table.add_column(name, justify="right")
    for name, result in results.items():
        cells = [f"{result.mean[metric]:.4f}" for metric in ("ndcg@10", "recall@10")]
        if name in gains:
            gain, base = gains[name], gains[name].baseline_mean
            cells += [f"{gain.difference / base:+.1%}", f"{gain.low / base:+.1%} to {gain.high / base:+.1%}"]
        table.add_row(name, *cells)
    return Panel(
        Group(
            table,
            "\nJudged by the other 30%, without its mistakes. Relabelling also makes all weights smaller, which alone "
            "helps a little: the third row has only that.",
        ),
        title=f"What recommendation gained, for {len(results['NCE'].users):,} users",
        title_align="left",
    )


def demo(
    seed: Annotated[int, typer.Option(help="Another seed makes another film club.")] = 0,
    report: Annotated[Path, typer.Option(help="Where to write the report; one that is there is replaced.")] = Path(
        "prorec-demo.html"
    ),
) -> None:
    """Denoise a synthetic film club whose mistakes are known, and write a report. Nothing is downloaded."""
    console = Console()
    if find_spec("jinja2") is None:
        run_demo(console, seed)
        console.print("There is a report at the end of this, with pip install 'prorec[report]'.", highlight=False)
        return
    check_report_free(report, force=True)
    run_demo(console, seed, report)
