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

from prorec.data._files import as_path, naming, replacing
from prorec.denoise.algorithm import Progress
from prorec.denoise.estimator import ProRec
from prorec.errors import InputError, shown
from prorec.report.around import neighbours
from prorec.report.facts import Facts, facts_of
from prorec.report.measuring import Gain, Lists, gain_on_held_out, lists_for
from prorec.report.selection import Selection, selected
from prorec.report.words import change, duration, many, share
from prorec.transport.blocks import check_progress

_NEAR = 7  # users around one: the paper's figure has eight rows
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
    held_out : whether to measure what recommendation gained, which takes three more fits on 70% of the interactions
    seconds : how long the work took; by default, what plans and fits took
    progress : called with what is being done, how much of it is done, and how much there is
    """
    check_report(path)
    if not isinstance(title, str) or not title.strip():
        raise InputError(f"title must be text; got {shown(title)}")
    check_progress(progress)
    facts = facts_of(denoiser, is_noise)
    selection = selected(facts.known, facts.probability, facts.flagged)
    lists = lists_for(denoiser, selection.whole_users, progress)
    gain = gain_on_held_out(denoiser, progress) if held_out else "it was not asked for"
    taken = seconds if seconds is not None else sum(each.transport_seconds + each.fit_seconds for each in facts.history)
    page = rendered(facts, selection, lists, gain, taken, title)
    path = as_path(path)
    with naming(path), replacing(path) as temporary:
        # A name may have half a character in it, which is no UTF-8.
        temporary.write_text(page, encoding="utf-8", errors="replace")


def check_report(path: str | Path) -> None:
    """Refuse a report that cannot be made or written, before any work is done for it."""
    path = as_path(path)
    try:
        import jinja2  # noqa: F401
    except ModuleNotFoundError:
        raise InputError("a report needs Jinja2: pip install 'prorec[report]'") from None
    with naming(path):
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


def rendered(
    facts: Facts, selection: Selection, lists: Lists | None, gain: Gain | str, seconds: float, title: str
) -> str:
    """The page as text."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from prorec import __version__
    from prorec.report.packing import as_script
    from prorec.report.pictures import pictures_of

    assets = resources.files("prorec.report") / "assets"
    script = "\n".join((assets / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    # With this digest in the page's policy, nothing runs in it but the script that prorec wrote.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = Environment(autoescape=True, undefined=StrictUndefined).from_string(
        (assets / "page.html").read_text(encoding="utf-8")
    )
    known = facts.known
    return template.render(
        title=title,
        lead=f"{many(len(known), 'interaction')} of {many(known.n_users, 'user')} with {many(known.n_items, 'item')}.",
        cards=_cards(facts, gain, seconds),
        list_note=_list_note(facts, selection),
        user_note=_user_note(facts, selection),
        has_flags=bool(facts.flagged.any()),
        pictures=list(pictures_of(facts)),
        trust=_trust(facts),
        settings=facts.settings,
        version=__version__,
        style=Markup((assets / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_digest=Markup("'sha256-{}'").format(digest),
        data=as_script(_embedded(facts, selection, lists)),
    )


# ── at a glance ─────────────────────────────────────────────────────────────────────────────────────


def _cards(facts: Facts, gain: Gain | str, seconds: float) -> list[_Card]:
    known, n_flagged = facts.known, int(facts.flagged.sum())
    n_affected = len(np.unique(known.user_codes[facts.flagged]))
    rule = (
        f"about {share(facts.fdr)} of them may be wrong"
        if facts.is_calibrated
        else f"the most suspicious {share(facts.flag_share)}: a list to look at, not a verdict"
    )
    if not n_flagged:
        flags = (
            "of no group of clicks is it known that they are noise" if facts.is_calibrated else "too little to go by"
        )
    else:
        flags = f"{share(n_flagged, len(known))} of all, of {many(n_affected, 'user')}; {rule}"
    noise = facts.noise_share
    if noise is None:
        estimated = _Card("Noise", "not estimated", "cross-fitting does that: --noise cross-fit")
    else:
        between = f"95% interval {share(noise.low)} to {share(noise.high)}"
        estimated = _Card("Noise, estimated", share(noise.estimate), f"{between}; of clicks that might be random draws")
    return [
        _Card("Interactions", f"{len(known):,}", f"{share(len(known), known.n_users * known.n_items)} of all pairs"),
        _Card("Users", f"{known.n_users:,}", f"{np.median(known.activity):,.0f} interactions in the median"),
        _Card("Items", f"{known.n_items:,}", f"{np.median(known.popularity):,.0f} interactions in the median"),
        _Card("Time taken", duration(seconds), f"{many(facts.history[-1].number, 'round')} of relabelling"),
        estimated,
        _Card("Flagged", f"{n_flagged:,}", flags),
        _gain_card(gain),
    ]


def _gain_card(gain: Gain | str) -> _Card:
    label = "What recommendation gained"
    if isinstance(gain, str):
        return _Card(label, "not measured", gain, is_wide=True)
    metric, base = gain.metric.upper(), gain.denoised.baseline_mean
    if not base:
        return _Card(
            label, "not measurable", f"the model alone has no hit in anybody's list ({metric} 0)", is_wide=True
        )
    result = gain.denoised
    note = (
        f"{metric} on a held-out part, {change(result.low / base)} to {change(result.high / base)} (95%), for "
        f"{many(gain.n_users, 'user')}; smaller weights alone: {change(gain.alike.difference / base)}"
    )
    return _Card(label, change(result.difference / base), note, is_wide=True)


def _list_note(facts: Facts, selection: Selection) -> str:
    words = "Click on a user to see all of theirs."
    if not selection.is_everything:
        n = len(selection.places)
        words += (
            f" This page holds {n:,} of {len(facts.known):,} clicks: the most suspicious, and all others of "
            f"{many(len(selection.whole_users), 'user')} who have many of those."
        )
    if not facts.flagged.any():
        words += " Nothing is flagged; the most suspicious come first."
    elif not facts.is_calibrated:
        words += " The probability puts clicks in order; it is not calibrated."
    return words


def _user_note(facts: Facts, selection: Selection) -> str:
    words = "Type the beginning of an id; users with most flagged clicks come first."
    if not selection.is_everything:
        words += " Users without suspicious clicks are not in this page: denoiser.explain(user) knows everybody."
    return words


def _trust(facts: Facts) -> str:
    if facts.is_calibrated:
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


def _embedded(facts: Facts, selection: Selection, lists: Lists | None) -> dict[str, Any]:
    from prorec.report.packing import packed

    known, places = facts.known, selection.places
    users, of_user = np.unique(known.user_codes[places], return_counts=True)
    is_whole = np.isin(users, selection.whole_users)
    recommended = np.zeros(0, dtype=np.int32) if lists is None else np.unique([lists.before, lists.after])
    items = np.union1d(known.item_codes[places], recommended[recommended >= 0]).astype(np.int64)
    before = known.matrix.data[places]
    k = 0 if lists is None else lists.before.shape[1]
    return {
        "nItems": known.n_items,
        "nNear": _NEAR,
        "k": k,
        "categories": _category_names(facts),
        "users": {
            "id": known.users[users].tolist(),
            "activity": packed(known.activity[users], "int32"),
            "kappa": packed(facts.kappa[users], "int32"),
            "threshold": packed(facts.thresholds[users], "float32"),
            "start": packed(np.append(0, np.cumsum(of_user)), "int32"),
            "whole": packed(is_whole, "uint8"),
            "neighbours": packed(_near(known.matrix, users, is_whole), "int32"),
            "before": None if lists is None else packed(_of_users(lists.before, is_whole, items), "int32"),
            "after": None if lists is None else packed(_of_users(lists.after, is_whole, items), "int32"),
        },
        "items": {
            "id": known.items[items].tolist(),
            "name": None if known.item_names is None else [str(name) for name in known.item_names[items]],
            "categories": _categories(facts, items),
        },
        "clicks": {
            "item": packed(np.searchsorted(items, known.item_codes[places]), "int32"),
            "probability": packed(facts.probability[places], "float32"),
            "weight": packed(facts.weights[places], "float32"),
            "weightBefore": None if (before == 1).all() else packed(before, "float32"),
            "share": packed(facts.shares[places], "float32"),
            "percentile": None if facts.percentiles is None else packed(facts.percentiles[places], "float32"),
            "time": None if facts.times is None else packed(facts.times[places], "float64"),
            "flagged": packed(facts.flagged[places], "uint8"),
        },
    }


def _near(matrix: csr_array, users: NDArray[np.int32], is_whole: NDArray[np.bool_]) -> NDArray[np.int32]:
    """For each user in the page, those most like them of whom all clicks are in it; by their places in the page."""
    inside = np.flatnonzero(is_whole)
    near = np.full((len(users), _NEAR), -1, dtype=np.int32)
    if len(inside):
        found = neighbours(csr_array(matrix[users[inside]]), np.arange(len(inside)), _NEAR)
        near[inside] = np.where(found >= 0, inside[found], -1)
    return near


def _of_users(lists: NDArray[np.int32], is_whole: NDArray[np.bool_], items: NDArray[np.int64]) -> NDArray[np.int32]:
    """Lists of users in the page, by the items' places in it; −1 where a list has ended, −2 where there is none."""
    placed = np.full((len(is_whole), lists.shape[1]), _NO_LIST, dtype=np.int32)
    placed[is_whole] = np.where(lists >= 0, np.searchsorted(items, lists), -1)
    return placed


def _category_names(facts: Facts) -> list[str]:
    return sorted({str(name) for each in facts.known.item_categories or () for name in each})


def _categories(facts: Facts, items: NDArray[np.int64]) -> list[list[int]] | None:
    given = facts.known.item_categories
    if given is None or not any(given):
        return None
    place = {name: at for at, name in enumerate(_category_names(facts))}
    return [[place[str(name)] for name in given[item]] for item in items]
