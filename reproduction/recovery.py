"""What denoised training gives back of the quality that noise took, and what it costs on clean data.

Four fifths of each user's interactions get noise and train; one fifth tests. A model is trained on the noisy part with
several kinds of weights. Its parameters, the user normalization among them, are tuned for each kind of weights on a
quarter of the noisy part, as users would have to. The noise finder is fitted to the other three quarters for that.

"Recovered" is the share of the distance between training on the noisy part and training on it with weight 0 for all
noise. It is a sum of gains over a sum of distances, because single distances may be near 0.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

import prorec
from prorec._core.checks import check_choice, check_int
from prorec._core.files import atomic_write
from prorec._core.sharing import share_results
from prorec.data.registry import DATASETS
from prorec.data.splits import TRAIN
from prorec.denoise.controls import (
    average_by_popularity,
    average_by_user,
    equalize_weights,
    shuffle_weights,
    shuffle_within_users,
)
from prorec.denoise.weighting import make_neutral
from prorec.evaluation.parameter_search import Grid, make_search
from prorec.evaluation.significance import paired_t
from prorec.evaluation.tuning import with_parameters
from prorec.interactions import Interactions
from prorec.models import CDAE, EASE, NCE, SVD, VAE, WRMF, Model
from prorec.models.factory import cap_rank
from reproduction.accounts import load_log
from reproduction.finder_promises import use_one_core
from reproduction.output import create_folder

Weights = NDArray[np.float32]

_POWERS = (0.0, 0.25, 0.5)
MODELS: Mapping[str, tuple[Model, Grid]] = {
    "NCE": (
        NCE(rank=50, regularization=3000.0),
        {"regularization": (300.0, 1000.0, 3000.0, 10000.0, 30000.0), "activity_power": _POWERS},
    ),
    "WRMF": (
        WRMF(rank=50, alpha=3.0, regularization=30.0),
        {"regularization": (3.0, 10.0, 30.0, 100.0, 300.0), "alpha": (1.0, 3.0, 10.0), "activity_power": _POWERS},
    ),
    "EASE": (
        EASE(regularization=300.0),
        {"regularization": (30.0, 100.0, 300.0, 1000.0, 3000.0), "activity_power": _POWERS},
    ),
    "SVD": (SVD(rank=20), {"rank": (10, 20, 50, 100), "activity_power": _POWERS}),
    "VAE": (VAE(hidden=None, epochs=50), {"regularization": (1e-5, 1e-4, 1e-3)}),
    "CDAE": (CDAE(epochs=50), {"regularization": (1e-5, 1e-4, 1e-3)}),
}
"""Each model with the values over which its parameters are tuned."""
CONTROLS: Mapping[str, Callable[[Weights, Interactions], Weights]] = {
    "scaled": equalize_weights,
    "shuffled": shuffle_weights,
    "shuffled within users": shuffle_within_users,
    "user means": average_by_user,
    "by popularity": average_by_popularity,
}
"""Weights with the side effects of those of the noise finder, but without its knowledge of single clicks."""
PLAIN, DENOISED, REMOVED = "plain", "denoised", "noise removed"
KINDS = ("none", "uniform", "popularity", "swap")
METRICS = ("ndcg@10", "recall@10")
_LEVEL = 0.2
_MAX_TRIALS = 12
_RULE = "| --- "


class Cell(NamedTuple):
    """One log with one kind of noise, one split and one model."""

    log: str
    kind: str
    seed: int
    model: str

    @property
    def file_name(self) -> str:
        """Name of the file of the results."""
        return f"recovery-{self.log}-{self.kind}-{self.seed}-{self.model}.json"


def main(
    logs: Annotated[str, typer.Option(help="Data sets, separated by commas.")] = "ml-100k,amusic,atoy,ml-1m",
    kinds: Annotated[str, typer.Option(help="Kinds of noise, separated by commas.")] = ",".join(KINDS),
    models: Annotated[str, typer.Option(help="Models, separated by commas.")] = "NCE,WRMF,EASE,SVD",
    controls: Annotated[str, typer.Option(help="Controls, separated by commas.")] = ",".join(CONTROLS),
    seeds: Annotated[int, typer.Option(help="Number of splits.")] = 5,
    processes: Annotated[int, typer.Option(help="Number of processes.")] = 1,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results; finished ones are not run again.")],
) -> None:
    """Measure what denoised training recovers, and print two tables."""
    names, kind_names, model_names, control_names = (
        [each.strip() for each in text.split(",") if each.strip()] for text in (logs, kinds, models, controls)
    )
    for label, chosen, allowed in (
        ("logs", names, tuple(DATASETS)),
        ("kinds", kind_names, KINDS),
        ("models", model_names, tuple(MODELS)),
        ("controls", control_names, tuple(CONTROLS)),
    ):
        for each in chosen:
            check_choice(label, each, allowed)
    check_int("seeds", seeds, 1)
    check_int("processes", processes, 1)
    create_folder(out)
    cells = [Cell(*each) for each in product(names, kind_names, range(seeds), model_names)]
    missing = [cell for cell in cells if not (out / cell.file_name).exists()]
    tasks = [(cell, control_names, out) for cell in missing]
    if processes == 1:
        for task in tasks:
            run_cell(*task)
    else:
        # Processes with CUDA cannot be forked.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, context, use_one_core, (context.Value("i", 0),)) as pool:
            for future in [pool.submit(run_cell, *task) for task in tasks]:
                future.result()
    print(make_tables([json.loads((out / cell.file_name).read_text(encoding="utf-8")) for cell in cells]))


def run_cell(cell: Cell, control_names: Sequence[str], out: Path) -> None:
    """Measure one cell, and write the results into a file."""
    start = time.perf_counter()
    split = prorec.split_by_user(load_log(cell.log), (0.8, 0.2), seed=cell.seed)
    clicks, is_noise = split.train, np.zeros(len(split.train), dtype=bool)
    if cell.kind != "none":
        noisy = prorec.inject_noise(split.train, _LEVEL, cell.kind, seed=cell.seed)  # type: ignore[arg-type]
        clicks, is_noise = noisy.interactions, noisy.is_noise
    inner = prorec.split_by_user(clicks, (0.75, 0.25), seed=cell.seed)
    parts = Part(inner.train, is_noise[inner.part == TRAIN]), Part(clicks, is_noise)
    weights = [_find_weights(part, cell, name, out) for part, name in zip(parts, ("inner", "outer"), strict=True)]
    model, grid = MODELS[cell.model]
    model = cap_rank(model, clicks.matrix.shape)
    rows: dict[str, Any] = {}
    for row in (PLAIN, DENOISED, *(() if cell.kind == "none" else (REMOVED,)), *control_names):
        chosen = [_row_weights(row, part, own) for part, own in zip(parts, weights, strict=True)]
        parameters = _tune(model, grid, inner.train, chosen[0], inner.test)
        fitted = _fit(with_parameters(model, parameters), clicks, chosen[1])
        result = prorec.evaluate(fitted, split.test, k=10)
        values = {name: np.round(result.per_user[name], 5).tolist() for name in METRICS}
        rows[row] = {"parameters": parameters, **values}
    record = cell._asdict() | {"rows": rows, "seconds": round(time.perf_counter() - start, 1)}
    with atomic_write(out / cell.file_name) as file:
        file.write_text(json.dumps(record) + "\n", encoding="utf-8")


class Part(NamedTuple):
    """Interactions to train on, and which of them are noise."""

    clicks: Interactions
    is_noise: NDArray[np.bool_]


def _find_weights(part: Part, cell: Cell, name: str, out: Path) -> Weights:
    """Return the weights of the default noise finder, which all models of a split share."""
    path = out / f"weights-{cell.log}-{cell.kind}-{cell.seed}-{name}.npz"
    if not path.exists():
        weights = prorec.NoiseFinder(seed=cell.seed).fit(part.clicks).weights_
        with atomic_write(path) as file, file.open("wb") as stream:
            np.savez_compressed(stream, weights=weights)
    with np.load(path, allow_pickle=False) as arrays:
        return np.asarray(arrays["weights"])


def _row_weights(row: str, part: Part, weights: Weights) -> Weights:
    if row == PLAIN:
        return np.ones_like(weights)
    if row == DENOISED:
        return weights
    if row == REMOVED:
        return np.where(part.is_noise, np.float32(0), np.float32(1))
    return CONTROLS[row](weights, part.clicks)


def _fit(model: Model, clicks: Interactions, weights: Weights) -> Any:
    """Fit a model as `ProRec` does: its penalty suits the size of the weights."""
    neutral: Any = make_neutral(model, weights, clicks.matrix.data)
    return neutral.fit(clicks.with_weights(weights))


def _tune(model: Model, grid: Grid, clicks: Interactions, weights: Weights, valid: Interactions) -> dict[str, Any]:
    """Return the best parameters on the validation part, by a search along one parameter at a time."""
    search = make_search("coordinate", grid, model.get_params(), 0)
    best, best_value, value = {}, -1.0, None
    with share_results():
        for _ in range(_MAX_TRIALS):
            try:
                parameters = search.send(value)  # type: ignore[arg-type] # None starts a generator
            except StopIteration:
                break
            fitted = _fit(with_parameters(model, parameters), clicks, weights)
            value = prorec.evaluate(fitted, valid, k=10).mean["ndcg@10"]
            if value > best_value:
                best, best_value = parameters, value
    return best


def make_tables(records: Sequence[Mapping[str, Any]]) -> str:
    """Return three tables in Markdown: gains on clean data, recovered shares by noise, and recovered shares in all."""
    models = list(dict.fromkeys(record["model"] for record in records))
    logs = list(dict.fromkeys(record["log"] for record in records))
    kinds = [kind for kind in dict.fromkeys(record["kind"] for record in records) if kind != "none"]
    others = [row for row in dict.fromkeys(row for record in records for row in record["rows"]) if row != PLAIN]
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault((record["model"], record["log"], record["kind"]), []).append(record)
    clean_rows = [row for row in others if row != REMOVED]
    clean = [f"| model, log | {PLAIN}: NDCG@10 | {' | '.join(clean_rows)} |", _RULE * (2 + len(clean_rows)) + "|"]
    by_noise = [
        f"| model, log | noise | {PLAIN}: NDCG@10 | {REMOVED} | {DENOISED} | recovered |",
        _RULE * 6 + "|",
    ]
    for model, log in product(models, logs):
        if own := groups.get((model, log, "none")):
            cells = [_describe_gain(own, row) for row in clean_rows]
            clean.append(f"| {model}, {log} | {_mean(own, PLAIN):.4f} | {' | '.join(cells)} |")
        for kind in kinds:
            if own := groups.get((model, log, kind)):
                gain, damage = (_mean(own, row) - _mean(own, PLAIN) for row in (DENOISED, REMOVED))
                by_noise.append(
                    f"| {model}, {log} | {kind} | {_mean(own, PLAIN):.4f} | {_describe_gain(own, REMOVED)} | "
                    f"{_describe_gain(own, DENOISED)} | {gain / damage:.0%} |"
                )
    compared = [row for row in others if row != REMOVED]
    in_all = [
        f"| model | {' | '.join(f'{row}: recovered' for row in compared)} | p against shuffled |",
        _RULE * (2 + len(compared)) + "|",
    ]
    for model in models:
        noisy = [own for (name, _, kind), own in groups.items() if name == model and kind != "none"]
        if noisy:
            shares = [_share_recovered(noisy, row) for row in compared]
            p = _p_against(noisy, DENOISED, "shuffled") if "shuffled" in compared else float("nan")
            in_all.append(f"| {model} | {' | '.join(f'{share:.0%}' for share in shares)} | {p:.1g} |")
    return "\n\n".join("\n".join(lines) for lines in (clean, by_noise, in_all) if len(lines) > 2)


def _values(records: Sequence[Mapping[str, Any]], row: str) -> NDArray[np.float64]:
    """Return NDCG@10 of each user, as a mean over splits."""
    return np.asarray(np.mean([record["rows"][row][METRICS[0]] for record in records], axis=0))


def _mean(records: Sequence[Mapping[str, Any]], row: str) -> float:
    return float(_values(records, row).mean())


def _describe_gain(records: Sequence[Mapping[str, Any]], row: str) -> str:
    """Return the relative difference from the plain model; * means p < .01 over users."""
    difference = _values(records, row) - _values(records, PLAIN)
    star = "*" if paired_t(difference) < 0.01 else ""
    return f"{difference.mean() / _mean(records, PLAIN):+.1%}{star}"


def _share_recovered(groups: Sequence[Sequence[Mapping[str, Any]]], row: str) -> float:
    """Return the sum of relative gains over the sum of relative damages."""
    gains = [_mean(own, row) / _mean(own, PLAIN) - 1 for own in groups]
    damages = [_mean(own, REMOVED) / _mean(own, PLAIN) - 1 for own in groups]
    return sum(gains) / sum(damages)


def _p_against(groups: Sequence[Sequence[Mapping[str, Any]]], row: str, other: str) -> float:
    """Return p of a paired t-test over the users of all logs, on differences relative to the plain model's mean."""
    parts = [(_values(own, row) - _values(own, other)) / _mean(own, PLAIN) for own in groups]
    return paired_t(np.concatenate(parts))
