"""The summary that `prorec denoise` prints, locally and with Spark."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from prorec.data.source_table import SourceTable
from prorec.denoise import ProRec
from prorec.noise.identifiability import InjectionCheck, describe_checks
from prorec.noise.posterior import MARKED

_LIST = "the most suspicious ones: a list to review, whose length is --flag-fraction"
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
    clicks, last_round = denoiser.interactions_, denoiser.history_[-1]
    finder = denoiser.finder_ if denoiser.noise_method != "plan" else None
    suspicious = denoiser.noise_table("pyarrow", limit=_N_SHOWN).select(["user", "item", "noise_probability", "weight"])
    is_marked = np.zeros(len(clicks), dtype=bool) if finder is None else finder.basis_ == MARKED
    n_suspect = int(np.count_nonzero(denoiser.noise_probability_[is_marked]))
    return {
        "rows": source.table.num_rows,
        "users": clicks.n_users,
        "items": clicks.n_items,
        "interactions": len(clicks),
        "weight_column": source.weight_column,
        "trusted": int(is_marked.sum()) - n_suspect,
        "suspect": n_suspect,
        "flagged_rows": int(denoiser.flagged_[source.positions].sum()),
        "users_with_flags": len(np.unique(clicks.user_codes[denoiser.flagged_])),
        "model": str(denoiser.model),
        "gamma": last_round.gamma,
        "rounds": last_round.number,
        "converged": denoiser.converged_,
        "mass_kept": last_round.mass_kept,
        "below_threshold": last_round.below_threshold,
        "noise_rate": None if finder is None else asdict(finder.noise_rate_),
        "fdr": denoiser.flag_rule(is_cross_fitted=finder is not None).get("fdr"),
        "injection_checks": [] if finder is None else [asdict(check) for check in finder.injection_checks_],
        "issues": []
        if finder is None
        else [row for row in finder.issues_.summary("pyarrow").to_pylist() if row["count"]],
        "most_suspicious": suspicious.to_pylist(),
        "peak_memory_mb": _peak_memory(),
    }


def describe_summary(summary: Mapping[str, Any]) -> str:
    """Return a summary in words.

    Parameters
    ----------
    summary : mapping
        From `summarize`, or from a result of Spark: that counts flagged interactions and not rows, and lists no rows.
        With `out`, `report`, `seconds` and, if some rows were left out, `rows_written`.

    Returns
    -------
    str
        Several lines.
    """
    rows = summary["rows"]
    lines = [
        f"{rows:,} rows read: {summary['interactions']:,} different interactions of {summary['users']:,} users with "
        f"{summary['items']:,} items."
    ]
    if summary.get("weight_column") is not None:
        lines.append(f"Weights come from the column {summary['weight_column']!r}.")
    if (n_trusted := summary.get("trusted", 0)) + (n_suspect := summary.get("suspect", 0)):
        lines.append(
            f"{n_trusted:,} interactions are marked as trusted and {n_suspect:,} as suspect, which are flagged; the "
            "noise rate is that of the others."
        )
    lines += [describe_flags(summary), *_check_lines(summary), *_suspicious_lines(summary), *_issue_lines(summary)]
    n_dropped = rows - summary.get("rows_written", rows)
    target = "standard output" if summary["out"] == "-" else summary["out"]
    memory = f", with at most {peak:,} MB of memory" if (peak := summary.get("peak_memory_mb")) else ""
    lines.append(
        f"{rows - n_dropped:,} rows written to {target}{f', {n_dropped:,} dropped,' if n_dropped else ''} in "
        f"{summary['seconds']:.1f} s{memory}."
    )
    if summary["report"] is not None:
        lines.append(f"The report is in {summary['report']}.")
    return "\n".join(lines)


def describe_flags(summary: Mapping[str, Any]) -> str:
    """Return the noise rate and the flags of a summary in words.

    Parameters
    ----------
    summary : mapping
        With `interactions`, `noise_rate`, `fdr`, and either `flagged_pairs` or `rows` and `flagged_rows`.

    Returns
    -------
    str
    """
    rate, fdr = summary["noise_rate"], summary["fdr"]
    if "flagged_rows" in summary:
        n_flagged, n_total = summary["flagged_rows"], summary["rows"]
        subject, owners = "rows", f" of {summary['users_with_flags']:,} users"
    else:
        n_flagged, n_total, subject, owners = summary["flagged_pairs"], summary["interactions"], "interactions", ""
    flags = f"{n_flagged:,} {subject} ({n_flagged / n_total:.1%}){owners} are flagged"
    if rate is None:
        if not n_flagged:
            return "Nothing is flagged: no row is more suspicious than the others."
        return (
            f"{flags}, {_LIST}. The noise probability of --noise-method plan orders rows but is not calibrated; that "
            "of the default is."
        )
    if not rate["is_identified"]:
        warning = (
            f"This log cannot tell its noise rate: it is at most {rate['high']:.1%}. Apart from popularity its clicks "
            "hardly differ from random ones: popularity explains most of them, or a large part is noise."
        )
        reason = "all marked as suspect or of extreme accounts" if summary.get("suspect") else "all of extreme accounts"
        if fdr is None:
            reason = "those with the least popular items first"
        return f"{warning} {flags}, {reason}." if n_flagged else f"{warning} Nothing is flagged."
    noise = f"The noise rate is estimated at {rate['estimate']:.1%} ({rate['low']:.1%} to {rate['high']:.1%}). "
    if fdr is None:
        return f"{noise}{flags}, {_LIST}."
    if n_flagged:
        return f"{noise}{flags}; at most about {fdr:.0%} of these flags should be wrong (--fdr)."
    return (
        f"{noise}No group of rows is surely at least {1 - fdr:.0%} noise, so nothing is flagged at "
        f"fdr={fdr:g}. Try a larger fdr."
    )


def _check_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return one line on how well noise that was injected into this log is found."""
    checks = [InjectionCheck(**check) for check in summary.get("injection_checks", ())]
    return [describe_checks(checks)] if checks else []


def _suspicious_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return a table of the most suspicious rows, between empty lines."""
    rows, rate = summary.get("most_suspicious"), summary["noise_rate"]
    if not rows or not (summary["flagged_rows"] or (rate and rate["is_identified"])):
        return []
    cells = [("user", "item", "noise probability")]
    cells += [(str(row["user"]), str(row["item"]), f"{row['noise_probability']:.3f}") for row in rows]
    users, items, _ = (max(map(len, column)) for column in zip(*cells, strict=True))
    title = [] if summary["flagged_rows"] else ["", "The most suspicious rows, none of them flagged:"]
    return [*title, "", *(f"{user:<{users}}  {item:<{items}}  {noise:>17}" for user, item, noise in cells), ""]


def _issue_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return one line for each issue of accounts and items; `account` only sums up the others."""
    return [row["sentence"] for row in summary.get("issues", ()) if row["issue"] != "account"]


def _peak_memory() -> int | None:
    """Return the peak memory of this process in MB; None if the system does not tell."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6)
