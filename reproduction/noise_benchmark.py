"""The noise benchmark: how well each method finds injected noise, and what a recommender gains from it.

Noise is injected into four fifths of each user's interactions; one fifth tests. Every scorer of
`reproduction.baselines` scores the same noisy clicks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import prorec
from prorec._core.progress import Progress
from prorec.data.cinema import make_cinema
from prorec.data.noise_injection import NoiseKind
from prorec.data.registry import load_dataset
from prorec.evaluation import detection_metrics
from prorec.interactions import Interactions
from prorec.models import NCE, VAE, WRMF, Model
from prorec.noise.finder import NoiseFinder
from reproduction.baselines import SCORERS
from reproduction.protocol import StepProgress
from reproduction.run_cache import ExperimentCache

RECOMMENDERS: Mapping[str, Model] = {
    "NCE": NCE(rank=50, regularization=3000.0),
    "WRMF": WRMF(rank=50, alpha=3.0, regularization=30.0),
    "VAE": VAE(hidden=None, device="auto", epochs=50),
}
"""Recommenders that are retrained without the most suspicious clicks; parameters are near those of docs/results.md."""
FINDER = "NoiseFinder"
_METRIC = "ndcg@10"
_FDR = 0.1
_BINS = 10


class Setting(NamedTuple):
    """Noise of one kind and level."""

    kind: NoiseKind
    level: float

    def __str__(self) -> str:
        return f"{self.kind} {self.level:.0%}" if self.level else "none"


@dataclass(frozen=True)
class DetectionResults:
    """Results at one setting, by scorer; arrays have one number per seed."""

    auroc: Mapping[str, NDArray[np.float64]]
    ap: Mapping[str, NDArray[np.float64]]
    finder: Mapping[str, NDArray[np.float64]]
    """NoiseFinder's estimate, low, high, truth, calibration_error, flagged, false_discovery and hit_ratio."""
    reliability: NDArray[np.float64]
    """Seeds × bins × (clicks, sum of noise probabilities, noisy clicks) of NoiseFinder."""
    gains: Mapping[str, Mapping[str, NDArray[np.float64]]]
    """By model, then by scorer: NDCG@10 without the most suspicious clicks, as many as are noise; `noisy` is with all
    clicks and `clean` without all noise."""


def load_clean_dataset(dataset: str) -> Interactions:
    """Load a data set; the cinema comes without its own mistakes."""
    return make_cinema(mistake_rate=0.0).interactions if dataset == "cinema" else load_dataset(dataset)


