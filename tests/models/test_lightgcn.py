"""LightGCN against dense arithmetic: the graph, the gradients of both losses, new users."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

import prorec
from prorec import InputError, MissingExtraError
from prorec.models import LightGCN, Popularity, _graph_training
from prorec.models._gpu_matrix import GpuMatrix
from prorec.models._gpu_pairwise_steps import PairDraws
from tests.models.helpers import all_scores, clicks, fit_on_cpu, make_small, make_unusual_matrix
from tests.models.test_weights import WEIGHTS, expectation

Dense = NDArray[np.float64]
CPU = torch.device("cpu")


def normalize(x: Dense) -> Dense:
    """Return the weights divided by the square roots of their row and column sums."""
    rows, columns = (np.maximum(x.sum(axis=axis, keepdims=True), 1e-300) for axis in (1, 0))
    return np.asarray(x / np.sqrt(rows) / np.sqrt(columns))


def smooth(x: Dense, users: Dense, items: Dense, layers: int) -> tuple[Dense, Dense]:
    """Return the means over all layers, by the adjacency matrix of all nodes."""
    edges, n = normalize(x), len(users)
    adjacency = np.block([[np.zeros((n, n)), edges], [edges.T, np.zeros((len(items), len(items)))]])
    nodes = np.vstack([users, items])
    mean = np.mean([np.linalg.matrix_power(adjacency, layer) @ nodes for layer in range(layers + 1)], axis=0)
    return mean[:n] * (x.sum(axis=1, keepdims=True) > 0), mean[n:] * (x.sum(axis=0)[:, None] > 0)


def random_factors(shape: tuple[int, int], rank: int = 3) -> tuple[Dense, Dense]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(shape[0], rank)), rng.normal(size=(shape[1], rank))


def to_tensors(*arrays: Dense) -> Any:
    return tuple(torch.from_numpy(array.astype(np.float32)) for array in arrays)


@pytest.mark.parametrize("name", ["empty rows", "long rows", "zero weights", "more items"])
@pytest.mark.parametrize("layers", [1, 3])
def test_smoothing_against_dense_arithmetic(name: str, layers: int) -> None:
    matrix = make_unusual_matrix(name)
    factors = random_factors(matrix.shape)
    graph = _graph_training.Graph(GpuMatrix.from_scipy(matrix, CPU), layers)
    expected = smooth(matrix.toarray().astype(np.float64), *factors, layers)
    for got, wanted in zip(graph.smooth(*to_tensors(*factors)), expected, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, atol=1e-5)


def test_half_of_all_weights_leaves_the_graph() -> None:
    matrix = make_unusual_matrix("empty rows")
    factors = to_tensors(*random_factors(matrix.shape))
    first, second = (
        _graph_training.Graph(GpuMatrix.from_scipy(each, CPU), 2).smooth(*factors) for each in (matrix, 0.5 * matrix)
    )
    np.testing.assert_allclose(first[0], second[0], atol=1e-6)


def softmax_gradient(x: Dense, users: Dense, items: Dense) -> tuple[Dense, Dense]:
    """Return the gradient of Σ x·(log Σ exp s − s) by users and items."""
    scores = users @ items.T
    choice = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    by_scores = x.sum(axis=1, keepdims=True) * choice - x
    return by_scores @ items, by_scores.T @ users


@pytest.mark.parametrize("max_scores", [10**8, 12])
def test_softmax_has_the_gradient_of_the_expected_loss(max_scores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in blocks of two users."""
    monkeypatch.setattr(_graph_training, "_MAX_SCORES", max_scores)
    factors = random_factors(WEIGHTS.shape)
    entries = PairDraws(GpuMatrix.from_scipy(prorec.Interactions.from_matrix(WEIGHTS).matrix, CPU))
    order = torch.randperm(WEIGHTS.nnz, generator=torch.Generator().manual_seed(0))
    found, counts = _graph_training._find_softmax_gradient(to_tensors(*factors), entries, order, torch.Generator())
    for side in range(2):
        expected = expectation(lambda x, side=side: softmax_gradient(x, *factors)[side])  # type: ignore[misc]
        np.testing.assert_allclose(found[side].numpy(), expected, atol=1e-5)
        np.testing.assert_allclose(counts[side].numpy(), WEIGHTS.toarray().sum(axis=1 - side), rtol=1e-6)


