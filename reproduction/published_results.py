"""Our models beside published results of the same models: `python -m reproduction published-results`.

The protocol is that of Wu et al. 2019 on MovieLens-1M: ratings above 3; each user's latest 30% of interactions test,
the 70% before them train; NDCG over the top 50, its ideal over all of a user's test items; MAP@5 is the mean of
precision at 1 to 5. Their numbers have a 95% interval.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

import prorec
from prorec.models import CDAE, NCE, SVD, VAE, WRMF, Model, Popularity


@dataclass(frozen=True)
class Published:
    """One published row, and the model that should reach it."""

    model: Model
    ndcg: float
    interval: float
    map_at_5: float
    recall_at_5: float
    recall_at_20: float


ROWS = (
    Published(Popularity(), 0.1225, 0.0030, 0.1168, 0.0237, 0.0841),
    Published(SVD(rank=50), 0.1644, 0.0033, 0.1212, 0.0383, 0.1230),
    Published(NCE(rank=100, regularization=10000, popularity_power=1.1), 0.1790, 0.0036, 0.1310, 0.0424, 0.1358),
    Published(WRMF(rank=200, alpha=10, regularization=100, sweeps=10), 0.1788, 0.0036, 0.1235, 0.0411, 0.1344),
    # Ours stop earlier: epochs were chosen on the validation part (20% of each user's interactions).
    Published(CDAE(rank=200, regularization=0.1, batch_size=100, epochs=49), 0.1588, 0.0034, 0.1297, 0.0350, 0.1079),
    Published(VAE(rank=200, hidden=None, corruption=0.4, epochs=27), 0.1634, 0.0034, 0.1066, 0.0376, 0.1207),
)


def main() -> None:
    """Our models beside published results on MovieLens-1M."""
    clicks = prorec.load_dataset("ml-1m")
    parts = prorec.split_by_user(clicks, (0.5, 0.2, 0.3), order="time")
    console = Console(width=150)
    table = Table("model", "", "NDCG", "MAP@5", "Recall@5", "Recall@20", "", "fit", box=None, pad_edge=False)
    for row in ROWS:
        begin = time.perf_counter()
        model = row.model.fit(parts.train_and_valid)
        seconds = time.perf_counter() - begin
        result = prorec.evaluate(model, parts.test, k=(5, 20, 50), metrics="paper")
        ndcg, (low, high) = result.mean["ndcg@50"], result.interval("ndcg@50")
        others = (f"{result.mean[name]:.4f}" for name in ("map@5", "recall@5", "recall@20"))
        verdict = "reached" if ndcg >= row.ndcg - row.interval else "below"
        ours = f"{ndcg:.4f} ± {(high - low) / 2:.4f}"
        table.add_row(type(model).__name__, "ours", ours, *others, verdict, f"{seconds:.0f} s")
        theirs = (f"{value:.4f}" for value in (row.map_at_5, row.recall_at_5, row.recall_at_20))
        table.add_row("", "published", f"{row.ndcg:.4f} ± {row.interval:.4f}", *theirs, "", "")
        console.print(f"{type(model).__name__} done", style="dim")
    console.print(table)
    for row in ROWS:
        console.print(repr(row.model), style="dim", soft_wrap=True)
