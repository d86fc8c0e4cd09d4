"""`prorec denoise`: a log in, the same log out with what each row is worth."""

from __future__ import annotations

import io
import json
import resource
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prorec.cli import options
from prorec.cli.progress import Reporter
from prorec.cli.streams import check_free, incoming, to_stdout
from prorec.data._files import format_of, naming
from prorec.data.log import Log, read_log
from prorec.data.writers import write_table
from prorec.denoise import ProRec
from prorec.errors import InputError
from prorec.models.named import named, parsed, sized

_SHOWN = 10


def denoise(
    log: Annotated[str, typer.Argument(help="A csv, tsv, parquet or .inter file of interactions, or - for a stream.")],
    out: Annotated[str, typer.Option("--out", "-o", help="The file to write, or - for a stream.")],
    model: options.ModelName = "nce",
    param: options.Parameters = None,
    transport: options.Transport = "relaxed",
    threshold: options.ThresholdText = "personal",
    gamma: options.Gamma = "auto",
    beta: options.Beta = 20.0,
    lam: options.Lam = 0.5,
    rounds: options.Rounds = 1,
    anchored: options.Anchored = False,
    marginals: options.MarginalsName = "popularity",
    warm_start: options.WarmStart = False,
    flag_share: Annotated[float, typer.Option(help="The share of interactions to flag, the most suspicious.")] = 0.05,
    drop: Annotated[bool, typer.Option("--drop", help="Write only the rows that are not flagged.")] = False,
    user_col: options.UserColumn = None,
    item_col: options.ItemColumn = None,
    weight_col: options.WeightColumn = None,
    no_header: options.NoHeader = False,
    separator: options.Separator = None,
    text_ids: options.TextIds = False,
    format: options.Format = "csv",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from where a run with the same options was interrupted.")
    ] = False,
    force: options.Force = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
    config: options.Config = None,
) -> None:
    """Find the interactions that don't belong.

    Writes every row of the log as it came, in its order, with three more columns: weight, noise_probability, flagged.
    """
    begin = time.perf_counter()
    parameters = parsed(param or [])
    denoiser = ProRec(
        named(model, parameters),
        transport=transport,  # type: ignore[arg-type]  # checked by fit, with words
        threshold=options.threshold_of(threshold),
        gamma=options.gamma_of(gamma),
        beta=beta,
        lam=lam,
        rounds=rounds,
        anchored=anchored,
        marginals=marginals,  # type: ignore[arg-type]
        warm_start=warm_start,
        flag_share=flag_share,
    )
    columns = options.columns_of(
        user_col, item_col, weight_col, no_header=no_header, separator=separator, text_ids=text_ids
    )
    try:
        work = _work_folder(out, resume=resume, force=force)
    except NothingToDo as done:
        Console(stderr=True, quiet=quiet).print(Text(str(done)), soft_wrap=True)
        return
    try:
        with Reporter(quiet=quiet or as_json) as report:
            report("reading", 0, 1)
            with incoming(log, format) as path:
                given = read_log(path, **columns)
            report("reading", 1, 1)
            _check_columns(given, Path(f"-.{format}" if out == "-" else out))
            denoiser.model = sized(denoiser.model, given.interactions.matrix.shape, parameters)
            # The weights are what is written; a model that has learned from them would only be thrown away.
            denoiser.fit(given.interactions, refit=False, checkpoint=work, progress=report)
            written = _write(given, denoiser, out, format, work, drop=drop)
    except BaseException:
        if work is not None and not any(work.glob("round.npz")) and not any(work.glob("fit-*")):
            shutil.rmtree(work)  # nothing in it that would be worth coming back for
        raise
    if work is not None:
        shutil.rmtree(work)
    about = _summary(given, denoiser, out, written, time.perf_counter() - begin)
    if as_json:
        print(json.dumps(about), file=sys.stderr if out == "-" else sys.stdout)
    elif not quiet:
        _show(about, Console(stderr=out == "-"))


class NothingToDo(Exception):
    """The output of the run that was to be resumed is there."""


