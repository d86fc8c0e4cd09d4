"""Search methods of `tune`: which combination of parameters to try next.

A search is a generator. It yields a combination, receives the value that this combination scored (−∞ if it could not
be fitted), and ends when it has nothing left to try.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Literal

from prorec._core.errors import MissingExtraError
from prorec._core.versions import advise_install

Grid = Mapping[str, Sequence[Any]]
"""Values to try, by parameter; `model__rank` is the parameter `rank` of the model inside a denoiser."""
SearchMethod = Literal["grid", "coordinate", "random", "tpe"]
Search = Generator[dict[str, Any], float, None]


def make_search(method: SearchMethod, grid: Grid, parameters: Mapping[str, Any], seed: int) -> Search:
    """Start a search over a grid.

    Parameters
    ----------
    method : {"grid", "coordinate", "random", "tpe"}
        Search method, see `prorec.tune`.
    grid : mapping
        Values to try, by parameter.
    parameters : mapping
        The model's own values, from which `"coordinate"` starts.
    seed : int
        Seed of Optuna's samplers.

    Returns
    -------
    generator
        Yields combinations; `send` passes it the value of the last one.
    """
    if method == "grid":
        return _search_grid(grid)
    if method == "coordinate":
        return _search_coordinates(grid, parameters)
    return _search_with_optuna(method, grid, seed)


def _search_grid(grid: Grid) -> Search:
    """Try all combinations, the last parameter fastest."""
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))


def _search_coordinates(grid: Grid, parameters: Mapping[str, Any]) -> Search:
    """Change one parameter at a time to its best value, until no change of a single parameter helps.

    The search starts from the model's own values, or from the middle of the grid where that lacks them.
    """
    best = {
        name: parameters[name] if parameters[name] in values else values[len(values) // 2]
        for name, values in grid.items()
    }
    best_value = yield best
    tried = [best]
    n_unchanged = 0
    for name in itertools.cycle(grid):
        n_unchanged += 1
        for candidate in [{**best, name: value} for value in grid[name]]:
            if candidate in tried:
                continue
            tried.append(candidate)
            value = yield candidate
            if value > best_value:
                best_value, best, n_unchanged = value, candidate, 0
        if n_unchanged >= len(grid):
            return


def _search_with_optuna(method: SearchMethod, grid: Grid, seed: int) -> Search:
    """Draw combinations with one of Optuna's samplers, without end."""
    try:
        import optuna
    except ModuleNotFoundError:
        raise MissingExtraError(
            f"search={method!r} requires Optuna, which is not installed: {advise_install('tune')}, "
            "or use search='coordinate'"
        ) from None
    samplers = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=samplers[method](seed=seed))
    optuna.logging.set_verbosity(verbosity)
    while True:
        trial = study.ask()
        value = yield {name: trial.suggest_categorical(name, list(values)) for name, values in grid.items()}
        # A failed trial scores less than any metric, so that the sampler avoids its neighbours.
        study.tell(trial, value if math.isfinite(value) else -1.0)
