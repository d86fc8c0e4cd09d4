"""Weights of controls, worked by hand, and the model that they are fitted with."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec import Interactions, NoiseFinder, ProRec
from prorec.denoise.controls import (
    WeightChange,
    average_by_popularity,
    average_by_user,
    equalize_weights,
    make_control,
    shuffle_weights,
    shuffle_within_users,
)
from prorec.models import NCE, SVD
from tests.models.helpers import clicks

DATA = Interactions.from_matrix(csr_array(np.array([[1, 1, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]], dtype=np.float32)))
WEIGHTS = np.array([0.1, 0.2, 0.9, 0.5, 1.0], dtype=np.float32)


def test_weights_by_hand() -> None:
    np.testing.assert_allclose(equalize_weights(WEIGHTS, DATA), [0.54] * 5, rtol=1e-6)
    np.testing.assert_allclose(average_by_user(WEIGHTS, DATA), [0.4, 0.4, 0.4, 0.75, 0.75], rtol=1e-6)


def test_means_by_popularity_by_hand() -> None:
    # The items have 1, 2, 1 and 1 clicks: the weights of the clicks on the second item are .2 and .5, and all others'
    # mean is (.1 + .9 + 1)/3.
    expected = [2 / 3, 0.35, 2 / 3, 0.35, 2 / 3]
    np.testing.assert_allclose(average_by_popularity(WEIGHTS, DATA), expected, rtol=1e-6)


def test_weights_are_shuffled_over_all_interactions() -> None:
    data = clicks()
    weights = np.random.default_rng(0).random(len(data)).astype(np.float32)
    shuffled = shuffle_weights(weights, data)
    assert (shuffled != weights).mean() > 0.8
    assert sorted(shuffled) == sorted(weights)
    assert not np.allclose(average_by_user(shuffled, data), average_by_user(weights, data))
    np.testing.assert_array_equal(shuffled, shuffle_weights(weights, data))


def test_a_control_adapts_the_penalty_as_the_denoiser_does() -> None:
    data = clicks()
    denoiser = ProRec(NCE(rank=3, regularization=5.0), noise_method=NoiseFinder(SVD(rank=3), folds=3))
    control = make_control(denoiser).fit(data)
    (weight,) = set(control.weights_.data.tolist())
    assert 0 < weight < 1
    expected = NCE(rank=3, regularization=5.0 * weight**3).fit(data.with_weights(np.full(len(data), weight)))
    np.testing.assert_allclose(control.model_.arrays_["items"], expected.arrays_["items"], rtol=1e-5)


def test_weights_are_shuffled_within_users() -> None:
    data = clicks()
    weights = np.random.default_rng(0).random(len(data)).astype(np.float32)
    shuffled = shuffle_within_users(weights, data)
    assert (shuffled != weights).mean() > 0.8
    for begin, end in zip(data.matrix.indptr, data.matrix.indptr[1:], strict=False):
        assert sorted(shuffled[begin:end]) == sorted(weights[begin:end])
    np.testing.assert_array_equal(shuffled, shuffle_within_users(weights, data))


@pytest.mark.parametrize("change", [equalize_weights, average_by_user, shuffle_within_users])
def test_the_model_of_a_control_is_fitted_to_its_weights(change: WeightChange) -> None:
    data, model = clicks(), NCE(rank=3)
    denoiser = ProRec(model, noise_method="plan").fit(data)
    control = make_control(ProRec(model, noise_method="plan"), change).fit(data)
    expected = change(denoiser.weights_.data, data)
    np.testing.assert_array_equal(control.weights_.data, expected)
    fitted = NCE(rank=3).fit(data.with_weights(expected))
    np.testing.assert_array_equal(control.model_.arrays_["items"], fitted.arrays_["items"])
    assert np.abs(fitted.arrays_["items"] - denoiser.model_.arrays_["items"]).max() > 1e-6
