"""Checkpoints of cross-fitting: an interrupted run continues from its finished folds, and gives the same bits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import prorec
from prorec import DamagedFileError, InputError, NoiseFinder, ProRec
from prorec.models import WRMF, Model
from tests.attack.test_checkpoints import change_checkpoint

FOLDS = 3


def make_denoiser(**settings: Any) -> ProRec:
    return ProRec(WRMF(rank=3, sweeps=1), **{"noise_method": NoiseFinder(folds=FOLDS), "weighting": "both", **settings})


def interrupt_at(task: str, step: int) -> Callable[[str, int, int], None]:
    def progress(name: str, done: int, total: int) -> None:
        if (name, done) == (task, step):
            raise KeyboardInterrupt

    return progress


@pytest.fixture(scope="module")
def log() -> prorec.Interactions:
    return prorec.make_cinema(60, 50, seed=1).interactions


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of interactions of each fit of a WRMF."""
    sizes: list[int] = []
    fit = WRMF.fit

    def count(model: Model, interactions: Any, **options: Any) -> Model:
        sizes.append(interactions.nnz if hasattr(interactions, "nnz") else len(interactions))
        return fit(model, interactions, **options)

    monkeypatch.setattr(WRMF, "fit", count)
    return sizes


@pytest.mark.parametrize(
    ("task", "step"),
    [("Cross-fitting the base models", 2), ("Separating clicks from negatives", 0), ("Cross-fitting the model", 1)],
)
def test_finished_folds_are_not_fitted_again(
    task: str, step: int, log: prorec.Interactions, fits: list[int], tmp_path: Path
) -> None:
    expected = make_denoiser().fit(log)
    n_fits = len(fits)
    with pytest.raises(KeyboardInterrupt):
        make_denoiser().fit(log, checkpoint=tmp_path, progress=interrupt_at(task, step))
    n_stored = len([*tmp_path.glob("fold-*.npz")])
    assert n_stored == {"Cross-fitting the base models": 2, "Separating clicks from negatives": 3}.get(task, 4)
    fits.clear()
    resumed = make_denoiser().fit(log, checkpoint=tmp_path)
    assert len(fits) == n_fits - n_stored
    for name in ("noise_probability_", "flagged_"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(expected, name), strict=True)
    np.testing.assert_array_equal(resumed.weights_.data, expected.weights_.data, strict=True)
    np.testing.assert_array_equal(resumed.finder_.percentile_rank_, expected.finder_.percentile_rank_, strict=True)
    assert resumed.finder_.noise_rate_ == expected.finder_.noise_rate_


def test_folds_of_another_run_are_refused(log: prorec.Interactions, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        make_denoiser().fit(log, checkpoint=tmp_path, progress=interrupt_at("Cross-fitting the base models", 2))
    others = log.select(np.arange(len(log)) > 0)
    times = prorec.Interactions(log.matrix, log.users, log.items, columns={"timestamp": np.arange(len(log))})
    runs = [
        (make_denoiser(), others),
        (make_denoiser(), times),
        (make_denoiser(noise_method=NoiseFinder(folds=FOLDS, seed=1)), log),
        (make_denoiser(noise_method=NoiseFinder("svd", folds=FOLDS)), log),
        (make_denoiser(lam=0.3), log),
    ]
    for denoiser, interactions in runs:
        with pytest.raises(InputError, match=r"fold-scores-0\.npz: .*checkpoint of other parameters"):
            denoiser.fit(interactions, checkpoint=tmp_path)
    with pytest.raises(InputError, match=r"fold-scores-0\.npz: .*checkpoint of other parameters"):
        make_denoiser().fit(log, checkpoint=tmp_path, trusted=np.arange(len(log)) == 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.update(percentile_ranks=np.ones_like(arrays["percentile_ranks"])),
        lambda arrays: arrays.update(percentile_ranks=arrays["percentile_ranks"] * 0),
        lambda arrays: arrays.update(plan_values=arrays["plan_values"] * np.nan),
        lambda arrays: arrays.update(plan_values=arrays["plan_values"][:, 1:]),
        lambda arrays: arrays.update(popularity=arrays["popularity"] - 1000),
        lambda arrays: arrays.update(is_cold=arrays["is_cold"].astype(np.int8)),
        lambda arrays: arrays.pop("is_cold"),
        lambda arrays: arrays.update(more=arrays["is_cold"]),
    ],
)
def test_changed_folds_are_refused(
    change: Callable[[dict[str, Any]], Any], log: prorec.Interactions, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        make_denoiser().fit(log, checkpoint=tmp_path, progress=interrupt_at("Cross-fitting the base models", 1))
    change_checkpoint(tmp_path / "fold-scores-0.npz", lambda _, arrays: change(arrays))
    with pytest.raises(DamagedFileError, match=r"fold-scores-0\.npz: .*damaged.*; remove it to start anew"):
        make_denoiser().fit(log, checkpoint=tmp_path)
