"""CDAE and VAE: their losses against plain formulas, early stopping, checkpoints."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import prorec
from prorec import InputError, MissingExtraError
from prorec.models import CDAE, VAE, _training
from prorec.models._batches import Batch, BatchMaker
from prorec.models.autoencoder import Loss
from tests.models.helpers import clicks

QUICK: dict[str, Any] = {"epochs": 12, "batch_size": 20, "learning_rate": 0.01}


def make_batch(corruption: float = 0.0) -> tuple[NDArray[np.float64], Batch]:
    """Return weights of ten users as a dense matrix, and as a batch."""
    data = clicks().with_weights(np.random.default_rng(0).choice([0.25, 0.5, 1.0], clicks().matrix.nnz))
    rows = np.arange(10)
    maker = BatchMaker(data.matrix, torch.device("cpu"), corruption, is_normalized=False, draws_on_device=False)
    batch = maker.make(rows, np.random.default_rng(0))
    return data.matrix[rows].toarray().astype(np.float64), batch


def mean_loss(model: CDAE | VAE, scores: NDArray[np.float64], batch: Batch, epoch: int = 0) -> float:
    """Return the loss of given scores, as a mean over the ten users."""
    network = _training.Network({}, lambda: None, is_multinomial=isinstance(model, VAE))
    return float(_training._sum_loss(model, network, torch.from_numpy(scores.astype(np.float32)), batch, epoch)) / 10


def test_cross_entropy_of_weights() -> None:
    weights, batch = make_batch()
    scores = np.random.default_rng(1).normal(size=weights.shape)
    yes = 1 / (1 + np.exp(-scores))
    terms = -weights * np.log(yes) - (1 - weights) * np.log(1 - yes)
    assert mean_loss(CDAE(), scores, batch) == pytest.approx(terms.sum() / 10, rel=1e-4)
    sure = -weights * yes**0.25 * np.log(yes) - (1 - weights) * (1 - yes) ** 0.25 * np.log(1 - yes)
    assert mean_loss(CDAE(loss="r-ce"), scores, batch) == pytest.approx(sure.sum() / 10, rel=1e-4)


def test_multinomial_cross_entropy_of_weights() -> None:
    weights, batch = make_batch()
    scores = np.random.default_rng(1).normal(size=weights.shape)
    choice = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    assert mean_loss(VAE(), scores, batch) == pytest.approx(-(weights * np.log(choice)).sum() / 10, rel=1e-4)
    sure = -(choice**0.25 * weights * np.log(choice)).sum() / 10
    assert mean_loss(VAE(loss="r-ce"), scores, batch) == pytest.approx(sure, rel=1e-4)


def test_truncation_leaves_the_worst_positives_out() -> None:
    weights, batch = make_batch()
    scores = np.random.default_rng(1).normal(size=weights.shape)
    yes = 1 / (1 + np.exp(-scores))
    positive = np.sort((-weights * np.log(yes))[weights > 0])
    negative = (-(1 - weights) * np.log(1 - yes)).sum()
    model = CDAE(loss="t-ce", drop_rate=0.3, drop_epochs=10)
    for epoch, rate in ((0, 0.0), (5, 0.15), (10, 0.3), (40, 0.3)):
        kept = positive[: len(positive) - int(rate * len(positive))]
        assert mean_loss(model, scores, batch, epoch) == pytest.approx((kept.sum() + negative) / 10, rel=1e-4)


def test_sparse_products_and_their_gradient() -> None:
    weights, batch = make_batch(corruption=0.4)
    dense = torch.zeros(weights.shape, dtype=torch.float64)
    assert batch.inputs is not None
    dense[batch.rows, batch.items] = batch.inputs.double()
    kept = dense.numpy() != 0
    np.testing.assert_allclose(dense.numpy()[kept], (weights / 0.6)[kept], rtol=1e-6)
    assert 0.3 < 1 - kept.sum() / (weights > 0).sum() < 0.5
    parameters = torch.randn(30, 4, requires_grad=True)
    (batch.times(parameters) ** 2).sum().backward()  # type: ignore[no-untyped-call]
    plain = parameters.detach().double().requires_grad_()
    ((dense @ plain) ** 2).sum().backward()  # type: ignore[no-untyped-call]
    assert parameters.grad is not None
    assert plain.grad is not None
    torch.testing.assert_close(parameters.grad.double(), plain.grad, rtol=1e-4, atol=1e-4)


def test_gradients_of_our_own_are_right() -> None:
    weights, batch = make_batch()
    scores = torch.randn(weights.shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(batch.pick, scores)
    assert torch.autograd.gradcheck(lambda each: batch.repeat(each.sum(dim=1)), scores)


@pytest.mark.parametrize("loss", ["ce", "t-ce", "r-ce"])
@pytest.mark.parametrize("model", [CDAE(8, **QUICK), VAE(8, 16, **QUICK), VAE(8, None, **QUICK)])
def test_every_loss_learns_taste(model: CDAE | VAE, loss: Loss) -> None:
    model = dataclasses.replace(model, loss=loss, epochs=40, drop_rate=0.1).fit(clicks())
    losses = [epoch["loss"] for epoch in model.history_]
    assert len(losses) == 40
    if loss == "ce":  # the other losses reweight their terms in every epoch
        assert losses[-1] < losses[0]
    ranked = model.recommend(clicks().users[:-1], k=3).item_positions
    assert np.mean(ranked % 2 == np.arange(59)[:, None] % 2) > 0.8


@pytest.mark.parametrize("model_class", [CDAE, VAE])
def test_a_resumed_training_gives_the_same_model(model_class: type[Any], tmp_path: Path) -> None:
    parts = prorec.split_by_user(clicks(), (0.7, 0.3), seed=0)
    uninterrupted = model_class(8, **QUICK).fit(parts.train, validation=parts.test)
    epochs = []

    def stop(*_: object, **__: object) -> None:
        epochs.append(1)
        if len(epochs) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model_class(8, **QUICK).fit(parts.train, validation=parts.test, checkpoint=tmp_path, progress=stop)
    resumed = model_class(8, **QUICK).fit(parts.train, validation=parts.test, checkpoint=tmp_path)
    assert resumed.history_ == uninterrupted.history_
    for name, array in uninterrupted.arrays_.items():
        np.testing.assert_array_equal(resumed.arrays_[name], array)
    with pytest.raises(InputError, match="a checkpoint of other parameters or other interactions"):
        model_class(9, **QUICK).fit(parts.train, checkpoint=tmp_path)


def test_checkpoints_of_others_are_refused(tmp_path: Path) -> None:
    data = clicks()
    CDAE(4, epochs=2).fit(data, checkpoint=tmp_path)
    reversed_users = prorec.Interactions.from_matrix(data.matrix[::-1], users=data.users, items=data.items)
    with pytest.raises(InputError, match="a checkpoint of other parameters or other interactions"):
        CDAE(4, epochs=2).fit(reversed_users, checkpoint=tmp_path)
    with pytest.raises(InputError, match="a checkpoint of other parameters or other interactions"):
        CDAE(4, epochs=2).fit(data, validation=data, checkpoint=tmp_path)
    path = tmp_path / "training.npz"
    for content in (path.read_bytes()[:200], b"", b"junk"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"this checkpoint is damaged.*remove it"):
            CDAE(4, epochs=2).fit(data, checkpoint=tmp_path)


def test_validation_of_other_users_is_refused() -> None:
    data = clicks()
    with pytest.raises(InputError, match="validation must be Interactions; got csr_array"):
        CDAE(4, epochs=2).fit(data, validation=data.matrix)
    with pytest.raises(InputError, match="validation must have the users and items"):
        CDAE(4, epochs=2).fit(data, validation=prorec.Interactions.from_matrix(data.matrix))


def test_early_stopping_keeps_the_best() -> None:
    parts = prorec.split_by_user(clicks(), (0.7, 0.3), seed=0)
    model = CDAE(8, epochs=200, batch_size=20, learning_rate=0.05, patience=3)
    model.fit(parts.train, validation=parts.test)
    ndcg = [epoch["ndcg@10"] for epoch in model.history_]
    assert len(ndcg) == int(np.argmax(ndcg)) + 1 + 3 < 200
    got = prorec.evaluate(model, parts.test, k=10).mean["ndcg@10"]
    assert got == pytest.approx(
        max(ndcg), abs=0.02
    )  # `recommend` gives popular items to users without interactions, training does not


def test_reports_progress() -> None:
    calls: list[tuple[str, int, int]] = []
    CDAE(4, epochs=2).fit(clicks(), progress=lambda *call: calls.append(call))
    assert calls == [("Training CDAE", 1, 2), ("Training CDAE", 2, 2)]
    with pytest.raises(InputError, match="progress must be a function"):
        CDAE(4, epochs=2).fit(clicks(), progress=3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"corruption": 1}, "corruption must be below 1"),
        ({"corruption": -0.1}, "corruption must be a finite number from 0 to 1"),
        ({"regularization": -1}, "regularization must be"),
        ({"epochs": 0}, "epochs must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"learning_rate": 0}, "learning_rate must be above 0"),
        ({"loss": "mse"}, "loss must be one of 'ce', 't-ce', 'r-ce', got 'mse'"),
        ({"drop_rate": 2}, "drop_rate must be"),
        ({"device": "abacus"}, "device must be 'auto', 'cpu' or 'cuda'; 'abacus' cannot be used"),
        ({"rank": 0}, "rank must be"),
        ({"learning_rate": 1e30}, "not in epoch .*smaller learning_rate"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CDAE(**{"epochs": 3, **parameters}).fit(clicks())


def test_validation_without_interactions() -> None:
    data = clicks()
    with pytest.raises(InputError, match="validation must have interactions"):
        CDAE(4, epochs=2).fit(data, validation=data.select(np.zeros(data.matrix.nnz, dtype=bool)))


def test_training_needs_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "prorec.models._training")
    monkeypatch.delattr(prorec.models, "_training")
    with pytest.raises(MissingExtraError, match=r"need PyTorch, which is not installed: pip install 'torch>="):
        CDAE(4).fit(clicks())


def test_training_restores_the_global_generator() -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    VAE(rank=4, hidden=None, **QUICK).fit(clicks())
    assert torch.equal(torch.random.get_rng_state(), before)
