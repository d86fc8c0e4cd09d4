"""`prorec denoise`: write a log with a weight, a noise probability and a flag for each row."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from rich.console import Console

from prorec._core.errors import InputError
from prorec._core.files import prefix_errors
from prorec.cli.command import Options, as_command, refuse
from prorec.cli.commands_to_copy import repeat_cleaning
from prorec.cli.console import print_plain
from prorec.cli.denoise_on_spark import denoise_on_spark
from prorec.cli.denoise_summary import describe_summary, summarize
from prorec.cli.exit_codes import blame_data
from prorec.cli.gate import GateOptions, count_noise
from prorec.cli.mark_options import MarkOptions
from prorec.cli.options import (
    AlgorithmSettings,
    ConsoleOptions,
    DenoiseOutput,
    ItemOptions,
    LogOptions,
    ModelOptions,
    NoiseSettings,
)
from prorec.cli.output_files import (
    check_distinct,
    check_formulas,
    check_output,
    check_rejected,
    check_report,
    describe_formulas,
    rejected_outputs,
    write_rejected,
    write_rows,
)
from prorec.cli.provenance_file import describe_file
from prorec.cli.work_folder import INTERRUPTED, WorkDirectory
from prorec.data.source_table import SourceTable
from prorec.data.writers import check_characters, write_table
from prorec.denoise import ProRec
from prorec.report.page import write_report


@dataclass(frozen=True, kw_only=True)
class SparkOptions(Options):
    """The engine that does the work."""

    panel = "Spark"

    engine: Literal["local", "spark"] = "local"
    """Engine: local, or spark for tables that are too large for one machine."""
    master: str | None = None
    """Master of Spark, such as local[4] or spark://host:7077."""


@as_command
def denoise(
    output: DenoiseOutput,
    noise: NoiseSettings,
    gate: GateOptions,
    console: ConsoleOptions,
    log: LogOptions,
    marks: MarkOptions,
    items: ItemOptions,
    model: ModelOptions,
    algorithm: AlgorithmSettings,
    spark: SparkOptions,
) -> None:
    """Find the interactions that are noise.

    Writes every row of the log, in its order, with three more columns: weight, noise_probability and flagged.

    Parameters
    ----------
    output : DenoiseOutput
        Files to write.
    noise, algorithm : dict
        Parameters of the denoiser.
    console : ConsoleOptions
        Output on the console.
    model : ModelOptions
        The recommender inside the denoiser.
    log : LogOptions
        The log.
    marks : MarkOptions
        Interactions and users that are known to be genuine or noise.
    items : ItemOptions
        Details for the report.
    spark : SparkOptions
        The engine.
    gate : GateOptions
        The quality gate.

    Raises
    ------
    InputError
        If an option, the log or an output is refused. All that can be checked is checked before the work starts.
    """
    gate.check(noise.get("noise_method"))
    if spark.engine == "spark":
        refuse((*items.given, *marks.given), "with --engine spark")
        refuse((name for name in output.given if name == "escape_formulas"), "with --engine spark")
        denoise_on_spark(log, output, noise | algorithm, console, model, gate, spark.master)
        return
    refuse((name for name in spark.given if name == "master"), "without --engine spark")
    is_cross_fitted = noise.get("noise_method") != "plan"
    if not is_cross_fitted:
        refuse(marks.given, "with --noise-method plan")
    needs_times = output.report is not None or is_cross_fitted
    if not needs_times:
        refuse(items.given, "with --noise-method plan and without --report")
    elif output.report is None:
        refuse((name for name in items.given if name == "items"), "without --report")
    started = time.perf_counter()
    denoiser = ProRec(model.make(), **noise, **algorithm)
    denoiser.check_settings()
    if _is_finished(output):
        print_plain(Console(stderr=True, quiet=console.quiet), f"{output.out} exists, and no run is left to resume.")
        return
    _check_outputs(output, log, items)
    items.check()
    marks.check(log)
    with console.progress() as progress:
        source = log.read(progress, items if needs_times else None)
        clicks = items.describe(log, source) if needs_times else source.interactions
        _check_columns(source, Path(f"-.{log.format or 'csv'}" if output.out == "-" else output.out))
        denoiser.model = model.cap_rank(denoiser.model, clicks)
        denoiser.check_parameters(clicks.matrix.shape)
        with blame_data():
            known = marks.read(source)
        inputs = {"log": log.describe(source)}
        if items.items is not None:
            inputs["items"] = describe_file(items.items)
        provenance = console.provenance(**inputs)

        def fit_and_write(work: Path | None = None) -> tuple[dict[str, Any], str]:
            """Write the rows and the report, and return what the summary says of the rows."""
            # Only a report needs the losses, and a model that is fitted to the new weights.
            has_report = output.report is not None
            run: dict[str, Any] = {"checkpoint": work, "progress": progress, **known}
            with blame_data():
                denoiser.fit(clicks, refit=has_report, track_loss=has_report, **run)
            table = _denoised_rows(source, denoiser, drop=output.drop)
            findings = summarize(source, denoiser)
            findings["cleaning_command"] = repeat_cleaning(log.log, console.settings, marks.list_users(), findings)
            rejected, text = write_rejected(
                source, output.out, force=output.force, escape_formulas=output.escape_formulas
            )
            n_formulas = write_rows(table, output, log.format, source, work, provenance=provenance, progress=progress)
            if output.report is not None:
                shown: dict[str, Any] = {"seconds": time.perf_counter() - started, "n_rows": source.table.num_rows}
                shown |= {"title": log.report_title, "progress": progress, "overwrite": output.force}
                shown |= {"n_left_out": rejected["rows_skipped"], "cleaning_command": findings["cleaning_command"]}
                write_report(denoiser, output.report, provenance=provenance, **shown)
            written = {"rows_written": int(table.num_rows), "formula_cells": n_formulas}
            return findings | rejected | written, text + describe_formulas(n_formulas)

        if output.out == "-":
            written, text = fit_and_write()
        else:
            with WorkDirectory(output.out).open(resume=output.resume) as work:
                written, text = fit_and_write(work)
    summary = written | {
        "out": output.out,
        "report": None if output.report is None else str(output.report),
        "seconds": round(time.perf_counter() - started, 2),
        "provenance": provenance,
    }
    share, is_identified = count_noise(denoiser)
    summary |= gate.measure(share, is_identified=is_identified)
    console.print_result(summary, text + describe_summary(summary), out=output.out)
    gate.judge(summary)


