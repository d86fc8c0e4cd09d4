"""What the benchmark of noise scorers found, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from reproduction.noise_benchmark import OURS, Found, Setting
from reproduction.protocol import half_interval


def detection_page(dataset: str, results: Mapping[Setting, Found]) -> str:
    """Who finds noise how well; what NoiseFinder's probabilities are worth; what a recommender gains."""
    noisy = {setting: found for setting, found in results.items() if found.auroc}
    lines = [f"### {dataset}", ""]
    if noisy:
        lines += [*_found(noisy), "", _verdict(noisy), ""]
    lines += _ours(results)
    for setting, found in results.items():
        lines += _gains(setting, found)
    return "\n".join([*lines, ""])


def _found(results: Mapping[Setting, Found]) -> list[str]:
    names = list(next(iter(results.values())).auroc) if results else []
    lines = [
        "AUROC / average precision, ± half the 95% interval of the mean over splits:",
        "",
        f"| | {' | '.join(str(setting) for setting in results)} |",
        f"| --- | {' | '.join(['---:'] * len(results))} |",
    ]
    for name in names:
        cells = [f"{_mean(found.auroc[name])} / {_mean(found.ap[name])}" for found in results.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _verdict(results: Mapping[Setting, Found]) -> str:
    """Where ours is above every rival, with intervals apart, and where it is not."""
    behind: list[str] = []
    if any(OURS not in found.auroc for found in results.values()):
        return f"{OURS} was not asked."
    if any(len(found.auroc[OURS]) < 2 for found in results.values()):
        return "From one split alone nothing can be said about who is better."
    for setting, found in results.items():
        own = found.auroc[OURS]
        for name, rival in found.auroc.items():
            if name != OURS and not own.mean() - half_interval(own) > rival.mean() + half_interval(rival):
                behind.append(f"{name} at {setting}")
    if not behind:
        return f"{OURS} is above every other one at every setting, by AUROC, with intervals apart."
    return f"{OURS} is not above, by AUROC with intervals apart: {', '.join(behind)}."


def _ours(results: Mapping[Setting, Found]) -> list[str]:
    kept = {setting: found.ours for setting, found in results.items() if found.ours}
    if not kept:
        return []
    lines = [
        f"What {OURS} says of the log, and of its own flags at `fdr=0.1`:",
        "",
        "| noise | true share | estimated | calibration error | flagged | wrong flags | noise that is flagged |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for setting, ours in kept.items():
        wrong = f"{ours['false_discovery'].mean():.3f}" if ours["flagged"].any() else "–"
        lines.append(
            f"| {setting} | {ours['truth'].mean():.3f} | {_mean(ours['share'])} | {_mean(ours['calibration_error'])} "
            f"| {ours['flagged'].mean():.2%} | {wrong} | {ours['hit_ratio'].mean():.1%} |"
        )
    return lines


def _gains(setting: Setting, found: Found) -> list[str]:
    """(method − noisy) / (clean − noisy), where the gap is beyond error."""
    if not found.gains:
        return []
    names = [name for name in next(iter(found.gains.values())) if name not in ("noisy", "clean")]
    lines = [
        "",
        f"{setting}: of what noise costs a recommender (NDCG@10), how much comes back when as many clicks as are noise "
        "are left out, the most suspicious first. 100% is what leaving out the noise itself gives.",
        "",
        f"| | {' | '.join(found.gains)} |",
        f"| --- | {' | '.join(['---:'] * len(found.gains))} |",
        f"| noisy → clean | {' | '.join(_gap(by) for by in found.gains.values())} |",
    ]
    lines += [f"| {name} | {' | '.join(_recovered(by, name) for by in found.gains.values())} |" for name in names]
    return lines


def _gap(by: Mapping[str, NDArray[np.float64]]) -> str:
    return f"{by['noisy'].mean():.4f} → {by['clean'].mean():.4f}".replace("0.", ".")


def _recovered(by: Mapping[str, NDArray[np.float64]], name: str) -> str:
    gap = by["clean"] - by["noisy"]
    if len(gap) < 2:
        return "withheld: one split says nothing of error"
    if not gap.mean() > half_interval(gap):
        return "withheld: the gap is within error"
    share = (by[name] - by["noisy"]) / gap.mean()
    return f"{share.mean():.0%} ± {half_interval(share):.0%}"


def _mean(values: NDArray[np.float64]) -> str:
    half = half_interval(values)
    interval = "" if math.isnan(half) else f" ± {half:.3f}"
    return f"{values.mean():.3f}{interval}".replace("0.", ".")
