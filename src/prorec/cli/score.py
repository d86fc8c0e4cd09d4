"""`prorec score`: the noise probability of clicks that arrive after a denoiser was trained."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from prorec._core.files import prefix_errors
from prorec.cli.command import as_command
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
from prorec.noise.later_interactions import score_later
from prorec.noise.posterior import basis_names


@dataclass(frozen=True, kw_only=True)
class SavedDenoiser(SavedModel):
    """A denoiser on disk, with its noise finder."""

    model: Path = field(metadata={"positional": True})
    """Folder that prorec train --denoise wrote."""


@as_command
def score(saved: SavedDenoiser, output: TableOutput, console: ConsoleOptions, log: LogOptions) -> None:
    """Find the noise probability of new interactions with a trained denoiser.

    Writes every row of the log, in its order, with two more columns: noise_probability and basis.

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
    outputs = {"--out": output.out, **rejected_outputs(output.out, skip=log.skip_bad_rows)}
    check_distinct(outputs, {"the log": log.log})
    check_output(output.out, force=output.force)
    check_formulas(output, log.format)
    check_rejected(output.out, skip=log.skip_bad_rows, force=output.force)
    denoiser = load_denoiser(saved.model)
    with prefix_errors(saved.model):
        finder = denoiser.finder_
    with console.progress() as progress:
        source = log.read(progress)
    probability, basis = score_later(finder, source.interactions)
    # An unknown probability becomes an empty cell and not the text "nan".
    values = pa.array(probability, mask=np.isnan(probability))
    table = source.with_columns({"noise_probability": values, "basis": basis_names(basis)})
    n_formulas = write_rows(table, output, log.format, source)
    skipped, text = write_rejected(source, output.out, force=output.force, escape_formulas=output.escape_formulas)
    of_rows = probability[source.positions]
    result = {
        "rows": table.num_rows,
        "basis": dict(Counter(basis_names(basis[source.positions]).to_pylist())),
        "mean_noise_probability": None if np.isnan(of_rows).all() else float(np.nanmean(of_rows)),
        "out": output.out,
        "formula_cells": n_formulas,
        "seconds": round(time.perf_counter() - started, 2),
    } | skipped
    console.print_result(result, text + describe_formulas(n_formulas) + _describe(result), out=output.out)


def _describe(result: Mapping[str, Any]) -> str:
    """Return the result in words."""
    counts = sorted(result["basis"].items(), key=lambda each: -each[1])
    basis = ", ".join(f"{count:,} with basis {name!r}" for name, count in counts)
    mean = result["mean_noise_probability"]
    average = "" if mean is None else f" Their mean noise probability is {mean:.3f}."
    target = "standard output" if result["out"] == "-" else result["out"]
    return f"{result['rows']:,} rows scored: {basis}.{average}\nWritten to {target} in {result['seconds']:.1f} s."
