"""Tables of the arena: recommendation, detection, and who is better than plain training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prorec.evaluation.significance import holm, paired_t
from reproduction.arena_methods import METHODS
from reproduction.protocol import half_interval
from reproduction.recovery import CONTROLS

RANKING_METRICS = ("ndcg@10", "recall@20")
PLAIN, OURS = "erm", "prorec"
_SIGNIFICANT = 0.05
_DETECTION = {"auroc": "AUROC", "ap": "average precision"}

Record = Mapping[str, Any]
Group = Mapping[str, Sequence[Record]]
"""Records of one log with one kind of noise, by method."""


def make_tables(records: Sequence[Record]) -> str:
    """Return tables in Markdown for each log and kind of noise, each followed by a verdict.

    Parameters
    ----------
    records : sequence of dict
        What `run_cell` returned.

    Returns
    -------
    str
    """
    groups: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for record in records:
        groups.setdefault((record["log"], record["kind"]), {}).setdefault(record["method"], []).append(record)
    parts = []
    for (log, kind), group in groups.items():
        parts += [f"### {log}, noise: {kind}", _make_ranking_table(group)]
        parts += [describe_winners(group), describe_controls(group)]
        if any("auroc" in own[0] for own in group.values()):
            parts.append(_make_detection_table(group))
    return "\n\n".join(part for part in parts if part)


def compare(group: Group, reference: str) -> dict[str, tuple[float, float]]:
    """Return the relative gain in NDCG@10 of each method over a reference, and its corrected p.

    Each p is of a paired t-test over users, on means over splits, because a user's splits are not independent. Holm's
    correction goes over all methods.
    """
    if reference not in group:
        return {}
    base = _per_user(group[reference])
    others = [name for name in group if name != reference]
    gains = [_per_user(group[name]) - base for name in others]
    corrected = holm([paired_t(gain) for gain in gains]) if gains else []
    return {name: (float(gain.mean() / base.mean()), p) for name, gain, p in zip(others, gains, corrected, strict=True)}


def describe_winners(group: Group) -> str:
    """Say which methods are significantly better and worse than plain training."""
    found = compare(group, PLAIN)
    if not found:
        return ""
    sides = {
        "better": [name for name, (gain, p) in found.items() if p < _SIGNIFICANT and gain > 0],
        "worse": [name for name, (gain, p) in found.items() if p < _SIGNIFICANT and gain < 0],
    }
    return " ".join(
        f"Significantly {side} than {PLAIN} (p < {_SIGNIFICANT:g}): {', '.join(names) if names else 'none'}."
        for side, names in sides.items()
    )


def describe_controls(group: Group) -> str:
    """Say by how much ProRec's weights are better than their controls, with p corrected for the number of controls."""
    controls = [name for name in CONTROLS if name in group]
    if OURS not in group or not controls:
        return ""
    bases = [_per_user(group[name]) for name in controls]
    gains = [_per_user(group[OURS]) - base for base in bases]
    corrected = holm([paired_t(gain) for gain in gains])
    cells = [
        f"{name} {_describe_gain((float(gain.mean() / base.mean()), p))}"
        for name, gain, base, p in zip(controls, gains, bases, corrected, strict=True)
    ]
    return f"{OURS} against its controls: {', '.join(cells)}."


def _make_ranking_table(group: Group) -> str:
    against_plain = compare(group, PLAIN)
    lines = [
        f"| method | NDCG@10 | Recall@20 | against {PLAIN} | against plain training with the same kind of loss |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    against = {plain: compare(group, plain) for plain in dict.fromkeys(each.plain for each in METHODS.values())}
    for name, own in group.items():
        cells = [_describe(np.array([np.mean(record[metric]) for record in own])) for metric in RANKING_METRICS]
        cells += [_describe_gain(found.get(name)) for found in (against_plain, against[METHODS[name].plain])]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _make_detection_table(group: Group) -> str:
    lines = [f"| method | {' | '.join(_DETECTION.values())} |", "| --- | ---: | ---: |"]
    for name, own in group.items():
        if "auroc" in own[0]:
            cells = [_describe(np.array([record[metric] for record in own])) for metric in _DETECTION]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _per_user(records: Sequence[Record]) -> NDArray[np.float64]:
    return np.asarray(np.mean([record[RANKING_METRICS[0]] for record in records], axis=0))


def _describe(values: NDArray[np.float64]) -> str:
    """Return a mean over splits, with half its 95% interval if there are several."""
    half = half_interval(values)
    return f"{values.mean():.4f}" + ("" if math.isnan(half) else f" ± {half:.4f}")


def _describe_gain(found: tuple[float, float] | None) -> str:
    return "–" if found is None else f"{found[0]:+.1%} (p = {found[1]:.2g})"
