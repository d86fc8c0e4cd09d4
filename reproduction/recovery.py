"""What denoised training gives back of the quality that noise took, and what it costs on clean data.

Four fifths of each user's interactions get noise and train; one fifth tests. A model is trained on the noisy part with
several kinds of weights. Its parameters, the user normalization among them, are tuned for each kind of weights on a
quarter of the noisy part, as users would have to. The noise finder is fitted to the other three quarters for that.

Validation parts of sparse logs are small, and the best of several settings is often the luckiest. So the search for
each kind of weights starts at the plain model's parameters, and leaves them only for others that are better by more
than one standard error of the difference.

"Recovered" is the share of the distance between training on the noisy part and training on it with weight 0 for all
noise. It is a sum of gains over a sum of distances, because single distances may be near 0.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

import prorec
from prorec._core.checks import check_choice, check_int
from prorec._core.files import atomic_write
from prorec._core.random import make_generator
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
from prorec.evaluation.parameter_search import Grid
from prorec.evaluation.significance import paired_t
from prorec.evaluation.tuning import with_parameters
from prorec.interactions import Interactions
from prorec.models import CDAE, EASE, NCE, SVD, VAE, WRMF, Model
from prorec.models.factory import cap_rank
from prorec.noise.cross_fitting import assign_folds
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
    "CDAE": (
        CDAE(rank=50, regularization=0.03, epochs=20, batch_size=100, learning_rate=0.01),
        {"regularization": (0.001, 0.01, 0.03), "epochs": (10, 20, 30)},
    ),
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
PLAIN, DENOISED, REMOVED, ORACLE = "plain", "denoised", "noise removed", "oracle"
"""Rows that are no controls. The oracle's weights are the probabilities of a noise finder that is told the truth about
all interactions of the other folds."""
KINDS = ("none", "uniform", "popularity", "swap")
METRICS = ("ndcg@10", "recall@10")
_LEVEL = 0.2
_ORACLE_FOLDS = 3
_FITS = 3
"""Fits of a network from different random starts, over which results are means: single ones differ by more than weights
make them differ."""
_RULE = "| --- "
_MISSING = "–"


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
    controls: Annotated[str, typer.Option(help="Controls, or oracle, separated by commas.")] = ",".join(CONTROLS),
    seeds: Annotated[int, typer.Option(help="Number of splits.")] = 5,
    processes: Annotated[int, typer.Option(help="Number of processes.")] = 1,
    device: Annotated[str, typer.Option(help="Device of EASE, VAE and CDAE.")] = "cpu",
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results; finished ones are not run again.")],
) -> None:
    """Measure what denoised training recovers, and print tables."""
    names, kind_names, model_names, rows = (
        [each.strip() for each in text.split(",") if each.strip()] for text in (logs, kinds, models, controls)
    )
    for label, chosen, allowed in (
        ("logs", names, tuple(DATASETS)),
        ("kinds", kind_names, KINDS),
        ("models", model_names, tuple(MODELS)),
        ("controls", rows, (*CONTROLS, ORACLE)),
    ):
        for each in chosen:
            check_choice(label, each, allowed)
    check_int("seeds", seeds, 1)
    check_int("processes", processes, 1)
    create_folder(out)
    cells = [
        Cell(log, kind, seed, model) for model, log, kind, seed in product(model_names, names, kind_names, range(seeds))
    ]
    splits = [Split(*each) for each in product(names, kind_names, range(seeds))]
    tasks: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
        (store_weights, (split, part, row, out))
        for split, part, row in product(splits, PARTS, (DENOISED, ORACLE))
        if row == DENOISED or (ORACLE in rows and split.kind != "none")
    ]
    cell_tasks = [(run_cell, (cell, rows, device, out)) for cell in cells if not (out / cell.file_name).exists()]
    if processes == 1:
        for function, arguments in (*tasks, *cell_tasks):
            function(*arguments)
    else:
        # Processes with CUDA cannot be forked.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, context, use_one_core, (context.Value("i", 0),)) as pool:
            for stage in (tasks, cell_tasks):
                for future in [pool.submit(function, *arguments) for function, arguments in stage]:
                    future.result()
    print(make_tables([json.loads((out / cell.file_name).read_text(encoding="utf-8")) for cell in cells]))


class Split(NamedTuple):
    """One log with one kind of noise, split once."""

    log: str
    kind: str
    seed: int

    def make_parts(self) -> tuple[Mapping[str, Part], Interactions, Interactions]:
        """Return the parts to train on, the validation part of the inner one, and the test part of the outer one."""
        split = prorec.split_by_user(load_log(self.log), (0.8, 0.2), seed=self.seed)
        clicks, is_noise = split.train, np.zeros(len(split.train), dtype=bool)
        if self.kind != "none":
            noisy = prorec.inject_noise(split.train, _LEVEL, self.kind, seed=self.seed)  # type: ignore[arg-type]
            clicks, is_noise = noisy.interactions, noisy.is_noise
        inner = prorec.split_by_user(clicks, (0.75, 0.25), seed=self.seed)
        parts = {"inner": Part(inner.train, is_noise[inner.part == TRAIN]), "outer": Part(clicks, is_noise)}
        return parts, inner.test, split.test


class Part(NamedTuple):
    """Interactions to train on, and which of them are noise."""

    clicks: Interactions
    is_noise: NDArray[np.bool_]


PARTS = ("inner", "outer")


def store_weights(split: Split, part: str, row: str, out: Path) -> None:
    """Find the weights of a part, which all models share, and write them into a file."""
    path = weights_path(split, part, row, out)
    if path.exists():
        return
    chosen = split.make_parts()[0][part]
    if row == ORACLE:
        weights = _find_oracle_weights(chosen, split.seed)
    else:
        weights = prorec.NoiseFinder(seed=split.seed).fit(chosen.clicks).weights_
    with atomic_write(path) as file, file.open("wb") as stream:
        np.savez_compressed(stream, weights=weights)


def weights_path(split: Split, part: str, row: str, out: Path) -> Path:
    """Return the file of the weights of one part."""
    return out / f"weights-{split.log}-{split.kind}-{split.seed}-{part}-{row}.npz"


def _find_oracle_weights(part: Part, seed: int) -> Weights:
    """Return weights of a noise finder that knows which of the interactions in other folds are noise."""
    weights = np.empty(len(part.clicks), dtype=np.float32)
    folds = assign_folds(part.clicks.matrix, _ORACLE_FOLDS, make_generator(seed))
    for fold in range(_ORACLE_FOLDS):
        is_known = folds != fold
        finder = prorec.NoiseFinder(seed=seed)
        finder.fit(part.clicks, trusted=is_known & ~part.is_noise, suspect=is_known & part.is_noise)
        weights[~is_known] = finder.weights_[~is_known]
    return weights


def run_cell(cell: Cell, row_names: Sequence[str], device: str, out: Path) -> None:
    """Measure one cell, and write the results into a file."""
    start = time.perf_counter()
    split = Split(*cell[:3])
    parts, valid, test = split.make_parts()
    model, grid = MODELS[cell.model]
    model = cap_rank(model, parts["outer"].clicks.matrix.shape)
    if isinstance(model, EASE | VAE | CDAE):
        model = replace(model, device=device)
    rows: dict[str, Any] = {}
    for row in (PLAIN, DENOISED, REMOVED, *row_names):
        if cell.kind == "none" and row in (REMOVED, ORACLE):
            continue
        weights = {name: _row_weights(row, split, name, part, out) for name, part in parts.items()}
        begin = rows[PLAIN]["parameters"] if rows else None
        parameters = _tune(model, grid, parts["inner"].clicks.with_weights(weights["inner"]), valid, begin)
        weighted = parts["outer"].clicks.with_weights(weights["outer"])
        starts = [{"seed": seed} for seed in range(_FITS)] if isinstance(model, VAE | CDAE) else [{}]
        fits = [_fit(with_parameters(model, parameters | start), weighted) for start in starts]
        results = [prorec.evaluate(fitted, test, k=10).per_user for fitted in fits]
        values = {name: np.mean([each[name] for each in results], axis=0).round(5).tolist() for name in METRICS}
        rows[row] = {"parameters": parameters, **values}
    record = cell._asdict() | {"rows": rows, "seconds": round(time.perf_counter() - start, 1)}
    with atomic_write(out / cell.file_name) as file:
        file.write_text(json.dumps(record) + "\n", encoding="utf-8")


def _row_weights(row: str, split: Split, name: str, part: Part, out: Path) -> Weights:
    """Return the weights of one row of the results on one part."""
    if row == PLAIN:
        return np.ones(len(part.clicks), dtype=np.float32)
    if row == REMOVED:
        return np.where(part.is_noise, np.float32(0), np.float32(1))
    with np.load(weights_path(split, name, row if row == ORACLE else DENOISED, out), allow_pickle=False) as arrays:
        weights = np.asarray(arrays["weights"])
    return CONTROLS[row](weights, part.clicks) if row in CONTROLS else weights


def _fit(model: Model, clicks: Interactions) -> Any:
    """Fit a model as `ProRec` does: its penalty suits the size of the weights."""
    weights = clicks.matrix.data
    neutral: Any = make_neutral(model, weights, np.ones_like(weights))
    return neutral.fit(clicks)


def _tune(
    model: Model, grid: Grid, clicks: Interactions, valid: Interactions, begin: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return parameters that are good on the validation part, by a search along one parameter at a time.

    The plain model has nowhere to begin from: it starts at the default and takes what is best, in two passes. Others
    begin at the plain model's parameters, and must be better than these by a standard error.
    """

    def measure(parameters: dict[str, Any]) -> NDArray[np.float64]:
        fitted = _fit(with_parameters(model, parameters), clicks)
        return prorec.evaluate(fitted, valid, k=10).per_user[METRICS[0]]

    margin, passes = (0, 2) if begin is None else (1, 1)
    best = dict(begin) if begin is not None else {name: model.get_params()[name] for name in grid}
    with share_results():
        best_values, tried = measure(best), [best]
        for _ in range(passes):
            for name, values in grid.items():
                for value in values:
                    parameters = best | {name: value}
                    if parameters in tried:
                        continue
                    tried.append(parameters)
                    found = measure(parameters)
                    difference = found - best_values
                    error = difference.std() / np.sqrt(len(difference))
                    if difference.mean() > margin * error:
                        best, best_values = parameters, found
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
    clean_rows = [row for row in others if row not in (REMOVED, ORACLE)]
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
            cells = [f"{_share_recovered(noisy, row):.0%}" if _has_row(noisy, row) else _MISSING for row in compared]
            p = f"{_p_against(noisy, DENOISED, 'shuffled'):.1g}" if _has_row(noisy, "shuffled") else _MISSING
            in_all.append(f"| {model} | {' | '.join(cells)} | {p} |")
    return "\n\n".join("\n".join(lines) for lines in (clean, by_noise, in_all) if len(lines) > 2)


def _has_row(groups: Sequence[Sequence[Mapping[str, Any]]], row: str) -> bool:
    """Return whether a row, such as a control, was run in all cells."""
    return all(row in record["rows"] for own in groups for record in own)


def _values(records: Sequence[Mapping[str, Any]], row: str) -> NDArray[np.float64]:
    """Return NDCG@10 of each user, as a mean over splits."""
    return np.asarray(np.mean([record["rows"][row][METRICS[0]] for record in records], axis=0))


def _mean(records: Sequence[Mapping[str, Any]], row: str) -> float:
    return float(_values(records, row).mean())


def _describe_gain(records: Sequence[Mapping[str, Any]], row: str) -> str:
    """Return the relative difference from the plain model; * means p < .01 over users."""
    if not _has_row([records], row):
        return _MISSING
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
