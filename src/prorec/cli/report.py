"""`prorec report`: write a report about a log, or about a saved denoiser."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prorec._core.errors import InputError
from prorec._core.files import prefix_errors
from prorec.cli.command import as_command, name_options, refuse
from prorec.cli.commands_to_copy import describe_cleaning, repeat_cleaning
from prorec.cli.exit_codes import blame_data
from prorec.cli.gate import GateOptions, count_noise
from prorec.cli.mark_options import MarkOptions
from prorec.cli.options import (
    AlgorithmSettings,
    ConsoleOptions,
    ForceOptions,
    ItemOptions,
    LogOptions,
    ModelOptions,
    NoiseSettings,
    load_denoiser,
)
from prorec.cli.output_files import check_distinct, check_rejected, check_report, rejected_outputs, write_rejected
from prorec.cli.provenance_file import describe_file, describe_model
from prorec.data.item_info import add_item_info
from prorec.denoise import ProRec
from prorec.denoise.noise_summary import describe_accounts, describe_flags, summarize_noise
from prorec.report.changes import read_earlier_report
from prorec.report.page import write_report


@dataclass(frozen=True, kw_only=True)
class ReportSource(LogOptions):
    """A log to denoise, or a denoiser."""

    log: str = field(metadata={"positional": True})
    """Log of interactions, - for standard input, or a folder that prorec train --denoise wrote."""


@dataclass(frozen=True, kw_only=True)
class ReportOutput(ForceOptions):
    """The report to write."""

    out: Path = field(metadata={"short": "-o"})
    """Page to write, such as report.html."""
    compare: Path | None = None
    """What --json printed for an earlier report, such as last-week.json; the page then says what has changed."""

    def read_earlier(self) -> Any:
        """Return the summary of the earlier report; None without one."""
        if self.compare is None:
            return None
        with blame_data(), prefix_errors(self.compare):
            try:
                summary = json.loads(self.compare.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise InputError(f"this is not the JSON of an earlier report ({error})") from None
            read_earlier_report(summary)
            return summary


@as_command
def report(
    output: ReportOutput,
    noise: NoiseSettings,
    items: ItemOptions,
    gate: GateOptions,
    console: ConsoleOptions,
    source: ReportSource,
    marks: MarkOptions,
    model: ModelOptions,
    algorithm: AlgorithmSettings,
) -> None:
    """Write a report that shows which clicks are noise: one HTML file, to read and to pass on.

    Parameters
    ----------
    output : ReportOutput
        The page.
    noise, algorithm : dict
        Parameters of the denoiser.
    items : ItemOptions
        Times, names and categories.
    console : ConsoleOptions
        Output on the console.
    model : ModelOptions
        The recommender inside the denoiser.
    source : ReportSource
        The log or the denoiser.
    marks : MarkOptions
        Interactions and users that are known to be genuine or noise.
    gate : GateOptions
        The quality gate.

    Raises
    ------
    InputError
        If the page cannot be written, or an option or the log is refused.
    """
    started = time.perf_counter()
    gate.check(noise.get("noise_method"))
    inputs = {"the log": source.log, "--items": items.items, "--compare": output.compare}
    outputs = {"--out": output.out, **rejected_outputs(output.out, skip=source.skip_bad_rows)}
    check_distinct(outputs, inputs)
    check_report(output.out, force=output.force)
    check_rejected(output.out, skip=source.skip_bad_rows, force=output.force)
    items.check()
    if noise.get("noise_method") == "plan":
        refuse(marks.given, "with --noise-method plan")
    marks.check(source)
    earlier = output.read_earlier()
    skipped: dict[str, Any] = {}
    text, positions, command = "", None, None
    others = {"items": items.items, "compare": output.compare}
    read = {name: describe_file(path) for name, path in others.items() if path is not None}
    with console.progress() as progress:
        if source.log != "-" and Path(source.log).is_dir():
            given = [*model.given, *noise, *algorithm, *source.given, *marks.given, *items.given]
            refuse([name for name in given if name != "items"], "for a denoiser that is fitted already")
            denoiser = load_denoiser(Path(source.log))
            if items.items is not None:
                with blame_data():
                    denoiser.interactions_ = add_item_info(denoiser.interactions_, items.items)
            share, is_identified = count_noise(denoiser)
            measured = gate.measure(share, is_identified=is_identified)
            provenance = console.provenance(model=describe_model(Path(source.log)), **read)
            write_report(
                denoiser,
                output.out,
                earlier=earlier,
                progress=progress,
                overwrite=output.force,
                provenance=provenance,
            )
        else:
            denoiser = ProRec(model.make(), **noise, **algorithm)
            denoiser.check_settings()
            log = source.read(progress, items)
            clicks, positions = items.describe(source, log), log.positions
            denoiser.model = model.cap_rank(denoiser.model, clicks)
            denoiser.check_parameters(clicks.matrix.shape)
            with blame_data():
                known: dict[str, Any] = marks.read(log)
                denoiser.fit(clicks, progress=progress, track_loss=True, **known)
            found = summarize_noise(denoiser, positions)
            command = repeat_cleaning(source.log, console.settings, marks.list_users(), found)
            share, is_identified = count_noise(denoiser)
            measured = gate.measure(share, is_identified=is_identified)
            provenance = console.provenance(log=source.describe(log), **read)
            seconds = time.perf_counter() - started
            shown: dict[str, Any] = {"seconds": seconds, "n_rows": log.table.num_rows, "earlier": earlier}
            shown |= {"title": source.report_title, "progress": progress, "overwrite": output.force}
            shown |= {"n_left_out": 0 if log.skipped is None else log.skipped.n_bad, "cleaning_command": command}
            write_report(denoiser, output.out, provenance=provenance, **shown)
            skipped, text = write_rejected(log, output.out, force=output.force)
    result = summarize_noise(denoiser, positions) | {"out": str(output.out), "provenance": provenance}
    result |= measured | skipped | {"cleaning_command": command}
    lines = "\n".join([name_options(describe_flags(result)), *describe_accounts(result)])
    console.print_result(result, f"{text}{lines}\n{describe_cleaning(command)}The report is in {output.out}.")
    gate.judge(result)