def test_pairs_have_the_gradient_of_the_expected_loss() -> None:
    users, items = random_factors(WEIGHTS.shape)

    def gradient(x: Dense) -> Dense:
        total = np.zeros_like(users)
        for u, i, j in np.ndindex(6, 5, 5):
            slope = x[u, i] * (1 - x[u, j]) * (i != j) / 4 / (1 + np.exp(users[u] @ (items[i] - items[j])))
            total[u] += slope * (items[j] - items[i])
        return total

    draws = PairDraws(GpuMatrix.from_scipy(prorec.Interactions.from_matrix(WEIGHTS).matrix, CPU))
    generator = torch.Generator().manual_seed(0)
    entries = torch.arange(WEIGHTS.nnz).repeat(20_000)
    found, _ = _graph_training._find_pairwise_gradient(to_tensors(users, items), draws, entries, generator)
    expected = expectation(gradient)
    np.testing.assert_allclose(found[0].numpy() / 20_000, expected, atol=0.02 * np.abs(expected).max())


def test_a_step_descends_the_smoothed_loss() -> None:
    """The gradient by layer 0 is the smoothed one of the smoothed factors, as automatic differentiation has it."""
    x = WEIGHTS.toarray().astype(np.float64)
    factors = random_factors(WEIGHTS.shape)
    graph = _graph_training.Graph(GpuMatrix.from_scipy(WEIGHTS, CPU), 3)
    found = graph.smooth(*to_tensors(*softmax_gradient(x, *smooth(x, *factors, 3))))
    leaves = [torch.from_numpy(each).requires_grad_() for each in factors]
    edges = torch.from_numpy(normalize(x))
    users, items = leaves
    totals = [users, items]
    for _ in range(3):
        users, items = edges @ items, edges.T @ users
        totals = [totals[0] + users, totals[1] + items]
    scores = totals[0] @ totals[1].T / 16
    loss = (torch.from_numpy(x) * (scores.logsumexp(dim=1, keepdim=True) - scores)).sum()
    loss.backward()  # type: ignore[no-untyped-call]
    for got, leaf in zip(found, leaves, strict=True):
        np.testing.assert_allclose(got.numpy(), leaf.grad.numpy(), atol=1e-5)  # type: ignore[union-attr]


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_new_users_have_the_layers_of_the_items(layers: int) -> None:
    """A fitted user with 0 in layer 0, whose clicks change no item, is a new user."""
    data = clicks()
    model = make_small(LightGCN, seed=1).set_params(layers=layers)
    users, items = random_factors(data.matrix.shape, 8)
    graph = _graph_training.Graph(GpuMatrix.from_scipy(data.matrix, CPU), layers)
    model.fit(data).arrays_ |= {"projection": graph.project(*to_tensors(users, items)).numpy()}
    x = data.matrix.toarray().astype(np.float64)
    item_layers = [items]
    at_users, at_items = users, items
    for _ in range(layers):
        at_users, at_items = normalize(x) @ at_items, normalize(x).T @ at_users
        item_layers.append(at_items)
    expected = normalize(x)[7] @ sum(item_layers[:layers]) / (layers + 1)
    np.testing.assert_allclose(model.encode_users(data.matrix[[7]])[0], expected, atol=1e-5)


