"""The benchmark of noise scorers: what is measured is what it says, and a gap within error is withheld."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import prorec
from prorec import NoiseFinder
from prorec.models import NCE
from reproduction import noise_benchmark
from reproduction.baselines import popularity
from reproduction.noise_benchmark import DetectionResults, NoiseBenchmark, Setting
from reproduction.noise_benchmark_page import make_benchmark_page
from reproduction.run_cache import ExperimentCache


@pytest.fixture(scope="module", autouse=True)
def _fewer_folds() -> Iterator[None]:
    """What the benchmark makes of a finder's answers is looked at here, not how good they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_benchmark, "NoiseFinder", partial(NoiseFinder, folds=3))
        yield


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> NoiseBenchmark:
    clicks = prorec.make_cinema(120, 100, mistake_rate=0.0, seed=2).interactions
    store = ExperimentCache(tmp_path_factory.mktemp("bench"))
    scorers = ("NoiseFinder", "popularity", "random")
    return NoiseBenchmark(clicks, "small", store, n_seeds=2, scorers=scorers, models={"NCE": NCE(rank=8)})


def test_numbers_are_those_of_the_same_noise(bench: NoiseBenchmark) -> None:
    settings = [Setting("uniform", 0.1), Setting("uniform", 0.3)]
    results = bench.run(settings)
    split = prorec.split_by_user(bench.clicks, (0.8, 0.2), seed=1)
    noisy = prorec.inject_noise(split.train, 0.3, "uniform", seed=1)
    found = prorec.detection_metrics(popularity(noisy.interactions, 1), noisy.is_noise)
    at = results[settings[1]]
    assert at.auroc["popularity"][1] == pytest.approx(found["auroc"])
    assert at.ap["popularity"][1] == pytest.approx(found["ap"])
    assert at.finder["truth"][1] == noisy.is_noise.mean()
    assert at.reliability[1].sum(axis=0)[[0, 2]].tolist() == [len(noisy.is_noise), noisy.is_noise.sum()]
    clean = noisy.interactions.with_weights(np.where(noisy.is_noise, np.float32(0), noisy.interactions.matrix.data))
    wanted = prorec.evaluate(NCE(rank=8).fit(clean), split.test, k=10).mean["ndcg@10"]
    assert at.gains["NCE"]["clean"][1] == pytest.approx(wanted)
    assert not results[settings[0]].gains, "only at the highest level"
    page = make_benchmark_page("small", results)
    assert "| NoiseFinder | ." in page
    assert "uniform 30%: share of the loss" in page


def test_a_gap_within_error_is_withheld() -> None:
    def found(clean: list[float]) -> DetectionResults:
        gains = {"NCE": {"noisy": np.array([0.1, 0.2]), "clean": np.array(clean), "ours": np.array([0.2, 0.3])}}
        return DetectionResults(
            {"NoiseFinder": np.array([0.9, 0.9])}, {"NoiseFinder": np.array([0.5, 0.5])}, {}, np.array([]), gains
        )

    setting = Setting("uniform", 0.2)
    assert "withheld: the gap is within error" in make_benchmark_page("x", {setting: found([0.3, 0.1])})
    assert "| ours | 50% ± 0% |" in make_benchmark_page("x", {setting: found([0.3, 0.4])})


def test_who_is_behind_is_named() -> None:
    arrays = {"NoiseFinder": np.array([0.8, 0.8]), "other": np.array([0.9, 0.9]), "worse": np.array([0.5, 0.5])}
    page = make_benchmark_page(
        "x", {Setting("popularity", 0.1): DetectionResults(arrays, arrays, {}, np.array([]), {})}
    )
    assert "NoiseFinder does not have a higher AUROC, with disjoint intervals, than: other at popularity 10%." in page


def test_a_run_is_not_done_twice(bench: NoiseBenchmark, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    setting = Setting("uniform", 0.1)
    first = bench.score(setting, "random", 0)
    monkeypatch.setattr(NoiseBenchmark, "_inject_noise", lambda *_: pytest.fail("run again"))
    assert bench.score(setting, "random", 0) == first


def test_nothing_is_claimed_where_nothing_was_compared() -> None:
    one = {"NoiseFinder": np.array([0.8001]), "other": np.array([0.8])}
    setting = Setting("uniform", 0.1)
    page = make_benchmark_page("x", {setting: DetectionResults(one, one, {}, np.array([]), {})})
    assert "One split is not enough" in page
    assert "±  |" not in page
    assert "± .000" not in page
    assert "above" not in make_benchmark_page(
        "x", {Setting("uniform", 0.0): DetectionResults({}, {}, {}, np.array([]), {})}
    )
    others = {"other": np.array([0.8, 0.9])}
    assert "NoiseFinder was not run." in make_benchmark_page(
        "x", {setting: DetectionResults(others, others, {}, np.array([]), {})}
    )
