"""BPR: the mean of its steps is the gradient of the expected loss, and threads do not change a bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import prorec
from prorec import InputError
from prorec.models import BPR, Popularity, _pairwise_steps
from tests.models.helpers import all_scores, clicks, make_matrix
from tests.models.test_weights import WEIGHTS, expectation

Dense = NDArray[np.float64]
RANK = 3
PENALTY = 0.3


def start() -> dict[str, NDArray[np.float32]]:
    """Return factors and item biases that differ."""
    rng = np.random.default_rng(0)
    shapes = {"users": (6, RANK), "items": (5, RANK), "item_bias": (5,)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def loss_gradient(x: Dense, arrays: dict[str, NDArray[Any]]) -> Dense:
    """Return the gradient of the loss on clicks x by all arrays, in one row, by plain loops."""
    users, items, bias = (arrays[name].astype(np.float64) for name in ("users", "items", "item_bias"))
    by_users, by_items, by_bias = np.zeros_like(users), np.zeros_like(items), np.zeros_like(bias)
    for u, i, j in np.ndindex(len(users), len(items), len(items)):
        if i != j and x[u, i] * (1 - x[u, j]):
            slope = 1 / (1 + np.exp(users[u] @ (items[i] - items[j]) + bias[i] - bias[j]))
            by_users[u] += -slope * (items[i] - items[j]) + PENALTY * users[u]
            by_items[i] += -slope * users[u] + PENALTY * items[i]
            by_items[j] += slope * users[u] + PENALTY * items[j]
            by_bias[i] += -slope + PENALTY * bias[i]
            by_bias[j] += slope + PENALTY * bias[j]
    return np.concatenate([each.ravel() for each in (by_users, by_items, by_bias)]) / (len(items) - 1)


def mean_steps(model: BPR) -> Dense:
    """Return the mean change of all arrays in an epoch of tiny steps, over the size of the steps, in one row."""
    first = start()
    given = BPR(rank=RANK, item_bias=True, epochs=1).fit(WEIGHTS)
    given.arrays_ = {name: array.copy() for name, array in first.items()}
    learned = model.fit(WEIGHTS, init_from=given).arrays_
    total = np.concatenate([(learned[name].astype(np.float64) - first[name]).ravel() for name in first])
    sizes = model.learning_rate * (1 - np.arange(model.epochs) / model.epochs)
    return np.asarray(total / sizes.sum())


def tiny_steps(epochs: int) -> BPR:
    """Return a model whose steps change factors by a hundredth in all, and are large enough for single precision."""
    return BPR(RANK, PENALTY, learning_rate=0.02 / epochs, epochs=epochs, item_bias=True, seed=5)


@pytest.mark.parametrize("n_blocks", [1, 2])
def test_steps_have_the_gradient_of_the_expected_loss(n_blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With two blocks, pairs of items meet by the random assignment of items to blocks."""
    monkeypatch.setattr(_pairwise_steps, "count_blocks", lambda *_: n_blocks)
    expected = -expectation(lambda x: loss_gradient(x, start()))
    np.testing.assert_allclose(mean_steps(tiny_steps(4000)), expected, atol=0.05 * np.abs(expected).max())


def test_weights_of_one_take_every_step() -> None:
    """With one other item that no user has, no draw is left but the order, which the sums do not show."""
    x = csr_array(np.array([[1.0, 0], [1, 0], [0, 1]], dtype=np.float32))
    model = BPR(rank=1, epochs=1, learning_rate=1e-3, regularization=0.0, item_bias=True).fit(x)
    assert model.arrays_["item_bias"].sum() == pytest.approx(0, abs=1e-9)
    assert model.arrays_["item_bias"][0] == pytest.approx(0.5e-3, rel=0.02)  # two steps up and one down, by a half


@pytest.mark.parametrize("n_blocks", [1, 3, 4])
def test_threads_do_not_change_a_bit(n_blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pairwise_steps, "count_blocks", lambda *_: n_blocks)
    data = make_matrix(90, 70, density=0.3)
    learned = []
    for n_cores in (1, 2, 5):
        monkeypatch.setattr(_pairwise_steps, "N_CORES", n_cores)
        learned.append(BPR(rank=8, epochs=5, item_bias=True).fit(data).arrays_)
    for arrays in learned[1:]:
        for name, array in learned[0].items():
            np.testing.assert_array_equal(arrays[name], array)


