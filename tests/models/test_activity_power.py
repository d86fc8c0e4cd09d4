"""The power of users' activity, against dense arithmetic with a factor for each user, and against repeated users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import prorec
from prorec.models import EASE, NCE, SVD, WRMF
from prorec.models._user_counts import count_users
from prorec.models.factory import make_model, parse_parameters
from tests.models.helpers import all_scores, clicks, factors_of, make_matrix

POWER = 0.5
MODELS = [SVD, NCE, WRMF, EASE]


def weights() -> csr_array:
    """Return weights of 60 users whose activities differ; one has none."""
    dense = make_matrix(60, 40, seed=3).toarray()
    dense[::2, ::2] = 0
    dense[7] = 0
    return csr_array(dense)


def counts_of(x: NDArray[Any]) -> NDArray[np.float64]:
    """Return activity^(−½), scaled so that the mean over the weights is 1."""
    activity = x.sum(axis=1)
    counts = np.array([0 if each == 0 else 1 / np.sqrt(each) for each in activity])
    return np.asarray(counts * x.sum() / (counts[:, None] * x).sum())


def weighted() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the weights as a dense matrix, and how often each user counts."""
    x = weights().toarray().astype(np.float64)
    return x, counts_of(x)


def counted(matrix: csr_array, power: float) -> NDArray[np.float64]:
    counts = count_users(matrix, power)
    assert counts is not None
    return counts


def test_counts() -> None:
    x, counts = weighted()
    assert counts.max() > 2 * counts[counts > 0].min()
    np.testing.assert_allclose(counted(weights(), POWER), counts, rtol=1e-6)
    assert count_users(weights(), 0.0) is None
    sums = (counted(weights(), 1.0)[:, None] * x).sum(axis=1)
    assert np.ptp(sums[x.any(axis=1)]) < 1e-6  # all users count the same in sum
    assert not counted(csr_array((3, 2), dtype=np.float32), POWER).any()


@pytest.mark.parametrize("model", [SVD(rank=3), NCE(rank=3), WRMF(rank=3), EASE()], ids=repr)
def test_vanishing_weights_stay_finite(model: Any) -> None:
    model = type(model)(**model.get_params() | {"activity_power": 1.0})
    data = clicks()
    for is_tiny in (data.user_codes >= 0, data.user_codes < 9):
        scores = all_scores(model.fit(data.with_weights(np.where(is_tiny, 1e-45, 1.0))))
        assert np.isfinite(scores).all()


def test_svd_by_hand() -> None:
    x, counts = weighted()
    sums = x.sum(axis=0)
    typical = np.where(sums > 0, (x**2).sum(axis=0) / np.where(sums > 0, sums, 1), 1)
    _, _, right = np.linalg.svd(np.sqrt(counts)[:, None] * x / typical)
    factors = factors_of(SVD(rank=3, activity_power=POWER).fit(weights()))
    expected = (x / typical) @ right[:3].T @ right[:3] * typical
    np.testing.assert_allclose(factors.users @ factors.items.T, expected, atol=1e-4)
    assert np.abs(expected - all_scores(SVD(rank=3).fit(weights()))).max() > 0.01


def test_nce_by_hand() -> None:
    x, counts = weighted()
    popularity = x.sum(axis=0) * x.sum() / (x**2).sum()
    discount = np.maximum(np.log(60 / np.where(popularity > 0, popularity, 1)), 0)
    _, values, right = np.linalg.svd(np.sqrt(counts)[:, None] * x * discount)
    users = x @ right[:4].T * np.sqrt(values[:4])
    items = np.linalg.solve((users.T * counts) @ users + 3 * np.eye(4), (users.T * counts) @ x)
    factors = factors_of(NCE(rank=4, regularization=3, activity_power=POWER).fit(weights()))
    np.testing.assert_allclose(factors.users @ factors.items.T, users @ items, atol=1e-4)
    assert np.abs(users @ items - all_scores(NCE(rank=4, regularization=3).fit(weights()))).max() > 0.01


