"""Results as tables in Markdown, with the paper's figures beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from prorec.data.registry import DATASETS
from prorec.experiments.overall import METRICS, Result, Row
from prorec.experiments.paper import TABLE_1, TABLE_2
from prorec.interactions import Interactions


def datasets_page(loaded: Mapping[str, Interactions]) -> str:
    """Table 1: what each data set has, and what the paper says it has."""
    lines = [
        "| data set | users | items | interactions | sparsity | paper |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for name, counts in TABLE_1.items():
        said = f"{counts.users:,} × {counts.items:,}, {counts.interactions:,}, {counts.sparsity:.4f}"
        if name in loaded:
            clicks = loaded[name]
            sparsity = 1 - len(clicks) / (clicks.n_users * clicks.n_items)
            same = (clicks.n_users, clicks.n_items, len(clicks)) == counts[:3] and f"{sparsity:.4f}" == said[-6:]
            own = f"{clicks.n_users:,} | {clicks.n_items:,} | {len(clicks):,} | {sparsity:.4f}"
            lines.append(f"| {name} | {own} | {'the same' if same else said} |")
        else:
            lines.append(f"| {name} | – | – | – | – | {said}; not to be had here: {DATASETS[name].licence} |")
    return "\n".join(lines) + "\n"


def overall_page(dataset: str, rows: list[Row], results: Mapping[str, Result]) -> str:
    """Table 2 of one data set: every row with its 95% interval, the paper's, and the controls below."""
    lines = [
        "| | NDCG@5 | paper | MAP@5 | paper | Recall@5 | paper | seconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    base_of = {row.name: row.base for row in rows}
    said = TABLE_2.get(dataset, {})
    for name, result in results.items():
        base = base_of.get(name.partition(", control")[0])
        cells = []
        for place, metric in enumerate(METRICS):
            cells.append(_cell(result, results.get(base) if base else None, metric))
            cells.append(_short(said[name][place]) if name in said else "")
        lines.append(f"| {name} | {' | '.join(cells)} | {result.seconds:.1f} |")
    chosen = [
        f"- {row.name}: {', '.join(f'{name} {value}' for name, value in results[row.name].parameters.items()) or '–'}"
        for row in rows
    ]
    return "\n".join([*lines, "", "Chosen on the validation part:", "", *chosen, ""])


def _cell(result: Result, base: Result | None, metric: str) -> str:
    half = result.half_interval(metric)
    interval = "" if math.isnan(half) else f" ± {_short(half)}"
    if base is None:
        return f"{_short(result.mean(metric))}{interval}"
    before = base.mean(metric)
    gain = f", {result.mean(metric) / before - 1:+.1%}" if before else ""
    star = "*" if result.p_against(base, metric) < 0.01 else ""
    return f"{_short(result.mean(metric))}{interval}{gain}{star}"


def _short(value: float) -> str:
    """Four digits without the zero in front.

    >>> _short(0.0396)
    '.0396'
    """
    return f"{value:.4f}".removeprefix("0")
