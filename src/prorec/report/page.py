# ruff: noqa: E501
"""A report: one HTML file that needs nothing else, with what was found and every click that it was found by."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.checks import safe_repr
from prorec._core.errors import InputError
from prorec._core.files import as_path, atomic_write, prefix_errors
from prorec._core.progress import Progress, check_progress
from prorec.denoise.denoiser import ProRec
from prorec.noise.flagging import flag_interactions
from prorec.report.findings import Findings, collect_findings
from prorec.report.formatting import format_change, format_count, format_duration, format_percent, truncate
from prorec.report.gain import Gain, RecommendationLists, measure_gain, recommend_before_and_after
from prorec.report.row_selection import RowSelection, select_rows
from prorec.report.user_matrices import drop_popular_items, find_neighbors

_NEAR = 7  # users around one: the paper's figure has eight rows
_PAIRS = 50_000_000  # of users who share an item: seconds
_SMALL = 20_000  # clicks: with fewer, the estimate was as low as 0% of 16% (docs/noise.md)
_LETTERS = 200  # of a name: nobody reads more, and the page must not grow with them
_SCRIPTS = ("data.js", "list.js", "user.js", "start.js")
_NO_LIST = -2


def write_report(
    denoiser: ProRec,
    path: str | Path,
    *,
    title: str = "Which clicks are noise?",
    is_noise: Any = None,
    held_out: bool = True,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> None:
    """Write a page about a fitted denoiser.

    Parameters
    ----------
    denoiser : fitted
    path : the file to write, such as report.html; what is there is replaced
    title : what stands at the top
    is_noise : the truth for each interaction, in the order of `interactions_.matrix.data`, where it is known
    held_out : whether to measure what recommendation gained, which takes three more fits on 70% of the interactions;
        one more on all of them, without denoising, there is anyway
    seconds : how long all of the work took; without, there is what plans and fits took
    progress : called with what is being done, how much of it is done, and how much there is
    """
    check_report_path(path)
    if not isinstance(title, str) or not title.strip():
        raise InputError(f"title must be text; got {safe_repr(title)}")
    check_progress(progress)
    findings = collect_findings(denoiser, is_noise)
    selection = select_rows(findings.known, findings.probability, findings.flagged)
    lists = recommend_before_and_after(denoiser, selection.whole_users, progress)
    gain = measure_gain(denoiser, progress) if held_out else "it was not asked for"
    page = render_page(findings, selection, lists, gain, seconds, title)
    write_page(page, path)


def write_page(page: str, path: str | Path) -> None:
    """Write a page, whole or not at all."""
    path = as_path(path)
    with prefix_errors(path), atomic_write(path) as temporary:
        # A name may have half a character in it, which is no UTF-8.
        temporary.write_text(page, encoding="utf-8", errors="replace")


def check_report_path(path: str | Path) -> None:
    """Refuse a report that cannot be made or written, before any work is done for it."""
    path = as_path(path)
    try:
        import jinja2  # noqa: F401
    except ModuleNotFoundError:
        raise InputError("a report needs Jinja2: pip install 'prorec[report]'") from None
    with prefix_errors(path):
        if path.is_dir():
            raise InputError("this is a directory; a file was expected")
        if path.suffix.lower() not in (".html", ".htm"):
            raise InputError("a report is a page: give it a name that ends in .html")
        if not path.parent.is_dir():
            raise InputError(f"the folder {path.parent} does not exist")


@dataclass(frozen=True)
class _Card:
    label: str
    value: str
    note: str
    is_wide: bool = False


def render_page(
    findings: Findings,
    selection: RowSelection,
    lists: RecommendationLists | None,
    gain: Gain | str,
    seconds: float | None,
    title: str,
) -> str:
    """The page as text."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from prorec import __version__
    from prorec.report.charts import make_charts
    from prorec.report.page_data import to_script_json

    assets = resources.files("prorec.report") / "assets"
    script = "\n".join((assets / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    # With this digest in the page's policy, nothing runs in it but the script that prorec wrote.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(
        (assets / "page.html").read_text(encoding="utf-8")
    )
    known = findings.known
    return template.render(
        title=title,
        lead=f"{format_count(len(known), 'interaction')} of {format_count(known.n_users, 'user')} with {format_count(known.n_items, 'item')}."
        f" {findings.sample}".rstrip(),
        cards=_cards(findings, gain, seconds),
        list_note=_list_note(findings, selection),
        user_note=_user_note(findings, selection),
        has_flags=bool(findings.flagged.any()),
        pictures=list(make_charts(findings)),
        how=_how(findings),
        trust=_trust(findings),
        settings=findings.settings,
        version=__version__,
        style=Markup((assets / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_digest=Markup("'sha256-{}'").format(digest),
        data=to_script_json(_embedded(findings, selection, lists)),
    )


# ── at a glance ─────────────────────────────────────────────────────────────────────────────────────


def _cards(findings: Findings, gain: Gain | str, seconds: float | None) -> list[_Card]:
    known, n_flagged = findings.known, int(findings.flagged.sum())
    n_affected = len(np.unique(known.user_codes[findings.flagged]))
    rule = (
        f"about {format_percent(findings.fdr)} of them may be wrong"
        if findings.is_calibrated
        else f"at most {format_percent(findings.flag_share)}, and equals are left alone: a list to look at, not a verdict"
    )
    if not n_flagged:
        flags = _why_none(findings)
    else:
        flags = f"{format_percent(n_flagged, len(known))} of all, of {format_count(n_affected, 'user')}; {rule}"
    noise = findings.noise_rate
    if noise is None:
        estimated = _Card("Noise", "not estimated", "cross-fitting does that (--noise-method cross-fit)")
    else:
        between = f"95% interval {format_percent(noise.low)} to {format_percent(noise.high)}"
        note = f"of the clicks might as well be random draws; {between}"
        if len(known) < _SMALL:
            note += "; on a log this small it is often too low"
        estimated = _Card("Noise, estimated", format_percent(noise.estimate), note)
    return [
        _Card(
            "Interactions",
            f"{len(known):,}",
            f"{format_percent(len(known), known.n_users * known.n_items)} of all pairs",
        ),
        _Card("Users", f"{known.n_users:,}", f"median: {np.median(known.activity):,g} interactions"),
        _Card("Items", f"{known.n_items:,}", f"median: {np.median(known.popularity):,g} interactions"),
        _time_card(findings, seconds),
        estimated,
        _Card("Flagged", f"{n_flagged:,}", flags),
        _gain_card(gain),
    ]


def _time_card(findings: Findings, seconds: float | None) -> _Card:
    rounds = f"{format_count(findings.history[-1].number, 'round')} of relabelling"
    if seconds is not None:
        return _Card("Time taken", format_duration(seconds), rounds)
    known = sum(each.transport_seconds + each.fit_seconds for each in findings.history)
    return _Card("Time of plans and fits", format_duration(known), rounds)


def _why_none(findings: Findings) -> str:
    """Nothing is flagged: what would have to be allowed for something to be."""
    if not findings.is_calibrated:
        return "there is too little to tell one click from another by"
    why = f"of no group of clicks {format_percent(1 - findings.fdr)} are noise"
    for fdr in (0.2, 0.3, 0.4, 0.5):
        number = int(flag_interactions(findings.probability, fdr=fdr).sum())
        if fdr > findings.fdr and number:
            return f"{why}; with --fdr {fdr:g} there would be {number:,}"
    return why


def _gain_card(gain: Gain | str) -> _Card:
    label = "What recommendation gained"
    if isinstance(gain, str):
        return _Card(label, "not measured", gain, is_wide=True)
    metric, base = gain.metric.upper(), gain.denoised.baseline_mean
    if not base:
        return _Card(
            label, "not measurable", f"the model alone has no hit in anybody's list ({metric} 0)", is_wide=True
        )
    result, beyond = gain.denoised, gain.beyond
    if beyond.low > 0:
        verdict = f"{format_change(beyond.difference / base)} of it is more than smaller weights alone would gain"
    elif beyond.high < 0:
        verdict = "smaller weights alone gain more"
    else:
        verdict = "no more, within chance, than smaller weights alone gain"
    note = (
        f"{metric} on a held-out part, {format_change(result.low / base)} to {format_change(result.high / base)} (95%), for "
        f"{format_count(gain.n_users, 'user')}; {verdict} ({format_change(gain.alike.difference / base)})"
    )
    return _Card(label, format_change(result.difference / base), note, is_wide=True)


def _list_note(findings: Findings, selection: RowSelection) -> str:
    words = "Click on a user to see theirs."
    if not selection.is_everything:
        n, n_flagged = len(selection.places), int(findings.flagged[selection.places].sum())
        words += (
            f" This page holds {n:,} of {len(findings.known):,} clicks, {n_flagged:,} of {int(findings.flagged.sum()):,} "
            "flagged ones among them: the most suspicious, and all others of "
            f"{format_count(len(selection.whole_users), 'user')} who have many of those."
        )
    if not findings.flagged.any():
        words += " Nothing is flagged; the most suspicious come first."
    elif not findings.is_calibrated:
        words += " The probability puts clicks in order; it is not calibrated."
    return words


def _user_note(findings: Findings, selection: RowSelection) -> str:
    first = "flagged clicks" if findings.flagged.any() else "noise to be expected"
    words = f"Type the beginning of an id; users with most {first} come first."
    if not selection.is_everything:
        words += " Users without suspicious clicks are not in this page: denoiser.explain(user) knows everybody."
    return words


def _how(findings: Findings) -> str:
    """Algorithm 1 as it was run here, with its numbers (Eq. 7, 20, 22 and 23)."""
    mass = "in proportion to its clicks" if findings.marginals == "popularity" else "of the same amount"
    if findings.threshold == "personal":
        threshold = "In a user's row of the plan, sorted, the threshold ρ_κ is where a split into two groups fits best."
    elif findings.threshold == "none":
        threshold = "There is no threshold: ρ_κ is 0."
    else:
        threshold = (
            f"In a user's row of the plan, the threshold ρ_κ is the largest value but κ − 1 ({findings.threshold})."
        )
    return (
        f"A recommender learns from all clicks. A transport plan ({findings.transport}) matches all users with all items "
        f"by its scores; each user sends and each item receives mass {mass}. {threshold} In a round, a click with "
        f"share ρ of its row keeps λ + (1 − λ)/(1 + e^(−β(ρ − ρ_κ))) of its weight: {format_percent((1 + findings.lam) / 2)} at "
        f"the threshold, less below it, though not under {format_percent(findings.lam)}, and more above."
    )


def _trust(findings: Findings) -> str:
    if findings.is_calibrated:
        return (
            "The noise probability of a click comes from models that have not seen it, and is calibrated on the whole "
            "log: of clicks with 30%, about 30% might as well be random draws. Real interest that no model can see "
            "looks like that, too, so look before you delete."
        )
    return (
        "The noise probability comes from the same plan, by a model that has seen the clicks: it is good for putting "
        "clicks in order, and does not say how many are noise."
    )


# ── what the script reads ───────────────────────────────────────────────────────────────────────────


def _embedded(findings: Findings, selection: RowSelection, lists: RecommendationLists | None) -> dict[str, Any]:
    from prorec.report.page_data import pack_column

    known, places = findings.known, selection.places
    users, of_user = np.unique(known.user_codes[places], return_counts=True)
    is_whole = np.isin(users, selection.whole_users)
    recommended = np.zeros(0, dtype=np.int32) if lists is None else np.unique([lists.before, lists.after])
    items = np.union1d(known.item_codes[places], recommended[recommended >= 0]).astype(np.int64)
    before = known.matrix.data[places]
    is_below = findings.shares < findings.thresholds[known.user_codes]
    k = 0 if lists is None else lists.before.shape[1]
    return {
        "isEverything": selection.is_everything,
        "nItems": findings.n_items,
        "nNear": _NEAR,
        "k": k,
        "categories": [truncate(name, _LETTERS) for name in _category_names(findings)],
        "users": {
            "id": _ids(known.users[users]),
            "activity": pack_column(known.activity[users], "int32"),
            "flags": pack_column(
                np.bincount(known.user_codes[findings.flagged], minlength=known.n_users)[users], "int32"
            ),
            "below": pack_column(np.bincount(known.user_codes[is_below], minlength=known.n_users)[users], "int32"),
            "kappa": pack_column(findings.kappa[users], "int32"),
            "threshold": pack_column(findings.thresholds[users], "float32"),
            "start": pack_column(np.append(0, np.cumsum(of_user)), "int32"),
            "whole": pack_column(is_whole, "uint8"),
            "neighbours": pack_column(_near(known.matrix, users, is_whole), "int32"),
            "before": None if lists is None else pack_column(_of_users(lists.before, is_whole, items), "int32"),
            "after": None if lists is None else pack_column(_of_users(lists.after, is_whole, items), "int32"),
        },
        "items": {
            "id": _ids(known.items[items]),
            "name": None
            if known.item_names is None
            else [truncate(str(name), _LETTERS) for name in known.item_names[items]],
            "categories": _categories(findings, items),
        },
        "clicks": {
            "item": pack_column(np.searchsorted(items, known.item_codes[places]), "int32"),
            "probability": pack_column(findings.probability[places], "float32"),
            "weight": pack_column(findings.weights[places], "float32"),
            "weightBefore": None if (before == 1).all() else pack_column(before, "float32"),
            "share": pack_column(findings.shares[places], "float32"),
            "percentile": None
            if findings.percentiles is None
            else pack_column(findings.percentiles[places], "float32"),
            "time": None if findings.times is None else pack_column(findings.times[places], "float64"),
            "flagged": pack_column(findings.flagged[places], "uint8"),
        },
    }


def _ids(ids: NDArray[Any]) -> list[str]:
    """As text: JavaScript has no whole numbers above 2^53, and takes one such id for another."""
    return [str(each) for each in ids.tolist()]


def _near(matrix: csr_array, users: NDArray[np.int32], is_whole: NDArray[np.bool_]) -> NDArray[np.int32]:
    """For each user in the page, those most like them of whom all clicks are in it; by their places in the page."""
    inside = np.flatnonzero(is_whole)
    near = np.full((len(users), _NEAR), -1, dtype=np.int32)
    if len(inside):
        own = drop_popular_items(csr_array(matrix[users[inside]]), _PAIRS)
        found = find_neighbors(own, np.arange(len(inside)), _NEAR)
        near[inside] = np.where(found >= 0, inside[found], -1)
    return near


def _of_users(lists: NDArray[np.int32], is_whole: NDArray[np.bool_], items: NDArray[np.int64]) -> NDArray[np.int32]:
    """Lists of users in the page, by the items' places in it; −1 where a list has ended, −2 where there is none."""
    placed = np.full((len(is_whole), lists.shape[1]), _NO_LIST, dtype=np.int32)
    placed[is_whole] = np.where(lists >= 0, np.searchsorted(items, lists), -1)
    return placed


def _category_names(findings: Findings) -> list[str]:
    return sorted({name for each in findings.known.item_categories or () for name in each})


def _categories(findings: Findings, items: NDArray[np.int64]) -> list[list[int]] | None:
    given = findings.known.item_categories
    if given is None or not any(given):
        return None
    place = {name: at for at, name in enumerate(_category_names(findings))}
    return [[place[name] for name in given[item]] for item in items]
