"""How well `find_issues` finds injected accounts, by kind and data set."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

import prorec
from prorec._core.checks import check_choice, check_int
from prorec.data.account_injection import ACCOUNT_KINDS
from prorec.data.registry import DATASETS
from prorec.evaluation import detection_metrics
from prorec.interactions import Interactions
from prorec.noise.account_issues import find_issues
from reproduction.noise_benchmark import load_clean_dataset

_MAX_USERS = 3_000  # larger logs are sampled


def main(
    datasets: Annotated[str, typer.Option(help="Data sets, separated by commas.")] = "cinema",
    ratio: Annotated[float, typer.Option(help="Injected accounts as a share of the users.")] = 0.01,
    seeds: Annotated[int, typer.Option(help="Number of injections.")] = 3,
) -> None:
    """Print the AUROC of the score `account` for each kind of injected accounts."""
    names = [each.strip() for each in datasets.split(",")]
    for name in names:
        check_choice("datasets", name, tuple(DATASETS))
    check_int("seeds", seeds, 1)
    print("| data set | extreme without injection | " + " | ".join(ACCOUNT_KINDS) + " |")
    print("| --- " * (2 + len(ACCOUNT_KINDS)) + "|")
    for name in names:
        clean = _sample_users(load_clean_dataset(name)) if name == "gowalla" else load_clean_dataset(name)
        cells = [name, str(int(find_issues(clean).is_extreme.sum()))]
        for kind in ACCOUNT_KINDS:
            noisy = [prorec.inject_noise(clean, ratio, kind, seed=seed) for seed in range(seeds)]
            scores = [find_issues(each.interactions).user_scores["account"] for each in noisy]
            aurocs = [
                detection_metrics(score, each.is_injected_user)["auroc"]
                for score, each in zip(scores, noisy, strict=True)
            ]
            cells.append(f"{np.mean(aurocs):.3f}")
        print("| " + " | ".join(cells) + " |", flush=True)


def _sample_users(clicks: Interactions) -> Interactions:
    """Keep random users of a large log, and the items that they have."""
    kept = np.random.default_rng(0).permutation(clicks.n_users)[:_MAX_USERS]
    return clicks.select(np.isin(clicks.user_codes, kept)).drop_empty()
