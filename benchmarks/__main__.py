"""Run every benchmark, print the ratios as a table, and keep them in build/bench.json."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import denoise, metrics, models, reading, transport


def main() -> None:
    """Measure one after the other; nothing is asserted, the table says what is over its limit."""
    ratios = [ratio for module in (metrics, reading, transport, models, denoise) for ratio in module.measure()]
    table = Table("work / against", "ratio", "at most", "", box=None, pad_edge=False)
    for column in table.columns[1:3]:
        column.justify = "right"
    for ratio in ratios:
        verdict = "[green]ok" if ratio.ratio <= ratio.at_most else "[red]over"
        table.add_row(ratio.name, f"{ratio.ratio:.3f}", f"{ratio.at_most:g}", verdict)
    Console(width=110).print(table)
    path = Path("build") / "bench.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps([asdict(ratio) for ratio in ratios], indent=2) + "\n")


if __name__ == "__main__":
    main()
