"""`prorec train` and `prorec recommend`: a model on disk, and what it shows to whom."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.text import Text

from prorec._core.checks import check_int
from prorec._core.errors import InputError
from prorec._core.files import atomic_write, prefix_errors
from prorec._core.progress import ConsoleProgress
from prorec.cli import options
from prorec.cli.streams import check_free, check_writable, read, to_stdout
from prorec.data.source_table import SourceTable
from prorec.data.writers import write_table
from prorec.denoise import ProRec
from prorec.models.factory import cap_rank, make_model, parse_parameters
from prorec.models.model import Model, load

_OF_DENOISING = "transport threshold gamma beta lam rounds relabel_from marginals warm_start noise_method".split()


def train(
    ctx: typer.Context,
    log: Annotated[str, typer.Argument(help="A csv, tsv, parquet or .inter file of interactions, or - for a stream.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write the model into.")],
    model: options.ModelName = "nce",
    param: options.Parameters = None,
    denoise: Annotated[bool, typer.Option("--denoise", help="Train it on denoised weights.")] = False,
    transport: options.Transport = "relaxed",
    threshold: options.ThresholdText = "personal",
    gamma: options.Gamma = "auto",
    beta: options.Beta = 20.0,
    lam: options.Lam = 0.5,
    rounds: options.Rounds = 1,
    relabel_from: options.RelabelFrom = "current",
    marginals: options.MarginalsName = "popularity",
    warm_start: options.WarmStart = False,
    noise_method: options.NoiseMethod = "plan",
    user_col: options.UserColumn = None,
    item_col: options.ItemColumn = None,
    weight_col: options.WeightColumn = None,
    no_header: options.NoHeader = False,
    separator: options.Separator = None,
    text_ids: options.TextIds = False,
    format: options.Format = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Train a recommender and write it to a folder, for `prorec recommend` and `prorec.load`."""
    begin = time.perf_counter()
    parameters = parse_parameters(param or [])
    recommender: Model = make_model(model, parameters)
    if denoise:
        recommender = options.denoiser_of(
            recommender,
            transport=transport,
            threshold=threshold,
            gamma=gamma,
            beta=beta,
            lam=lam,
            rounds=rounds,
            relabel_from=relabel_from,
            marginals=marginals,
            warm_start=warm_start,
            noise_method=noise_method,
        )
    else:
        options.refuse(ctx, _OF_DENOISING, "without --denoise")
    columns = options.columns_of(
        user_col, item_col, weight_col, no_header=no_header, separator=separator, text_ids=text_ids
    )
    with prefix_errors(out):
        if out.exists() and not out.is_dir():
            raise InputError("this is a file; a folder was expected")
        if out.is_dir() and any(out.iterdir()) and not force:
            raise InputError("this folder is not empty; --force replaces the model in it")
        check_writable(out if out.is_dir() else out.parent)
    with ConsoleProgress(quiet=quiet or as_json) as report:
        report("reading", 0, 1)
        given = read(log, format, columns)
        clicks = given.interactions
        report("reading", 1, 1)
        if isinstance(recommender, ProRec):
            recommender.model = cap_rank(recommender.model, clicks.matrix.shape, parameters)
            recommender.fit(clicks, progress=report)
        else:
            recommender = cap_rank(recommender, clicks.matrix.shape, parameters)
            report(f"fitting {type(recommender).__name__}", 0, 1)
            recommender.fit(clicks)
            report(f"fitting {type(recommender).__name__}", 1, 1)
        recommender.save(out)
    about = {
        "model": str(recommender),
        "users": clicks.n_users,
        "items": clicks.n_items,
        "interactions": len(clicks),
        "out": str(out),
        "seconds": round(time.perf_counter() - begin, 2),
    }
    if as_json:
        print(json.dumps(about))
    elif not quiet:
        Console().print(Text(_learned(recommender, given, out)))


def _learned(recommender: Model, given: SourceTable, out: Path) -> str:
    clicks = given.interactions
    name = type(recommender).__name__
    if isinstance(recommender, ProRec):
        last = recommender.history_[-1]
        kept = f"γ {last.gamma:.3g}, {last.mass_kept:.0%} of the weight kept"
        name = f"{type(recommender.model_).__name__}, denoised ({kept}),"
    weights = f", with weights from the column {given.weight_column!r}" if given.weight_column is not None else ""
    return (
        f"{name} learned from {len(clicks):,} interactions of {clicks.n_users:,} users with {clicks.n_items:,} items"
        f"{weights}, and is in {out}."
    )


def recommend(
    model: Annotated[Path, typer.Argument(help="A folder that prorec train, or save, wrote.")],
    k: Annotated[int, typer.Option("-k", help="How many items for each user.")] = 10,
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write, or - for a stream.")] = "-",
    user: Annotated[list[str] | None, typer.Option("--user", "-u", help="Only for this user; may be repeated.")] = None,
    format: options.Format = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Write the best items for every user, with what each has interacted with left out."""
    if out != "-":
        check_free(Path(out), force=force)
    recommender = load(model)
    known = recommender.interactions_
    users: Any = known.users
    if user:
        users = _as_known(user, known.users)
    recommended = recommender.recommend(users, check_int("k", k, 1, known.n_items, "the number of items"))
    table = recommended.to_table()
    if out == "-":
        to_stdout(table, format)
        return
    path = Path(out)
    with prefix_errors(path), atomic_write(path) as temporary, temporary.open("wb") as file:
        write_table(table, file, path.name)
    if not quiet:
        Console().print(Text(f"{table.num_rows:,} recommendations for {len(users):,} users written to {out}."))


def _as_known(typed: list[str], known: Any) -> Any:
    """Ids as the model has them: whole numbers, or text."""
    if known.dtype == object:
        return typed
    try:
        return np.array([int(each) for each in typed], dtype=np.int64)
    except (ValueError, OverflowError):
        raise InputError(
            f"users are whole numbers in this model, with --user before each; got {', '.join(typed)}"
        ) from None
