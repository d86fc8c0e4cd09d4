"""The loss L(X, U, V) against its definition, pair by pair."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from prorec.denoise.loss import ModelLoss
from prorec.models import BPR, CDAE, EASE, NCE, SVD, VAE, WRMF, LightGCN, Model, SparseLinear
from tests.models.helpers import all_scores, clicks, make_matrix, make_small

torch.set_num_threads(1)


@pytest.mark.parametrize("kind", [SVD, NCE, WRMF, EASE, SparseLinear, BPR, LightGCN, CDAE, VAE])
def test_loss_equals_the_dense_reference(kind: type[Model]) -> None:
    data = clicks()
    model = make_small(kind).fit(data)
    weights = np.random.default_rng(0).random(len(data)).astype(np.float32)
    x = data.with_weights(weights).matrix.toarray().astype(float)
    s = all_scores(model)
    if kind is CDAE:
        y = 1 / (1 + np.exp(-s))
        error = -(x * np.log(y) + (1 - x) * np.log(1 - y)).sum()
    elif kind in (VAE, BPR, LightGCN):
        error = -(x * log_softmax(s, axis=1)).sum()
    else:
        error = ((x - s) ** 2).sum()
    got = ModelLoss(model, data.matrix)(weights)
    assert got.error == pytest.approx(error, rel=1e-4)
    learned = {name: np.square(array.astype(float)).sum() for name, array in model.arrays_.items()}
    penalty = {
        SVD: 0.0,
        BPR: 0.0,
        LightGCN: 0.0,
        SparseLinear: 10.0 * learned.get("item_weights", 0),
        EASE: 250.0 * learned.get("item_weights", 0),
        NCE: 1.0 * learned.get("items", 0),
        WRMF: 1.0 * (learned.get("users", 0) + learned.get("items", 0)),
    }
    # A network's loss is a mean over users, ours a sum; one of the sixty has nothing.
    kept = {name: value for name, value in learned.items() if name not in ("users", "new_user_vector", "mean_bias")}
    of_network = 59 * 1e-5 * sum(value for name, value in kept.items() if name not in ("encoder_bias", "decoder_bias"))
    if kind is CDAE:
        of_network += 59 * 1e-5 * learned["encoder_bias"]
    assert got.penalty == pytest.approx(penalty.get(kind, of_network), rel=1e-5)
    assert got.total == got.error + got.penalty


def test_the_penalty_of_ease_with_fewer_users_than_items() -> None:
    matrix = make_matrix(20, 50)
    model = EASE(3.0).fit(matrix)
    b = model.similarities_(np.arange(50)).astype(np.float64)
    assert np.abs(b).max() > 0.01
    assert ModelLoss(model, matrix)(matrix.data).penalty == pytest.approx(3 * (b**2).sum(), rel=1e-5)


def test_the_items_of_nce_minimize_the_loss() -> None:
    """With U fixed no other V has a smaller L, so the penalty is the right one, and on V."""
    data = clicks()
    model = make_small(NCE).fit(data)
    best = ModelLoss(model, data.matrix)(data.matrix.data).total
    rng = np.random.default_rng(1)
    for _ in range(5):
        other = make_small(NCE).fit(data)
        other.arrays_["items"] = model.arrays_["items"] + 0.01 * rng.standard_normal(
            model.arrays_["items"].shape
        ).astype(np.float32)
        assert ModelLoss(other, data.matrix)(data.matrix.data).total > best


def test_the_sum_over_all_pairs_is_the_same_on_a_torch_device(monkeypatch: pytest.MonkeyPatch) -> None:
    data = clicks()
    model = make_small(CDAE).fit(data)
    on_cpu = ModelLoss(model, data.matrix)(data.matrix.data)
    monkeypatch.setattr("prorec.denoise.loss.resolve_device", lambda *_: torch.device("cpu"))
    on_device = ModelLoss(model, data.matrix)(data.matrix.data)
    assert on_device.error == pytest.approx(on_cpu.error, rel=1e-6)
