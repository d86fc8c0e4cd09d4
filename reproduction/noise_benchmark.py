"""How well is noise found, by whom, and what does finding it do for a recommender?

Four fifths of each user's interactions get noise, whose place is known; one fifth tests. Every scorer of
`reproduction.baselines` judges the same noisy clicks.
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
from reproduction.protocol import Steps
from reproduction.run_cache import Store

GAINING: Mapping[str, Model] = {
    "NCE": NCE(rank=50, regularization=3000.0),
    "WRMF": WRMF(rank=50, alpha=3.0, regularization=30.0),
    "VAE": VAE(hidden=None, device="auto", epochs=50),
}
"""What learns from the clicks that are left: about the tuned parameters of docs/results.md."""
OURS = "NoiseFinder"
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
class Found:
    """What came out at one setting, by scorer; arrays have one number for each seed."""

    auroc: Mapping[str, NDArray[np.float64]]
    ap: Mapping[str, NDArray[np.float64]]
    ours: Mapping[str, NDArray[np.float64]]
    """Of NoiseFinder: share, low, high, truth, calibration_error, flagged, false_discovery, hit_ratio."""
    reliability: NDArray[np.float64]
    """Seeds × bins × (clicks, sum of probabilities, noise) of NoiseFinder."""
    gains: Mapping[str, Mapping[str, NDArray[np.float64]]]
    """By model, then by scorer: NDCG@10 without what the scorer finds most suspicious, as many as are noise; and under
    `noisy` and `clean`, with all of it and without all noise."""


def clicks_of(dataset: str) -> Interactions:
    """A data set; of the cinema, one without mistakes of its own."""
    return make_cinema(mistake_rate=0.0).interactions if dataset == "cinema" else load_dataset(dataset)


class Detection:
    """The benchmark on one data set; nothing is done twice.

    Parameters
    ----------
    clicks : the data set
    dataset : what it is called
    store : where results are kept
    n_seeds : how many splits
    scorers : by name
    models : that learn from what is left
    """

    def __init__(
        self,
        clicks: Interactions,
        dataset: str,
        store: Store,
        *,
        n_seeds: int,
        scorers: Sequence[str] = tuple(SCORERS),
        models: Mapping[str, Model] = GAINING,
    ) -> None:
        self.clicks, self.dataset, self.store, self.n_seeds = clicks, dataset, store, n_seeds
        self.scorers, self.models = scorers, models

    def run(self, settings: Sequence[Setting], progress: Progress | None = None) -> dict[Setting, Found]:
        """All settings; what is gained is worked out at the highest level of each kind."""
        highest = {setting.kind: setting for setting in sorted(settings, key=lambda each: each.level)}
        steps = Steps(progress, f"finding noise, {self.dataset}", len(settings) * self.n_seeds)
        return {each: self._at(each, steps, gains=highest[each.kind] == each and each.level > 0) for each in settings}

    def _at(self, setting: Setting, steps: Steps, *, gains: bool) -> Found:
        # Without noise there is nothing to tell; only what is said of the log is of interest.
        names = [name for name in self.scorers if setting.level or name == OURS]
        scored: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        gained: dict[str, dict[str, list[float]]] = {name: {} for name in self.models} if gains else {}
        for seed in range(self.n_seeds):
            for name in names:
                scored[name].append(self.one(setting, name, seed))
            steps.step()
            for model, by_scorer in gained.items():
                for name in ("noisy", "clean", *self.scorers):
                    by_scorer.setdefault(name, []).append(self.gain(setting, name, model, seed)["value"])
        ours = scored.get(OURS, [])
        return Found(
            auroc={name: _column(runs, "auroc") for name, runs in scored.items() if setting.level},
            ap={name: _column(runs, "ap") for name, runs in scored.items() if setting.level},
            ours={name: _column(ours, name) for name in (ours[0]["ours"] if ours else ())},
            reliability=np.array([run["reliability"] for run in ours]),
            gains={model: {name: np.array(each) for name, each in by.items()} for model, by in gained.items()},
        )

    def one(self, setting: Setting, scorer: str, seed: int) -> dict[str, Any]:
        """One scorer on one split."""
        of = {"what": f"detection: {scorer}", "dataset": self.dataset, "setting": list(setting), "seed": seed}

        def work() -> dict[str, Any]:
            noisy, is_noise, _ = self._noisy(setting, seed)
            if scorer == OURS:
                finder = NoiseFinder(seed=seed).fit(noisy)
                suspicion = finder.noise_probability_.astype(np.float64)
                about = _ours(finder, is_noise)
            else:
                suspicion, about = SCORERS[scorer](noisy, seed), {}
            if is_noise.any():
                metrics = detection_metrics(suspicion, is_noise)
                about |= {name: metrics[name] for name in ("auroc", "ap")}
            return about | {"left_out": _left_out(suspicion, int(is_noise.sum()))}

        return self.store.runs.get(of, work)

    def gain(self, setting: Setting, scorer: str, model: str, seed: int) -> dict[str, Any]:
        """What a model scores without the clicks that a scorer finds most suspicious."""
        recommender = self.models[model]
        of = {
            "what": f"detection, gain: {scorer}",
            "dataset": self.dataset,
            "setting": list(setting),
            "seed": seed,
            "model": repr(recommender),
        }

        def work() -> dict[str, Any]:
            noisy, is_noise, test = self._noisy(setting, seed)
            weights = noisy.matrix.data.copy()
            if scorer == "clean":
                weights[is_noise] = 0
            elif scorer != "noisy":
                weights[self.one(setting, scorer, seed)["left_out"]] = 0
            fitted = prorec.evaluation.tuning.with_parameters(recommender, {}).fit(noisy.with_weights(weights))
            return {"value": prorec.evaluate(fitted, test, k=10).mean[_METRIC]}

        return self.store.runs.get(of, work)

    def _noisy(self, setting: Setting, seed: int) -> tuple[Interactions, NDArray[np.bool_], Interactions]:
        split = prorec.split_by_user(self.clicks, (0.8, 0.2), seed=seed)
        noisy = prorec.inject_noise(split.train, setting.level, setting.kind, seed=seed)
        return noisy.interactions, noisy.is_noise, split.test


def _ours(finder: NoiseFinder, is_noise: NDArray[np.bool_]) -> dict[str, Any]:
    probability, flags = finder.noise_probability_.astype(np.float64), finder.flag(fdr=_FDR)
    share = finder.noise_rate_
    place = np.minimum((probability * _BINS).astype(np.int64), _BINS - 1)
    sums = (np.bincount(place, weights, _BINS) for weights in (None, probability, is_noise.astype(np.float64)))
    reliability = np.stack(list(sums), axis=1)
    error = float(np.abs(reliability[:, 1] - reliability[:, 2]).sum() / len(probability))
    return {
        "ours": ["share", "low", "high", "truth", "calibration_error", "flagged", "false_discovery", "hit_ratio"],
        "share": share.estimate,
        "low": share.low,
        "high": share.high,
        "truth": float(is_noise.mean()),
        "calibration_error": error,
        "flagged": float(flags.mean()),
        "false_discovery": float((~is_noise[flags]).mean()) if flags.any() else 0.0,
        "hit_ratio": float(flags[is_noise].mean()) if is_noise.any() else 0.0,
        "reliability": reliability.tolist(),
    }


def _left_out(suspicion: NDArray[np.float64], count: int) -> list[int]:
    """The most suspicious clicks."""
    return [int(place) for place in np.sort(np.argsort(-suspicion, kind="stable")[:count])]


def _column(runs: Sequence[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([run[name] for run in runs], dtype=np.float64)
