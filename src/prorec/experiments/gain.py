"""What relabelling gains beyond what smaller weights alone do: `python -m prorec.experiments.gain`.

NCE on AMusic with the paper's parameters (γ = .1, β = 20, λ = .5, one round), trained on 50% of each user's
interactions, judged by 30% with the paper's definitions of the metrics. Relabelling also makes all weights smaller
against the regulariser, so there are two controls: every weight the mean of the new ones, and the regulariser doubled.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from rich.console import Console
from rich.table import Table

import prorec
from prorec.models import NCE, Model

SEEDS = (0, 1, 2)
_RIDGE = 1000.0


def gains(seed: int) -> tuple[float, Mapping[str, float]]:
    """NCE's own NDCG@5, and by what share of it each of the others is better."""
    clicks = prorec.load_dataset("amusic")
    parts = prorec.split_by_user(clicks, (0.5, 0.2, 0.3), seed=seed)
    train = parts.train

    def ndcg(model: Model) -> float:
        return prorec.evaluate(model, parts.test, k=5, metrics="paper").mean["ndcg@5"]

    own = ndcg(_nce().fit(train))
    denoiser = prorec.ProRec(_nce(), gamma=0.1, beta=20, lam=0.5, rounds=1).fit(train)
    scaled = train.with_weights(np.full(len(train), denoiser.weights_.data.mean()))
    rivals = {
        "NCE + ProRec": denoiser,
        "control: weights scaled by their mean": _nce().fit(scaled),
        "control: twice the ridge": _nce(2 * _RIDGE).fit(train),
    }
    return own, {name: ndcg(model) / own - 1 for name, model in rivals.items()}


def _nce(ridge: float = _RIDGE) -> NCE:
    return NCE(rank=200, regularization=ridge, popularity_power=1.0)


def main() -> None:
    """Print the gains for each seed and their mean."""
    found = [gains(seed) for seed in SEEDS]
    table = Table("AMusic, NDCG@5", *(f"seed {seed}" for seed in SEEDS), "mean", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("NCE", *(f"{own:.4f}" for own, _ in found), f"{np.mean([own for own, _ in found]):.4f}")
    for name in found[0][1]:
        values = [by_name[name] for _, by_name in found]
        table.add_row(name, *(f"{value:+.1%}" for value in values), f"{np.mean(values):+.1%}")
    Console().print(table)


if __name__ == "__main__":
    main()
