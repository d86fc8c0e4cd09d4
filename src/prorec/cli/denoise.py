"""`prorec denoise`: a log in, the same log out with what each row is worth."""

from __future__ import annotations

import io
import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from prorec._core.checks import check_choice
from prorec._core.errors import InputError
from prorec._core.files import prefix_errors
from prorec._core.progress import ConsoleProgress
from prorec.cli import options
from prorec.cli.denoise_on_spark import denoise_on_spark
from prorec.cli.streams import check_free, check_report_free, described, read, title_of, to_stdout
from prorec.data.formats import detect_format
from prorec.data.source_table import SourceTable
from prorec.data.writers import write_table
from prorec.denoise import ProRec
from prorec.models.factory import cap_rank, make_model, parse_parameters
from prorec.report.page import write_report

if TYPE_CHECKING:
    from prorec.engines.spark import SparkProRec

_SHOWN = 10
_NOT_ON_SPARK = "model transport warm_start items timestamp_col".split()


def denoise(
    ctx: typer.Context,
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
    relabel_from: options.RelabelFrom = "current",
    marginals: options.MarginalsName = "popularity",
    warm_start: options.WarmStart = False,
    noise_method: options.NoiseMethod = "plan",
    flag_fraction: options.FlagFraction = 0.05,
    fdr: options.Fdr = 0.1,
    engine: Annotated[
        str, typer.Option(help="local, or spark for tables that outgrow one machine (paths of tables, not of files).")
    ] = "local",
    master: Annotated[
        str | None, typer.Option(help="With --engine spark: where it runs, such as local[4] or spark://host:7077.")
    ] = None,
    report: options.ReportPath = None,
    items: options.ItemsPath = None,
    drop: Annotated[bool, typer.Option("--drop", help="Write only the rows that are not flagged.")] = False,
    user_col: options.UserColumn = None,
    item_col: options.ItemColumn = None,
    weight_col: options.WeightColumn = None,
    timestamp_col: options.TimeColumn = None,
    no_header: options.NoHeader = False,
    separator: options.Separator = None,
    text_ids: options.TextIds = False,
    format: options.Format = None,
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
    parameters = parse_parameters(param or [])
    check_choice("engine", engine, ("local", "spark"))
    columns = options.columns_of(
        user_col, item_col, weight_col, no_header=no_header, separator=separator, text_ids=text_ids
    )
    if engine == "spark":
        options.refuse(ctx, _NOT_ON_SPARK, "with --engine spark")
        denoise_on_spark(
            log,
            out,
            _on_spark(
                parameters,
                threshold=options.threshold_of(threshold),
                gamma=options.gamma_of(gamma),
                beta=beta,
                lam=lam,
                rounds=rounds,
                relabel_from=relabel_from,
                marginals=marginals,
                noise_method=noise_method,
                flag_fraction=flag_fraction,
                fdr=fdr,
            ),
            columns,
            report=report,
            master=master,
            kind=format,
            drop=drop,
            resume=resume,
            force=force,
            quiet=quiet,
            as_json=as_json,
        )
        return
    options.refuse(ctx, ("master",), "without --engine spark")
    denoiser = options.denoiser_of(
        make_model(model, parameters),
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
        flag_fraction=flag_fraction,
        fdr=fdr,
    )
    if report is None:
        options.refuse(ctx, ("items", "timestamp_col"), "without --report")
    if resume and out != "-" and not force and Path(out).exists() and not _has_state(_work_folder(out)):
        Console(stderr=True, quiet=quiet).print(Text(f"{out} is there already, and there is no run to resume"))
        return
    _check_place(out, resume=resume, force=force)
    if report is not None:
        check_report_free(report, force=force or resume)
    with ConsoleProgress(quiet=quiet or as_json) as progress:
        progress("reading", 0, 1)
        given = read(log, format, columns)
        clicks = given.interactions if report is None else described(log, given, items, columns, timestamp_col)
        progress("reading", 1, 1)
        _check_columns(given, Path(f"-.{format or 'csv'}" if out == "-" else out))
        denoiser.model = cap_rank(denoiser.model, given.interactions.matrix.shape, parameters)
        # The weights are what is written; only a report has a use for a model that has learned from them.
        fit = partial(denoiser.fit, clicks, refit=report is not None, progress=progress)

        def write_page() -> None:
            if report is not None:
                taken = time.perf_counter() - begin
                write_report(denoiser, report, title=title_of(log), seconds=taken, progress=progress)

        if out == "-":
            written = _to_stream(given, fit(), format, drop=drop)
            write_page()
        else:
            with _working(out, resume=resume) as work:
                written = _to_file(given, fit(checkpoint=work), Path(out), work, drop=drop)
                write_page()  # as long as there is something to resume from
    seconds = time.perf_counter() - begin
    about = _summary(given, denoiser, out, written, seconds) | {"report": None if report is None else str(report)}
    if as_json:
        print(json.dumps(about), file=sys.stderr if out == "-" else sys.stdout)
    elif not quiet:
        _show(about, Console(stderr=out == "-"))


def _on_spark(parameters: dict[str, Any], **settings: Any) -> SparkProRec:
    """The denoiser for Spark; parameters are ALS's."""
    from prorec.engines.spark import ALS, SparkProRec

    known = [each.name for each in fields(ALS)]
    for name in parameters:
        if name not in known:
            raise InputError(f"ALS has no parameter {name!r}; it has {', '.join(known)}")
    return SparkProRec(ALS(**parameters), **settings)


def _check_columns(given: SourceTable, path: Path) -> None:
    """Refuse columns that cannot be written, before the work rather than after it."""
    nothing = np.zeros(len(given.interactions), dtype=np.float32)
    with prefix_errors(path):
        table = given.with_columns(dict.fromkeys(("weight", "noise_probability", "flagged"), nothing))
        write_table(table.slice(0, 1), io.BytesIO(), path.name)


def _work_folder(out: str) -> Path:
    """The folder beside the output that a run keeps its state in."""
    path = Path(out)
    return path.parent / f".{path.name}.prorec"


def _has_state(work: Path) -> bool:
    return any(work.glob("round.npz")) or any(work.glob("fit-*"))


def _check_place(out: str, *, resume: bool, force: bool) -> None:
    """Refuse an output that cannot or must not be written, or that another run was to write."""
    if out == "-":
        if resume:
            raise InputError("a run that writes to a stream keeps nothing to resume from")
        return
    has_state = _has_state(_work_folder(out))
    check_free(Path(out), force=force or (resume and has_state))
    if has_state and not resume and not force:
        raise InputError(f"{out}: a run that was to write this was interrupted; --resume goes on, --force starts anew")


@contextmanager
def _working(out: str, *, resume: bool) -> Iterator[Path]:
    """The work folder, for this run alone; it goes away when the run ends well, or has nothing to come back for."""
    work = _work_folder(out)
    with prefix_errors(work):
        work.mkdir(exist_ok=True)
        with (work / "lock").open("w") as lock:
            _lock(lock, out)
            if not resume:
                for path in work.iterdir():
                    if path.name != "lock":
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
            try:
                yield work
            except BaseException as error:
                if not _has_state(work):
                    shutil.rmtree(work)
                elif isinstance(error, KeyboardInterrupt):
                    Console(stderr=True).print(Text("interrupted; the same command with --resume goes on from here"))
                raise
            shutil.rmtree(work)


def _lock(file: IO[str], out: str) -> None:
    """Hold the file for as long as it is open: a process that is killed lets go of it."""
    try:
        import fcntl
    except ModuleNotFoundError:  # not on this system
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"another run is about to write {out}") from None


