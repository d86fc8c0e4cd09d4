"""The summary of a denoised log in words: how noisy it is, how sure that is, and what to train on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prorec.noise.flagging import LargerFdr, find_larger_fdr
from prorec.noise.injection_checks import InjectionCheck, describe_checks
from prorec.noise.posterior import MARKED

if TYPE_CHECKING:
    from prorec.denoise.denoiser import ProRec

_LIST = "the most suspicious ones: a list to review, whose length is flag_fraction"


def summarize_noise(denoiser: ProRec, positions: NDArray[np.int64] | None = None) -> dict[str, Any]:
    """Return the findings about a log.

    Parameters
    ----------
    denoiser : ProRec
        A fitted denoiser.
    positions : ndarray of int64, optional
        For each row of the log, the position of its interaction; by default each interaction has one row.

    Returns
    -------
    dict
        Plain values, for JSON and for `describe_noise`.
    """
    clicks = denoiser.interactions_
    finder = denoiser.finder_ if denoiser.noise_method != "plan" else None
    is_marked = np.zeros(len(clicks), dtype=bool) if finder is None else finder.basis_ == MARKED
    n_suspect = int(np.count_nonzero(denoiser.noise_probability_[is_marked]))
    flagged, fdr, larger = denoiser.flagged_, denoiser.flag_rule(is_cross_fitted=finder is not None).get("fdr"), None
    if finder is not None and fdr is not None and finder.noise_rate_.is_identified and not flagged.any():
        larger = find_larger_fdr(finder.noise_probability_ * np.float32(finder.noise_rate_.low_ratio), fdr)
    return {
        "rows": len(clicks) if positions is None else len(positions),
        "users": clicks.n_users,
        "items": clicks.n_items,
        "interactions": len(clicks),
        "weight_column": None if clicks.source is None else clicks.source.columns.get("weight"),
        "trusted": int(is_marked.sum()) - n_suspect,
        "suspect": n_suspect,
        "flagged_pairs": int(flagged.sum()),
        "flagged_rows": int((flagged if positions is None else flagged[positions]).sum()),
        "users_with_flags": len(np.unique(clicks.user_codes[flagged])),
        "mass_kept": denoiser.history_[-1].mass_kept,
        "noise_rate": None if finder is None else asdict(finder.noise_rate_),
        "fdr": fdr,
        "larger_fdr": None if larger is None else larger._asdict(),
        "injection_checks": [] if finder is None else [asdict(check) for check in finder.injection_checks_],
        "issues": []
        if finder is None
        else [row for row in finder.issues_.summary("pyarrow").to_pylist() if row["count"]],
    }


def describe_noise(summary: Mapping[str, Any]) -> list[str]:
    """Return a summary in words.

    Parameters
    ----------
    summary : mapping
        From `summarize_noise`, or from a result of Spark, which has fewer values.

    Returns
    -------
    list of str
        Lines of whole sentences. They name parameters as Python does, such as `fdr=0.1`.
    """
    lines = [
        f"{summary['rows']:,} rows read: {summary['interactions']:,} different interactions of {summary['users']:,} "
        f"users with {summary['items']:,} items."
    ]
    if summary.get("weight_column") is not None:
        lines.append(f"Weights come from the column {summary['weight_column']!r}.")
    if (n_trusted := summary.get("trusted", 0)) + (n_suspect := summary.get("suspect", 0)):
        lines.append(
            f"{n_trusted:,} interactions are marked as trusted and {n_suspect:,} as suspect, which are flagged; the "
            "noise rate is that of the others."
        )
    lines.append(describe_flags(summary))
    if checks := [InjectionCheck(**check) for check in summary.get("injection_checks", ())]:
        lines.append(describe_checks(checks))
    # The issue `account` only sums up the others.
    return lines + [row["sentence"] for row in summary.get("issues", ()) if row["issue"] != "account"]


def describe_flags(summary: Mapping[str, Any]) -> str:
    """Return the noise rate and the flags of a summary in words.

    Parameters
    ----------
    summary : mapping
        As for `describe_noise`.

    Returns
    -------
    str
    """
    rate, fdr = summary["noise_rate"], summary["fdr"]
    n_flagged, n_rows = summary["flagged_pairs"], summary.get("flagged_rows", summary["flagged_pairs"])
    owners = f" of {summary['users_with_flags']:,} users" if "users_with_flags" in summary else ""
    # A share of the rows would not be the share that was asked for, because rows may repeat an interaction.
    repeats = f", on {n_rows:,} rows," if n_rows != n_flagged else ""
    flags = f"{n_flagged:,} interactions ({n_flagged / summary['interactions']:.1%}){owners}{repeats} are flagged"
    if rate is None:
        if not n_flagged:
            return "Nothing is flagged: no interaction is more suspicious than the others."
        return (
            f"{flags}, {_LIST}. The noise probability of noise_method='plan' orders interactions but is not "
            "calibrated; that of the default is."
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
        return f"{noise}{flags}; at most about {fdr:.0%} of these flags should be wrong (fdr={fdr:g})."
    none = (
        f"{noise}No group of interactions is surely at least {1 - fdr:.0%} noise, so nothing is flagged at fdr={fdr:g}."
    )
    if not summary.get("larger_fdr"):
        return none
    larger = LargerFdr(**summary["larger_fdr"])
    return f"{none} With fdr={larger.fdr:g}, {larger.n_flags:,} are, of which up to {larger.fdr:.0%} may be wrong."


def advise_training(summary: Mapping[str, Any], column: str) -> str:
    """Return a sentence on what to train a model with.

    Parameters
    ----------
    summary : mapping
        As for `describe_noise`.
    column : str
        Name of the column of weights.

    Returns
    -------
    str
    """
    if summary["mass_kept"] >= 1:
        return f"No weight is lowered, so a model that is trained on the column {column!r} is the same as before."
    return f"Train on the column {column!r}: the likelier an interaction is noise, the less it counts."
