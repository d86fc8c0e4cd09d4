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

from prorec.cli import options
from prorec.cli.progress import Reporter
from prorec.cli.streams import check_free, check_writable, incoming, to_stdout
from prorec.data._files import naming, replacing
from prorec.data.log import read_log
from prorec.data.writers import write_table
from prorec.denoise import ProRec
from prorec.errors import InputError, whole
from prorec.models.model import Model, load
from prorec.models.named import named, parsed, sized


def train(
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
    anchored: options.Anchored = False,
    marginals: options.MarginalsName = "popularity",
    warm_start: options.WarmStart = False,
    user_col: options.UserColumn = None,
    item_col: options.ItemColumn = None,
    weight_col: options.WeightColumn = None,
    no_header: options.NoHeader = False,
    separator: options.Separator = None,
    text_ids: options.TextIds = False,
    format: options.Format = "csv",
    force: options.Force = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Train a recommender and write it to a folder, for `prorec recommend` and `prorec.load`."""
    begin = time.perf_counter()
    parameters = parsed(param or [])
    recommender: Model = named(model, parameters)
    denoiser = ProRec(
        recommender,
        transport=transport,  # type: ignore[arg-type]
        threshold=options.threshold_of(threshold),
        gamma=options.gamma_of(gamma),
        beta=beta,
        lam=lam,
        rounds=rounds,
        anchored=anchored,
        marginals=marginals,  # type: ignore[arg-type]
        warm_start=warm_start,
    )
    if denoise:
        recommender = denoiser
    columns = options.columns_of(
        user_col, item_col, weight_col, no_header=no_header, separator=separator, text_ids=text_ids
    )
    with naming(out):
        if out.exists() and not out.is_dir():
            raise InputError("this is a file; a folder was expected")
        if out.is_dir() and any(out.iterdir()) and not force:
            raise InputError("this folder is not empty; --force replaces the model in it")
        check_writable(out if out.is_dir() else out.parent)
    with Reporter(quiet=quiet or as_json) as report:
        report("reading", 0, 1)
        with incoming(log, format) as path:
            clicks = read_log(path, **columns).interactions
        report("reading", 1, 1)
        if isinstance(recommender, ProRec):
            recommender.model = sized(recommender.model, clicks.matrix.shape, parameters)
            recommender.fit(clicks, progress=report)
        else:
            recommender = sized(recommender, clicks.matrix.shape, parameters)
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
        words = (
            f"{recommender} learned from {len(clicks):,} interactions of {clicks.n_users:,} users with "
            f"{clicks.n_items:,} items, and is in {out}."
        )
        Console().print(Text(words), soft_wrap=True)


def recommend(
    model: Annotated[Path, typer.Argument(help="A folder that prorec train, or save, wrote.")],
    k: Annotated[int, typer.Option("-k", help="How many items for each user.")] = 10,
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write, or - for a stream.")] = "-",
    user: Annotated[list[str] | None, typer.Option("--user", "-u", help="Only for this user; may be repeated.")] = None,
    format: options.Format = "csv",
    force: options.Force = False,
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
    recommended = recommender.recommend(users, whole("k", k, 1, known.n_items, "the number of items"))
    table = recommended.to_table()
    if out == "-":
        to_stdout(table, format)
        return
    path = Path(out)
    with naming(path), replacing(path) as temporary, temporary.open("wb") as file:
        write_table(table, file, path.name)


def _as_known(typed: list[str], known: Any) -> Any:
    """Ids as the model has them: whole numbers, or text."""
    if known.dtype == object:
        return typed
    try:
        return np.array([int(each) for each in typed], dtype=np.int64)
    except (ValueError, OverflowError):
        raise InputError(f"users are whole numbers in this model; got {', '.join(typed)}") from None
