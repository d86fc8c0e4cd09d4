"""Labels by models that have not seen the click, against a plain loop over folds."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec import InputError, NoiseFinder, ProRec
from prorec._core.random import make_generator
from prorec.denoise.cross_fitted_labels import cross_fit_labels
from prorec.models import NCE, SVD
from prorec.noise.cross_fitting import assign_folds
from tests.models.helpers import clicks

GAMMA, BETA = 0.3, 20.0


def label_densely(scores: NDArray[np.float64], train: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return r of all pairs: the plan (Eq. 7), each user's best split (Eq. 20) by trying all, and Eq. 22."""
    kernel = np.exp(scores / GAMMA)
    items, users = train.sum(0) / train.sum(), train.sum(1) / train.sum()
    plan = kernel * np.maximum(items / kernel.sum(0), (users / kernel.sum(1))[:, None])
    shares = plan / plan.sum(1, keepdims=True)
    labels: NDArray[np.float64] = np.empty_like(shares)
    for row, out in zip(shares, labels, strict=True):
        ranked = np.sort(row)[::-1]
        errors = [ranked[:k].var() * k + ranked[k:].var() * (len(row) - k) for k in range(1, len(row))]
        out[:] = 1 / (1 + np.exp(-BETA * (row - ranked[np.argmin(errors)])))
    return labels


def test_each_click_is_labelled_by_the_model_of_the_other_folds() -> None:
    data, n_folds = clicks(), 3
    denoiser = ProRec(SVD(rank=3), gamma=GAMMA, beta=BETA)
    labels = cross_fit_labels(denoiser, data, n_folds, 7, None)
    dense = data.matrix.toarray().astype(np.float64)
    folds = assign_folds(data.matrix, n_folds, make_generator(7))
    expected = np.empty(len(data))
    for fold in range(n_folds):
        is_left_out = folds == fold
        train = dense.copy()
        train[data.user_codes[is_left_out], data.item_codes[is_left_out]] = 0
        _, _, right = np.linalg.svd(train)
        scores = train @ right[:3].T @ right[:3]
        expected[is_left_out] = label_densely(scores, train)[data.user_codes, data.item_codes][is_left_out]
    np.testing.assert_allclose(labels, expected, atol=1e-4)
    in_sample = label_densely(dense @ right[:3].T @ right[:3], dense)[data.user_codes, data.item_codes]
    assert np.abs(in_sample - expected).max() > 0.1, "another result than of models that have seen the click"


def test_a_model_that_fails_without_a_fold_is_named() -> None:
    class Picky:
        def fit(self, matrix: csr_array) -> None:
            if matrix.nnz < 400:
                raise InputError("400 clicks are needed")

    data = clicks()
    assert len(data) >= 400 > len(data) * 2 / 3
    with pytest.raises(InputError, match="Picky without fold 1 of 3: 400 clicks are needed"):
        cross_fit_labels(ProRec(Picky()), data, 3, 0, None)


def test_labels_are_not_asked_for_where_the_log_cannot_tell() -> None:
    rng = np.random.default_rng(0)
    popularity = rng.zipf(1.5, 60).clip(max=40) / 40
    matrix = csr_array((rng.random((200, 60)) < popularity * 0.2).astype(np.float32))
    stages: list[str] = []
    denoiser = ProRec(NCE(rank=3), noise_method=NoiseFinder(folds=3), weighting="both")
    denoiser.fit(matrix, progress=lambda stage, *_: stages.append(stage))
    assert not denoiser.finder_.noise_rate_.is_identified
    assert (denoiser.weights_.data == 1).all(), "weights that the finder does not stand for"
    assert "Cross-fitting the model" not in stages
