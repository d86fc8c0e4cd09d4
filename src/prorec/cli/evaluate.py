"""`prorec evaluate`: which recommender is better on this log, and is it luck?"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prorec._core.checks import check_choice, check_int
from prorec._core.errors import DataWarning, InputError
from prorec._core.progress import ConsoleProgress
from prorec.cli import options
from prorec.cli.streams import read
from prorec.denoise import ProRec
from prorec.denoise.controls import reweighted
from prorec.evaluation.comparison import TESTED_METRICS, SplitComparison, compare_on_splits
from prorec.evaluation.metrics import Family
from prorec.models.factory import cap_rank, make_model, parse_parameters
from prorec.models.model import Model


def evaluate(
    log: Annotated[str, typer.Argument(help="A csv, tsv, parquet or .inter file of interactions, or - for a stream.")],
    models: Annotated[
        str, typer.Option(help="Names between commas; +prorec behind one means denoised, +scaled its control.")
    ] = "nce,nce+prorec,nce+scaled",
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", help="A parameter of a model, as in -p nce.rank=50; may be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many splits to average over.")] = 5,
    k: Annotated[int, typer.Option("-k", help="Length of the lists to judge.")] = 5,
    metrics: Annotated[str, typer.Option(help="Which definitions of the metrics: standard or paper.")] = "standard",
    transport: options.Transport = "relaxed",
    threshold: options.ThresholdText = "personal",
    gamma: options.Gamma = "auto",
    beta: options.Beta = 20.0,
    lam: options.Lam = 0.5,
    rounds: options.Rounds = 1,
    relabel_from: options.RelabelFrom = "current",
    marginals: options.MarginalsName = "popularity",
    warm_start: options.WarmStart = False,
    user_col: options.UserColumn = None,
    item_col: options.ItemColumn = None,
    weight_col: options.WeightColumn = None,
    no_header: options.NoHeader = False,
    separator: options.Separator = None,
    text_ids: options.TextIds = False,
    format: options.Format = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Compare recommenders on 30% of each user's interactions, after training on the other 70%."""
    check_choice("metrics", metrics, ("standard", "paper"))
    check_int("seeds", seeds, 1)
    check_int("k", k, 1)
    denoised = partial(
        options.denoiser_of,
        transport=transport,
        threshold=threshold,
        gamma=gamma,
        beta=beta,
        lam=lam,
        rounds=rounds,
        relabel_from=relabel_from,
        marginals=marginals,
        warm_start=warm_start,
    )
    parameters = parse_parameters(param or [])
    _rivals(models, parameters, denoised, None)  # what is wrong with them should not have to wait for the log
    columns = options.columns_of(
        user_col, item_col, weight_col, no_header=no_header, separator=separator, text_ids=text_ids
    )
    with ConsoleProgress(quiet=quiet or as_json) as report:
        report("reading", 0, 1)
        given = read(log, format, columns)
        clicks = given.interactions
        report("reading", 1, 1)
        if {"noise_probability", "flagged"} <= set(given.table.column_names):
            warnings.warn(
                "this log has been denoised, with what is tested on in view: the figures will be too good. Evaluate "
                "the log as it was before",
                DataWarning,
                stacklevel=1,
            )
        rivals = _rivals(models, parameters, denoised, clicks.matrix.shape)
        result = compare_on_splits(
            rivals,
            clicks,
            n_seeds=seeds,
            k=k,
            metrics=cast(Family, metrics),
            baselines={name: name.partition("+")[0] for name in rivals},
            progress=report,
        )
    if as_json:
        print(json.dumps(result.to_rows()))
    else:
        _show(result, given.weight_column)


def _rivals(
    names: str, parameters: dict[str, Any], denoised: Callable[[Model], ProRec], shape: tuple[int, int] | None
) -> dict[str, Model]:
    """The models by name, no larger than data of this shape allows."""
    rivals: dict[str, Model] = {}
    own: dict[str, dict[str, Any]] = {}
    for name, value in parameters.items():
        of, dot, parameter = name.partition(".")
        if not dot:
            raise InputError(f"a parameter here belongs to a model, as in nce.{name}={value}")
        own.setdefault(of.lower(), {})[parameter] = value
    used = set()
    for word in (word.strip().lower() for word in names.split(",")):
        name, plus, addition = word.partition("+")
        if plus and addition not in ("prorec", "scaled"):
            raise InputError(f"behind + there can be prorec or scaled; got {word!r}")
        if word in rivals:
            raise InputError(f"{word} is among the models twice")
        used |= {name, word}
        given = own.get(name, {}) | own.get(word, {})
        model = make_model(name, given)
        if shape is not None:
            model = cap_rank(model, shape, given)
        denoiser = denoised(model)
        rivals[word] = {"": model, "prorec": denoiser, "scaled": reweighted(denoiser)}[addition]
    if unused := own.keys() - used:
        raise InputError(f"there are parameters for {', '.join(sorted(unused))}, which is not among the models")
    return rivals


def _show(result: SplitComparison, weight_column: str | None) -> None:
    rows = result.to_rows()
    names = [name for name in rows[0]["mean"] if name.partition("@")[0] in TESTED_METRICS]
    console = Console()
    table = Table("", *names, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        cells = []
        for name in names:
            change = row["difference"].get(name)
            cells.append(f"{row['mean'][name]:.4f}{'' if change is None else _marked(change)}")
        table.add_row(row["model"], *cells)
    console.print(table)
    splits = "one random split" if result.n_seeds == 1 else f"{result.n_seeds} random splits"
    weights = f" Weights are from the column {weight_column!r}." if weight_column is not None else ""
    console.print(
        Text(
            f"\nMeans over {result.n_users:,} users and {splits}. Beside them, the difference from the same model "
            f"without +, or else from {rows[0]['model']}; * where p < .01 (paired t-test over users, Holm-corrected). "
            f"+scaled is a control: smaller weights, all alike.{weights}"
        )
    )


def _marked(change: dict[str, Any]) -> str:
    """A difference, relative where there is something to be relative to."""
    share = change["relative"]
    size = f"{change['absolute']:+.4f}" if share is None else f"{share:+.1%}"
    return f" {size}{'*' if change['p'] < 0.01 else ''}"
