"""Figure 2a (RQ1): is injected noise found, and does finding it help?

Four fifths of each user's interactions train, one fifth tests. False interactions are put into the training part; a
quarter of it, noise and all, is then held back to choose parameters by, for nobody has a clean validation part.
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
from prorec.data.noise_injection import NoiseKind, NoisyInteractions
from prorec.denoise import ProRec
from prorec.evaluation import detection_metrics
from prorec.evaluation.tuning import PAPER_GRIDS
from prorec.interactions import Interactions
from prorec.models import Model
from reproduction.overall_results import denoised
from reproduction.protocol import Parts, Protocol, Result, Row, Steps
from reproduction.run_cache import Store

LEVELS = (0.0, 0.05, 0.1, 0.15, 0.2)
KINDS: tuple[NoiseKind, ...] = ("uniform", "popularity", "swap")
FOUND = ("hit_ratio", "false_flag_rate", "auroc", "ap")


@dataclass(frozen=True)
class AtLevel:
    """What came out at one level of one kind of noise."""

    plain: Result
    denoised: Result
    ceiling: Result
    """The model without ProRec, with every false interaction's weight set to 0."""
    found: Mapping[str, NDArray[np.float64]]
    """On each split: the share of noise below the thresholds (the paper's hit ratio), the share of true interactions
    below them, and AUROC and average precision of the share ρ as a score. None where there is no noise."""


def noise_experiment(
    clicks: Interactions,
    dataset: str,
    store: Store,
    model: Model,
    *,
    trials: int,
    n_seeds: int,
    levels: Sequence[float] = LEVELS,
    kinds: Sequence[NoiseKind] = KINDS,
    progress: Progress | None = None,
) -> dict[tuple[NoiseKind, float], AtLevel]:
    """A model with and without ProRec at every level of every kind of noise; without noise, all kinds are one."""
    name = type(model).__name__
    row = Row(name, model, PAPER_GRIDS[name])
    rows = [row, denoised(row)]
    settings = list(dict.fromkeys((kinds[0] if level == 0 else kind, level) for kind in kinds for level in levels))
    steps = Steps(progress, f"Figure 2a, {dataset}", len(settings) * n_seeds)
    results: dict[tuple[NoiseKind, float], AtLevel] = {}
    for kind, level in settings:
        noise = _Noise(clicks, kind, level)
        called = f"{dataset}, {kind} noise {level:g}"
        protocol = Protocol(clicks, called, store, trials=trials, n_seeds=n_seeds, parts_of=noise.parts)
        results[kind, level] = _at_level(protocol, noise, rows, steps)
    for kind in kinds:
        if (kinds[0], 0.0) in results:
            results[kind, 0.0] = results[kinds[0], 0.0]
    return results


class _Noise:
    """One kind and level of noise in the training part of any split."""

    def __init__(self, clicks: Interactions, kind: NoiseKind, level: float) -> None:
        self._clicks, self._kind, self._level = clicks, kind, level

    @lru_cache(maxsize=2)  # noqa: B019  # which lives as long as one level
    def noisy(self, seed: int) -> tuple[NoisyInteractions, Interactions]:
        """The training part with noise in it, and the test part."""
        split = prorec.split_by_user(self._clicks, (0.8, 0.2), seed=seed)
        return prorec.inject_noise(split.train, self._level, self._kind, seed=seed), split.test

    def parts(self, _: Interactions, seed: int) -> Parts:
        noisy, test = self.noisy(seed)
        inner = prorec.split_by_user(noisy.interactions, (0.75, 0.0, 0.25), seed=seed)
        return Parts(inner.train, inner.test, noisy.interactions, test)


def _at_level(protocol: Protocol, noise: _Noise, rows: list[Row], steps: Steps) -> AtLevel:
    chosen: tuple[list[Mapping[str, Any]], ...] = ([], [])
    runs: tuple[list[Mapping[str, Any]], ...] = ([], [], [])
    for seed in range(protocol.n_seeds):
        is_noise = noise.noisy(seed)[0].is_noise
        (plain, of_plain), (denoiser, of_denoiser) = (protocol.tuned(row, seed) for row in rows)
        chosen[0].append(of_plain)
        chosen[1].append(of_denoiser)
        runs[0].append(protocol.judged("noise: plain", seed, plain, plain.fit))
        found = partial(_found, is_noise=is_noise)
        runs[1].append(protocol.judged("noise: denoised", seed, denoiser, denoiser.fit, found))
        cleaned = partial(_fit_without, model=plain, is_noise=is_noise)
        runs[2].append(protocol.judged("noise: taken out", seed, plain, cleaned))
        steps.step()
    return AtLevel(
        plain=Result.of(chosen[0], runs[0]),
        denoised=Result.of(chosen[1], runs[1]),
        ceiling=Result.of(chosen[0], runs[2]),
        found={name: np.array([run[name] for run in runs[1]]) for name in FOUND if name in runs[1][0]},
    )


def _fit_without(known: Interactions, model: Any, is_noise: NDArray[np.bool_]) -> Any:
    """With a weight of 0, noise is not learned from but still not recommended, as for the others."""
    return model.fit(known.with_weights(np.where(is_noise, np.float32(0), known.matrix.data)))


def _found(denoiser: ProRec, is_noise: NDArray[np.bool_]) -> dict[str, float]:
    if not is_noise.any():
        return {}
    below = denoiser.matching_.margins < 0
    scored = detection_metrics(denoiser.noise_probability_, is_noise)
    return {
        "hit_ratio": float(below[is_noise].mean()),
        "false_flag_rate": float(below[~is_noise].mean()),
        "auroc": scored["auroc"],
        "ap": scored["ap"],
    }
