"""How well `find_issues` finds injected accounts, and how little they change what `NoiseFinder` finds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import numpy as np
import typer

import prorec
from prorec._core.checks import check_choice, check_int
from prorec.data.account_injection import ACCOUNT_KINDS, AccountKind
from prorec.data.registry import DATASETS
from prorec.evaluation import detection_metrics
from prorec.interactions import Interactions
from prorec.noise.account_issues import find_issues
from reproduction.noise_benchmark import load_clean_dataset

_MAX_USERS = 3_000  # larger logs are sampled
_FINDER_KINDS: tuple[AccountKind, ...] = ("bots", "random-attack")
_NOISE_RATIO = 0.1
_FOLDS = 5


def main(
    datasets: Annotated[str, typer.Option(help="Data sets, separated by commas.")] = "cinema",
    ratio: Annotated[float, typer.Option(help="Injected accounts as a share of the users.")] = 0.01,
    seeds: Annotated[int, typer.Option(help="Number of injections.")] = 3,
    finder: Annotated[bool, typer.Option(help="Measure NoiseFinder with and without accounts instead.")] = False,
) -> None:
    """Print the AUROC of the score `account` for each kind of injected accounts.

    With --finder, print the AUROC of NoiseFinder for uniform noise in a log without and with injected accounts.
    """
    names = [each.strip() for each in datasets.split(",")]
    for name in names:
        check_choice("datasets", name, tuple(DATASETS))
    check_int("seeds", seeds, 1)
    if finder:
        _compare_finders(names, ratio, seeds)
        return
    print("| data set | extreme without injection | " + " | ".join(ACCOUNT_KINDS) + " |")
    print("| --- " * (2 + len(ACCOUNT_KINDS)) + "|")
    for name in names:
        clean = load_log(name)
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


def _compare_finders(names: list[str], ratio: float, seeds: int) -> None:
    """Print the AUROC of noise among the rows of people, the noise rate, and the part of find_issues in the time."""
    kinds = ("none", *_FINDER_KINDS)
    print("| data set | " + " | ".join(f"AUROC, {kind}" for kind in kinds), end=" | ")
    print(" | ".join(f"noise rate, {kind}" for kind in kinds) + " | extreme accounts | time of find_issues |")
    print("| --- " * (3 + 2 * len(kinds)) + "|")
    for name in names:
        runs = [_run_finders(load_log(name), ratio, seed) for seed in range(seeds)]
        aurocs, rates, n_extreme, shares = (np.mean(each, axis=0) for each in zip(*runs, strict=True))
        cells = [*(f"{each:.3f}" for each in aurocs), *(f"{each:.3f}" for each in rates)]
        extreme = ", ".join(f"{each:g}" for each in n_extreme)
        print(f"| {name} | {' | '.join(cells)} | {extreme} | {shares:.1%} |", flush=True)


def _run_finders(clean: Interactions, ratio: float, seed: int) -> tuple[list[float], list[float], list[int], float]:
    """Fit NoiseFinder without accounts and with those of each kind."""
    noisy = prorec.inject_noise(clean, _NOISE_RATIO, seed=seed)
    logs = [noisy.interactions]
    logs += [prorec.inject_noise(noisy.interactions, ratio, kind, seed=seed).interactions for kind in _FINDER_KINDS]
    aurocs, rates, n_extreme, seconds = [], [], [], []
    for log in logs:
        seconds.append(_time(lambda log=log: find_issues(log)))  # type: ignore[misc]
        finder = prorec.NoiseFinder(folds=_FOLDS, seed=seed)
        seconds.append(_time(lambda finder=finder, log=log: finder.fit(log)))  # type: ignore[misc]
        # The accounts are the last users, so the rows of people come first.
        people = finder.noise_probability_[: len(noisy.interactions)]
        aurocs.append(detection_metrics(people, noisy.is_noise)["auroc"])
        rates.append(finder.noise_rate_.estimate)
        n_extreme.append(int(finder.issues_.is_extreme.sum()))
    return aurocs, rates, n_extreme, seconds[0] / seconds[1]


def _time(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def load_log(name: str) -> Interactions:
    """Load a data set; of Gowalla a sample of users."""
    return _sample_users(load_clean_dataset(name)) if name == "gowalla" else load_clean_dataset(name)


def _sample_users(clicks: Interactions) -> Interactions:
    """Keep random users of a large log, and the items that they have."""
    kept = np.random.default_rng(0).permutation(clicks.n_users)[:_MAX_USERS]
    return clicks.select(np.isin(clicks.user_codes, kept)).drop_empty()
