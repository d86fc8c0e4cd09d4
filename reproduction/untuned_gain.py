"""Gains of relabelling without tuning, beside those of smaller weights: `python -m reproduction untuned-gain`.

The first table has NCE on AMusic with the paper's parameters (γ = .1, β = 20, λ = .5, one round), trained on 50% of
each user's interactions and evaluated on 30% with the paper's definitions of the metrics. Relabelling also makes all
weights smaller against the regularizer, so there are two controls: every weight equal to the mean of the new ones, and
the regularizer doubled.

The second table has models with default settings on several data sets, trained on 70% and evaluated on 30%, each beside
its control.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import prorec
from prorec.denoise.controls import make_control
from prorec.evaluation import compare
from prorec.evaluation.comparison import compare_on_splits
from prorec.models import EASE, NCE, SVD, WRMF, Model

SEEDS = (0, 1, 2)
# As in the paper, a weight stands for the value of an entry.
_NCE, _WRMF, _EASE = NCE(weight_meaning="value"), WRMF(weight_meaning="value"), EASE(weight_meaning="value")
_SVD = SVD(weight_meaning="value")
DEFAULTS: Mapping[str, tuple[Model, ...]] = {
    "amusic": (_NCE, _SVD, _WRMF),
    "atoy": (_NCE, _SVD, _WRMF),
    "ml-100k": (_NCE, _SVD, _WRMF, _EASE),
    "gowalla": (_NCE,),
}
_RIDGE = 1000.0


def measure_gains(seed: int) -> tuple[float, Mapping[str, float]]:
    """Return NCE's own NDCG@5, and the relative gain of ProRec and of each control."""
    clicks = prorec.load_dataset("amusic")
    parts = prorec.split_by_user(clicks, (0.5, 0.2, 0.3), seed=seed)
    train = parts.train

    def ndcg(model: Any) -> float:
        return prorec.evaluate(model, parts.test, k=5, metrics="paper").mean["ndcg@5"]

    own = ndcg(_make_nce().fit(train))
    denoiser = prorec.ProRec(_make_nce(), gamma=0.1, beta=20, lam=0.5, rounds=1, noise_method="plan").fit(train)
    compared = {
        "NCE + ProRec": denoiser,
        "control: weights scaled by their mean": make_control(denoiser).fit(train),
        "control: twice the ridge": _make_nce(2 * _RIDGE).fit(train),
    }
    return own, {name: ndcg(model) / own - 1 for name, model in compared.items()}


def _make_nce(ridge: float = _RIDGE) -> NCE:
    return NCE(rank=200, regularization=ridge, popularity_power=1.0, weight_meaning="value")


def measure_defaults(dataset: str, model: Model, n_seeds: int) -> tuple[str, ...]:
    """Return one row: the model's NDCG@5, the gains of ProRec and of scaled weights, and p of one against the other."""
    name = type(model).__name__
    denoiser = prorec.ProRec(model, noise_method="plan")
    models = {name: model, "denoised": denoiser, "scaled": make_control(denoiser)}
    clicks = prorec.load_dataset(dataset)
    result = compare_on_splits(models, clicks, n_seeds=n_seeds, metrics="paper")
    gain = {row.model: row for row in result.comparisons if row.metric == "ndcg@5"}
    beyond = compare({each: result.results[each] for each in ("denoised", "scaled")}, "scaled", metrics=["ndcg@5"])[0]
    shares = (
        f"{gain[each].difference / gain[each].baseline_mean:+.1%}{'*' if gain[each].p_t < 0.01 else ''}"
        for each in ("denoised", "scaled")
    )
    return dataset, name, f"{result.results[name].mean['ndcg@5']:.4f}", *shares, f"{beyond.p_t:.2g}"


def main() -> None:
    """Gains of denoising with default settings, beside those of smaller weights."""
    console = Console(width=110)
    by_seed = [measure_gains(seed) for seed in SEEDS]
    table = Table("AMusic, NDCG@5", *(f"seed {seed}" for seed in SEEDS), "mean", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("NCE", *(f"{own:.4f}" for own, _ in by_seed), f"{np.mean([own for own, _ in by_seed]):.4f}")
    for name in by_seed[0][1]:
        values = [by_name[name] for _, by_name in by_seed]
        table.add_row(name, *(f"{value:+.1%}" for value in values), f"{np.mean(values):+.1%}")
    console.print(table)
    table = Table(
        "data set", "model", "NDCG@5", "+ ProRec", "+ scaled", "p, one against the other", box=None, pad_edge=False
    )
    for column in table.columns[2:]:
        column.justify = "right"
    for dataset, models in DEFAULTS.items():
        for model in models:
            table.add_row(*measure_defaults(dataset, model, 1 if dataset == "gowalla" else 3))
    console.print(table)