def test_ease_by_hand() -> None:
    x, counts = weighted()
    gram = (x.T * counts) @ x
    np.fill_diagonal(gram, counts @ x)
    inverse = np.linalg.inv(gram + 3 * np.eye(40))
    b = -inverse / inverse.diagonal()
    np.fill_diagonal(b, 0)
    np.testing.assert_allclose(EASE(3, activity_power=POWER).fit(weights()).arrays_["item_weights"], b, atol=1e-5)
    assert np.abs(b - EASE(3).fit(weights()).arrays_["item_weights"]).max() > 0.01


def test_wrmf_by_hand() -> None:
    """Both gradients of Σ_i n_i·(loss of user i + λ‖x_i‖²) + λΣ‖y_j‖² are 0."""
    x, counts = weighted()
    model = WRMF(rank=3, alpha=4, regularization=1, sweeps=400, activity_power=POWER).fit(weights())
    users, items = (model.arrays_[name].astype(np.float64) for name in ("users", "items"))
    by_scores = (1 + 4 * x) * (users @ items.T) - 5 * x
    np.testing.assert_allclose(by_scores @ items + users, 0, atol=1e-3)
    np.testing.assert_allclose((counts[:, None] * by_scores).T @ users + items, 0, atol=2e-3)
    assert np.abs(by_scores.T @ users + items).max() > 0.1
    np.testing.assert_allclose(model.encode_users(weights()), users, atol=1e-4)  # new users as fitted ones


@pytest.mark.parametrize("model", [SVD(rank=2, activity_power=POWER), EASE(3.0, activity_power=POWER)], ids=repr)
def test_users_of_four_clicks_count_half_as_much_as_those_of_one(model: Any) -> None:
    rng = np.random.default_rng(0)
    active = np.array([rng.permutation([1, 1, 1, 1, 0, 0]) for _ in range(9)])
    inactive = np.eye(6)
    got = model.fit(csr_array(np.vstack([active, inactive]).astype(np.float32)))
    repeated = csr_array(np.vstack([active, inactive, inactive]).astype(np.float32))
    plain = type(model)(**model.get_params() | {"activity_power": 0.0})
    if isinstance(plain, EASE):
        # Nine users count n times and six 2n times; over their 42 clicks, that is once on average.
        plain.regularization *= (9 * 4 + 2 * 6) / (9 * 4 + 6)
    expected = all_scores(plain.fit(repeated))[:15]
    np.testing.assert_allclose(all_scores(got), expected, atol=1e-5)


def test_half_of_all_weights_leaves_the_counts() -> None:
    np.testing.assert_allclose(counted(0.5 * weights(), 0.7), counted(weights(), 0.7), rtol=1e-5)


@pytest.mark.parametrize("model_class", MODELS)
def test_the_power_is_checked_saved_and_read_from_text(model_class: type[Any], tmp_path: Path) -> None:
    texts = ["activity_power=.5", *([] if model_class is EASE else ["rank=3"])]
    model = make_model(model_class.__name__, parse_parameters(texts)).fit(clicks())
    plain = model_class(**model.get_params() | {"activity_power": 0.0}).fit(clicks())
    assert np.abs(all_scores(model) - all_scores(plain)).max() > 1e-4
    model.save(tmp_path)
    loaded: Any = prorec.load(tmp_path)
    assert loaded.activity_power == 0.5
    assert loaded == model != plain
    for power in (-0.1, 1.5, float("nan"), "much"):
        with pytest.raises(prorec.InputError, match="activity_power must be a finite number from 0 to 1"):
            model_class(**model.get_params() | {"activity_power": power}).fit(clicks())


def test_the_power_can_be_tuned() -> None:
    parts = prorec.split_by_user(clicks(), (0.7, 0.3), seed=0)
    tuned = prorec.tune(SVD(rank=3), parts.train, parts.test, {"activity_power": [0.0, 0.5, 1.0]})
    assert [trial["parameters"] for trial in tuned.trials] == [{"activity_power": power} for power in (0.0, 0.5, 1.0)]
    assert len({trial["value"] for trial in tuned.trials}) > 1