def _check_columns(given: Log, path: Path) -> None:
    """Refuse columns that cannot be written, before the work rather than after it."""
    nothing = np.zeros(len(given.interactions), dtype=np.float32)
    with naming(path):
        table = given.with_columns(dict.fromkeys(("weight", "noise_probability", "flagged"), nothing))
        write_table(table.slice(0, 1), io.BytesIO(), path.name)


def _work_folder(out: str, *, resume: bool, force: bool) -> Path | None:
    """The folder beside the output that a run keeps its state in; None for a stream."""
    if out == "-":
        if resume:
            raise InputError("a run that writes to a stream keeps nothing to resume from")
        return None
    path = Path(out)
    work = path.parent / f".{path.name}.prorec"
    is_going_on = resume and work.exists()
    if resume and not is_going_on and path.exists() and not force:
        raise NothingToDo(f"{path} is there already, and there is no run to resume")
    check_free(path, force=force or is_going_on)
    with naming(work):
        if work.exists() and not is_going_on:
            shutil.rmtree(work)
        work.mkdir(exist_ok=True)
    return work


def _write(given: Log, denoiser: ProRec, out: str, kind: str, work: Path | None, *, drop: bool) -> int:
    """Write the rows; how many."""
    table = given.with_columns(
        {
            "weight": denoiser.weights_.data,
            "noise_probability": denoiser.noise_probability_,
            "flagged": denoiser.flagged_,
        }
    )
    if drop:
        table = table.filter(~denoiser.flagged_[given.places])
    if kind == "parquet" if work is None else format_of(Path(out))[0] == "parquet":
        table = given.typed(table)
    if work is None:
        to_stdout(table, kind)
        return int(table.num_rows)
    path = Path(out)
    with naming(path):
        # In the work folder first: what is left there by a run that was killed goes away with it.
        whole = work / f"whole-{path.name}"
        with whole.open("wb") as file:
            write_table(table, file, path.name)
        whole.replace(path)
    return int(table.num_rows)


def _summary(given: Log, denoiser: ProRec, out: str, written: int, seconds: float) -> dict[str, Any]:
    flagged = denoiser.flagged_[given.places]
    known = denoiser.interactions_
    top = denoiser.noise_table(most=_SHOWN)
    last = denoiser.history_[-1]
    return {
        "rows": given.table.num_rows,
        "users": known.n_users,
        "items": known.n_items,
        "interactions": len(known),
        "flagged_rows": int(flagged.sum()),
        "rows_written": written,
        "out": out,
        "model": str(denoiser.model),
        "gamma": last.gamma,
        "rounds": last.number,
        "converged": denoiser.converged_,
        "mass_kept": last.mass_kept,
        "below_threshold": last.below_threshold,
        "most_suspicious": top.select(["user", "item", "noise_probability", "weight"]).to_pylist(),
        "seconds": round(seconds, 2),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def _show(about: dict[str, Any], console: Console) -> None:
    share = about["flagged_rows"] / about["rows"]
    looked = (
        f"{about['rows']:,} rows looked at: {about['interactions']:,} different interactions of {about['users']:,} "
        f"users with {about['items']:,} items."
    )
    found = (
        f"{about['flagged_rows']:,} rows ({share:.1%}) are flagged, the most suspicious: a list to look at, not a "
        "verdict (--flag-share makes it longer or shorter)."
    )
    console.print(Text(looked), soft_wrap=True)
    console.print(Text(found), soft_wrap=True)
    table = Table("user", "item", "noise probability", "weight", box=None, pad_edge=False)
    for column in table.columns[2:]:
        column.justify = "right"
    for row in about["most_suspicious"]:
        ids = Text(str(row["user"])), Text(str(row["item"]))
        table.add_row(*ids, f"{row['noise_probability']:.4f}", f"{row['weight']:.3f}")
    console.print(Text("\nThe most suspicious:"))
    console.print(table)
    where = "the stream" if about["out"] == "-" else about["out"]
    console.print(
        Text(
            f"\n{about['rows_written']:,} rows written to {where} in {about['seconds']:.1f} s, with at most "
            f"{about['peak_memory_mb']:,} MB of memory."
        ),
        soft_wrap=True,
    )
