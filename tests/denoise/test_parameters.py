"""Parameters and data: tuning, and what is refused before the first fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import prorec
from prorec import InputError, Interactions, NotFittedError, ProRec
from prorec.models import NCE
from tests.models.helpers import clicks


def test_tune_own_and_inner_parameters() -> None:
    parts = prorec.split_by_user(prorec.make_cinema(300, 200, seed=2).interactions, (0.5, 0.2, 0.3))
    grid: dict[str, list[Any]] = {"lam": [0.5, 1.0], "gamma": [0.1, "auto"], "model__rank": [4, 8]}
    tuned = prorec.tune(ProRec(NCE(rank=20), noise_method="plan"), parts.train, parts.valid, grid)
    assert len(tuned.trials) == 8
    best = max(tuned.trials, key=lambda trial: trial["value"] or 0.0)["parameters"]
    assert isinstance(tuned.best_model, ProRec)
    assert (tuned.best_model.lam, tuned.best_model.gamma, tuned.best_model.model.rank) == tuple(best.values())
    by_hand = ProRec(NCE(rank=best["model__rank"]), lam=best["lam"], gamma=best["gamma"], noise_method="plan").fit(
        parts.train
    )
    assert prorec.evaluate(by_hand, parts.valid, k=10).mean["ndcg@10"] == pytest.approx(tuned.best_value)
    with pytest.raises(InputError, match=r"parameters of ProRec: .*model__rank, .*; got 'model__ranks'"):
        prorec.tune(ProRec(NCE(), noise_method="plan"), parts.train, parts.valid, {"model__ranks": [4]})


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"transport": "teleport"}, "transport must be one of 'relaxed', 'sinkhorn', 'emd', got 'teleport'"),
        ({"threshold": "best"}, r"threshold must be .* got 'best'"),
        ({"threshold": 0}, r"threshold must be .* got 0"),
        ({"threshold": True}, r"threshold must be .* got True"),
        ({"threshold": 2.5}, r"threshold must be .* got 2.5"),
        ({"gamma": 0}, "gamma must be above 0, or 'auto'; got 0"),
        ({"gamma": "large"}, "gamma must be a number above 0, 'auto', or like '0.5 auto'; got 'large'"),
        ({"gamma": float("nan")}, "gamma must be a finite number; got nan"),
        ({"beta": -1}, "beta must be a finite number of at least 0; got -1"),
        ({"lam": 1.5}, "lam must be a finite number from 0 to 1; got 1.5"),
        ({"rounds": 0}, "rounds must be a whole number of at least 1; got 0"),
        ({"tolerance": -1}, "tolerance must be"),
        ({"flag_fraction": 1.1}, "flag_fraction must be a finite number from 0 to 1; got 1.1"),
        ({"relabel_from": "start"}, "relabel_from must be one of .*got 'start'"),
        ({"marginals": "equal"}, "marginals must be one of"),
        ({"memory": 10}, "memory must be at least"),
        ({"model": object()}, "model must have a fit method"),
        ({"model": NCE}, r"got the class NCE"),
        ({"model": ProRec(NCE(rank=3), noise_method="plan")}, "model must be a recommender"),
        ({"model": NCE(rank=1000)}, "rank must be a whole number from 1 to the smaller side"),
    ],
)
def test_parameters_are_checked_before_the_first_fit(given: dict[str, Any], problem: str) -> None:
    calls: list[Any] = []
    with pytest.raises(InputError, match=problem):
        ProRec(**({"model": NCE(rank=3)} | given), noise_method="plan").fit(
            clicks(), progress=lambda *what: calls.append(what)
        )
    assert not calls, "before the first fit"


def test_data_that_cannot_be_denoised() -> None:
    with pytest.raises(InputError, match="every user has one interaction only"):
        ProRec(NCE(rank=2), noise_method="plan").fit(csr_array(np.eye(5)))
    with pytest.raises(InputError, match="no interaction to learn from"):
        ProRec(NCE(rank=2), noise_method="plan").fit(
            Interactions.from_matrix(csr_array(np.eye(5))).with_weights(np.zeros(5))
        )
    with pytest.raises(InputError, match="weights must be from 0 to 1"):
        ProRec(NCE(rank=2), noise_method="plan").fit(csr_array(2 * np.ones((5, 5))))
    with pytest.raises(InputError, match="Interactions, a data frame or a sparse matrix"):
        ProRec(NCE(rank=2), noise_method="plan").fit("clicks.csv")
    for wrong in (3, "x"):
        with pytest.raises(InputError, match="progress must be a function"):
            ProRec(NCE(rank=3), noise_method="plan").fit(clicks(), progress=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a path must be text or a Path"):
        ProRec(NCE(rank=3), noise_method="plan").fit(clicks(), checkpoint=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a path must be text or a Path"):
        prorec.load(None)  # type: ignore[arg-type]
    large = Interactions.from_matrix(csr_array((np.ones(4), ([0, 0, 1, 1], [0, 1, 0, 1])), shape=(40_000, 40_000)))
    with pytest.raises(InputError, match="for the exact plan of 40,000 × 40,000"):
        ProRec(NCE(rank=2), transport="emd", noise_method="plan").fit(large)


def test_results_before_fit() -> None:
    denoiser = ProRec(NCE(), noise_method="plan")
    for ask in (
        lambda: denoiser.noise_table(),
        lambda: denoiser.explain(1),
        lambda: denoiser.recommend([1]),
        lambda: denoiser.thresholds_,
        lambda: denoiser.gamma_,
        lambda: denoiser.save("nowhere"),
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ask()
