"""`prorec denoise --engine spark`: the same work on a cluster, from table to table."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from prorec._core.errors import InputError
from prorec.cli.command import refuse
from prorec.cli.console import print_plain
from prorec.cli.denoise_summary import describe_summary
from prorec.cli.exit_codes import blame_data
from prorec.cli.gate import GateOptions
from prorec.cli.options import ConsoleOptions, DenoiseOutput, LogOptions, ModelOptions
from prorec.cli.output_files import check_distinct, check_report
from prorec.cli.provenance_file import FILE_NAME
from prorec.cli.work_folder import INTERRUPTED
from prorec.data.formats import format_suffix

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from prorec.engines.spark import SparkProRec
    from prorec.engines.spark.work_directory import HadoopFiles

_FORMATS = {".csv": "csv", ".tsv": "csv", ".json": "json", ".orc": "orc"}


def denoise_on_spark(
    log: LogOptions,
    output: DenoiseOutput,
    settings: Mapping[str, Any],
    console: ConsoleOptions,
    model: ModelOptions,
    gate: GateOptions,
    master: str | None,
) -> None:
    """Read a table, denoise it, and write it with three more columns, whole or not at all.

    Parameters
    ----------
    log : LogOptions
        The table, and the names of its columns.
    output : DenoiseOutput
        The table and the report to write.
    settings : mapping
        Parameters of the denoiser that were given.
    console : ConsoleOptions
        Output on the console.
    model : ModelOptions
        Parameters of ALS.
    gate : GateOptions
        The quality gate.
    master : str or None
        Master of Spark; by default the session that there is, or this machine.

    Raises
    ------
    InputError
        If an option has no effect with Spark, the output exists, or Spark cannot be started.
    EngineError
        If Spark fails. What was done is kept beside the output.
    """
    from prorec.engines.spark.failures import explain_failures
    from prorec.engines.spark.session import start_session
    from prorec.engines.spark.work_directory import HadoopFiles

    started = time.perf_counter()
    denoiser = _make_denoiser(settings, model)
    out = output.out
    if "-" in (log.log, out):
        raise InputError("--engine spark reads and writes tables; give paths instead of -")
    refuse((name for name in log.given if name == "skip_bad_rows"), "with --engine spark")
    if "://" not in out:
        check_distinct({"--out": out, "--report": output.report}, {"the log": log.log})
    exists = InputError(f"{out}: this exists already; pass --force to replace it")
    if "://" not in out and Path(out).exists() and not output.force:
        raise exists  # before Spark starts, which takes seconds
    if output.report is not None:
        check_report(output.report, force=output.force or output.resume)
    spark = start_session(master)
    files = HadoopFiles(spark)
    work = _work_directory(out)
    if files.exists(out) and not output.force:
        raise exists
    if files.exists(work) and not output.resume and not output.force:
        raise InputError(f"{out}: {INTERRUPTED}")
    progress = Console(stderr=True, quiet=console.quiet or console.json)
    kept = f"What was done is kept in {work}: run it again with --resume"
    with explain_failures(lambda: kept):
        with blame_data():
            table = _read_table(spark, files, log)
            result = denoiser.fit(
                table,
                user_col=log.user_col,
                item_col=log.item_col,
                weight_col=log.weight_col,
                work_dir=work,
                resume=output.resume,
                show_estimate=lambda text: print_plain(progress, text),
            )
        # The bytes of a table are spread over a cluster, so its digest is that of the list of its files.
        sources = hashlib.sha256("\n".join(sorted(table.inputFiles())).encode()).hexdigest()
        provenance = console.provenance(log={"name": log.log, "files_sha256": sources})
        rows = result.frame.where(f"not `{result.flag_column}`") if output.drop else result.frame
        # Into the work directory first, so that a part of the result never stands in place of the whole.
        rows.write.mode("overwrite").format(_format(out, log)).options(**_text_options(out, log)).save(f"{work}/result")
        # Spark does not read files whose name starts like that.
        files.write_text(f"{work}/result/_{FILE_NAME}", json.dumps(provenance, indent=2))
        if output.report is not None:
            result.report(output.report, title=log.report_title, provenance=provenance)
        summary = result.summary() | {
            "provenance": provenance,
            "out": out,
            "report": None if output.report is None else str(output.report),
        }
        summary |= {"fdr": result.flag_rule.get("fdr"), "training_column": result.weight_column}
        if output.force:
            files.remove(out)
        files.move(f"{work}/result", out)
        files.remove(work)
    summary["seconds"] = round(time.perf_counter() - started, 2)
    rate = summary["noise_rate"] or {"is_identified": False}
    share = rate.get("estimate" if rate["is_identified"] else "high")
    summary |= gate.measure(share, is_identified=rate["is_identified"])
    console.print_result(summary, describe_summary(summary))
    gate.judge(summary)


def _make_denoiser(settings: Mapping[str, Any], model: ModelOptions) -> SparkProRec:
    """Return the denoiser for Spark; parameters of the model are those of ALS."""
    from prorec.engines.spark import ALS, SparkProRec

    names = {each.name for each in fields(SparkProRec)}
    unused = [name for name in settings if name not in names]
    refuse([*(name for name in model.given if name == "model"), *unused], "with --engine spark")
    parameters = [each.name for each in fields(ALS)]
    for name in model.parameters:
        if name not in parameters:
            raise InputError(f"ALS has no parameter {name!r}; it has {', '.join(parameters)}")
    denoiser = SparkProRec(ALS(**model.parameters), **settings)
    denoiser.check_settings()
    return denoiser


def _work_directory(out: str) -> str:
    """Return the hidden folder beside the output, in which a run keeps its state."""
    folder, slash, name = out.rstrip("/").rpartition("/")
    return f"{folder}{slash}.{name}.prorec"


def _format(path: str, log: LogOptions) -> str:
    """Return Spark's name of the format of a table."""
    return log.format or _FORMATS.get(format_suffix(Path(path)), "parquet")


def _text_options(path: str, log: LogOptions) -> dict[str, Any]:
    """Return Spark's options of text files."""
    separator = log.reader_arguments()["separator"] or ("\t" if format_suffix(Path(path)) == ".tsv" else ",")
    return {"header": not log.no_header, "sep": separator}


def _read_table(spark: SparkSession, files: HadoopFiles, log: LogOptions) -> DataFrame:
    """Read the log as a table of Spark."""
    from pyspark.errors import AnalysisException

    path, format = log.log, _format(log.log, log)
    if log.format in (None, "parquet", "csv", "json", "orc") and not files.exists(path):
        raise InputError(f"{path}: there is no such file or folder")
    reader = spark.read.format(format).options(**_text_options(path, log))
    if format == "csv" and not log.text_ids:
        reader = reader.option("inferSchema", True)
    try:
        return reader.load(path)
    except AnalysisException as error:
        raise InputError(f"{path}: {error.getMessage()}") from None
