"""The arena: published denoisers with their own losses on LightGCN, beside plain training, ProRec and its controls.

Four fifths of each user's interactions get noise and train; one fifth tests. All methods train the same network, and
are tuned with the same number of trials on a quarter of the noisy training part, as users would have to. Trials are
drawn from a grid; those of all methods have the same learning rates, regularizations and numbers of epochs, drawn once,
beside values of the method's own parameters. The best one trains on the whole noisy part.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

import prorec
from prorec._core.checks import check_choice, check_int
from prorec._core.errors import InputError
from prorec._core.files import atomic_write
from prorec._core.random import make_generator
from prorec.data.registry import DATASETS
from prorec.evaluation import detection_metrics
from prorec.evaluation.parameter_search import Grid
from prorec.interactions import Interactions
from prorec.models import Model
from prorec.models.wrap import wrap
from reproduction.arena_methods import METHODS, Fitted, Method, Settings, shared_grid
from reproduction.arena_tables import RANKING_METRICS, make_tables
from reproduction.finder_promises import use_one_core
from reproduction.output import create_folder
from reproduction.recovery import CONTROLS, DENOISED, KINDS, PARTS, REMOVED, Part, Split, store_weights, weights_path

Weights = NDArray[np.float32]
Task = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments."""

_LENGTHS = (10, 20)
_PATIENCE = 5
_LOOKS = 20


class Cell(NamedTuple):
    """One log with one kind of noise, one split and one method."""

    log: str
    kind: str
    seed: int
    method: str

    @property
    def file_name(self) -> str:
        """Name of the file of the results."""
        return f"arena-{self.log}-{self.kind}-{self.seed}-{self.method.replace(' ', '-')}.json"


def main(
    logs: Annotated[str, typer.Option(help="Data sets, separated by commas.")] = "ml-100k,ml-1m,amusic,atoy,gowalla",
    kinds: Annotated[str, typer.Option(help="Kinds of noise, separated by commas.")] = "none,uniform,popularity",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = ",".join(METHODS),
    trials: Annotated[int, typer.Option(help="Trials of each method on each split.")] = 10,
    seeds: Annotated[int, typer.Option(help="Number of splits.")] = 5,
    rank: Annotated[int, typer.Option(help="Number of factors.")] = 64,
    epochs: Annotated[int, typer.Option(help="Largest number of epochs.")] = 60,
    processes: Annotated[int, typer.Option(help="Number of processes, which share the device.")] = 1,
    device: Annotated[str, typer.Option(help="Device of PyTorch.")] = "cpu",
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for results; finished ones are not run again.")],
) -> None:
    """Compare denoisers on LightGCN, all tuned alike, and print tables."""
    names, kind_names, method_names = (
        [each.strip() for each in text.split(",") if each.strip()] for text in (logs, kinds, methods)
    )
    for label, chosen, allowed in (
        ("logs", names, tuple(DATASETS)),
        ("kinds", kind_names, KINDS),
        ("methods", method_names, tuple(METHODS)),
    ):
        for each in chosen:
            check_choice(label, each, allowed)
    settings = Settings(check_int("rank", rank, 1), check_int("epochs", epochs, 1), device=device)
    n_shared = len(list(product(*shared_grid(epochs).values())))
    check_int("trials", trials, 1, n_shared, "the number of combinations that all methods share")
    check_int("seeds", seeds, 1)
    check_int("processes", processes, 1)
    create_folder(out)
    cells = [
        Cell(log, kind, seed, method)
        for log, kind, seed, method in product(names, kind_names, range(seeds), method_names)
        if not (kind == "none" and method == REMOVED)
    ]
    splits = dict.fromkeys(Split(*cell[:3]) for cell in cells if METHODS[cell.method].weights in (DENOISED, *CONTROLS))
    finder_tasks: list[Task] = [(store_weights, (split, part, DENOISED, out)) for split, part in product(splits, PARTS)]
    cell_tasks: list[Task] = [(load_or_run, (cell, trials, settings, out)) for cell in cells]
    if processes == 1:
        results = [function(*arguments) for function, arguments in (*finder_tasks, *cell_tasks)]
    else:
        # Processes with CUDA cannot be forked.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(processes, context, use_one_core, (context.Value("i", 0),)) as pool:
            results = []
            for stage in (finder_tasks, cell_tasks):
                futures = [pool.submit(function, *arguments) for function, arguments in stage]
                results += [future.result() for future in futures]
    print(make_tables(results[len(finder_tasks) :]))


def load_or_run(cell: Cell, trials: int, settings: Settings, out: Path) -> dict[str, Any]:
    """Return the record of a cell; run the cell if the folder does not have it."""
    path = out / cell.file_name
    size = {"rank": settings.rank, "epochs": settings.epochs, "trials": trials}
    if path.exists():
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if record["size"] != size:
            raise InputError(
                f"all results in a folder must have the same rank, epochs and trials; {path.name} has "
                f"{record['size']}, and {size} was asked for. Choose another folder."
            )
        return record
    record = run_cell(cell, trials, settings._replace(seed=cell.seed), out) | {"size": size}
    with atomic_write(path) as file:
        file.write_text(json.dumps(record) + "\n", encoding="utf-8")
    return record