def _rows(given: SourceTable, denoiser: ProRec, *, drop: bool, typed: bool) -> pa.Table:
    found = {
        "weight": denoiser.weights_.data,
        "noise_probability": denoiser.noise_probability_,
        "flagged": denoiser.flagged_,
    }
    table = given.with_columns(found)
    if drop:
        table = table.filter(~denoiser.flagged_[given.positions])
    return given.infer_types(table) if typed else table


def _to_stream(given: SourceTable, denoiser: ProRec, kind: str | None, *, drop: bool) -> int:
    """Write the rows; how many."""
    table = _rows(given, denoiser, drop=drop, typed=kind == "parquet")
    to_stdout(table, kind)
    return int(table.num_rows)


def _to_file(given: SourceTable, denoiser: ProRec, path: Path, work: Path, *, drop: bool) -> int:
    """Write the rows, all or nothing; how many."""
    table = _rows(given, denoiser, drop=drop, typed=detect_format(path)[0] == "parquet")
    with prefix_errors(path):
        # In the work folder first: what is left there by a run that was killed goes away with it.
        whole = work / f"whole-{path.name}"
        with whole.open("wb") as file:
            write_table(table, file, path.name)
        whole.replace(path)
    return int(table.num_rows)


def _summary(given: SourceTable, denoiser: ProRec, out: str, written: int, seconds: float) -> dict[str, Any]:
    flagged = denoiser.flagged_[given.positions]
    known = denoiser.interactions_
    top = denoiser.noise_table(most=_SHOWN)
    last = denoiser.history_[-1]
    cross_fitted = denoiser.finder_ if denoiser.noise_method != "plan" else None
    return {
        "rows": given.table.num_rows,
        "users": known.n_users,
        "items": known.n_items,
        "interactions": len(known),
        "weight_column": given.weight_column,
        "flagged_rows": int(flagged.sum()),
        "users_with_flags": len(np.unique(known.user_codes[denoiser.flagged_])),
        "rows_written": written,
        "out": out,
        "model": str(denoiser.model),
        "gamma": last.gamma,
        "rounds": last.number,
        "converged": denoiser.converged_,
        "mass_kept": last.mass_kept,
        "below_threshold": last.below_threshold,
        "noise_rate": None if cross_fitted is None else asdict(cross_fitted.noise_rate_),
        "fdr": denoiser.fdr if cross_fitted else None,
        "most_suspicious": top.select(["user", "item", "noise_probability", "weight"]).to_pylist(),
        "seconds": round(seconds, 2),
        "peak_memory_mb": _peak_memory(),
    }


