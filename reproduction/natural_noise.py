"""Natural noise: clicks whose quality is known from ratings, and how much of it each method finds.

Every rating counts as a click, and low ratings as noise. People chose these items themselves before they disliked them,
so that such noise is not random. Ratings of other clicks, which a log of clicks does not have, set the ceiling.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from scipy.sparse import csr_array

import prorec
from prorec._core.checks import check_choice, check_int
from prorec._core.errors import InputError
from prorec._core.random import make_generator
from prorec.denoise.controls import shuffle_weights
from prorec.denoise.weighting import make_neutral
from prorec.evaluation import detection_metrics
from prorec.evaluation.tuning import with_parameters
from prorec.interactions import Interactions
from prorec.models import NCE, WRMF, Model
from prorec.noise.cross_fitting import assign_folds
from reproduction.baselines import SCORERS, NoiseScorer

LOGS = ("ml-100k", "ml-1m", "amusic", "atoy")
FINDER, CEILING = "NoiseFinder", "ratings of other clicks"
MODELS: Mapping[str, Model] = {
    "NCE": NCE(rank=50, regularization=3000.0),
    "WRMF": WRMF(rank=50, alpha=3.0, regularization=30.0),
}
_NEED_TORCH = ("T-CE loss", "R-CE loss", "PLD")
_LIKED = 4  # a test click must be one that the user liked
_FOLDS, _SWEEPS, _RANK = 10, 10, 8
_DAMPING, _RIDGE = 10.0, 10.0

Numbers = NDArray[np.float64]


def main(
    logs: Annotated[str, typer.Option(help="Data sets with ratings, separated by commas.")] = "ml-100k,ml-1m",
    worst: Annotated[int, typer.Option(help="Highest rating that counts as noise.")] = 2,
    seeds: Annotated[int, typer.Option(help="Number of splits.")] = 3,
) -> None:
    """Print how well low ratings are found among all ratings, and what their removal gives a recommender."""
    names = [each.strip() for each in logs.split(",") if each.strip()]
    for name in names:
        check_choice("logs", name, LOGS)
    check_int("seeds", seeds, 1)
    if not 1 <= worst < _LIKED:
        raise InputError(
            f"worst must be from 1 to {_LIKED - 1}, because test clicks have {_LIKED} or more; got {worst}"
        )
    has_torch = importlib.util.find_spec("torch") is not None
    scorers = {name: scorer for name, scorer in SCORERS.items() if has_torch or name not in _NEED_TORCH}
    clicks = {name: prorec.load_dataset(name, min_rating=None) for name in names}
    shares = ", ".join(f"{name} {is_low(log, worst).mean():.1%}" for name, log in clicks.items())
    print(f"Share of ratings of at most {worst}: {shares}.\n")
    print(make_detection_table(clicks, scorers | {CEILING: left_out_rating}, worst, seeds), flush=True)
    print()
    print(make_recommendation_table(clicks, worst, seeds))


def is_low(clicks: Interactions, worst: int) -> NDArray[np.bool_]:
    """Return whether each click's rating counts as noise."""
    return np.asarray(clicks.columns["rating"] <= worst)


