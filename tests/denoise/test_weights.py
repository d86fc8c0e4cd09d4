"""Weights of ProRec against Algorithm 1 written out in dense arrays."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import ot
import pytest
import torch
from implicit.cpu.als import AlternatingLeastSquares
from scipy.sparse import csr_array
from scipy.special import expit

from prorec import InputError, Interactions, ProRec
from prorec.models import BPR, CDAE, EASE, NCE, SVD, VAE, WRMF, LightGCN, Model, Popularity, SparseLinear
from tests.models.helpers import all_scores, clicks, make_small

torch.set_num_threads(1)


def dense_scores(model: Model) -> np.ndarray:
    return expit(all_scores(model)) if getattr(model.scores_, "link", "identity") == "sigmoid" else all_scores(model)


def dense_plan(scores: np.ndarray, p: np.ndarray, q: np.ndarray, gamma: float, transport: str) -> np.ndarray:
    """Return the plan with all pairs in memory, by POT where it has the solver."""
    if transport == "relaxed":
        kernel = np.exp(scores / gamma)
        by_items, by_users = kernel * (p / kernel.sum(axis=0)), kernel * (q / kernel.sum(axis=1))[:, None]
        return np.asarray(np.maximum(by_items, by_users))
    if transport == "sinkhorn":
        return np.asarray(ot.bregman.sinkhorn_log(q, p, -scores, gamma, numItermax=20_000, stopThr=1e-10))
    return np.asarray(ot.emd(q, p, -scores - (-scores).min()))


def dense_thresholds(shares: np.ndarray, threshold: Any) -> np.ndarray:
    """Return ρ_κ of each row, by trying every split (Eq. 20)."""
    values = []
    for row in shares:
        ordered = np.sort(row)[::-1]
        if threshold == "none":
            values.append(0.0)
        elif threshold == "personal":
            errors = [
                len(a) * a.var() + len(b) * b.var()
                for a, b in ((ordered[:eta], ordered[eta:]) for eta in range(1, len(ordered)))
            ]
            values.append(ordered[int(np.argmin(np.round(errors, 14)))])
        else:
            values.append(ordered[threshold - 1])
    return np.array(values)


def dense_weights(model: Model, data: Interactions, **parameters: Any) -> np.ndarray:
    """Return the weights after all rounds, computed with all user–item pairs in memory."""
    x = original = data.matrix.toarray().astype(float)
    p, q = x.sum(axis=0) / x.sum(), x.sum(axis=1) / x.sum()
    if parameters["marginals"] == "uniform":
        p, q = np.full_like(p, 1 / len(p)), np.full_like(q, 1 / len(q))
    for _ in range(parameters["rounds"]):
        fitted = type(model)(**model.get_params(deep=False)).fit(data.with_weights(x[original > 0]))
        plan = dense_plan(dense_scores(fitted), p, q, parameters["gamma"], parameters["transport"])
        shares = plan / np.maximum(plan.sum(axis=1, keepdims=True), 1e-300)
        r = expit(parameters["beta"] * (shares - dense_thresholds(shares, parameters["threshold"])[:, None]))
        x = parameters["lam"] * x + (1 - parameters["lam"]) * r * (
            original if parameters["relabel_from"] == "original" else x
        )
    return np.asarray(x[original > 0])


DEFAULTS: dict[str, Any] = {
    "transport": "relaxed",
    "threshold": "personal",
    "gamma": 0.2,
    "beta": 20.0,
    "lam": 0.5,
    "rounds": 2,
    "relabel_from": "current",
    "marginals": "popularity",
}


def active_clicks() -> Interactions:
    return clicks().drop_empty()


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"relabel_from": "original", "rounds": 3},
        {"transport": "sinkhorn"},
        {"transport": "emd", "rounds": 1},
        {"threshold": 4},
        {"threshold": "none"},
        {"marginals": "uniform"},
        {"gamma": 0.05, "beta": 5.0, "lam": 0.25},
        {"lam": 1.0},
    ],
    ids=str,
)
def test_weights_equal_the_dense_reference(change: dict[str, Any]) -> None:
    data, parameters = active_clicks(), DEFAULTS | change
    model = SVD(rank=3)
    denoiser = ProRec(model, **parameters, noise_method="plan").fit(data)
    np.testing.assert_allclose(denoiser.weights_.data, dense_weights(model, data, **parameters), atol=2e-4)


@pytest.mark.parametrize("kind", [NCE, WRMF, EASE, SparseLinear, Popularity, BPR, LightGCN, CDAE, VAE])
def test_weights_of_every_model_equal_the_dense_reference(kind: type[Model]) -> None:
    data = active_clicks()
    model = make_small(kind)
    # Popularity's scores are counts, a network's are logits or probabilities: γ goes with them.
    gamma = 10.0 if kind is Popularity else 1.0 if kind in (VAE, BPR, LightGCN) else 0.2
    parameters = DEFAULTS | {"gamma": gamma, "rounds": 1}
    denoiser = ProRec(model, **parameters, noise_method="plan").fit(data)
    np.testing.assert_allclose(denoiser.weights_.data, dense_weights(model, data, **parameters), atol=2e-4)
    assert denoiser.recommend(data.users[:2], k=3).item_positions.shape == (2, 3)


def test_third_party_model() -> None:
    data = active_clicks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about threads of BLAS
        als = AlternatingLeastSquares(4, iterations=3, random_state=0, num_threads=1)
    first, second = (ProRec(als, rounds=2, noise_method="plan").fit(data) for _ in range(2))
    np.testing.assert_allclose(first.weights_.data, second.weights_.data, atol=1e-5)
    assert als.user_factors is None, "the model that was given stays as it is"
    assert first.model_.fitted_.user_factors.shape == (data.n_users, 4)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="cannot be saved here"):
        first.save("nowhere")


def test_fit_does_not_change_the_model_passed() -> None:
    model = NCE(rank=3)
    ProRec(model, noise_method="plan").fit(clicks())
    assert not hasattr(model, "arrays_")


def test_vanishing_weights_stay_finite() -> None:
    tiny = clicks().with_weights(np.full(len(clicks()), 1e-45))
    for model in (Popularity(), SVD(rank=3), NCE(rank=3)):
        denoiser = ProRec(model, rounds=3, noise_method="plan").fit(tiny)
        assert np.isfinite(denoiser.weights_.data).all()
        assert np.isfinite(denoiser.noise_probability_).all()


def test_users_and_items_without_interactions() -> None:
    data = clicks()
    denoiser = ProRec(NCE(rank=3), noise_method="plan").fit(data)
    assert np.isfinite(denoiser.weights_.data).all()
    assert denoiser.recommend(data.users[-1:], k=3).item_positions.shape == (1, 3)


@pytest.mark.parametrize("transport", ["relaxed", "sinkhorn"])
@pytest.mark.parametrize("beta", [1e6, 1e9])
def test_a_steep_step_does_not_depend_on_the_size_of_blocks(beta: float, transport: Any) -> None:
    """Rounding that differs between blocks decides on which side of the threshold equal items are."""
    data = clicks().matrix.toarray()
    matrix = csr_array(np.hstack([data, data[:, :15]]))  # half of the items have a twin
    denoiser = ProRec(WRMF(rank=4), beta=beta, transport=transport, noise_method="plan")
    expected = denoiser.fit(matrix, refit=False).weights_.data
    for memory in (96.0 * 45, 300.0 * 45, 900.0 * 45):  # from one user in a block on
        weights = denoiser.set_params(memory=memory).fit(matrix, refit=False).weights_.data
        np.testing.assert_allclose(weights, expected, atol=1e-6)