@pytest.mark.parametrize("loss", ["bpr", "softmax"])
def test_isolated_users_and_items(loss: Any) -> None:
    """The last user and the last item have no clicks."""
    data = clicks()
    model = make_small(LightGCN, seed=2).set_params(loss=loss).fit(data)
    assert not model.arrays_["users"][-1].any()
    assert not model.arrays_["items"][-1].any()
    assert not model.encode_users(csr_array(np.eye(30, dtype=np.float32)[29:])).any()  # a new user of that item only
    popular = Popularity().fit(data).recommend(["user 59"], k=5).item_positions
    np.testing.assert_array_equal(model.recommend(["user 59"], k=5).item_positions, popular)
    nothing = data.with_weights(np.zeros(len(data)))
    assert not all_scores(model.fit(nothing)).any()


@pytest.mark.parametrize("loss", ["bpr", "softmax"])
def test_both_losses_learn_and_repeat(loss: Any, device: object) -> None:
    parts = prorec.split_by_user(clicks(), (0.7, 0.3), seed=0)
    model = make_small(LightGCN).set_params(loss=loss)
    first, second, on_cpu = (each(model, parts.train) for each in (fit_copy, fit_copy, fit_on_cpu))
    for name, array in first.arrays_.items():
        np.testing.assert_array_equal(array, second.arrays_[name])
        assert np.isfinite(array).all()
        assert array.shape == on_cpu.arrays_[name].shape
    popular = prorec.evaluate(Popularity().fit(parts.train), parts.test, k=5).mean["ndcg@5"]
    for each in (first, on_cpu):
        assert prorec.evaluate(each, parts.test, k=5).mean["ndcg@5"] > 1.5 * popular


def fit_copy(model: LightGCN, data: prorec.Interactions) -> LightGCN:
    return LightGCN(**model.get_params(deep=False)).fit(data)


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 4)])
@pytest.mark.parametrize("loss", ["bpr", "softmax"])
def test_few_users_and_items(shape: tuple[int, int], loss: Any) -> None:
    model = LightGCN(rank=1, epochs=2, loss=loss).fit(csr_array(np.ones(shape, dtype=np.float32)))
    assert np.isfinite(all_scores(model)).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 31}, "rank must be a whole number from 1 to the smaller side of the matrix, 30; got 31"),
        ({"layers": 0}, "layers must be a whole number of at least 1; got 0"),
        ({"loss": "hinge"}, "loss must be one of 'bpr', 'softmax', got 'hinge'"),
        ({"regularization": -1}, "regularization must be a finite number of at least 0; got -1"),
        ({"learning_rate": 0}, "learning_rate must be above 0; got 0"),
        ({"epochs": 0}, "epochs must be"),
        ({"batch_size": 0}, "batch_size must be"),
        ({"device": "abacus"}, "device must be 'auto', 'cpu' or 'cuda'; 'abacus' cannot be used"),
        ({"learning_rate": 1e30, "epochs": 3}, "the arrays of LightGCN must be finite, but some are not; use less"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LightGCN(**{"rank": 4, **parameters}).fit(clicks())


def test_training_needs_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "prorec.models._graph_training")
    monkeypatch.delattr(prorec.models, "_graph_training")
    with pytest.raises(MissingExtraError, match=r"LightGCN needs PyTorch, which is not installed: pip install 'torch"):
        LightGCN(rank=4).fit(clicks())


def test_a_fitted_model_needs_no_pytorch(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    data = clicks()
    make_small(LightGCN).fit(data).save(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    loaded: Any = prorec.load(tmp_path)
    assert loaded.recommend_new([data.items[:3].tolist()], k=3).item_positions.shape == (1, 3)


@pytest.mark.real_data("ml-100k")
def test_learns_on_movielens() -> None:
    parts = prorec.split_by_user(prorec.load_dataset("ml-100k"), (0.7, 0.3), seed=0)
    model = LightGCN(loss="softmax", epochs=60, regularization=0.01).fit(parts.train)
    found, popular = (
        prorec.evaluate(each, parts.test, k=10).mean["ndcg@10"] for each in (model, Popularity().fit(parts.train))
    )
    assert found > 1.6 * popular
