"""`prorec score`: the noise probability of clicks that arrive after a denoiser was trained."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa

from prorec._core.files import prefix_errors
from prorec.cli.command import as_command, refuse
from prorec.cli.exit_codes import BadDataError, blame_data
from prorec.cli.options import ConsoleOptions, LogOptions, SavedModel, TableOutput, load_denoiser
from prorec.cli.output_files import (
    check_distinct,
    check_formulas,
    check_output,
    check_rejected,
    describe_formulas,
    rejected_outputs,
    write_rejected,
    write_rows,
)
from prorec.cli.provenance_file import describe_model
from prorec.data.row_stream import ByteStream, RowStream
from prorec.noise.later_interactions import score_later, score_rows
from prorec.noise.posterior import basis_names
from prorec.noise.ridge_scores import keep_inverses

_log = logging.getLogger("prorec.cli")


@dataclass(frozen=True, kw_only=True)
class SavedDenoiser(SavedModel):
    """A denoiser on disk, with its noise finder."""

    model: Path = field(metadata={"positional": True})
    """Folder that prorec train --denoise wrote."""


@as_command
def score(saved: SavedDenoiser, output: TableOutput, console: ConsoleOptions, log: LogOptions) -> None:
    """Find the noise probability of new interactions with a trained denoiser.

    Writes every row of the log, in its order, with two more columns: noise_probability and basis. From standard input
    to standard output each row is written as soon as it has come, and scored by itself.

    Parameters
    ----------
    saved : SavedDenoiser
        The denoiser.
    output : TableOutput
        The file to write.
    console : ConsoleOptions
        Output on the console.
    log : LogOptions
        The new interactions.

    Raises
    ------
    InputError
        If the model has no noise finder, or the log or the output is refused.
    """
    started = time.perf_counter()
    log.check_format()
    if log.log == output.out == "-" and log.format != "parquet":
        _score_stream(saved, console, log)
        return
    outputs = {"--out": output.out, **rejected_outputs(output.out, skip=log.skip_bad_rows)}
    check_distinct(outputs, {"the log": log.log})
    check_output(output.out, force=output.force)
    check_formulas(output, log.format)
    check_rejected(output.out, skip=log.skip_bad_rows, force=output.force)
    denoiser = load_denoiser(saved.model)
    with blame_data(), prefix_errors(saved.model):
        finder = denoiser.finder_
    with console.progress() as progress:
        source = log.read(progress)
    with blame_data():
        probability, basis = score_later(finder, source.interactions)
        # An unknown probability becomes an empty cell and not the text "nan".
        values = pa.array(probability, mask=np.isnan(probability))
        table = source.with_columns({"noise_probability": values, "basis": basis_names(basis)})
    provenance = console.provenance(log=log.describe(source), model=describe_model(saved.model))
    n_formulas = write_rows(table, output, log.format, source, provenance=provenance)
    skipped, text = write_rejected(source, output.out, force=output.force, escape_formulas=output.escape_formulas)
    of_rows = probability[source.positions]
    result = {
        "rows": table.num_rows,
        "basis": dict(Counter(basis_names(basis[source.positions]).to_pylist())),
        "mean_noise_probability": None if np.isnan(of_rows).all() else float(np.nanmean(of_rows)),
        "out": output.out,
        "formula_cells": n_formulas,
        "seconds": round(time.perf_counter() - started, 2),
        "provenance": provenance,
    } | skipped
    console.print_result(result, text + describe_formulas(n_formulas) + _describe(result), out=output.out)


def _score_stream(saved: SavedDenoiser, console: ConsoleOptions, log: LogOptions) -> None:
    """Score standard input row by row; a row that cannot be used is left out, and named on standard error."""
    started = time.perf_counter()
    refuse((name for name in log.given if name == "skip_bad_rows"), "for a stream, which leaves bad rows out anyway")
    with blame_data(), prefix_errors(saved.model):
        finder = load_denoiser(saved.model).finder_
    arguments = log.reader_arguments()
    with blame_data(), prefix_errors(Path("standard input")):
        stream = RowStream(
            cast(ByteStream, sys.stdin.buffer),
            {"user": arguments["user_col"], "item": arguments["item_col"]},
            separator=arguments["separator"] or {"csv": ",", "tsv": "\t"}.get(log.format or ""),
            header=False if log.no_header else None,
        )
    out, counts, n_bad, total = sys.stdout.buffer, Counter[str](), 0, 0.0
    separator = stream.separator.encode()
    if stream.header_line is not None:
        new = (f"prorec_{name}" if name in stream.names else name for name in ("noise_probability", "basis"))
        out.write(separator.join([stream.header_line, *(name.encode() for name in new)]) + b"\n")
        out.flush()
    with keep_inverses():
        for batch in stream:
            n_bad += len(batch.bad)
            for line, reason in batch.bad:
                level = logging.DEBUG if console.quiet else logging.WARNING
                _log.log(level, "line %d is left out: %s", line, reason, extra={"fields": {"line": line}})
            if batch.lines:
                probability, basis = score_rows(finder, batch.users, batch.items)
                names = basis_names(basis).to_pylist()
                cells = ("" if np.isnan(each) else str(each) for each in probability)
                for row, cell, name in zip(batch.lines, cells, names, strict=True):
                    out.write(separator.join([row, cell.encode(), name.encode()]) + b"\n")
                counts.update(names)
                total += float(np.nansum(probability, dtype=np.float64))
            out.flush()  # whoever reads the other end must not wait for the next batch
    n_known = counts.total() - counts["unknown item"]
    result = {
        "rows": counts.total(),
        "basis": dict(counts),
        "mean_noise_probability": total / n_known if n_known else None,
        "out": "-",
        "seconds": round(time.perf_counter() - started, 2),
        "provenance": console.provenance(log={"name": "standard input"}, model=describe_model(saved.model)),
        "rows_skipped": n_bad,
        "rejected": None,
    }
    if n_bad and not counts:
        raise BadDataError(f"standard input: none of the {n_bad:,} rows can be used")
    console.print_result(result, _describe(result), out="-")


def _describe(result: Mapping[str, Any]) -> str:
    """Return the result in words."""
    counts = sorted(result["basis"].items(), key=lambda each: -each[1])
    basis = ", ".join(f"{count:,} with basis {name!r}" for name, count in counts)
    mean = result["mean_noise_probability"]
    average = "" if mean is None else f" Their mean noise probability is {mean:.3f}."
    target = "standard output" if result["out"] == "-" else result["out"]
    return f"{result['rows']:,} rows scored: {basis}.{average}\nWritten to {target} in {result['seconds']:.1f} s."
