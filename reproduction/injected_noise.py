"""Figure 2a (RQ1): how well injected noise is found, and what finding it gains.

Four fifths of each user's interactions train, one fifth tests. False interactions are injected into the training part.
A quarter of that part, noise included, is the validation part, because nobody has a clean one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import prorec
from prorec._core.progress import Progress
from prorec.data.noise_injection import NoiseKind
from prorec.data.noisy_interactions import NoisyInteractions
from prorec.denoise import ProRec
from prorec.evaluation import detection_metrics
from prorec.evaluation.tuning import PAPER_GRIDS
from prorec.interactions import Interactions
from prorec.models import Model
from reproduction.overall_results import add_denoiser
from reproduction.protocol import Parts, Protocol, Result, Row, StepProgress
from reproduction.run_cache import ExperimentCache

LEVELS = (0.0, 0.05, 0.1, 0.15, 0.2)
KINDS: tuple[NoiseKind, ...] = ("uniform", "popularity", "swap")
DETECTION = ("hit_ratio", "false_flag_rate", "auroc", "ap")


@dataclass(frozen=True)
class NoiseLevelResult:
    """Results at one level of one kind of noise."""

    plain: Result
    denoised: Result
    ceiling: Result
    """The model without ProRec, with every false interaction's weight set to 0."""
    detection: Mapping[str, NDArray[np.float64]]
    """For each split: the share of noise below the thresholds (the paper's hit ratio), the share of true interactions
    below them, and AUROC and average precision of the row share ρ. Empty without noise."""


def run_injected_noise(
    clicks: Interactions,
    dataset: str,
    cache: ExperimentCache,
    model: Model,
    *,
    n_trials: int,
    n_seeds: int,
    levels: Sequence[float] = LEVELS,
    kinds: Sequence[NoiseKind] = KINDS,
    progress: Progress | None = None,
) -> dict[tuple[NoiseKind, float], NoiseLevelResult]:
    """Run a model with and without ProRec at every level of every kind of noise; level 0 is run once."""
    name = type(model).__name__
    row = Row(name, model, PAPER_GRIDS[name])
    rows = [row, add_denoiser(row)]
    settings = list(dict.fromkeys((kinds[0] if level == 0 else kind, level) for kind in kinds for level in levels))
    steps = StepProgress(progress, f"Figure 2a, {dataset}", len(settings) * n_seeds)
    results: dict[tuple[NoiseKind, float], NoiseLevelResult] = {}
    for kind, level in settings:
        splits = _NoisySplits(clicks, kind, level)
        name_in_cache = f"{dataset}, {kind} noise {level:g}"
        protocol = Protocol(
            clicks, name_in_cache, cache, n_trials=n_trials, n_seeds=n_seeds, make_parts=splits.make_parts
        )
        results[kind, level] = _run_level(protocol, splits, rows, steps)
    for kind in kinds:
        if (kinds[0], 0.0) in results:
            results[kind, 0.0] = results[kinds[0], 0.0]
    return results


class _NoisySplits:
    """Splits with one kind and level of noise in the training part."""

    def __init__(self, clicks: Interactions, kind: NoiseKind, level: float) -> None:
        self._clicks, self._kind, self._level = clicks, kind, level

    @lru_cache(maxsize=2)  # noqa: B019  # the object lives as long as one level
    def noisy(self, seed: int) -> tuple[NoisyInteractions, Interactions]:
        """Return the training part with noise, and the test part."""
        split = prorec.split_by_user(self._clicks, (0.8, 0.2), seed=seed)
        return prorec.inject_noise(split.train, self._level, self._kind, seed=seed), split.test

    def make_parts(self, _: Interactions, seed: int) -> Parts:
        noisy, test = self.noisy(seed)
        inner = prorec.split_by_user(noisy.interactions, (0.75, 0.0, 0.25), seed=seed)
        return Parts(inner.train, inner.test, noisy.interactions, test)


def _run_level(protocol: Protocol, splits: _NoisySplits, rows: list[Row], steps: StepProgress) -> NoiseLevelResult:
    parameters: tuple[list[Mapping[str, Any]], ...] = ([], [])
    runs: tuple[list[Mapping[str, Any]], ...] = ([], [], [])
    for seed in range(protocol.n_seeds):
        is_noise = splits.noisy(seed)[0].is_noise
        (plain, plain_parameters), (denoiser, denoiser_parameters) = (protocol.tune(row, seed) for row in rows)
        parameters[0].append(plain_parameters)
        parameters[1].append(denoiser_parameters)
        runs[0].append(protocol.evaluate("noise: plain", seed, plain, plain.fit))
        detect = partial(_measure_detection, is_noise=is_noise)
        runs[1].append(protocol.evaluate("noise: denoised", seed, denoiser, denoiser.fit, detect))
        cleaned = partial(_fit_without, model=plain, is_noise=is_noise)
        runs[2].append(protocol.evaluate("noise: removed", seed, plain, cleaned))
        steps.advance()
    return NoiseLevelResult(
        plain=Result.from_runs(parameters[0], runs[0]),
        denoised=Result.from_runs(parameters[1], runs[1]),
        ceiling=Result.from_runs(parameters[0], runs[2]),
        detection={name: np.array([run[name] for run in runs[1]]) for name in DETECTION if name in runs[1][0]},
    )


def _fit_without(interactions: Interactions, model: Any, is_noise: NDArray[np.bool_]) -> Any:
    """Fit with weight 0 for noise, which is then not learned from but still not recommended, as for the others."""
    return model.fit(interactions.with_weights(np.where(is_noise, np.float32(0), interactions.matrix.data)))


def _measure_detection(denoiser: ProRec, is_noise: NDArray[np.bool_]) -> dict[str, float]:
    if not is_noise.any():
        return {}
    below = denoiser.matching_.margins < 0
    metrics = detection_metrics(denoiser.noise_probability_, is_noise)
    return {
        "hit_ratio": float(below[is_noise].mean()),
        "false_flag_rate": float(below[~is_noise].mean()),
        "auroc": metrics["auroc"],
        "ap": metrics["ap"],
    }
