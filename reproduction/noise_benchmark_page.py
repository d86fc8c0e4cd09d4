"""Results of the noise benchmark in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from reproduction.noise_benchmark import FINDER, DetectionResults, Setting
from reproduction.protocol import half_interval


def make_benchmark_page(dataset: str, results: Mapping[Setting, DetectionResults]) -> str:
    """Return tables of detection metrics, of NoiseFinder's calibration, and of the gains of recommenders."""
    noisy = {setting: found for setting, found in results.items() if found.auroc}
    lines = [f"### {dataset}", ""]
    if noisy:
        lines += [*_detection_table(noisy), "", _verdict(noisy), ""]
    lines += _finder_table(results)
    for setting, found in results.items():
        lines += _gain_table(setting, found)
    return "\n".join([*lines, ""])


def _detection_table(results: Mapping[Setting, DetectionResults]) -> list[str]:
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


def _verdict(results: Mapping[Setting, DetectionResults]) -> str:
    """Say whether NoiseFinder is above every baseline with disjoint intervals, or name those that it is not above."""
    behind: list[str] = []
    if any(FINDER not in found.auroc for found in results.values()):
        return f"{FINDER} was not run."
    if any(len(found.auroc[FINDER]) < 2 for found in results.values()):
        return "One split is not enough to compare methods."
    for setting, found in results.items():
        own = found.auroc[FINDER]
        for name, baseline in found.auroc.items():
            if name != FINDER and not own.mean() - half_interval(own) > baseline.mean() + half_interval(baseline):
                behind.append(f"{name} at {setting}")
    if not behind:
        return f"{FINDER} has a higher AUROC than every baseline at every setting, with disjoint intervals."
    return f"{FINDER} does not have a higher AUROC, with disjoint intervals, than: {', '.join(behind)}."


def _finder_table(results: Mapping[Setting, DetectionResults]) -> list[str]:
    by_setting = {setting: found.finder for setting, found in results.items() if found.finder}
    if not by_setting:
        return []
    lines = [
        f"{FINDER}'s estimate of the noise rate, and its flags at `fdr=0.1`:",
        "",
        "| noise | true rate | estimated | calibration error | flagged | wrong flags | noise flagged |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for setting, finder in by_setting.items():
        wrong = f"{finder['false_discovery'].mean():.3f}" if finder["flagged"].any() else "–"
        lines.append(
            f"| {setting} | {finder['truth'].mean():.3f} | {_mean(finder['estimate'])} "
            f"| {_mean(finder['calibration_error'])} | {finder['flagged'].mean():.2%} | {wrong} "
            f"| {finder['hit_ratio'].mean():.1%} |"
        )
    return lines


def _gain_table(setting: Setting, found: DetectionResults) -> list[str]:
    """Return (method − noisy) / (clean − noisy) for each recommender and scorer."""
    if not found.gains:
        return []
    names = [name for name in next(iter(found.gains.values())) if name not in ("noisy", "clean")]
    lines = [
        "",
        f"{setting}: share of the loss in NDCG@10 that is recovered when the most suspicious clicks are removed before "
        "training, as many as are noise. Removing the noise itself gives 100%.",
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
        return "withheld: one split has no interval"
    if not gap.mean() > half_interval(gap):
        return "withheld: the gap is within error"
    share = (by[name] - by["noisy"]) / gap.mean()
    return f"{share.mean():.0%} ± {half_interval(share):.0%}"


def _mean(values: NDArray[np.float64]) -> str:
    half = half_interval(values)
    interval = "" if math.isnan(half) else f" ± {half:.3f}"
    return f"{values.mean():.3f}{interval}".replace("0.", ".")
