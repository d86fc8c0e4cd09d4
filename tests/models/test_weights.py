"""A weight is the probability of a genuine click: models against means over all 0/1 data, and with scaled weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

import prorec
from prorec.models import CDAE, EASE, NCE, SVD, VAE, WRMF, Model, Popularity, SparseLinear, _training
from prorec.models._batches import BatchMaker
from prorec.models.model import WeightMeaning
from tests.models.helpers import all_scores, clicks, make_matrix

Dense = NDArray[np.float64]
WEIGHTS = csr_array(
    np.array(
        [
            [1.0, 0.5, 0.0, 0.9, 0.0],
            [0.2, 1.0, 0.7, 0.0, 0.0],
            [0.0, 0.3, 1.0, 0.0, 1.0],
            [1.0, 0.0, 0.6, 0.8, 0.0],
            [0.0, 1.0, 0.0, 0.1, 1.0],
            [1.0, 0.0, 1.0, 0.0, 0.4],
        ],
        dtype=np.float32,
    )
)


def draw_all(weights: Dense) -> Iterator[tuple[float, Dense]]:
    """Yield every matrix of clicks that the weights allow, with its probability."""
    uncertain = np.argwhere((weights > 0) & (weights < 1))
    for values in product((0.0, 1.0), repeat=len(uncertain)):
        drawn, probability = weights.copy(), 1.0
        for (row, column), value in zip(uncertain, values, strict=True):
            probability *= weights[row, column] if value else 1 - weights[row, column]
            drawn[row, column] = value
        yield probability, drawn


def expectation(function: Callable[[Dense], Any]) -> Dense:
    """Return the mean of a function over all matrices of clicks, each with its probability."""
    draws = list(draw_all(WEIGHTS.toarray().astype(np.float64)))
    assert len(draws) == 2**9
    return np.sum([probability * np.asarray(function(x)) for probability, x in draws], axis=0)  # type: ignore[no-any-return]


def test_the_mean_of_the_clicks_is_the_weights() -> None:
    np.testing.assert_allclose(expectation(lambda x: x), WEIGHTS.toarray(), rtol=1e-6)


# ── the expected loss is least ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("alpha", [0.0, 4.0])
def test_wrmf_minimizes_its_expected_loss(alpha: float) -> None:
    model = WRMF(rank=2, alpha=alpha, regularization=0.1, sweeps=400).fit(WEIGHTS)
    users, items = (model.arrays_[name].astype(np.float64) for name in ("users", "items"))
    scores = users @ items.T
    # Half the gradient of Σ (1 + αx)(x − s)² by s
    by_scores = expectation(lambda x: (1 + alpha * x) * (scores - x))
    np.testing.assert_allclose(by_scores @ items + 0.1 * users, 0, atol=2e-4)
    np.testing.assert_allclose(by_scores.T @ users + 0.1 * items, 0, atol=2e-3)
    assert np.abs(scores).max() > 0.5


def test_ease_minimizes_its_expected_loss() -> None:
    b = EASE(0.5).fit(WEIGHTS).arrays_["item_weights"].astype(np.float64)
    # Half the gradient of ‖X − XB‖² + λ‖B‖²; the diagonal of B is fixed
    gradient = expectation(lambda x: x.T @ (x @ b - x)) + 0.5 * b
    np.testing.assert_allclose(gradient[~np.eye(5, dtype=bool)], 0, atol=1e-5)
    assert np.abs(b).max() > 0.2


def test_sparse_linear_minimizes_its_expected_loss() -> None:
    arrays = SparseLinear(2, regularization=0.5).fit(WEIGHTS).arrays_
    b = np.zeros((5, 5))
    np.add.at(b, (arrays["neighbors"], np.arange(5)[:, None]), arrays["item_weights"])
    gradient = expectation(lambda x: x.T @ (x @ b - x)) + 0.5 * b
    np.testing.assert_allclose(gradient[b != 0], 0, atol=1e-5)
    assert (np.count_nonzero(b, axis=0) == 2).all()


@pytest.mark.parametrize("meaning", ["probability", "value"])
def test_svd_minimizes_its_expected_loss(meaning: WeightMeaning) -> None:
    """In units of each item's typical weight, or of all alike."""
    model = SVD(rank=2, weight_meaning=meaning).fit(WEIGHTS)
    users, items = (model.arrays_[name].astype(np.float64) for name in ("users", "items"))
    w = WEIGHTS.toarray().astype(np.float64)
    times = ((w**2).sum(axis=0) / w.sum(axis=0)) ** -2 if meaning == "probability" else np.ones(5)

    def expected_loss(users: Dense, items: Dense) -> float:
        return float(expectation(lambda x: ((x - users @ items.T) ** 2 @ times).sum()))

    least = expected_loss(users, items)
    rng = np.random.default_rng(0)
    for _ in range(5):
        assert expected_loss(*(each + 0.1 * rng.normal(size=each.shape) for each in (users, items))) > least
    by_scores = expectation(lambda x: times * (users @ items.T - x))
    np.testing.assert_allclose(by_scores @ items, 0, atol=1e-5)
    np.testing.assert_allclose(by_scores.T @ users, 0, atol=1e-5)
    np.testing.assert_allclose(model.encode_users(WEIGHTS), users, atol=1e-6)


