"""The summary of a denoised log in words: how noisy it is, how sure that is, and what to train on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from prorec.noise.account_groups import group_accounts
from prorec.noise.flagging import LargerFdr, find_larger_fdr
from prorec.noise.injection_checks import InjectionCheck, describe_checks
from prorec.noise.issue_sentences import describe_item, describe_user, list_items, list_users
from prorec.noise.posterior import ACCOUNT, MARKED

if TYPE_CHECKING:
    from prorec.denoise.denoiser import ProRec

_LIST = "the most suspicious ones: a list to review, whose length is flag_fraction"
_N_NAMED, _N_ITEMS = 10, 5


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
    is_marked = is_account = np.zeros(len(clicks), dtype=bool)
    if finder is not None:
        is_marked, is_account = finder.basis_ == MARKED, finder.basis_ == ACCOUNT
    n_suspect = int(np.count_nonzero(denoiser.noise_probability_[is_marked]))
    flagged, fdr, larger = denoiser.flagged_, denoiser.flag_rule(is_cross_fitted=finder is not None).get("fdr"), None
    is_other = ~is_marked & ~is_account
    if finder is not None and fdr is not None and finder.noise_rate_.is_identified and not flagged[is_other].any():
        lowered = finder.noise_probability_[is_other] * np.float32(finder.noise_rate_.low_ratio)
        larger = find_larger_fdr(lowered, fdr)
    return {
        "rows": len(clicks) if positions is None else len(positions),
        "users": clicks.n_users,
        "items": clicks.n_items,
        "interactions": len(clicks),
        "weight_column": None if clicks.source is None else clicks.source.columns.get("weight"),
        "trusted": int(is_marked.sum()) - n_suspect,
        "suspect": n_suspect,
        "extreme_pairs": int(is_account.sum()),
        "flagged_pairs": int(flagged.sum()),
        "flagged_rows": int((flagged if positions is None else flagged[positions]).sum()),
        "flagged_extreme_pairs": int(flagged[is_account].sum()),
        "users_with_flags": len(np.unique(clicks.user_codes[flagged])),
        "mass_kept": denoiser.history_[-1].mass_kept,
        "noise_rate": None if finder is None else asdict(finder.noise_rate_),
        "fdr": fdr,
        "larger_fdr": None if larger is None else larger._asdict(),
        "injection_checks": [] if finder is None else [asdict(check) for check in finder.injection_checks_],
        "issues": []
        if finder is None
        else [row for row in finder.issues_.summary("pyarrow").to_pylist() if row["count"]],
        **_list_suspects(denoiser),
    }


def _list_suspects(denoiser: ProRec) -> dict[str, list[dict[str, Any]]]:
    """Return the extreme accounts, the suspicious ones, and the suspicious items, each with its reason."""
    if denoiser.noise_method == "plan":
        return {"extreme_accounts": [], "suspicious_accounts": [], "suspicious_items": []}
    finder, log = denoiser.finder_, denoiser.interactions_
    issues, groups = finder.issues_, group_accounts(finder.issues_, finder.basis_)

    def describe(role: str, at: int) -> dict[str, Any]:
        is_user = role == "user"
        ids, n_clicks = (log.users, log.activity) if is_user else (log.items, log.popularity)
        value = ids[at].item() if hasattr(ids[at], "item") else ids[at]
        reason = (describe_user if is_user else describe_item)(issues, at)
        return {role: value, "interactions": int(n_clicks[at]), "reason": reason}

    return {
        "extreme_accounts": [describe("user", user) for user in list_users(issues, groups.extreme)],
        "suspicious_accounts": [describe("user", user) for user in list_users(issues, groups.suspicious)],
        "suspicious_items": [describe("item", item) for item in list_items(issues)],
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
        counts = [f"{n_trusted:,} interactions are marked as trusted"] if n_trusted else []
        counts += [f"{n_suspect:,} interactions are marked as suspect, and flagged"] if n_suspect else []
        lines.append(f"{'; '.join(counts)}. The noise rate is that of the others.")
    lines += [describe_flags(summary), *describe_accounts(summary)]
    if items := summary.get("suspicious_items"):
        for row in items[:_N_ITEMS]:
            lines.append(f"Item {row['item']} {row['reason'][0].lower()}{row['reason'][1:]}")
        if len(items) > _N_ITEMS:
            lines.append(f"Suspicious items that are not named here: {len(items) - _N_ITEMS:,}.")
    if checks := [InjectionCheck(**check) for check in summary.get("injection_checks", ())]:
        lines.append(describe_checks(checks))
    return lines


def describe_accounts(summary: Mapping[str, Any]) -> list[str]:
    """Name the accounts that stand out, and say what is done to each group.

    Parameters
    ----------
    summary : mapping
        As for `describe_noise`.

    Returns
    -------
    list of str
        A line for each group that has accounts.
    """
    lines = []
    if extreme := summary.get("extreme_accounts"):
        verb = "acts like a program and is" if len(extreme) == 1 else "act like programs and are"
        n, n_flagged = summary["extreme_pairs"], summary["flagged_extreme_pairs"]
        flags = "all of their" if n == n_flagged else f"{n_flagged:,} of their"
        lines.append(
            f"{_count(len(extreme), 'extreme account')} {verb} left out of the fit; {flags} {n:,} interactions are "
            f"flagged: {name_accounts([row['user'] for row in extreme])}."
        )
    if suspicious := summary.get("suspicious_accounts"):
        verb, are = ("looks", "is") if len(suspicious) == 1 else ("look", "are")
        n = sum(row["interactions"] for row in suspicious)
        lines.append(
            f"{_count(len(suspicious), 'suspicious account')} {verb} odd, but {are} neither flagged nor down-weighted "
            f"for that ({_count(n, 'interaction')}): {name_accounts([row['user'] for row in suspicious])}."
        )
    return lines


def name_accounts(ids: Sequence[Any]) -> str:
    """Return ids as a list in words.

    >>> name_accounts(["test01", "qa-check"])
    'test01 and qa-check'
    """
    names = [str(each) for each in ids[:_N_NAMED]]
    if len(ids) > _N_NAMED:
        return f"{', '.join(names)} and {len(ids) - _N_NAMED:,} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
    n_known = sum(summary.get(name, 0) for name in ("extreme_pairs", "trusted", "suspect"))
    n_base = summary["interactions"] - n_known
    base = f" of the other {n_base:,} interactions" if n_known else ""
    noise = f"The noise rate{base} is estimated at {rate['estimate']:.1%} ({rate['low']:.1%} to {rate['high']:.1%}). "
    if fdr is None:
        return f"{noise}{flags}, {_LIST}."
    known = [
        f"{n:,} {what}"
        for n, what in (
            (summary.get("flagged_extreme_pairs", 0), "of extreme accounts"),
            (summary.get("suspect", 0), "marked as suspect"),
        )
        if n
    ]
    n_other = n_flagged - summary.get("flagged_extreme_pairs", 0) - summary.get("suspect", 0)
    if n_other:
        if not known:
            return f"{noise}{flags}; at most about {fdr:.0%} of these flags should be wrong (fdr={fdr:g})."
        return (
            f"{noise}{flags}: {', '.join(known)}, and {n_other:,} others, of which at most about {fdr:.0%} should be "
            f"wrong (fdr={fdr:g})."
        )
    none = (
        f"{noise}So about {rate['estimate'] * n_base:,.0f} interactions{' of other accounts' if known else ''} are "
        f"noise, but none of them can be named with at most {fdr:.0%} wrong (fdr={fdr:g})"
        f"{'' if known else ', so nothing is flagged'}; they count less in the weight."
    )
    if summary.get("larger_fdr"):
        larger = LargerFdr(**summary["larger_fdr"])
        wrong = f"of which up to {larger.fdr:.0%} may be wrong"
        none += f" With fdr={larger.fdr:g}, {larger.n_flags:,} would be flagged, {wrong}."
    if len(known) == 1:
        what = "all of extreme accounts" if summary.get("flagged_extreme_pairs") else "all marked as suspect"
        return f"{none} {flags}, {what}."
    return f"{none} {flags}: {' and '.join(known)}." if known else none


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
