"""`prorec denoise --engine spark`: the same job on a cluster, from table to table."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from prorec._core.errors import InputError
from prorec.cli.streams import check_report_free, title_of
from prorec.data.formats import format_suffix
from prorec.noise.noise_rate import NoiseRateEstimate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from prorec.engines.spark import SparkProRec

_FORMATS = {".csv": "csv", ".tsv": "csv", ".json": "json", ".orc": "orc"}


def denoise_on_spark(
    log: str,
    out: str,
    denoiser: SparkProRec,
    columns: dict[str, Any],
    *,
    report: Path | None,
    master: str | None,
    kind: str | None,
    drop: bool,
    resume: bool,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Read a table, denoise it, and write it with three more columns: whole, or not at all; and a page about it."""
    from prorec.engines.spark.session import session
    from prorec.engines.spark.work_directory import Files

    begin = time.perf_counter()
    if "-" in (log, out):
        raise InputError("the engine spark reads and writes tables, not streams: give paths")
    denoiser.check()
    if "://" not in out and Path(out).exists() and not force:
        raise InputError(f"{out}: this exists already; --force replaces it")  # before Spark starts, which takes seconds
    if report is not None:
        check_report_free(report, force=force or resume)
    console = Console(stderr=True, quiet=quiet or as_json)
    spark = session(master)
    files = Files(spark)
    work = _beside(out)
    if files.exists(out) and not force:
        raise InputError(f"{out}: this exists already; --force replaces it")
    if files.exists(work) and not resume and not force:
        raise InputError(f"{out}: a run that was to write this was interrupted; --resume goes on, --force starts anew")
    table = _read(spark, files, log, kind, columns)
    found = denoiser.fit(
        table,
        user_col=columns["user_col"],
        item_col=columns["item_col"],
        weight_col=columns["weight_col"],
        work_dir=work,
        resume=resume,
        show_estimate=lambda words: console.print(Text(words)),
    )
    result = found.frame.where(f"not `{found.frame.columns[-1]}`") if drop else found.frame
    # In the work folder first: then there is no moment at which a part of it stands where the whole should.
    result.write.mode("overwrite").format(_format(out, kind)).options(**_options(out, columns)).save(f"{work}/result")
    if report is not None:
        found.report(report, title=title_of(log))
    about = found.summary() | {"out": out, "report": None if report is None else str(report)}
    about |= {"fdr": denoiser.fdr if about["noise_rate"] else None, "seconds": round(time.perf_counter() - begin, 2)}
    if force:
        files.remove(out)
    files.move(f"{work}/result", out)
    files.remove(work)
    if as_json:
        print(json.dumps(about))
    elif not quiet:
        Console().print(Text(_in_words(about)), soft_wrap=True)


def _in_words(about: dict[str, Any]) -> str:
    said = (
        f"{about['rows']:,} rows looked at: {about['interactions']:,} different interactions of {about['users']:,} "
        f"users with {about['items']:,} items. "
    )
    noise = about["noise_rate"]
    if noise is None:
        said += (
            f"{about['flagged_pairs']:,} of these are flagged, the most suspicious, as a list to look at and not a "
            "verdict (--flag-fraction makes it longer or shorter)."
        )
    else:
        said += f"{NoiseRateEstimate(**noise)} of these look like random draws. "
        said += (
            f"{about['flagged_pairs']:,} are flagged; of these, about {about['fdr']:.0%} may be wrong (--fdr makes it "
            "more or fewer)."
            if about["flagged_pairs"]
            else f"Nothing is flagged: of no group is it known that at least {1 - about['fdr']:.0%} are noise (a "
            "larger --fdr flags more)."
        )
    said += f" Written to {about['out']} in {about['seconds']:.1f} s."
    return said if about["report"] is None else f"{said} The report is in {about['report']}."


def _beside(out: str) -> str:
    """The folder that a run keeps its state in."""
    folder, slash, name = out.rstrip("/").rpartition("/")
    return f"{folder}{slash}.{name}.prorec"


def _format(path: str, kind: str | None) -> str:
    return kind or _FORMATS.get(format_suffix(Path(path)), "parquet")


def _options(path: str, columns: dict[str, Any]) -> dict[str, Any]:
    """For text: what is between columns, and whether they have names."""
    separator = columns["separator"] or ("\t" if format_suffix(Path(path)) == ".tsv" else ",")
    return {"header": columns["header"], "sep": separator}


def _read(spark: SparkSession, files: Any, path: str, kind: str | None, columns: dict[str, Any]) -> DataFrame:
    from pyspark.errors import AnalysisException

    if kind in (None, "parquet", "csv", "json", "orc") and not files.exists(path):
        raise InputError(f"{path}: there is no such file or folder")
    reader = spark.read.format(_format(path, kind)).options(**_options(path, columns))
    if _format(path, kind) == "csv" and columns["ids"] != "text":
        reader = reader.option("inferSchema", True)
    try:
        return reader.load(path)
    except AnalysisException as error:
        raise InputError(f"{path}: {error.getMessage()}") from None
