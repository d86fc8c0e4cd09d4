"""Choose a model's parameters by their metric on the validation part."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict, TypeVar

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from prorec._core.checks import check_choice, check_int, safe_repr
from prorec._core.digest import digest
from prorec._core.errors import InputError
from prorec._core.estimator import Estimator
from prorec._core.files import atomic_write, prefix_errors, read_small_text
from prorec._core.progress import Progress, check_progress
from prorec._core.sharing import share_results
from prorec.evaluation.metrics import FAMILIES, Family
from prorec.evaluation.parameter_search import Grid, SearchMethod, make_search
from prorec.evaluation.ranking_evaluation import evaluate
from prorec.interactions import Interactions
from prorec.interactions.tables import FrameType, to_frame
from prorec.models.storage import json_default

_MAX_TRIALS_BYTES = 1 << 28
"""Largest size of a file of trials."""
_DEEP_GRID = {
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
        "SparseLinear": {"regularization": (10.0, 30.0, 100.0, 300.0), "activity_power": (0.0, 0.5)},
        "BPR": {
            "rank": (32, 64, 128),
            "regularization": (0.001, 0.003, 0.01, 0.03),
            "learning_rate": (0.02, 0.05, 0.1, 0.2),
        },
        "LightGCN": {
            "layers": (1, 2, 3),
            "learning_rate": (0.001, 0.003, 0.01),
            "regularization": (1e-5, 1e-4, 1e-3, 1e-2),
        },
        "CDAE": _DEEP_GRID,
        "VAE": _DEEP_GRID,
        "Popularity": {},
        "ProRec": {
            "lam": (0.25, 0.5, 0.75, 1.0),
            "gamma": (0.05, 0.075, 0.1, 0.125, 0.15, 0.175),
            "beta": (1.0, 5.0, 10.0, 20.0, 50.0),
        },
    }
)
"""The default grid of each model.

