"""Weights of controls, worked by hand, and the model that they are fitted with."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec import Interactions, ProRec
from prorec.denoise.controls import (
    WeightChange,
    average_by_user,
    equalize_weights,
    make_control,
    shuffle_within_users,
)
from prorec.models import NCE
from tests.models.helpers import clicks

DATA = Interactions.from_matrix(csr_array(np.array([[1, 1, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]], dtype=np.float32)))
WEIGHTS = np.array([0.1, 0.2, 0.9, 0.5, 1.0], dtype=np.float32)


def test_weights_by_hand() -> None:
    np.testing.assert_allclose(equalize_weights(WEIGHTS, DATA), [0.54] * 5, rtol=1e-6)
    np.testing.assert_allclose(average_by_user(WEIGHTS, DATA), [0.4, 0.4, 0.4, 0.75, 0.75], rtol=1e-6)


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
    denoiser = ProRec(model).fit(data)
    control = make_control(ProRec(model), change).fit(data)
    expected = change(denoiser.weights_.data, data)
    np.testing.assert_array_equal(control.weights_.data, expected)
    fitted = NCE(rank=3).fit(data.with_weights(expected))
    np.testing.assert_array_equal(control.model_.arrays_["items"], fitted.arrays_["items"])
    assert np.abs(fitted.arrays_["items"] - denoiser.model_.arrays_["items"]).max() > 1e-6