def test_doubts_about_one_item_scale_its_scores_and_do_nothing_else() -> None:
    data = make_matrix(40, 30)
    data.data[:] = 1
    plain = all_scores(SVD(rank=4).fit(data))
    doubted = data.copy()
    doubted.data[data.indices == 7] = 0.2
    model = SVD(rank=4).fit(doubted)
    factors = np.where(np.arange(30) == 7, 0.2, 1.0)
    np.testing.assert_allclose(all_scores(model), plain * factors, atol=1e-5)
    np.testing.assert_allclose(model.score_new_users(doubted), plain * factors, atol=1e-5)
    as_values = all_scores(SVD(rank=4, weight_meaning="value").fit(doubted))
    assert np.abs(as_values - plain)[:, np.arange(30) != 7].max() > 0.01


def test_svd_with_weights_is_saved(tmp_path: Path) -> None:
    model = SVD(rank=3).fit(WEIGHTS)
    model.save(tmp_path)
    loaded: Any = prorec.load(tmp_path)
    np.testing.assert_array_equal(loaded.encode_users(WEIGHTS), model.encode_users(WEIGHTS))
    assert "encoder" not in SVD(rank=3).fit(csr_array(np.eye(5, dtype=np.float32))).arrays_


def test_nce_minimizes_the_expected_loss_of_its_regression() -> None:
    model = NCE(rank=2, regularization=0.5).fit(WEIGHTS)
    users, items = (model.arrays_[name].astype(np.float64) for name in ("users", "items"))
    gradient = expectation(lambda x: (users @ items.T - x).T @ users) + 0.5 * items
    np.testing.assert_allclose(gradient, 0, atol=1e-5)


def test_popularity_is_the_expected_number_of_clicks() -> None:
    counts = expectation(lambda x: x.sum(axis=0))
    np.testing.assert_allclose(Popularity().fit(WEIGHTS).arrays_["items"][:, 0], counts, rtol=1e-6)


@pytest.mark.parametrize("model", [CDAE(), VAE()])
def test_networks_have_the_gradient_of_the_expected_loss(model: CDAE | VAE) -> None:
    maker = BatchMaker(WEIGHTS, torch.device("cpu"), 0.0, is_normalized=False, draws_on_device=False)
    batch = maker.make(np.arange(6), np.random.default_rng(0))
    network = _training.Network({}, lambda: None, is_multinomial=isinstance(model, VAE))
    scores = torch.randn((6, 5), generator=torch.Generator().manual_seed(0)).requires_grad_()

    s = scores.detach().numpy().astype(np.float64)
    choice = np.exp(s) / np.exp(s).sum(axis=1, keepdims=True)
    yes = 1 / (1 + np.exp(-s))

    def gradient_of_clicks(x: Dense) -> Dense:
        return x.sum(axis=1, keepdims=True) * choice - x if isinstance(model, VAE) else yes - x

    (gradient,) = torch.autograd.grad(_training._sum_loss(model, network, scores, batch, 0), scores)
    np.testing.assert_allclose(gradient.numpy(), expectation(gradient_of_clicks), atol=1e-5)


# ── weights of 0 and of 1 ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "model",
    [
        SVD(rank=4),
        NCE(rank=4, regularization=10.0),
        EASE(5.0),
        SparseLinear(50, regularization=5.0),
        WRMF(rank=4, regularization=1.0),
    ],
)
def test_a_weight_near_zero_is_nearly_no_click(model: Model) -> None:
    """This holds for the popularity of NCE, too, which is relative to a mean of all weights."""
    data = clicks()
    is_kept = np.random.default_rng(1).random(len(data)) < 0.6
    without, nearly = (all_scores(model.fit(data.with_weights(np.where(is_kept, 1.0, w)))) for w in (0.0, 1e-6))
    np.testing.assert_allclose(nearly, without, atol=1e-3 * np.abs(without).max())