def test_blocks_learn_as_well_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = prorec.split_by_user(prorec.load_dataset("cinema"), (0.7, 0.3), seed=0)
    popular = prorec.evaluate(Popularity().fit(parts.train), parts.test, k=10).mean["ndcg@10"]
    quality = []
    for n_blocks in (1, 8):
        monkeypatch.setattr(_pairwise_steps, "count_blocks", lambda *_, n=n_blocks: n)
        model = BPR(rank=16, epochs=30).fit(parts.train)
        quality.append(prorec.evaluate(model, parts.test, k=10).mean["ndcg@10"])
    assert min(quality) > 1.3 * popular
    assert quality[1] == pytest.approx(quality[0], rel=0.05)


def test_a_bias_is_learned_if_it_is_wanted() -> None:
    data = clicks()
    with_bias = BPR(rank=2, item_bias=True).fit(data)
    assert "item_bias" not in BPR(rank=2).fit(data).arrays_
    bias, popularity = with_bias.arrays_["item_bias"], data.matrix.sum(axis=0)
    assert np.corrcoef(bias, popularity)[0, 1] > 0.5
    assert "item_bias" not in BPR(rank=2, epochs=1).fit(data, init_from=with_bias).arrays_
    assert "item_bias" in BPR(rank=2, epochs=1, item_bias=True).fit(data, init_from=BPR(rank=2).fit(data)).arrays_


@pytest.mark.parametrize("item_bias", [False, True])
def test_new_users_are_ranked_as_fitted_ones(item_bias: bool) -> None:
    parts = prorec.split_by_user(prorec.load_dataset("cinema"), (0.7, 0.3), seed=0)
    model = BPR(rank=16, epochs=60, item_bias=item_bias).fit(parts.train)
    users = model.encode_users(parts.train.matrix)
    new, known = (each @ model.arrays_["items"].T for each in (users, model.arrays_["users"]))
    agreement = [np.corrcoef(*rows)[0, 1] for rows in zip(new, known, strict=True)]
    assert np.median(agreement) > 0.9
    # A user's vector depends on nobody else.
    np.testing.assert_array_equal(model.encode_users(parts.train.matrix[[7, 3]]), users[[7, 3]])
    assert not model.encode_users(csr_array((2, parts.train.n_items), dtype=np.float32)).any()


def test_smaller_weights_take_fewer_steps() -> None:
    data = clicks()
    norms = []
    for weight in (1.0, 0.5, 0.1):
        model = BPR(rank=4, epochs=20, regularization=0.0).fit(data.with_weights(np.full(len(data), weight)))
        norms.append(float(np.linalg.norm(model.arrays_["items"])))
    assert norms[0] > norms[1] > norms[2]


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 4)])
def test_few_users_and_items(shape: tuple[int, int]) -> None:
    model = BPR(rank=1, epochs=2).fit(csr_array(np.ones(shape, dtype=np.float32)))
    assert np.isfinite(all_scores(model)).all()
    assert np.isfinite(model.encode_users(csr_array(np.ones(shape, dtype=np.float32)))).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 31}, "rank must be a whole number from 1 to the smaller side of the matrix, 30; got 31"),
        ({"regularization": -1}, "regularization must be a finite number of at least 0; got -1"),
        ({"learning_rate": 0}, "learning_rate must be above 0; got 0"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1; got 0"),
        ({"item_bias": 1}, "item_bias must be True or False; got 1"),
        ({"seed": -1}, "seed must be"),
        ({"learning_rate": 1e30}, r"the arrays of BPR must be finite, but some are not; use less extreme parameters"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        BPR(**{"rank": 4, **parameters}).fit(clicks())


# ── on a device of PyTorch ──────────────────────────────────────────────────────────────────────────


def test_a_device_has_the_same_mean_of_steps(device: object) -> None:
    expected = -expectation(lambda x: loss_gradient(x, start()))
    np.testing.assert_allclose(mean_steps(tiny_steps(2000)), expected, atol=0.07 * np.abs(expected).max())


def test_a_device_has_nothing_to_learn_from(device: object) -> None:
    assert np.isfinite(all_scores(BPR(rank=2, epochs=2).fit(csr_array((4, 3), dtype=np.float32)))).all()


def test_a_device_learns_as_well_as_the_cpu(device: object) -> None:
    parts = prorec.split_by_user(prorec.load_dataset("cinema"), (0.7, 0.3), seed=0)
    parameters: dict[str, Any] = {"rank": 16, "epochs": 20}
    first, second = (BPR(**parameters).fit(parts.train) for _ in range(2))
    for name, array in first.arrays_.items():
        np.testing.assert_array_equal(array, second.arrays_[name])
    on_cpu = BPR(**parameters, device="cpu").fit(parts.train)
    found, expected = (prorec.evaluate(each, parts.test, k=10).mean["ndcg@10"] for each in (first, on_cpu))
    assert found == pytest.approx(expected, rel=0.05)
