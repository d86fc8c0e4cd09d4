"""The paper's figures as SVG files, with text large enough for a slide."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from prorec._core.files import atomic_write, prefix_errors
from prorec.data.noise_injection import NoiseKind
from prorec.report.theme import BLUE, GRAY, ORANGE, RC_PARAMS, RED
from reproduction.case_study import Case
from reproduction.injected_noise import NoiseLevelResult
from reproduction.noise_benchmark import DetectionResults, Setting
from reproduction.paper_tables import NOISE_20, OPTIMUM
from reproduction.parameter_curves import Curve
from reproduction.protocol import half_interval

_MIN_BIN = 30  # clicks
_NAMES = {
    "lambda": "λ, the retained share of the weights",
    "gamma": "γ, the entropic regularization",
    "beta": "β, the steepness of the labels",
    "zeta": "ζ, the strength of the regularizer",
}


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as SVG; its folder is created."""
    path.parent.mkdir(exist_ok=True)
    with prefix_errors(path), atomic_write(path) as temporary, matplotlib.rc_context(RC_PARAMS):
        figure.savefig(temporary, format="svg", metadata={"Date": None})


def draw_noise(results: Mapping[tuple[NoiseKind, float], NoiseLevelResult], dataset: str, model: str) -> Figure:
    """Draw the shares below the thresholds, and Recall@5 under them; one column for each kind of noise."""
    kinds = list(dict.fromkeys(kind for kind, _ in results))
    with matplotlib.rc_context(RC_PARAMS):
        figure = Figure(figsize=(4.6 * len(kinds), 8), layout="constrained")
        axes = figure.subplots(2, len(kinds), sharex=True, sharey="row", squeeze=False)
        for column, kind in enumerate(kinds):
            levels = sorted(level for each, level in results if each == kind)
            top, bottom = axes[:, column]
            noisy = [level for level in levels if "hit_ratio" in results[kind, level].detection]
            for name, label, colour in (
                ("hit_ratio", "of the noise (the paper's hit ratio)", RED),
                ("false_flag_rate", "of the true clicks", GRAY),
            ):
                values = [results[kind, level].detection[name] for level in noisy]
                _line(top, noisy, values, label, colour)
            top.axhline(0.9, color=ORANGE, linestyle=":", label="the paper: around 90% of the noise")
            top.set(title=f"{kind} noise", ylim=(0, 1.02))
            for name, label, colour, aside in (
                ("plain", model, GRAY, 0.0),
                ("denoised", f"{model} + ProRec", RED, 0.002),
                ("ceiling", f"{model}, without the noise", BLUE, -0.002),
            ):
                values = [getattr(results[kind, level], name).per_user["recall@5"].mean(axis=1) for level in levels]
                _line(bottom, np.array(levels) + aside, values, label, colour)  # so that bars don't hide each other
            if kind == "uniform" and dataset == "ml-100k":
                bottom.plot(0.2, NOISE_20["NCE"], "o", mfc="none", mew=2, color=GRAY, label="the paper, NCE")
                bottom.plot(
                    0.2, NOISE_20["NCE + ProRec"], "s", mfc="none", mew=2, color=RED, label="the paper, + ProRec"
                )
            bottom.set_xticks(levels, [f"{level:.0%}" for level in levels])
            bottom.set_xlabel("false clicks, in % of the true ones")
        axes[0, 0].set_ylabel("share below the threshold")
        axes[1, 0].set_ylabel("Recall@5")
        for axis in axes[:, 0]:
            axis.legend(fontsize=10)
    return figure


def draw_curve(curve: Curve, dataset: str) -> Figure:
    """Draw the gain of ProRec over the model, at each value of one parameter."""
    with matplotlib.rc_context(RC_PARAMS):
        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        axis = figure.subplots()
        _line(axis, curve.values, list(100 * curve.gains), "NCE + ProRec (bars: 95% over splits)", RED)
        axis.axhline(0, color=GRAY, linestyle="--", label="NCE")
        if dataset in OPTIMUM and curve.parameter in OPTIMUM[dataset].at:
            optimum = OPTIMUM[dataset]
            axis.plot(
                optimum.at[curve.parameter], 100 * optimum.gain, "D", color=ORANGE, ms=9, label="the paper's best"
            )
        if curve.parameter in ("beta", "zeta"):
            axis.set_xscale("log")
            axis.set_xticks(curve.values, [f"{value:g}" for value in curve.values], minor=False)
            axis.minorticks_off()
        else:
            axis.set_xticks(curve.values)
        axis.set(xlabel=_NAMES[curve.parameter], ylabel="NDCG@5, % over NCE", title=dataset)
        axis.legend(fontsize=10)
    return figure


