"""`prorec audit`: draw flagged rows for a person to look at, and read the verdicts back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from numpy.typing import NDArray

from prorec._core.checks import check_int, safe_repr
from prorec._core.errors import InputError
from prorec._core.files import prefix_errors
from prorec.cli.command import Options, PlainCommand, PlainGroup, as_command, refuse
from prorec.cli.exit_codes import blame_data
from prorec.cli.options import ConsoleOptions, FormulaOptions, LogOptions, TableOutput
from prorec.cli.output_files import check_distinct, check_formulas, check_output, describe_formulas, write_rows
from prorec.cli.provenance_file import describe_file
from prorec.data.readers import open_table
from prorec.data.source_table import SourceTable
from prorec.interactions import Interactions
from prorec.interactions.columns import parse_numbers
from prorec.noise.flag_audit import DEFAULT_SAMPLE_SIZE, Verdicts, audit_flags, draw_flagged, read_verdicts, recalibrate
from prorec.noise.flagging import check_fdr, flag_interactions

audit = typer.Typer(
    cls=PlainGroup, no_args_is_help=True, help="Check flagged rows by hand, and bound the share of wrong flags."
)
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, kw_only=True)
class DrawOptions(Options):
    """The sample to draw."""

    n: int = field(default=DEFAULT_SAMPLE_SIZE, metadata={"short": "-n"})
    """Number of flagged rows to draw. 29 without a wrong one mean fewer than 10% wrong flags, with 95% confidence."""
    seed: int = 0
    """Seed of the draw."""


@audit.command("draw", cls=PlainCommand)
@as_command
def draw(output: TableOutput, sample: DrawOptions, console: ConsoleOptions, log: LogOptions) -> None:
    """Draw flagged rows at random, for a person to look at.

    LOG is what prorec denoise wrote. The sample has its rows in random order, without the noise probability, so that it
    does not influence anybody, and with an empty column verdict. Write noise or genuine (or yes or no) into it.

    Parameters
    ----------
    output : TableOutput
        The file to write.
    sample : DrawOptions
        Size and seed.
    console : ConsoleOptions
        Output on the console.
    log : LogOptions
        The denoised log.

    Raises
    ------
    InputError
        If the log has no flags, or the output is refused.
    """
    check_distinct({"--out": output.out}, {"the log": log.log})
    check_output(output.out, force=output.force)
    check_formulas(output, log.format)
    with console.progress() as progress:
        source = log.read(progress)
    check_int("n", sample.n, 1)
    with blame_data(), prefix_errors(Path(log.log)):
        flagged = _read_flags(source)
        drawn = draw_flagged(flagged, sample.n, seed=sample.seed)
    # One row for each pair: the first.
    pairs, first_rows = np.unique(source.positions, return_index=True)
    table = source.table.take(pa.array(first_rows[np.searchsorted(pairs, drawn)]))
    hidden = [_find_column(source.table, name) for name in ("weight", "noise_probability", "flagged")]
    kept = [at for at in range(table.num_columns) if at not in hidden]
    names = [table.column_names[at] for at in kept]
    verdict = "prorec_verdict" if "verdict" in names else "verdict"
    columns = [table.column(at) for at in kept]
    table = pa.table([*columns, pa.array([""] * len(drawn))], names=[*names, verdict])
    provenance = console.provenance(log=log.describe(source))
    n_formulas = write_rows(table, output, log.format, provenance=provenance)
    result = {"rows": len(drawn), "flagged": int(flagged.sum()), "out": output.out}
    result |= {"formula_cells": n_formulas, "provenance": provenance}
    text = describe_formulas(n_formulas) + (
        f"{len(drawn):,} of {result['flagged']:,} flagged pairs drawn.\nWrite noise or genuine into the column "
        f"{verdict!r}, from the top, and then run: prorec audit read {output.out} {log.log}"
    )
    console.print_result(result, text, out=output.out)


@dataclass(frozen=True, kw_only=True)
class VerdictFile(Options):
    """A file of verdicts."""

    sample: Path = field(metadata={"positional": True})
    """File with a verdict in each row, from prorec audit draw or from the report."""


@dataclass(frozen=True, kw_only=True)
class RecalibratedOutput(FormulaOptions):
    """A recalibrated log to write."""

    out: str | None = field(default=None, metadata={"short": "-o"})
    """Also write the log with recalibrated noise probabilities and flags: .csv, .tsv, .inter or .parquet; or -."""
    fdr: float | None = None
    """Flag anew, with this expected share of wrong flags; by default only the verdicts change flags."""


@audit.command("read", cls=PlainCommand)
@as_command
def read(verdict_file: VerdictFile, output: RecalibratedOutput, console: ConsoleOptions, log: LogOptions) -> None:
    """Read verdicts, and bound the share of wrong flags.

    LOG is what prorec denoise wrote, the same from which the sample was drawn. With --out, noise probabilities agree
    with the verdicts, and rows with a verdict have 1 or 0. The column of weights does not change.

    Parameters
    ----------
    verdict_file : VerdictFile
        The verdicts.
    output : RecalibratedOutput
        The file to write, if any.
    console : ConsoleOptions
        Output on the console.
    log : LogOptions
        The denoised log.

    Raises
    ------
    InputError
        If a verdict, the log or the output is refused.
    """
    if output.out is None:
        refuse(output.given, "without --out")
    else:
        check_distinct({"--out": output.out}, {"the log": log.log, "the sample": verdict_file.sample})
        check_output(output.out, force=output.force)
        written = TableOutput(out=output.out, force=output.force, escape_formulas=output.escape_formulas)
        check_formulas(written, log.format)
    if output.fdr is not None:
        check_fdr(output.fdr)
    with console.progress() as progress:
        source = log.read(progress)
    with blame_data():
        with prefix_errors(Path(log.log)):
            flagged = _read_flags(source)
        verdicts = _read_verdict_file(verdict_file.sample, source.interactions, log)
        found = audit_flags(verdicts, flagged)
    provenance = console.provenance(log=log.describe(source), sample=describe_file(verdict_file.sample))
    result = asdict(found) | {"verdicts": len(verdicts.positions), "out": output.out, "provenance": provenance}
    lines = [str(found)]
    if n_other := len(verdicts.positions) - (found.n_checked - found.n_skipped):
        lines.append(f"{n_other:,} other verdicts, not on drawn rows, do not count in the bound.")
    if output.out is not None:
        with blame_data(), prefix_errors(Path(log.log)):
            probability = recalibrate(_read_probabilities(source), verdicts, flagged)
        flags = flagged.copy()
        flags[verdicts.positions] = verdicts.is_noise
        if output.fdr is not None:
            flags = flag_interactions(probability, fdr=output.fdr)
        table = _replace_columns(source, probability, flags)
        n_formulas = write_rows(table, written, log.format, source, provenance=provenance)
        result |= {"flagged_after": int(flags.sum()), "formula_cells": n_formulas}
        target = "standard output" if output.out == "-" else output.out
        lines.append(f"Recalibrated probabilities and {int(flags.sum()):,} flagged pairs written to {target}.")
        lines += describe_formulas(n_formulas).splitlines()
    console.print_result(result, "\n".join(lines), out=output.out or "")


def _read_verdict_file(path: Path, interactions: Interactions, log: LogOptions) -> Verdicts:
    """Read the verdicts of a file; errors name its lines."""
    arguments = log.reader_arguments()
    with open_table(path) as file:
        requested = {"user": arguments["user_col"], "item": arguments["item_col"]}
        chosen = file.choose(requested, ("user", "item"))
        _, table = file.read_all(chosen, "text")
        columns = {role: table.column(position) for role, position in chosen.items()}
        for name in ("verdict", "drawn"):
            position = _find_column(table, name)
            if position is not None:
                columns[name] = table.column(position)
        return read_verdicts(pa.table(columns), interactions)


def _find_column(table: pa.Table, name: str) -> int | None:
    """Return the position of a column that prorec added: if the log had one of the name, the new one has a prefix."""
    names = [each.partition(":")[0] for each in table.column_names]
    for candidate in (f"prorec_{name}", name):
        if candidate in names:
            return names.index(candidate)
    return None


def _result_column(source: SourceTable, name: str) -> pa.ChunkedArray:
    position = _find_column(source.table, name)
    if position is None:
        raise InputError(f"there is no column {name!r}; give the file that prorec denoise wrote, without --drop")
    return source.table.column(position)


def _read_flags(source: SourceTable) -> NDArray[np.bool_]:
    """Return whether each interaction is flagged."""
    texts = [str(value).strip().lower() for value in _result_column(source, "flagged").to_pylist()]
    for row, text in enumerate(texts):
        if text not in _FLAGS:
            raise InputError(f"row {row + 1}: the column 'flagged' must be true or false; got {safe_repr(text)}")
    return _by_interaction(source, [_FLAGS[text] for text in texts], bool)


def _read_probabilities(source: SourceTable) -> NDArray[Any]:
    values = parse_numbers(_result_column(source, "noise_probability"), "noise probability", allow_negative=False)
    return _by_interaction(source, values, np.float32)


def _by_interaction(source: SourceTable, values: Sequence[Any] | NDArray[Any], dtype: Any) -> NDArray[Any]:
    """Return one value for each interaction; all rows of a pair have the same."""
    result = np.zeros(len(source.interactions), dtype=dtype)
    result[source.positions] = values
    return result


def _replace_columns(source: SourceTable, probability: NDArray[np.float32], flags: NDArray[np.bool_]) -> pa.Table:
    """Return the rows of the log with other noise probabilities and flags."""
    table = source.table
    for name, values in (("noise_probability", probability), ("flagged", flags)):
        position = _find_column(table, name)
        column = pa.array(values).take(pa.array(source.positions))
        # As text like the rest, because the types of a text file are inferred when it is written.
        if source.is_text:
            column = column.cast(pa.string())
        table = table.set_column(position, table.column_names[position], column)
    return table