def _is_finished(output: DenoiseOutput) -> bool:
    """Return whether --resume finds the output of a run that has ended, so that there is nothing to do."""
    if not output.resume or output.force or output.out == "-":
        return False
    with prefix_errors(Path(output.out)):
        return Path(output.out).exists() and not WorkDirectory(output.out).has_state()


def _check_outputs(output: DenoiseOutput, log: LogOptions, items: ItemOptions) -> None:
    """Refuse outputs that cannot be written, that would overwrite an input, or whose run was interrupted."""
    outputs = {"--out": output.out, "--report": output.report, **rejected_outputs(output.out, skip=log.skip_bad_rows)}
    check_distinct(outputs, {"the log": log.log, "--items": items.items})
    check_formulas(output, log.format)
    if output.out == "-":
        if output.resume:
            raise InputError("--resume requires an output file; a run that writes to standard output keeps no state")
    else:
        work = WorkDirectory(output.out)
        work.check_not_running()
        has_state = work.has_state()
        # A run that was killed at its end may have written the output; the same content is accepted again.
        check_output(output.out, force=output.force or (output.resume and has_state))
        if has_state and not output.resume and not output.force:
            raise InputError(f"{output.out}: {INTERRUPTED}")
    if output.report is not None:
        check_report(output.report, force=output.force)
    check_rejected(output.out, skip=log.skip_bad_rows, force=output.force or output.resume)


def _check_columns(source: SourceTable, path: Path) -> None:
    """Refuse columns that cannot be written, before the work rather than after it."""
    zeros = np.zeros(len(source.interactions), dtype=np.float32)
    with blame_data(), prefix_errors(path):
        table = source.with_columns(dict.fromkeys(("weight", "noise_probability", "flagged"), zeros))
        write_table(table.slice(0, 1), io.BytesIO(), path.name)
        check_characters(source.table, path.name)


def _denoised_rows(source: SourceTable, denoiser: ProRec, *, drop: bool) -> pa.Table:
    """Return the rows of the log with the three new columns."""
    columns: dict[str, Any] = {
        "weight": denoiser.weights_.data,
        "noise_probability": denoiser.noise_probability_,
        "flagged": denoiser.flagged_,
    }
    table = source.with_columns(columns)
    return table.filter(~denoiser.flagged_[source.positions]) if drop else table
