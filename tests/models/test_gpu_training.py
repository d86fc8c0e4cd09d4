"""Training of CDAE and VAE with batches from a device, and with scores in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec import InputError
from prorec.models import CDAE, VAE, _training
from prorec.models._batches import Batch, BatchMaker
from prorec.models._cpu_matrix import normalize_rows
from tests.models.helpers import clicks, make_unusual_matrix


def _to_dense(batch: Batch, values: torch.Tensor | None, n_items: int) -> NDArray[Any]:
    assert values is not None
    rows, items = batch.rows.cpu().numpy(), batch.items.cpu().numpy()
    dense = csr_array((values.cpu().numpy(), (rows, items)), shape=(len(batch.users), n_items)).toarray()
    return np.asarray(dense)


@pytest.mark.parametrize("draws_on_device", [True, False])
@pytest.mark.parametrize("name", ["long rows", "zero weights"])
def test_batches_are_rows_of_the_matrix(device: torch.device, name: str, draws_on_device: bool) -> None:
    matrix = make_unusual_matrix(name)
    rows, rng = np.array([0, 4, 7, 30, 59]), np.random.default_rng(0)
    options = {"draws_on_device": draws_on_device}
    for inputs, is_normalized in ((matrix, False), (normalize_rows(matrix), True)):
        batch = BatchMaker(matrix, device, 0.0, is_normalized=is_normalized, **options).make(rows, rng)
        assert batch.users.tolist() == rows.tolist()
        np.testing.assert_array_equal(batch.bounds, matrix[rows].indptr)
        assert batch.starts.tolist() == batch.bounds[:-1].tolist()
        np.testing.assert_array_equal(_to_dense(batch, batch.weights, 50), matrix[rows].toarray())
        np.testing.assert_allclose(_to_dense(batch, batch.inputs, 50), inputs[rows].toarray(), rtol=1e-6)
        assert batch.transposed is not None
        by_item = csr_array(inputs[rows].T)
        for ours, expected in zip(batch.transposed, (by_item.indices, by_item.indptr[:-1], by_item.data), strict=True):
            np.testing.assert_allclose(ours.cpu(), expected, rtol=1e-6)
    torch.manual_seed(0)
    ones = csr_array((np.ones_like(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)
    values = BatchMaker(ones, device, 0.25, is_normalized=False, **options).make(np.arange(60), rng).inputs
    assert values is not None
    np.testing.assert_allclose(np.unique(values.cpu()), [0, 4 / 3], rtol=1e-6)
    assert float((values == 0).float().mean()) == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize("model_class", [CDAE, VAE])
def test_training_with_draws_on_the_device(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, model_class: type[Any]
) -> None:
    data = clicks()
    parameters: dict[str, Any] = {"rank": 8, "epochs": 4, "batch_size": 16, "corruption": 0.0}
    expected = model_class(**parameters, device="cpu").fit(data, validation=data)
    monkeypatch.setattr(_training, "_is_gpu", lambda _: True)
    first, second = (model_class(**parameters).fit(data, validation=data) for _ in range(2))
    for name, array in first.arrays_.items():
        np.testing.assert_array_equal(second.arrays_[name], array)
        if model_class is CDAE:  # the VAE also draws from its latent distribution, after the batch
            reference = expected.arrays_[name]
            np.testing.assert_allclose(array, reference, atol=1e-3 * np.abs(reference).max())
            assert first.history_[0]["ndcg@10"] == pytest.approx(expected.history_[0]["ndcg@10"], rel=0.05)
    assert first.history_[-1]["loss"] < first.history_[0]["loss"]


@pytest.mark.parametrize("loss", ["ce", "t-ce", "r-ce"])
@pytest.mark.parametrize("model_class", [CDAE, VAE])
@pytest.mark.parametrize("n_users", [1, 7])
def test_scores_in_parts_give_the_same_model(
    device: torch.device, monkeypatch: pytest.MonkeyPatch, model_class: type[Any], loss: str, n_users: int
) -> None:
    """There are 30 items, batches of 16 users, and memory for the scores of `n_users`."""
    data = clicks()
    model = model_class(rank=8, epochs=4, batch_size=16, loss=loss, drop_rate=0.5, drop_epochs=2).fit(data)
    expected, losses = model.arrays_, [epoch["loss"] for epoch in model.history_]
    monkeypatch.setattr(_training, "_MAX_SCORES", n_users * 30 * 4)
    model.fit(data)
    np.testing.assert_allclose([epoch["loss"] for epoch in model.history_], losses, rtol=1e-4)
    for name, array in expected.items():
        np.testing.assert_allclose(model.arrays_[name], array, atol=1e-3 * np.abs(array).max())


def test_training_that_does_not_fit_is_explained(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

    monkeypatch.setattr(_training, "_compute_gradients", fail)
    with pytest.raises(InputError, match="CDAE with batch_size=500 does not fit on"):
        CDAE(4).fit(clicks())