def _peak_memory() -> int | None:
    """The most memory this process has had, in MB; None where the system does not say."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6)


def _show(about: dict[str, Any], console: Console) -> None:
    share = about["flagged_rows"] / about["rows"]
    weights = f" Weights are from the column {about['weight_column']!r}." if about["weight_column"] is not None else ""
    console.print(
        f"{about['rows']:,} rows looked at: {about['interactions']:,} different interactions of {about['users']:,} "
        f"users with {about['items']:,} items.{weights}",
        highlight=False,
        markup=False,
    )
    noise = about["noise_rate"]
    if noise is not None:
        console.print(
            f"{noise['estimate']:.1%} of the interactions look like random draws ({noise['low']:.1%} to "
            f"{noise['high']:.1%}).",
            highlight=False,
        )
    if about["flagged_rows"]:
        rule = (
            "the most suspicious, as a list to look at and not a verdict (--flag-fraction makes it longer or shorter)"
            if noise is None
            else f"of these, about {about['fdr']:.0%} may be wrong (--fdr makes it more or fewer)"
        )
        console.print(
            f"{about['flagged_rows']:,} rows ({share:.1%}) are flagged, of {about['users_with_flags']:,} users: {rule}."
            " These first:\n",
            highlight=False,
        )
        table = Table("user", "item", "noise probability", box=None, pad_edge=False)
        table.columns[2].justify = "right"
        for row in about["most_suspicious"]:
            table.add_row(Text(str(row["user"])), Text(str(row["item"])), f"{row['noise_probability']:.3f}")
        console.print(table)
        if noise is None:
            console.print(
                "\nThe probability is good for ordering rows; it is not calibrated (--noise-method cross-fit is)."
            )
        else:
            console.print()
    elif noise is None:
        console.print("Nothing is flagged: there is too little to tell one row from another by.")
    else:
        console.print(
            f"Nothing is flagged: of no group of rows is it known that at least {1 - about['fdr']:.0%} are noise. The "
            "column noise_probability has what is known; a larger --fdr flags more.",
            highlight=False,
        )
    memory = f", with at most {about['peak_memory_mb']:,} MB of memory" if about["peak_memory_mb"] else ""
    where = "the stream" if about["out"] == "-" else about["out"]
    dropped = about["rows"] - about["rows_written"]
    console.print(
        f"{about['rows_written']:,} rows written to {where}{f', {dropped:,} left out,' if dropped else ''} in "
        f"{about['seconds']:.1f} s{memory}.",
        highlight=False,
        markup=False,
    )
    if about["report"] is not None:
        console.print(f"The report is in {about['report']}.", highlight=False, markup=False)
