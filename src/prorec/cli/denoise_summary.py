"""The summary that `prorec denoise` prints, locally and with Spark."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from prorec.cli.command import name_options
from prorec.cli.commands_to_copy import describe_cleaning
from prorec.data.source_table import SourceTable
from prorec.denoise import ProRec
from prorec.denoise.noise_summary import advise_training, describe_noise, summarize_noise
from prorec.interactions.ids import take_ids
from prorec.noise.posterior import ACCOUNT, MARKED

_N_SHOWN = 10


def summarize(source: SourceTable, denoiser: ProRec) -> dict[str, Any]:
    """Return the findings about a log.

    Parameters
    ----------
    source : SourceTable
        The log.
    denoiser : ProRec
        A denoiser fitted to it.

    Returns
    -------
    dict
        Values for JSON, and for `describe_summary`.
    """
    last_round = denoiser.history_[-1]
    return summarize_noise(denoiser, source.positions) | {
        "training_column": source.free_name("weight"),
        "model": str(denoiser.model),
        "gamma": last_round.gamma,
        "rounds": last_round.number,
        "converged": denoiser.converged_,
        "below_threshold": last_round.below_threshold,
        "most_suspicious": _list_suspicious(denoiser),
        "peak_memory_mb": _peak_memory(),
    }


def describe_summary(summary: Mapping[str, Any]) -> str:
    """Return a summary in words.

    Parameters
    ----------
    summary : mapping
        From `summarize`, or from a result of Spark: that lists no rows. With `training_column`, `out`, `report`,
        `seconds` and, if some rows were left out, `rows_written`.

    Returns
    -------
    str
        Several lines.
    """
    rows, column = summary["rows"], summary["training_column"]
    lines = [*map(name_options, describe_noise(summary)), *_suspicious_lines(summary)]
    n_dropped = rows - summary.get("rows_written", rows)
    target = "standard output" if summary["out"] == "-" else summary["out"]
    memory = f", with at most {peak:,} MB of memory" if (peak := summary.get("peak_memory_mb")) else ""
    lines.append(
        f"{rows - n_dropped:,} rows written to {target}{f', {n_dropped:,} dropped,' if n_dropped else ''} in "
        f"{summary['seconds']:.1f} s{memory}."
    )
    lines.append(advise_training(summary, column))
    lines += describe_cleaning(summary.get("cleaning_command")).splitlines()
    if summary["report"] is not None:
        lines.append(f"The report is in {summary['report']}.")
    return "\n".join(lines)


def _list_suspicious(denoiser: ProRec) -> list[dict[str, Any]]:
    """Return the most suspicious interactions that nobody marked, without those of extreme accounts."""
    log, probability = denoiser.interactions_, denoiser.noise_probability_
    others = np.arange(len(log))
    if denoiser.noise_method != "plan":
        basis = denoiser.finder_.basis_
        others = np.flatnonzero((basis != ACCOUNT) & (basis != MARKED))
    top = others[np.argsort(-probability[others], kind="stable")[:_N_SHOWN]]
    table = {
        "user": take_ids(log.users, log.user_codes[top]),
        "item": take_ids(log.items, log.item_codes[top]),
        "noise_probability": probability[top],
        "weight": denoiser.weights_.data[top],
    }
    return list(pa.table(table).to_pylist())


def _suspicious_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return a table of the most suspicious interactions, between empty lines."""
    rows, rate = summary.get("most_suspicious"), summary["noise_rate"]
    if not rows or not (summary["flagged_pairs"] or (rate and rate["is_identified"])):
        return []
    cells = [("user", "item", "noise probability")]
    cells += [(str(row["user"]), str(row["item"]), f"{row['noise_probability']:.3f}") for row in rows]
    users, items, _ = (max(map(len, column)) for column in zip(*cells, strict=True))
    others = " of other users" if summary.get("extreme_pairs") or summary.get("suspect") else ""
    n_known = summary.get("flagged_extreme_pairs", 0) + summary.get("suspect", 0)
    none = "" if summary["flagged_pairs"] > n_known else ", none of them flagged"
    title = f"The most suspicious interactions{others}{none}:"
    lines = [f"{user:<{users}}  {item:<{items}}  {noise:>17}" for user, item, noise in cells]
    return ["", title, "", *lines, ""]


def _peak_memory() -> int | None:
    """Return the peak memory of this process in MB; None if the system does not tell."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6)