class NoiseBenchmark:
    """The benchmark on one data set; every run is cached.

    Parameters
    ----------
    clicks : Interactions
        The data set.
    dataset : str
        Its name, for the cache.
    cache : ExperimentCache
        Where results are stored.
    n_seeds : int
        Number of splits.
    scorers : sequence of str
        Names in `SCORERS`.
    models : mapping of str to Model
        Recommenders to retrain.
    """

    def __init__(
        self,
        clicks: Interactions,
        dataset: str,
        cache: ExperimentCache,
        *,
        n_seeds: int,
        scorers: Sequence[str] = tuple(SCORERS),
        models: Mapping[str, Model] = RECOMMENDERS,
    ) -> None:
        self.clicks, self.dataset, self.cache, self.n_seeds = clicks, dataset, cache, n_seeds
        self.scorers, self.models = scorers, models

    def run(self, settings: Sequence[Setting], progress: Progress | None = None) -> dict[Setting, DetectionResults]:
        """Run all settings; recommenders are retrained at the highest level of each kind."""
        highest = {setting.kind: setting for setting in sorted(settings, key=lambda each: each.level)}
        steps = StepProgress(progress, f"Finding noise, {self.dataset}", len(settings) * self.n_seeds)
        return {
            each: self._run_setting(each, steps, retrain=highest[each.kind] == each and each.level > 0)
            for each in settings
        }

    def _run_setting(self, setting: Setting, steps: StepProgress, *, retrain: bool) -> DetectionResults:
        # Without noise there is nothing to detect; only the finder's estimates are of interest.
        names = [name for name in self.scorers if setting.level or name == FINDER]
        scored: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        gained: dict[str, dict[str, list[float]]] = {name: {} for name in self.models} if retrain else {}
        for seed in range(self.n_seeds):
            for name in names:
                scored[name].append(self.score(setting, name, seed))
            steps.advance()
            for model, by_scorer in gained.items():
                for name in ("noisy", "clean", *self.scorers):
                    by_scorer.setdefault(name, []).append(self.retrain(setting, name, model, seed)["value"])
        finder_runs = scored.get(FINDER, [])
        return DetectionResults(
            auroc={name: _column(runs, "auroc") for name, runs in scored.items() if setting.level},
            ap={name: _column(runs, "ap") for name, runs in scored.items() if setting.level},
            finder={name: _column(finder_runs, name) for name in (finder_runs[0]["finder"] if finder_runs else ())},
            reliability=np.array([run["reliability"] for run in finder_runs]),
            gains={model: {name: np.array(each) for name, each in by.items()} for model, by in gained.items()},
        )

    def score(self, setting: Setting, scorer: str, seed: int) -> dict[str, Any]:
        """Score the noisy clicks of one split by one scorer."""
        configuration = {
            "experiment": f"detection: {scorer}",
            "dataset": self.dataset,
            "setting": list(setting),
            "seed": seed,
        }

        def compute() -> dict[str, Any]:
            noisy, is_noise, _ = self._inject_noise(setting, seed)
            if scorer == FINDER:
                finder = NoiseFinder(seed=seed).fit(noisy)
                noise_score = finder.noise_probability_.astype(np.float64)
                numbers = _describe_finder(finder, is_noise)
            else:
                noise_score, numbers = SCORERS[scorer](noisy, seed), {}
            if is_noise.any():
                metrics = detection_metrics(noise_score, is_noise)
                numbers |= {name: metrics[name] for name in ("auroc", "ap")}
            return numbers | {"removed": _most_suspicious(noise_score, int(is_noise.sum()))}

        return self.cache.runs.get(configuration, compute)

    def retrain(self, setting: Setting, scorer: str, model: str, seed: int) -> dict[str, Any]:
        """Evaluate a model that is trained without the most suspicious clicks of a scorer."""
        recommender = self.models[model]
        configuration = {
            "experiment": f"detection, gain: {scorer}",
            "dataset": self.dataset,
            "setting": list(setting),
            "seed": seed,
            "model": repr(recommender),
        }

        def compute() -> dict[str, Any]:
            noisy, is_noise, test = self._inject_noise(setting, seed)
            weights = noisy.matrix.data.copy()
            if scorer == "clean":
                weights[is_noise] = 0
            elif scorer != "noisy":
                weights[self.score(setting, scorer, seed)["removed"]] = 0
            fitted = prorec.evaluation.tuning.with_parameters(recommender, {}).fit(noisy.with_weights(weights))
            return {"value": prorec.evaluate(fitted, test, k=10).mean[_METRIC]}

        return self.cache.runs.get(configuration, compute)

    def _inject_noise(self, setting: Setting, seed: int) -> tuple[Interactions, NDArray[np.bool_], Interactions]:
        split = prorec.split_by_user(self.clicks, (0.8, 0.2), seed=seed)
        noisy = prorec.inject_noise(split.train, setting.level, setting.kind, seed=seed)
        return noisy.interactions, noisy.is_noise, split.test


def _describe_finder(finder: NoiseFinder, is_noise: NDArray[np.bool_]) -> dict[str, Any]:
    probability, flags = finder.noise_probability_.astype(np.float64), finder.flag(fdr=_FDR)
    rate = finder.noise_rate_
    bins = np.minimum((probability * _BINS).astype(np.int64), _BINS - 1)
    sums = (np.bincount(bins, weights, _BINS) for weights in (None, probability, is_noise.astype(np.float64)))
    reliability = np.stack(list(sums), axis=1)
    error = float(np.abs(reliability[:, 1] - reliability[:, 2]).sum() / len(probability))
    return {
        "finder": ["estimate", "low", "high", "truth", "calibration_error", "flagged", "false_discovery", "hit_ratio"],
        "estimate": rate.estimate,
        "low": rate.low,
        "high": rate.high,
        "truth": float(is_noise.mean()),
        "calibration_error": error,
        "flagged": float(flags.mean()),
        "false_discovery": float((~is_noise[flags]).mean()) if flags.any() else 0.0,
        "hit_ratio": float(flags[is_noise].mean()) if is_noise.any() else 0.0,
        "reliability": reliability.tolist(),
    }


def _most_suspicious(noise_score: NDArray[np.float64], count: int) -> list[int]:
    """Return the positions of the clicks with the highest noise scores."""
    return [int(position) for position in np.sort(np.argsort(-noise_score, kind="stable")[:count])]


def _column(runs: Sequence[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([run[name] for run in runs], dtype=np.float64)
