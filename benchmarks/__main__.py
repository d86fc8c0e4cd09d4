"""Run the benchmarks, print the ratios, and append them to the history or compare them with it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from benchmarks import denoise, metrics, models, reading, transport
from benchmarks.history import append_record, count_runs, describe_run, find_regressions, read_records, recent_medians
from benchmarks.ratio import Ratio

MIN_RUNS = 3
"""Number of earlier runs from which on a median is reliable."""
BENCHMARKS = {"metrics": metrics, "reading": reading, "transport": transport, "models": models, "denoise": denoise}


def main() -> None:
    """Measure the benchmarks one after the other; exit with 1 if --check finds a regression."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, default=list(BENCHMARKS), help="benchmarks to run")
    parser.add_argument("--check", action="store_true", help="compare with the history instead of appending to it")
    parser.add_argument("--factor", type=float, default=1.5, help="accepted multiple of the recent median (1.5)")
    options = parser.parse_args()
    if not options.factor >= 1:
        parser.error(f"--factor must be at least 1; {options.factor:g} was given")
    record = describe_run()
    records = read_records()
    medians, n_runs = recent_medians(records, record.machine), count_runs(records, record.machine)
    ratios = [ratio for name in options.only for ratio in BENCHMARKS[name].measure()]
    regressions = find_regressions(ratios, medians, options.factor)
    print_table(ratios, medians, regressions)
    if not options.check:
        append_record(replace(record, ratios=ratios))
        return
    if n_runs < MIN_RUNS:
        print(
            f"The history has {n_runs} of the {MIN_RUNS} runs on this machine ({record.machine}) that make a median "
            "reliable. Run `make bench` on a quiet machine to add one."
        )
    for ratio in regressions:
        print(f"Regression: {ratio.name} is {ratio.value:.3f}, over {options.factor:g} × {medians[ratio.name]:.3f}")
    if regressions:
        sys.exit(1)


def print_table(ratios: Sequence[Ratio], medians: Mapping[str, float], regressions: Sequence[Ratio]) -> None:
    """Print each ratio with its limit, its recent median on this machine, and a verdict."""
    table = Table("work / reference", "ratio", "limit", "median", "", box=None, pad_edge=False)
    for column in table.columns[1:4]:
        column.justify = "right"
    for ratio in ratios:
        verdict = "[green]ok" if ratio.value <= ratio.limit else "[red]over the limit"
        recent = f"{medians[ratio.name]:.3f}" if ratio.name in medians else "–"
        name = f"{ratio.name} ({ratio.detail})" if ratio.detail else ratio.name
        table.add_row(
            name,
            f"{ratio.value:.3f}",
            f"{ratio.limit:g}",
            recent,
            "[red]regression" if ratio in regressions else verdict,
        )
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
