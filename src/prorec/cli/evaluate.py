"""`prorec evaluate`: which recommender is better on this log, and is it luck?"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prorec.cli import options
from prorec.cli.progress import Reporter
from prorec.cli.streams import incoming
from prorec.comparison import JUDGED_BY, OnSplits, compare_on_splits
from prorec.data.log import read_log
from prorec.denoise import ProRec
from prorec.errors import InputError, one_of, whole
from prorec.models.model import Model
from prorec.models.named import named, parsed, sized


def evaluate(
    log: Annotated[str, typer.Argument(help="A csv, tsv, parquet or .inter file of interactions, or - for a stream.")],
    models: Annotated[
        str, typer.Option(help="Names between commas; +prorec behind one means denoised. The first is the baseline.")
    ] = "nce,nce+prorec",
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", help="A parameter of a model, as in -p nce.rank=50; may be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many splits to average over.")] = 5,
    k: Annotated[int, typer.Option("-k", help="Length of the lists to judge.")] = 5,
    metrics: Annotated[str, typer.Option(help="Which definitions of the metrics: standard or paper.")] = "standard",
    gamma: options.Gamma = "auto",
    beta: options.Beta = 20.0,
    lam: options.Lam = 0.5,
    rounds: options.Rounds = 1,
    user_col: options.UserColumn = None,
    item_col: options.ItemColumn = None,
    weight_col: options.WeightColumn = None,
    no_header: options.NoHeader = False,
    separator: options.Separator = None,
    text_ids: options.TextIds = False,
    format: options.Format = "csv",
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Compare recommenders on 30% of each user's interactions, after training on the other 70%."""
    one_of("metrics", metrics, ("standard", "paper"))
    whole("seeds", seeds, 1)
    whole("k", k, 1)
    how = {"gamma": options.gamma_of(gamma), "beta": beta, "lam": lam, "rounds": rounds}
    parameters = parsed(param or [])
    _rivals(models, parameters, how, None)  # what is wrong with them should not have to wait for the log
    columns = options.columns_of(
        user_col, item_col, weight_col, no_header=no_header, separator=separator, text_ids=text_ids
    )
    with Reporter(quiet=quiet or as_json) as report:
        report("reading", 0, 1)
        with incoming(log, format) as path:
            clicks = read_log(path, **columns).interactions
        report("reading", 1, 1)
        rivals = _rivals(models, parameters, how, clicks.matrix.shape)
        result = compare_on_splits(rivals, clicks, n_seeds=seeds, k=k, metrics=metrics, progress=report)  # type: ignore[arg-type]
    if as_json:
        print(json.dumps(result.to_rows()))
    elif not quiet:
        _show(result)


def _rivals(
    names: str, parameters: dict[str, Any], how: dict[str, Any], shape: tuple[int, int] | None
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
    for word in names.split(","):
        name, plus, wrapper = word.strip().lower().partition("+")
        if plus and wrapper != "prorec":
            raise InputError(f"behind + there can be prorec; got {word.strip()!r}")
        used.add(name)
        model = named(name, own.get(name))
        if shape is not None:
            model = sized(model, shape, own.get(name, ()))
        rivals[word.strip().lower()] = ProRec(model, **how) if plus else model
    if unused := own.keys() - used:
        raise InputError(f"there are parameters for {', '.join(sorted(unused))}, which is not among the models")
    return rivals


def _show(result: OnSplits) -> None:
    rows = result.to_rows()
    names = [name for name in rows[0]["mean"] if name.partition("@")[0] in JUDGED_BY]
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
    words = (
        f"\nMeans over {result.n_users:,} users and {result.n_seeds} random splits. Beside them, the difference from "
        f"{rows[0]['model']}; * where p < .01 (paired t-test over users, Holm-corrected)."
    )
    console.print(Text(words), soft_wrap=True)


def _marked(change: dict[str, Any]) -> str:
    """A difference, relative where there is something to be relative to."""
    share = change["relative"]
    size = f"{change['absolute']:+.4f}" if share is None else f"{share:+.1%}"
    return f" {size}{'*' if change['p'] < 0.01 else ''}"
