"""History of benchmark runs: `make bench` appends a record, `python -m benchmarks.history` writes page and figure."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.figure import make_axes, save_svg
from benchmarks.ratio import Ratio

ROOT = Path(__file__).parent.parent
HISTORY = ROOT / "benchmarks" / "history.jsonl"
PAGE = ROOT / "docs" / "benchmark-history.md"
N_RECENT = 5


@dataclass(frozen=True)
class Record:
    """One run of the benchmarks."""

    date: str
    """Start of the run, UTC."""
    commit: str
    dirty: bool
    """Whether the package or the benchmarks differed from the commit."""
    machine: str
    """Processor, number of cores, and GPU; only records with the same machine are compared."""
    load: float
    """Average number of processes that other programs kept busy during the minute before the run."""
    python: str
    numpy: str
    ratios: Sequence[Ratio] = ()


def describe_run() -> Record:
    """Return a record of this commit and machine without ratios; call it before measuring."""
    import torch  # noqa: F401 - describe_machine names the GPU only if PyTorch is loaded

    from reproduction.run_cache import describe_machine

    changes = _git("status", "--porcelain", "--", "src", "benchmarks/*.py")
    return Record(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=_git("rev-parse", "--short=10", "HEAD") or "unknown",
        dirty=bool(changes),
        machine=describe_machine(),
        load=round(os.getloadavg()[0], 2),
        python=platform.python_version(),
        numpy=np.__version__,
    )


def _git(*arguments: str) -> str:
    """Return the output of git, or nothing without a repository or without git."""
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


def append_record(record: Record, path: Path = HISTORY) -> None:
    """Append a record to the history, one line of JSON."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")


def read_records(path: Path = HISTORY) -> list[Record]:
    """Return all records, the oldest first; none if there is no file yet.

    Raises
    ------
    ValueError
        If a line is not a record; the message names file and line.
    """
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else [], 1):
        try:
            fields = json.loads(line)
            records.append(Record(**{**fields, "ratios": [Ratio(**ratio) for ratio in fields["ratios"]]}))
        except (ValueError, KeyError, TypeError) as error:
            message = (
                f"Line {number} of {path} must be a record written by `make bench`; it is not ({error}). Remove it."
            )
            raise ValueError(message) from error
    return records


def values_by_name(records: Iterable[Record], machine: str) -> dict[str, list[Ratio]]:
    """Return the ratios measured on one machine by name, the oldest first."""
    ratios = defaultdict(list)
    for record in records:
        for ratio in record.ratios if record.machine == machine else ():
            ratios[ratio.name].append(ratio)
    return dict(ratios)


def count_runs(records: Iterable[Record], machine: str) -> int:
    """Return the number of runs on one machine."""
    return sum(record.machine == machine for record in records)


def recent_medians(records: Iterable[Record], machine: str) -> dict[str, float]:
    """Return the median of the last five values of each ratio on one machine, by name."""
    by_name = values_by_name(records, machine)
    return {name: median(ratio.value for ratio in ratios[-N_RECENT:]) for name, ratios in by_name.items()}


def find_regressions(ratios: Iterable[Ratio], medians: Mapping[str, float], factor: float) -> list[Ratio]:
    """Return the ratios above `factor` times their recent median; a ratio without a median is none of them."""
    # "not <=" and not ">", so that NaN counts as a regression.
    return [ratio for ratio in ratios if ratio.name in medians and not ratio.value <= factor * medians[ratio.name]]


def format_page(records: Sequence[Record]) -> str:
    """Return the page of the documentation: the table of the newest record's machine, and the figure."""
    newest = records[-1]
    n_records = count_runs(records, newest.machine)
    medians = recent_medians(records, newest.machine)
    lines = [
        "# Benchmark history",
        "",
        "`make bench` appends its ratios to `benchmarks/history.jsonl` and writes this page. `make bench-check`",
        "measures again and fails if a ratio exceeds 1.5 times the median of its last five values on the same machine.",
        "[Benchmarks](benchmarks.md) explains the ratios; smaller is better.",
        "",
        f"Machine: {newest.machine}; number of runs: {n_records}. Latest run: {newest.date[:10]}, commit "
        f"{newest.commit}{' with changes' if newest.dirty else ''}, Python {newest.python}, numpy {newest.numpy}, "
        f"load {newest.load:g} at the start.",
        "",
        "| work / reference | latest | best | median of the last five | limit |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, ratios in values_by_name(records, newest.machine).items():
        best = min(ratio.value for ratio in ratios)
        lines.append(f"| {name} | {ratios[-1].value:.3f} | {best:.3f} | {medians[name]:.3f} | {ratios[-1].limit:g} |")
    return "\n".join([*lines, "", "![Ratios of the last runs](figures/benchmark_history.svg)", ""])


def plot(records: Sequence[Record]) -> None:
    """Draw the values of each ratio on the newest record's machine in a panel, with its limit."""
    by_name = values_by_name(records, records[-1].machine)
    n_rows = -(-len(by_name) // 3)
    figure, axes = make_axes(n_rows, 3, (9, 1.7 * n_rows))
    for axis in axes.flat[len(by_name) :]:
        axis.remove()
    for axis, (name, ratios) in zip(axes.flat, by_name.items(), strict=False):
        axis.plot(range(1, len(ratios) + 1), [ratio.value for ratio in ratios], "o-", color="#1b6ca8", markersize=4)
        axis.plot([1, max(len(ratios), 2)], [ratios[-1].limit] * 2, "--", color="#d1495b")
        axis.set_title(textwrap.fill(name, 42), fontsize=7)
        axis.set_ylim(0, 1.15 * axis.dataLim.ymax)  # so that no point lies on the frame
        axis.tick_params(labelsize=7)
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
    figure.supxlabel("run, the oldest first; dashed: limit", fontsize=8)
    save_svg(figure, "benchmark_history")


def main() -> None:
    """Write the page and the figure."""
    records = read_records()
    PAGE.write_text(format_page(records), encoding="utf-8")
    plot(records)


if __name__ == "__main__":
    main()