@pytest.mark.parametrize("model_class", [SVD, NCE, EASE, WRMF])
def test_weights_of_one_have_one_meaning(model_class: type[Any]) -> None:
    """Bit for bit, the model is the one that takes the weight for the value of an entry."""
    data = make_matrix(60, 50)
    data.data[:] = 1
    parameters = {"regularization": 3.0} if model_class is EASE else {"rank": 4}
    first, second = (model_class(**parameters, weight_meaning=each).fit(data) for each in ("probability", "value"))
    for name, array in first.arrays_.items():
        np.testing.assert_array_equal(array, second.arrays_[name])
    data.data[::2] = 0.5
    first, second = (model_class(**parameters, weight_meaning=each).fit(data) for each in ("probability", "value"))
    assert np.abs(all_scores(first) - all_scores(second)).max() > 1e-3


@pytest.mark.parametrize("model_class", [SVD, NCE, EASE, WRMF])
def test_the_meaning_is_checked_and_saved(model_class: type[Any], tmp_path: Path) -> None:
    parameters = {"rank": 4} if model_class is not EASE else {}
    with pytest.raises(prorec.InputError, match="weight_meaning must be one of 'probability', 'value', got 'rating'"):
        model_class(**parameters, weight_meaning="rating").fit(clicks())
    model_class(**parameters, weight_meaning="value").fit(clicks()).save(tmp_path)
    loaded: Any = prorec.load(tmp_path)
    assert loaded.weight_meaning == "value"


# ── all weights scaled by one number ────────────────────────────────────────────────────────────────

C = 0.5


def ones() -> csr_array:
    matrix = make_matrix(60, 50)
    matrix.data[:] = 1
    return matrix


@pytest.mark.parametrize(
    ("scaled", "plain", "factor"),
    [
        (Popularity(), Popularity(), C),
        (SVD(rank=4), SVD(rank=4), C),
        (NCE(rank=4, regularization=2.0), NCE(rank=4, regularization=2.0 / C**3), C),
        (
            WRMF(rank=4, alpha=6.0, regularization=2.0, sweeps=200),
            WRMF(rank=4, alpha=6.0 * C, regularization=2.0 * (1 + 6 * C) / (C + 6 * C), sweeps=200),
            (C + 6 * C) / (1 + 6 * C),
        ),
    ],
    ids=lambda each: type(each).__name__,
)
def test_scaled_weights_act_as_another_regularizer(scaled: Model, plain: Model, factor: float) -> None:
    got, expected = all_scores(scaled.fit(C * ones())), factor * all_scores(plain.fit(ones()))
    np.testing.assert_allclose(got, expected, atol=1e-4 * np.abs(expected).max())


def test_scaled_weights_of_ease_act_as_a_penalty_by_popularity() -> None:
    """Each column of B is a ridge regression on all other items, with a penalty of its own for each item."""
    x = ones().toarray().astype(np.float64)
    penalty = 3.0 / C**2 + (1 / C - 1) * x.sum(axis=0)
    expected = np.zeros((50, 50))
    for item in range(50):
        others = np.delete(np.arange(50), item)
        left = x[:, others].T @ x[:, others] + np.diag(penalty[others])
        expected[others, item] = np.linalg.solve(left, x[:, others].T @ x[:, item])
    np.testing.assert_allclose(EASE(3.0).fit(C * ones()).arrays_["item_weights"], expected, atol=1e-6)


def test_scaled_weights_of_vae_act_as_other_penalties() -> None:
    """Adam does not see the scale of a gradient, but for a constant beside its square root."""
    parameters: dict[str, Any] = {"rank": 4, "hidden": 8, "epochs": 3, "batch_size": 20}
    scaled = VAE(**parameters, kl_weight=0.2, regularization=1e-3).fit(C * ones())
    plain = VAE(**parameters, kl_weight=0.2 / C, regularization=1e-3 / C).fit(ones())
    np.testing.assert_allclose(all_scores(scaled), all_scores(plain), atol=1e-3)
    assert scaled.history_[0]["loss"] == pytest.approx(C * plain.history_[0]["loss"], rel=1e-4)


def test_scaled_weights_of_cdae_scale_the_predicted_probabilities() -> None:
    """Users are alike but for what cannot be known, so that an item's share of clicks is its best prediction."""
    rows = np.array([[1, 0, 0, 1], [1, 1, 0, 0], [1, 1, 0, 0]], dtype=np.float32)
    x = csr_array(np.tile(rows, (20, 1)))
    parameters: dict[str, Any] = {"rank": 2, "corruption": 0.99, "epochs": 300, "learning_rate": 0.02}
    for weight in (1.0, C):
        scores = all_scores(CDAE(**parameters, regularization=0.0).fit(weight * x))
        predicted = (1 / (1 + np.exp(-scores))).mean(axis=0)
        np.testing.assert_allclose(predicted, weight * np.array([1, 2 / 3, 0, 1 / 3]), atol=0.07)