def make_detection_table(
    logs: Mapping[str, Interactions], scorers: Mapping[str, NoiseScorer], worst: int, seeds: int
) -> str:
    """Return a table in Markdown: AUROC and average precision of each scorer for low ratings, as means over seeds."""
    lines = [f"| AUROC / average precision | {' | '.join(logs)} |", "| --- " + "| ---: " * len(logs) + "|"]
    for name, scorer in scorers.items():
        cells = []
        for clicks in logs.values():
            runs = [detection_metrics(scorer(clicks, seed), is_low(clicks, worst)) for seed in range(seeds)]
            cells.append(" / ".join(f"{np.mean([run[metric] for run in runs]):.3f}" for metric in ("auroc", "ap")))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def make_recommendation_table(logs: Mapping[str, Interactions], worst: int, seeds: int) -> str:
    """Return a table in Markdown: NDCG@10 on liked test clicks, by the weights of the training clicks."""
    rows: Mapping[str, Callable[[Interactions, int], NDArray[np.float32]]] = {
        "low ratings removed": lambda clicks, _: np.where(is_low(clicks, worst), np.float32(0), np.float32(1)),
        FINDER: lambda clicks, seed: prorec.NoiseFinder(seed=seed).fit(clicks).weights_,
        "as many removed at random": lambda clicks, seed: _remove_at_random(clicks, worst, seed),
    }
    lines = [
        f"| log, model | all clicks: NDCG@10 | {' | '.join(rows)} | {FINDER}, shuffled |",
        "| --- " + "| ---: " * (len(rows) + 2) + "|",
    ]
    for log, clicks in logs.items():
        splits = [_split(clicks, seed) for seed in range(seeds)]
        found = {row: [make(train, seed) for seed, (train, _) in enumerate(splits)] for row, make in rows.items()}
        found["shuffled"] = [
            shuffle_weights(weights, train) for weights, (train, _) in zip(found[FINDER], splits, strict=True)
        ]
        for name, model in MODELS.items():
            plain = [_evaluate(model, train, None, test) for train, test in splits]
            cells = []
            for weights in found.values():
                values = [
                    _evaluate(model, train, own, test) for (train, test), own in zip(splits, weights, strict=True)
                ]
                gains = np.array(values) / np.array(plain) - 1
                error = f" ± {gains.std(ddof=1) / np.sqrt(seeds):.1%}" if seeds > 1 else ""
                cells.append(f"{gains.mean():+.1%}{error}")
            lines.append(f"| {log}, {name} | {np.mean(plain):.4f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def left_out_rating(clicks: Interactions, seed: int) -> Numbers:
    """Score each click by its negative rating, predicted from all ratings but those of its own fold.

    The prediction is μ + b_u + b_i + p_u·q_i: the mean, effects of user and item that are shrunk towards it, and
    factors fitted to the rest by alternating ridge regression.
    """
    matrix = clicks.matrix
    ratings = np.asarray(clicks.columns["rating"], dtype=np.float64)
    folds = assign_folds(matrix, _FOLDS, make_generator(seed))
    users, items = clicks.user_codes, clicks.item_codes
    predictions = np.empty(len(clicks))
    for fold in range(_FOLDS):
        is_train = folds != fold
        train, test = (users[is_train], items[is_train]), (users[~is_train], items[~is_train])
        effects = _fit_effects(*train, ratings[is_train], matrix.shape)
        rest = csr_array((ratings[is_train] - _add_effects(effects, *train), train), shape=matrix.shape)
        left, right = _factorize(rest, seed)
        factors = (left[test[0]] * right[test[1]]).sum(axis=1)
        predictions[~is_train] = _add_effects(effects, *test) + factors
    return -predictions


def _fit_effects(
    users: NDArray[np.integer], items: NDArray[np.integer], ratings: Numbers, shape: tuple[int, int]
) -> tuple[float, Numbers, Numbers]:
    """Return the mean rating, and the damped effects of users and items."""
    mean, by_user, by_item = float(ratings.mean()), np.zeros(shape[0]), np.zeros(shape[1])
    for _ in range(_SWEEPS):
        by_item = _damped_mean(items, ratings - mean - by_user[users], shape[1])
        by_user = _damped_mean(users, ratings - mean - by_item[items], shape[0])
    return mean, by_user, by_item


def _damped_mean(codes: NDArray[np.integer], values: Numbers, size: int) -> Numbers:
    return np.asarray(np.bincount(codes, values, size) / (np.bincount(codes, minlength=size) + _DAMPING))


def _add_effects(
    effects: tuple[float, Numbers, Numbers], users: NDArray[np.integer], items: NDArray[np.integer]
) -> Numbers:
    mean, by_user, by_item = effects
    return np.asarray(mean + by_user[users] + by_item[items])


def _factorize(rest: csr_array, seed: int) -> tuple[Numbers, Numbers]:
    """Return factors of users and items whose products fit the stored values."""
    right = make_generator(seed).normal(0, 0.1, (rest.shape[1], _RANK))
    columns = rest.T.tocsr()
    left = np.zeros((rest.shape[0], _RANK))
    for _ in range(_SWEEPS):
        left = _solve_ridge(rest, right)
        right = _solve_ridge(columns, left)
    return left, right


def _solve_ridge(values: csr_array, factors: Numbers) -> Numbers:
    """Return, for each row, the ridge solution against the factors of its stored columns."""
    stored = csr_array((np.ones(values.nnz), values.indices, values.indptr), shape=values.shape)
    squares = (factors[:, :, None] * factors[:, None, :]).reshape(len(factors), -1)
    grams = (stored @ squares).reshape(-1, _RANK, _RANK) + _RIDGE * np.eye(_RANK)
    return np.asarray(np.linalg.solve(grams, (values @ factors)[:, :, None])[:, :, 0])


def _remove_at_random(clicks: Interactions, worst: int, seed: int) -> NDArray[np.float32]:
    return make_generator(seed).permutation(np.where(is_low(clicks, worst), np.float32(0), np.float32(1)))


def _split(clicks: Interactions, seed: int) -> tuple[Interactions, Interactions]:
    """Return four fifths of each user's clicks to train on, and the liked ones of the last fifth."""
    parts = prorec.split_by_user(clicks, (0.8, 0.2), seed=seed)
    return parts.train, parts.test.select(np.asarray(parts.test.columns["rating"] >= _LIKED))


def _evaluate(model: Model, train: Interactions, weights: NDArray[np.float32] | None, test: Interactions) -> float:
    """Return NDCG@10 of a model that is fitted as `ProRec` does: its penalty suits the size of the weights."""
    ones = np.ones(len(train), dtype=np.float32)
    weights = ones if weights is None else weights
    neutral: Any = make_neutral(with_parameters(model, {}), weights, ones)
    return float(prorec.evaluate(neutral.fit(train.with_weights(weights)), test, k=10).mean["ndcg@10"])