λ, γ and β of ProRec, and learning rate, ζ and batch size of the deep models, are those of the paper's implementation
details. The paper leaves ranks and regularization of the other models to their original papers; these grids surround
the published values in steps of three. With steps of ten, a model that is regularized too little gains by anything
that makes its weights smaller. The grids of models that the paper does not have surround their defaults.
"""

_Estimator = TypeVar("_Estimator", bound=Estimator)


class Trial(TypedDict):
    """One combination of parameters and its result."""

    parameters: dict[str, Any]
    """Values by parameter."""
    value: float | None
    """The metric on the validation part; None if the model could not be fitted."""
    seconds: float
    """Time to fit and to evaluate."""
    error: str | None
    """Message of the error that stopped the fit, or None."""


@dataclass(frozen=True, eq=False, repr=False)
class TuningResult:
    """All trials and the best model of a call of `tune`."""

    best_model: Any
    """The model with the best parameters, not fitted."""
    best_value: float
    """Its metric on the validation part."""
    metric: str
    """Name of the metric, such as `ndcg@10`."""
    trials: tuple[Trial, ...]
    """One entry per trial, in the order in which they ran."""
    frame_type: FrameType = "pyarrow"
    """Library of the table that `to_table` returns by default."""

    def __repr__(self) -> str:
        return f"TuningResult({len(self.trials)} trials, best {self.metric} {self.best_value:.4f}: {self.best_model})"

    def to_table(self, frame: FrameType | None = None) -> Any:
        """Return a table with one row per trial, best first.

        Parameters
        ----------
        frame : {"pyarrow", "pandas", "polars"}, optional
            Library of the table; by default that of the training part, or else pyarrow.

        Returns
        -------
        table
            A column for each parameter, then the metric, `seconds` and `error`.
        """
        ordered = sorted(self.trials, key=_value, reverse=True)
        columns: dict[str, Any] = {
            name: _make_column([trial["parameters"][name] for trial in ordered]) for name in ordered[0]["parameters"]
        }
        columns[self.metric] = [trial["value"] for trial in ordered]
        columns["seconds"] = [trial["seconds"] for trial in ordered]
        columns["error"] = [trial["error"] for trial in ordered]
        return to_frame(pa.table(columns), frame, self.frame_type)


def tune(
    model: Any,
    train: Interactions,
    valid: Interactions,
    grid: Grid | None = None,
    *,
    search: SearchMethod = "grid",
    trials: int | None = None,
    metric: str = "ndcg@10",
    metrics: Family = "standard",
    seed: int = 0,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> TuningResult:
    """Choose parameters: fit on `train` with each combination, evaluate on `valid`, keep the best.

    Keep the test part out of this, and evaluate the best model on it once.

    Parameters
    ----------
    model : Model or ProRec
        The model, with the parameters that are not tuned.
    train, valid : Interactions
        Two parts of one split.
    grid : mapping, optional
        Values to try, by parameter. `model__rank` is the parameter `rank` of the model inside a denoiser. The default
        is the model's entry in `PAPER_GRIDS`.
    search : {"grid", "coordinate", "random", "tpe"}, default "grid"
        `"grid"` tries all combinations. `"coordinate"` starts from the model as it is and changes one parameter after
        the other to its best value, until no change of a single parameter helps. `"random"` and `"tpe"` draw
        combinations with Optuna's samplers.
    trials : int, optional
        Maximum number of trials; required by `"random"` and `"tpe"`.
    metric : str, default "ndcg@10"
        The metric to maximize.
    metrics : {"standard", "paper"}, default "standard"
        Family of metric definitions.
    seed : int, default 0
        Seed of Optuna's samplers.
    folder : path, optional
        Folder that keeps the trials of this model on these parts. Trials that are already there do not run again.
    progress : callable, optional
        Called after each trial with the task, the number of trials done and the maximum number of trials.

    Returns
    -------
    TuningResult

    Raises
    ------
    InputError
        If an argument is invalid, or if no combination can be fitted.
    MissingExtraError
        If the search requires Optuna and Optuna is not installed.

    Examples
    --------
    >>> import prorec
    >>> parts = prorec.split_by_user(prorec.load_dataset("cinema"), (0.5, 0.2, 0.3))
    >>> result = prorec.tune(prorec.models.SVD(), parts.train, parts.valid, {"rank": [2, 50]})
    >>> result.best_model
    SVD(rank=50, activity_power=0.0, weight_meaning='probability', seed=0)
    """
    grid = _check_grid(model, grid)
    check_choice("search", search, ("grid", "coordinate", "random", "tpe"))
    check_choice("metrics", metrics, tuple(FAMILIES))
    for name, part in (("train", train), ("valid", valid)):
        if not isinstance(part, Interactions):
            raise InputError(f"{name} must be Interactions; got {type(part).__name__}")
    seed = check_int("seed", seed, 0, 2**32 - 1)
    k = _check_metric(metric)
    check_progress(progress)
    if trials is None and search in ("grid", "coordinate"):
        trials = math.prod(map(len, grid.values()))
    n_trials = check_int("trials", trials, 1)

    def score(parameters: dict[str, Any]) -> float:
        fitted = with_parameters(model, parameters).fit(train)
        return evaluate(fitted, valid, k=k, metrics=metrics).mean[metric]

    store = _TrialStore(folder, f"{model!r} {metrics} {metric}", (train.matrix, valid.matrix))
    done: list[Trial] = []
    candidates = make_search(search, grid, model.get_params(), seed)
    value: Any = None  # of the last trial; a generator is started with None
    with share_results():
        while len(done) < n_trials:
            try:
                parameters = candidates.send(value)
            except StopIteration:
                break
            trial = store.get(parameters)
            if trial is None:
                trial = _run_trial(parameters, score)
                store.add(trial)
            done.append(trial)
            value = _value(trial)
            if progress is not None:
                progress("Tuning", len(done), n_trials)
    if progress is not None and len(done) < n_trials:  # the search ended early
        progress("Tuning", n_trials, n_trials)
    best = max(done, key=_value)
    if best["value"] is None:
        raise InputError(f"grid must have a combination that can be fitted; the first trial failed: {done[0]['error']}")
    best_model = with_parameters(model, best["parameters"])
    return TuningResult(best_model, best["value"], metric, tuple(done), train.frame_type)


def with_parameters(estimator: _Estimator, parameters: Mapping[str, Any]) -> _Estimator:
    """Return an unfitted copy of an estimator with other parameters.

    Parameters
    ----------
    estimator : Estimator
        It stays as it is, and so does an estimator inside it.
    parameters : mapping
        New values by name, as `Estimator.set_params` takes them.

    Returns
    -------
    Estimator

    Examples
    --------
    >>> from prorec import ProRec
    >>> from prorec.models import SVD
    >>> with_parameters(ProRec(SVD()), {"model__rank": 7}).model
    SVD(rank=7, activity_power=0.0, weight_meaning='probability', seed=0)
    """
    inner = {
        name: replace(value)  # type: ignore[type-var]
        for name, value in estimator.get_params(deep=False).items()
        if isinstance(value, Estimator)
    }
    return replace(estimator, **inner).set_params(**parameters)  # type: ignore[type-var]


def _check_metric(metric: Any) -> int:
    """Check the name of a metric and return its list length."""
    name, _, length = metric.partition("@") if isinstance(metric, str) else ("", "", "")
    names = (*FAMILIES["standard"], "coverage")
    if name not in names or not length.isdecimal() or not 1 <= len(length) <= 9 or int(length) < 1:
        raise InputError(f"metric must be one of {', '.join(names)}, as in 'ndcg@10'; got {safe_repr(metric)}")
    return int(length)


def _check_grid(model: Any, grid: Any) -> Grid:
    """Check the model and its grid, and return the grid or the model's default."""
    if not isinstance(model, Estimator) or not hasattr(model, "recommend"):
        raise InputError(f"model must be one of prorec.models, or a ProRec; got {type(model).__name__}")
    name = type(model).__name__
    if grid is None:
        if name not in PAPER_GRIDS:
            raise InputError(f"grid must be given for {name}, which has no default; such as {{'rank': [50, 100]}}")
        return PAPER_GRIDS[name]
    if not isinstance(grid, Mapping):
        raise InputError(f"grid must be a mapping from parameters to lists of values; got {type(grid).__name__}")
    names = list(model.get_params())
    for parameter, values in grid.items():
        if parameter not in names:
            raise InputError(f"grid must have parameters of {name}: {', '.join(names)}; got {safe_repr(parameter)}")
        if isinstance(values, str) or not isinstance(values, Sequence) or not len(values):
            raise InputError(
                f"grid[{safe_repr(parameter)}] must be a list of at least one value; got {safe_repr(values)}"
            )
    return grid


