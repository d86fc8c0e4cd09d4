"""Rounds: convergence, recorded losses, the last fit, warm starts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from prorec import InputError, ProRec
from prorec.models import NCE, WRMF, Popularity
from tests.models.helpers import clicks


def test_relabeling_from_current_weights_ends_at_zero_and_from_original_weights_converges() -> None:
    data = clicks()
    compounding = ProRec(NCE(rank=3), rounds=60, gamma=0.2, noise_method="plan").fit(data)
    anchored = ProRec(NCE(rank=3), rounds=60, gamma=0.2, relabel_from="original", noise_method="plan").fit(data)
    assert compounding.history_[-1].mass_kept < 1e-3
    assert anchored.history_[-1].mass_kept > 0.2
    assert anchored.converged_
    assert anchored.history_[-1].change <= 0.01 < anchored.history_[-2].change
    assert len(anchored.history_) < 61


def test_each_round_starts_with_the_loss_of_the_last() -> None:
    history = ProRec(WRMF(rank=3), rounds=3, noise_method="plan").fit(clicks(), track_loss=True).history_
    assert [each.number for each in history] == [0, 1, 2, 3]
    assert history[0].loss_before is None
    assert history[0].relabeling_decreased is None
    for before, after in pairwise(history):
        assert after.loss_before == before.loss_refitted
        assert after.mass_kept <= before.mass_kept
    assert all(each.fit_seconds > 0 for each in history)


def test_an_increase_of_the_loss_is_recorded() -> None:
    """Proposition 2 is for models that minimise L; popularity does not."""
    history = ProRec(Popularity(), rounds=1, noise_method="plan").fit(clicks(), track_loss=True).history_
    assert history[1].relabeling_decreased is False


def test_fit_without_refit_has_weights_and_no_model(tmp_path: Path) -> None:
    data = clicks()
    whole = ProRec(NCE(rank=3), rounds=2, noise_method="plan").fit(data, track_loss=True)
    alone = ProRec(NCE(rank=3), rounds=2, noise_method="plan").fit(data, refit=False, track_loss=True)
    assert alone.noise_table().equals(whole.noise_table())
    assert alone.history_[1].loss_refitted == whole.history_[1].loss_refitted
    assert alone.history_[2].loss_refitted is None
    assert alone.history_[2].refitting_decreased is None
    needs_model = (
        lambda: alone.recommend(data.users),
        lambda: alone.explain(data.users[0]),
        lambda: alone.save(tmp_path),
        lambda: alone.scores_,
    )
    for use in needs_model:
        with pytest.raises(InputError, match="no model for the final weights"):
            use()


def test_warm_start_continues_from_the_last_model() -> None:
    data = clicks()
    cold = ProRec(WRMF(rank=3, sweeps=1, regularization=1.0), noise_method="plan").fit(data, track_loss=True)
    warm = ProRec(WRMF(rank=3, sweeps=1, regularization=1.0), warm_start=True, noise_method="plan").fit(
        data, track_loss=True
    )
    np.testing.assert_array_equal(cold.weights_.data, warm.weights_.data)
    warm_loss, cold_loss = (each.history_[-1].loss_refitted for each in (warm, cold))
    assert warm_loss is not None
    assert cold_loss is not None
    assert warm_loss.error < cold_loss.error
    first, second = (
        ProRec(NCE(rank=3), warm_start=warm_start, noise_method="plan").fit(data) for warm_start in (True, False)
    )
    np.testing.assert_array_equal(first.model_.arrays_["users"], second.model_.arrays_["users"])