def run_cell(cell: Cell, trials: int, settings: Settings, out: Path) -> dict[str, Any]:
    """Tune a method on one split, train it on the whole noisy part, and measure it.

    Parameters
    ----------
    cell : Cell
        The log, the kind of noise, the split and the method.
    trials : int
        Number of trials.
    settings : Settings
        What is the same for all methods.
    out : Path
        Folder with the weights of the noise finder, if the method needs them.

    Returns
    -------
    dict
        `parameters`, the metrics of each user, and `auroc` and `ap` if there is noise.
    """
    start = time.perf_counter()
    split, method = Split(*cell[:3]), METHODS[cell.method]
    parts, valid, test = split.make_parts()
    inner, outer = (_weigh(method, split, name, parts[name], out) for name in PARTS)
    settings = settings._replace(rank=min(settings.rank, *outer.matrix.shape))
    parameters, value = tune(method, inner, valid, trials, settings)
    fitted = method.fit(outer, parameters, settings)
    per_user = prorec.evaluate(as_model(fitted, outer), test, k=_LENGTHS).per_user
    record = cell._asdict() | {"parameters": parameters, "valid": value}
    record |= {name: np.round(per_user[name], 5).tolist() for name in RANKING_METRICS}
    if cell.kind != "none" and cell.method != REMOVED:
        found = detection_metrics(fitted.noise_scores, parts["outer"].is_noise)
        record |= {name: found[name] for name in ("auroc", "ap")}
    return record | {"seconds": round(time.perf_counter() - start, 1)}


def tune(
    method: Method, clicks: Interactions, valid: Interactions, trials: int, settings: Settings
) -> tuple[dict[str, Any], float]:
    """Return the parameters of the best trial, and its NDCG@10 on the validation part."""
    best: tuple[dict[str, Any], float] = ({}, -1.0)
    for parameters in draw_trials(shared_grid(settings.epochs), method.grid, trials, settings.seed):
        if method.stops_early:
            look = Look(clicks, valid, settings.epochs)
            method.fit(clicks, {**parameters, "epochs": settings.epochs}, settings, look)
            tried = ({**parameters, "epochs": look.best_epoch}, look.best)
        else:
            tried = (parameters, _measure(method.fit(clicks, parameters, settings), clicks, valid))
        best = max(best, tried, key=lambda each: each[1])
    return best


def draw_trials(shared: Grid, own: Grid, trials: int, seed: int) -> list[dict[str, Any]]:
    """Draw combinations of parameters: the shared ones without repeats and alike for all methods, the own ones apart.

    Parameters
    ----------
    shared, own : Grid
        Values by parameter.
    trials : int
        Number of combinations.
    seed : int
        Seed of the draws.

    Returns
    -------
    list of dict
    """
    combinations = [dict(zip(shared, values, strict=True)) for values in product(*shared.values())]
    chosen = make_generator(seed).permutation(len(combinations))[:trials]
    rng = make_generator(seed)
    return [
        combinations[number] | {name: values[int(rng.integers(len(values)))] for name, values in own.items()}
        for number in chosen
    ]


class Look:
    """A look at the validation part after some epochs; training stops when several looks found nothing better.

    Parameters
    ----------
    clicks, valid : Interactions
        Training and validation part.
    epochs : int
        Largest number of epochs.
    """

    def __init__(self, clicks: Interactions, valid: Interactions, epochs: int) -> None:
        self._clicks, self._valid, self._every = clicks, valid, max(1, epochs // _LOOKS)
        self.best, self.best_epoch = -1.0, 0

    def __call__(self, epoch: int, users: NDArray[np.float32], items: NDArray[np.float32]) -> bool:
        """Look at the factors after an epoch, and return whether training shall stop."""
        if epoch % self._every:
            return False
        value = _measure(Fitted(users, items, np.empty(0)), self._clicks, self._valid)
        if value > self.best:
            self.best, self.best_epoch = value, epoch
        return epoch - self.best_epoch >= _PATIENCE * self._every


def as_model(fitted: Fitted, clicks: Interactions) -> Model:
    """Return a fitted model with given factors, which recommends none of the clicks."""
    return wrap(_GivenFactors(fitted.users, fitted.items)).fit(clicks)


class _GivenFactors:
    """Factors in the shape of a model of another library."""

    def __init__(self, users: NDArray[np.float32], items: NDArray[np.float32]) -> None:
        self.user_factors, self.item_factors = users, items

    def fit(self, matrix: object) -> None:
        """Learn nothing."""


def _measure(fitted: Fitted, clicks: Interactions, valid: Interactions) -> float:
    return float(prorec.evaluate(as_model(fitted, clicks), valid, k=10).mean[RANKING_METRICS[0]])


def _weigh(method: Method, split: Split, name: str, part: Part, out: Path) -> Interactions:
    """Return the clicks of a part with the weights that the method trains on."""
    if method.weights is None:
        return part.clicks
    if method.weights == REMOVED:
        return part.clicks.with_weights(np.where(part.is_noise, np.float32(0), np.float32(1)))
    with np.load(weights_path(split, name, DENOISED, out), allow_pickle=False) as arrays:
        weights = np.asarray(arrays["weights"])
    return part.clicks.with_weights(CONTROLS.get(method.weights, _keep)(weights, part.clicks))


def _keep(weights: Weights, clicks: Interactions) -> Weights:
    return weights
