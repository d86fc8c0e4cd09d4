"""`prorec evaluate`: compare recommenders on a log, with significance."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from rich.console import Console

from prorec._core.checks import check_int, safe_repr
from prorec._core.errors import DataWarning, InputError
from prorec.cli.command import FieldsOf, Options, as_command
from prorec.cli.console import make_table, print_plain
from prorec.cli.exit_codes import blame_data
from prorec.cli.options import ConsoleOptions, LogOptions, TimeOptions
from prorec.denoise import ProRec
from prorec.denoise.controls import WeightChange, equalize_weights, make_control, shuffle_weights
from prorec.evaluation.comparison import TESTED_METRICS, SplitComparison, compare_on_splits
from prorec.evaluation.metrics import Family
from prorec.models.factory import cap_rank, make_model, parse_parameters
from prorec.models.model import Model

EvaluateSettings = Annotated[dict[str, Any], FieldsOf(ProRec, "Algorithm", exclude=("model", "flag_fraction", "fdr"))]
"""Parameters of a denoiser that change its weights; only those that were given."""

_CONTROLS: Mapping[str, WeightChange] = {"scaled": equalize_weights, "shuffled": shuffle_weights}
"""Controls of a denoiser, by what follows the + in a name."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(Options):
    """The recommenders and the way to compare them."""

    models: str = "nce,nce+prorec,nce+scaled,nce+shuffled"
    """Names of recommenders with commas between; NAME+prorec is denoised, NAME+scaled and NAME+shuffled are its
    controls."""
    param: tuple[str, ...] = field(default=(), metadata={"short": "-p"})
    """Parameter of a recommender, such as -p nce.rank=50; may be repeated."""
    seeds: int = 5
    """Number of random splits to average over."""
    k: int = field(default=10, metadata={"short": "-k"})
    """Number of recommended items to evaluate; by default 10, as in the report, or all items if there are fewer."""
    metrics: Family = "standard"
    """Definitions of the metrics."""


@as_command
def evaluate(
    options: EvaluateOptions, console: ConsoleOptions, log: LogOptions, times: TimeOptions, settings: EvaluateSettings
) -> None:
    """Compare recommenders on 30% of each user's interactions, after training on the other 70%.

    Parameters
    ----------
    options : EvaluateOptions
        The recommenders and the metrics.
    console : ConsoleOptions
        Output on the console.
    log : LogOptions
        The interactions.
    times : TimeOptions
        Their times, by which denoisers find bursts.
    settings : dict
        Parameters of the denoisers.

    Raises
    ------
    InputError
        If a model, a parameter or the log is refused.
    """
    check_int("seeds", options.seeds, 1)
    check_int("k", options.k, 1)
    _make_models(options, settings, None)  # refuses bad options before the log is read
    with console.progress() as progress:
        source = log.read(progress, times)
        clicks = source.interactions
        if {"noise_probability", "flagged"} <= set(source.table.column_names):
            warnings.warn(
                "this log has been denoised, with the test part in view, so the results are too good; evaluate the "
                "original log instead",
                DataWarning,
                stacklevel=1,
            )
        k = options.k if "k" in options.given else min(options.k, clicks.n_items)
        check_int("k", k, 1, clicks.n_items, "the number of items")
        models = _make_models(options, settings, clicks.matrix.shape)
        with blame_data():
            comparison = compare_on_splits(
                models,
                clicks,
                n_seeds=options.seeds,
                k=k,
                metrics=options.metrics,
                baselines={name: name.partition("+")[0] for name in models},
                progress=progress,
            )
    if console.json:
        provenance = console.provenance(log=log.describe(source))
        console.print_result({"models": comparison.to_rows(), "provenance": provenance}, "")
    else:
        _show(comparison, source.weight_column)


def _make_models(
    options: EvaluateOptions, settings: Mapping[str, Any], shape: tuple[int, int] | None
) -> dict[str, Model | ProRec]:
    """Return the models by name, with ranks that suit data of this shape."""
    models: dict[str, Model | ProRec] = {}
    parameters: dict[str, dict[str, Any]] = {}
    for key, value in parse_parameters(options.param).items():
        owner, dot, parameter = key.partition(".")
        if not dot:
            raise InputError(f"--param must name a model, such as -p nce.{key}={value}; got {key}={value}")
        parameters.setdefault(owner.lower(), {})[parameter] = value
    used = set()
    for name in (each.strip().lower() for each in options.models.split(",")):
        base, plus, variant = name.partition("+")
        if plus and variant not in ("prorec", *_CONTROLS):
            raise InputError(f"--models allows only +prorec, +scaled and +shuffled after a name; got {safe_repr(name)}")
        if name in models:
            raise InputError(f"--models must name each model once; got {safe_repr(name)} twice")
        used |= {base, name}
        own = parameters.get(base, {}) | parameters.get(name, {})
        model = make_model(base, own)
        if shape is not None:
            model = cap_rank(model, shape, own)
        denoiser = ProRec(model, **settings)
        denoiser.check_settings()
        if variant in _CONTROLS:
            models[name] = make_control(denoiser, _CONTROLS[variant])
        else:
            models[name] = denoiser if variant else model
    if unused := parameters.keys() - used:
        raise InputError(f"--param is for {', '.join(sorted(unused))}, which --models does not name")
    return models


def _show(comparison: SplitComparison, weight_column: str | None) -> None:
    """Print the table and its explanation."""
    rows = comparison.to_rows()
    metrics = [name for name in rows[0]["mean"] if name.partition("@")[0] in TESTED_METRICS]
    table = make_table("", *metrics)
    for row in rows:
        changes = [row["difference"].get(name) for name in metrics]
        means = [f"{row['mean'][name]:.4f}" for name in metrics]
        table.add_row(row["model"], *(mean + _describe(change) for mean, change in zip(means, changes, strict=True)))
    console = Console()
    console.print(table)
    splits = "one random split" if comparison.n_seeds == 1 else f"{comparison.n_seeds} random splits"
    weights = "" if weight_column is None else f" Weights come from the column {weight_column!r}."
    print_plain(
        console,
        f"\nMeans over {comparison.n_users:,} users and {splits}. Beside each mean: the difference from the same model "
        f"without +, or else from {rows[0]['model']}; * means p < .01 (paired t-test over users, Holm-corrected). "
        f"+scaled and +shuffled are controls: all weights are equally small, or change places at random.{weights}",
    )


def _describe(change: Mapping[str, Any] | None) -> str:
    """Return a difference as text, relative if the baseline is not 0."""
    if change is None:
        return ""
    size = f"{change['absolute']:+.4f}" if change["relative"] is None else f"{change['relative']:+.1%}"
    return f" {size}{'*' if change['p'] < 0.01 else ''}"
