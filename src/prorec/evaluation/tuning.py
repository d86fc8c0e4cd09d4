"""Choosing a model's parameters on the validation part, and on nothing else."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from prorec._core.checks import check_choice, check_int, safe_repr
from prorec._core.digest import digest
from prorec._core.errors import InputError
from prorec._core.files import atomic_write, prefix_errors
from prorec.evaluation.metrics import Family
from prorec.evaluation.ranking_evaluation import evaluate
from prorec.interactions import Interactions
from prorec.interactions.tables import FrameType, to_frame
from prorec.models.model import Model
from prorec.models.storage import json_default
from prorec.models.svd import share_decompositions

Grid = Mapping[str, Sequence[Any]]
Search = Literal["grid", "coordinate", "random", "tpe"]
_INSIDE = "model."

_DEEP = {
    "learning_rate": (0.0005, 0.001, 0.005, 0.01),
    "regularization": (0.0005, 0.001, 0.005, 0.01),
    "batch_size": (100, 250, 500, 1000),
}
PAPER_GRIDS: Mapping[str, Grid] = MappingProxyType(
    {
        "SVD": {"rank": (20, 50, 100, 200)},
        "NCE": {
            "rank": (20, 50, 100, 200),
            "regularization": (300.0, 1000.0, 3000.0, 10000.0, 30000.0),
            "popularity_power": (0.9, 1.0, 1.1, 1.2),
        },
        "WRMF": {
            "rank": (20, 50, 100, 200),
            "alpha": (1.0, 3.0, 10.0, 30.0, 100.0),
            "regularization": (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
        },
        "EASE": {"regularization": (10.0, 50.0, 100.0, 250.0, 500.0, 1000.0)},
        "CDAE": _DEEP,
        "VAE": _DEEP,
        "Popularity": {},
        "ProRec": {
            "lam": (0.25, 0.5, 0.75, 1.0),
            "gamma": (0.05, 0.075, 0.1, 0.125, 0.15, 0.175),
            "beta": (1.0, 5.0, 10.0, 20.0, 50.0),
        },
    }
)
"""What is tried by default, by model: ProRec's λ, γ and β, and learning rate, ζ and batch size of the deep models, as
in the paper's implementation details; ranks and regularisation of the others, which the paper leaves to the original
papers, around what is published for them, in steps of three: with steps of ten, a model that is regularised too little
gains by anything that makes its weights smaller."""


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """What was tried, and what came out best."""

    best: Model
    """The model with the best parameters, not fitted."""
    best_value: float
    """What it scored on the validation part."""
    metric: str
    trials: tuple[Mapping[str, Any], ...]
    """One for each trial: its parameters, its value (None where it failed), seconds, and what went wrong."""

    def __repr__(self) -> str:
        return f"Tuning({len(self.trials)} trials, best {self.metric} {self.best_value:.4f}: {self.best})"

    def to_table(self, kind: FrameType = "pyarrow") -> Any:
        """One row for each trial, best first."""
        ordered = sorted(self.trials, key=lambda trial: np.inf if trial["value"] is None else -trial["value"])
        names = list(ordered[0]["parameters"]) if ordered else []
        columns: dict[str, Any] = {name: _column([trial["parameters"][name] for trial in ordered]) for name in names}
        for name in ("value", "seconds", "error"):
            columns[self.metric if name == "value" else name] = [trial[name] for trial in ordered]
        return to_frame(pa.table(columns), kind)


def tune(
    model: Model,
    train: Interactions,
    valid: Interactions,
    grid: Grid | None = None,
    *,
    search: Search = "grid",
    trials: int | None = None,
    metric: str = "ndcg@10",
    metrics: Family = "standard",
    seed: int = 0,
    folder: str | Path | None = None,
    show_progress: bool = False,
) -> Tuning:
    """Fit on `train` with one choice of parameters after the other, judge each on `valid`.

    Parameters
    ----------
    model : the model, with the parameters that stay as they are
    train, valid : two parts of one split; keep the test part out of this
    grid : values to try, by parameter; by default the model's in `PAPER_GRIDS`. Those of the model inside a denoiser
        are called `model.rank` and so on
    search : `grid` tries all combinations. `coordinate` begins with the model as it is and changes one parameter after
        the other to the best of its values, until no change of one helps. `random` and `tpe` draw combinations with
        Optuna's samplers
    trials : how many combinations to try at most; `grid` and `coordinate` don't need to be told
    metric : what to choose by
    metrics : which family of definitions
    seed : of the samplers
    folder : where to keep the trials; those that are there already are not run again
    show_progress : show a bar with the best so far
    """
    grid = _checked_grid(model, grid)
    check_choice("search", search, ("grid", "coordinate", "random", "tpe"))
    for name, part in (("train", train), ("valid", valid)):
        if not isinstance(part, Interactions):
            raise InputError(f"{name} must be Interactions; got {type(part).__name__}")
    seed = check_int("seed", seed, 0, 2**32 - 1)
    length = metric.rpartition("@")[2] if isinstance(metric, str) else ""
    if not length.isdecimal() or not 1 <= len(length) <= 9 or int(length) < 1:
        raise InputError(f"metric must be like ndcg@10; got {safe_repr(metric)}")
    n_combinations = int(np.prod([len(values) for values in grid.values()])) if grid else 1
    n_trials = n_combinations if trials is None and search in ("grid", "coordinate") else check_int("trials", trials, 1)
    kept = _Kept(None if folder is None else Path(folder), model, train, valid, f"{metrics} {metric}")
    done: list[Mapping[str, Any]] = []

    def run(parameters: Mapping[str, Any]) -> float:
        trial = kept.get(parameters)
        if trial is None:
            trial = _trial(changed(model, parameters), parameters, train, valid, metric, int(length), metrics)
            kept.add(trial)
        done.append(trial)
        value = trial["value"]
        return -np.inf if value is None else float(value)

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with share_decompositions(), Progress(*columns, disable=not show_progress) as bar:
        task = bar.add_task("tuning", total=n_trials)
        best = -np.inf
        for value in _search(model, grid, search, n_trials, seed, run):
            best = max(best, value)
            bar.update(task, advance=1, description=f"best {metric} {best:.4f}")
    if not np.isfinite(best):
        raise InputError(f"no choice of parameters could be fitted; the first said: {done[0]['error']}")
    winner = next(trial for trial in done if trial["value"] == best)
    return Tuning(changed(model, winner["parameters"]), best, metric, tuple(done))


def changed(model: Any, parameters: Mapping[str, Any]) -> Any:
    """The model with other parameters; those of the model inside it are called `model.rank` and so on."""
    inside = {name.removeprefix(_INSIDE): value for name, value in parameters.items() if name.startswith(_INSIDE)}
    own = {name: value for name, value in parameters.items() if not name.startswith(_INSIDE)}
    return replace(model, **own, **({"model": replace(model.model, **inside)} if inside else {}))


def _column(values: list[Any]) -> Any:
    try:
        return pa.array(values)
    except pa.ArrowInvalid:  # of several kinds, such as None, 1 and "a"
        return pa.array([str(value) for value in values])


def _search(
    model: Model, grid: Grid, search: Search, n_trials: int, seed: int, run: Callable[[Mapping[str, Any]], float]
) -> Iterator[float]:
    if search == "grid":
        choices = itertools.product(*grid.values())
        for values in itertools.islice(choices, n_trials):
            yield run(dict(zip(grid, values, strict=True)))
        return
    if search == "coordinate":
        yield from itertools.islice(_by_coordinates(model, grid, run), n_trials)
        return
    try:
        import optuna
    except ModuleNotFoundError:
        raise InputError(
            f"search={search!r} needs Optuna, which is not installed: pip install 'prorec[tune]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    samplers = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
    study = optuna.create_study(direction="maximize", sampler=samplers[search](seed=seed))
    for _ in range(n_trials):
        trial = study.ask()
        chosen = {name: trial.suggest_categorical(name, list(values)) for name, values in grid.items()}
        value = run(chosen)
        # A trial that failed is told as worse than anything, so that its neighbours are tried less.
        study.tell(trial, value if np.isfinite(value) else -1.0)
        yield value


def _by_coordinates(model: Model, grid: Grid, run: Callable[[Mapping[str, Any]], float]) -> Iterator[float]:
    """From the model's own values, or the middle ones where the grid has not got those, one parameter at a time."""
    own = {name: _value(model, name) for name in grid}
    now = {name: own[name] if own[name] in values else values[len(values) // 2] for name, values in grid.items()}
    best = run(now)
    yield best
    tried = [now]
    unchanged = 0
    for name in itertools.cycle(grid):
        unchanged += 1
        for choice in ({**now, name: value} for value in grid[name]):
            if choice in tried:
                continue
            tried.append(choice)
            value = run(choice)
            if value > best:
                best, now, unchanged = value, choice, 0
            yield value
        if unchanged >= len(grid):
            return


def _value(model: Any, name: str) -> Any:
    return getattr(model.model, name.removeprefix(_INSIDE)) if name.startswith(_INSIDE) else getattr(model, name)


def _trial(
    model: Any,
    parameters: Mapping[str, Any],
    train: Interactions,
    valid: Interactions,
    metric: str,
    length: int,
    metrics: Family,
) -> Mapping[str, Any]:
    begin = time.perf_counter()
    value, problem = None, None
    try:
        mean = evaluate(model.fit(train), valid, k=length, metrics=metrics).mean
        if metric not in mean:
            raise _NoSuchMetric(f"metric must be one of {', '.join(mean)}; got {metric!r}")
        value = mean[metric]
    except _NoSuchMetric:
        raise
    except InputError as error:
        problem = str(error)
    return {
        "parameters": dict(parameters),
        "value": value,
        "seconds": round(time.perf_counter() - begin, 3),
        "error": problem,
    }


class _NoSuchMetric(InputError):
    """The same for all trials, so there is no use in going on."""


class _Kept:
    """Trials on disk, for one model and one pair of parts."""

    def __init__(self, folder: Path | None, model: Model, train: Interactions, valid: Interactions, how: str) -> None:
        parts = (train.matrix, valid.matrix)
        arrays = (array for part in parts for array in (part.indptr, part.indices, part.data))
        of = digest(np.frombuffer(f"{model!r} {how}".encode(), dtype=np.uint8), *arrays)
        self._path = None if folder is None else folder / f"trials-{of}.json"
        self._trials: list[Mapping[str, Any]] = []
        if self._path is not None:
            with prefix_errors(self._path):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                if self._path.exists():
                    self._trials = _read_trials(self._path)

    def get(self, parameters: Mapping[str, Any]) -> Mapping[str, Any] | None:
        # As text, in which 2 and 2.0 are two things.
        wanted = json.dumps(parameters, default=_written)
        found = (trial for trial in self._trials if json.dumps(trial["parameters"], default=_written) == wanted)
        trial = next(found, None)
        return None if trial is None else {**trial, "parameters": dict(parameters)}

    def add(self, trial: Mapping[str, Any]) -> None:
        if trial["value"] is None:
            return  # tried again next time: it may have been for want of a package
        if self._path is None:
            self._trials.append(trial)
            return
        with prefix_errors(self._path):
            if self._path.exists():  # another process may have added to it
                self._trials = _read_trials(self._path)
            if self.get(trial["parameters"]) is None:
                self._trials.append(trial)
            with atomic_write(self._path) as temporary:
                temporary.write_text(json.dumps(self._trials, indent=1, default=_written) + "\n")


def _written(value: Any) -> Any:
    """A parameter as JSON has it: what is no number as it is shown."""
    try:
        return json_default(value)
    except TypeError:
        return repr(value)


def _read_trials(path: Path) -> list[Mapping[str, Any]]:
    try:
        trials = json.loads(path.read_text())
        for trial in trials:
            if not isinstance(trial["parameters"], dict) or not isinstance(trial["value"], float):
                raise TypeError("a trial has parameters and a value")
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"not a file of trials: {error}") from None
    return list(trials)


def _checked_grid(model: Any, grid: Any) -> Grid:
    if not isinstance(model, Model):
        raise InputError(f"model must be one of prorec.models; got {type(model).__name__}")
    name = type(model).__name__
    if grid is None:
        if name not in PAPER_GRIDS:
            raise InputError(f"there is no default grid for {name}; give one, such as {{'rank': [50, 100]}}")
        return PAPER_GRIDS[name]
    if not isinstance(grid, Mapping):
        raise InputError(f"grid must be a mapping from parameters to lists of values; got {type(grid).__name__}")
    known = [each.name for each in fields(model) if each.init]  # type: ignore[arg-type]
    if isinstance(inner := getattr(model, "model", None), Model):
        known += [f"{_INSIDE}{each.name}" for each in fields(inner) if each.init]  # type: ignore[arg-type]
    for parameter, values in grid.items():
        if parameter not in known:
            raise InputError(f"grid has {parameter!r}, which is no parameter of {name}; there are {', '.join(known)}")
        if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
            raise InputError(f"grid[{parameter!r}] must be a list of at least one value; got {values!r}")
    return grid