def _run_trial(parameters: dict[str, Any], score: Callable[[dict[str, Any]], float]) -> Trial:
    """Fit and evaluate a model; bad parameters make a failed trial."""
    start = time.perf_counter()
    value, message = None, None
    try:
        value = score(parameters)
    except InputError as error:
        message = str(error)
    seconds = round(time.perf_counter() - start, 3)
    return {"parameters": parameters, "value": value, "seconds": seconds, "error": message}


def _value(trial: Trial) -> float:
    """Return the value of a trial, −∞ if it failed."""
    return -math.inf if trial["value"] is None else trial["value"]


def _make_column(values: list[Any]) -> Any:
    try:
        return pa.array(values)
    except pa.ArrowInvalid:  # mixed types, such as None, 1 and "a"
        return pa.array([str(value) for value in values])


class _TrialStore:
    """Successful trials of one setting and one split, in a JSON file or, without a folder, in memory."""

    def __init__(self, folder: str | Path | None, setting: str, matrices: tuple[csr_array, ...]) -> None:
        self._path: Path | None = None
        self._trials: dict[str, Trial] = {}
        if folder is not None:
            arrays = (array for matrix in matrices for array in (matrix.indptr, matrix.indices, matrix.data))
            identity = digest(np.frombuffer(setting.encode(), dtype=np.uint8), *arrays)
            self._path = Path(folder) / f"trials-{identity}.json"
            with prefix_errors(self._path):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._read()

    def get(self, parameters: dict[str, Any]) -> Trial | None:
        trial = self._trials.get(_parameters_key(parameters))
        return None if trial is None else {**trial, "parameters": parameters}

    def add(self, trial: Trial) -> None:
        if trial["value"] is None:
            return  # a later call runs it again: a package may have been missing
        self._trials[_parameters_key(trial["parameters"])] = trial
        if self._path is not None:
            with prefix_errors(self._path):
                self._read()  # another process may have added trials
                with atomic_write(self._path) as temporary:
                    text = json.dumps(list(self._trials.values()), indent=1, default=_to_json)
                    temporary.write_text(text + "\n")

    def _read(self) -> None:
        if self._path is None:
            return
        try:
            for trial in json.loads(read_small_text(self._path, _MAX_TRIALS_BYTES)):
                if not isinstance(trial["parameters"], dict) or not isinstance(trial["value"], float):
                    raise TypeError("a trial must have parameters and a value")
                self._trials[_parameters_key(trial["parameters"])] = trial
        except FileNotFoundError:
            return
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise InputError(f"not a file of trials: {error}. Delete it, or pass another folder") from None


def _parameters_key(parameters: Mapping[str, Any]) -> str:
    """Return parameters as JSON text, which tells 2 from 2.0."""
    return json.dumps(parameters, default=_to_json)


def _to_json(value: Any) -> Any:
    """Return a number as Python's own, and anything else as its `repr`."""
    try:
        return json_default(value)
    except TypeError:
        return repr(value)