def draw_reliability(results: Mapping[Setting, DetectionResults], dataset: str) -> Figure:
    """Draw the share of noise by noise probability; one curve for each setting."""
    kinds = list(dict.fromkeys(setting.kind for setting in results))
    with matplotlib.rc_context(RC_PARAMS):
        figure = Figure(figsize=(5.2 * len(kinds), 5), layout="constrained")
        axes = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
        for axis, kind in zip(axes, kinds, strict=True):
            axis.plot([0, 1], [0, 1], linestyle="--", color=GRAY, label="perfect calibration")
            noisy = [each for each in results if each.kind == kind and each.level and len(results[each].reliability)]
            for setting, colour in zip(noisy, (BLUE, ORANGE, RED, GRAY), strict=False):
                bins = results[setting].reliability.sum(axis=0)
                bins = bins[bins[:, 0] >= _MIN_BIN]
                # 95% interval, as if clicks were independent.
                share = bins[:, 2] / bins[:, 0]
                half = 1.96 * np.sqrt(share * (1 - share) / bins[:, 0])
                label = f"{setting.level:.0%} noise"
                axis.errorbar(bins[:, 1] / bins[:, 0], share, half, marker="o", capsize=3, color=colour, label=label)
            axis.set(
                title=f"{dataset}, {kind} noise", xlabel="noise probability, mean of a bin", xlim=(0, 1), ylim=(0, 1)
            )
            axis.legend(fontsize=10)
        axes[0].set_ylabel("share of noise in the bin")
    return figure


def _line(axis: Any, positions: Any, values: list[Any], label: str, colour: str) -> None:
    """Draw means with their intervals."""
    means = [float(np.mean(each)) for each in values]
    halves = [half_interval(np.asarray(each)) for each in values]
    shown = None if np.isnan(halves).any() else halves  # a single split has no interval
    axis.errorbar(positions, means, yerr=shown, color=colour, label=label, marker="o", capsize=3, lw=2)


def draw_case(case: Case) -> Figure:
    """Draw users in rows, each with their clicks, before denoising and coloured by weight after it."""
    clicks = case.clicks
    width = int(clicks.activity[case.shown].max())
    with matplotlib.rc_context({**RC_PARAMS, "axes.grid": False}):
        figure = Figure(figsize=(16, 0.55 * len(case.shown) + 1.2), layout="constrained")
        axes = figure.subplots(1, 2)
        colours = matplotlib.colormaps["Blues_r"]
        weights = case.weights[np.concatenate([case.positions(user) for user in case.shown])]
        low, high = float(weights.min()), float(weights.max())
        for axis, is_after in zip(axes, (False, True), strict=True):
            for row, user in enumerate(case.shown):
                positions = np.sort(case.positions(user))
                for column, position in enumerate(positions):
                    share = (case.weights[position] - low) / max(high - low, 1e-9) if is_after else 1.0
                    face = colours(0.25 + 0.7 * share) if is_after else "#dbe7f3"
                    axis.add_patch(matplotlib.patches.Rectangle((column, row), 0.94, 0.9, facecolor=face))
                    name = str(clicks.items[clicks.matrix.indices[position]])
                    ink = "white" if is_after and share < 0.35 else "black"
                    axis.text(column + 0.47, row + 0.47, name, ha="center", va="center", fontsize=8, color=ink)
            axis.set(xlim=(0, width), ylim=(len(case.shown), 0), xticks=[])
            axis.set_yticks(np.arange(len(case.shown)) + 0.45, [f"user {clicks.users[user]}" for user in case.shown])
            axis.spines[["left", "bottom"]].set_visible(False)
            axis.tick_params(length=0)
        axes[0].set_title("before: every click weighs 1")
        axes[1].set_title(f"after: weights from {low:.2f} (dark) to {high:.2f} (light)")
    return figure
