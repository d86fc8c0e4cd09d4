"""Inverses of Gram matrices against NumPy's in double precision."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec.noise import gram_inverse
from prorec.noise.gram_inverse import invert_gram


@pytest.mark.parametrize("n_columns", [1, 7, 64, 150])
def test_inverses_are_those_of_numpy(n_columns: int) -> None:
    clicks = csr_array((np.random.default_rng(n_columns).random((300, n_columns)) < 0.2).astype(np.float32))
    clicks.data[:] = 0.5  # every entry counts as 1
    dense = (clicks.toarray() > 0).astype(np.float64)
    for ridge, inverse in zip((1.0, 30.0), invert_gram(clicks, (1.0, 30.0)), strict=True):
        assert inverse.dtype == np.float32
        np.testing.assert_allclose(inverse, np.linalg.inv(dense.T @ dense + ridge * np.eye(n_columns)), atol=2e-6)
        np.testing.assert_array_equal(inverse, inverse.T)


def test_inverses_have_the_same_bits_on_any_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    clicks = csr_array((np.random.default_rng(0).random((400, 300)) < 0.2).astype(np.float32))
    on_all = invert_gram(clicks, (30.0, 300.0))
    monkeypatch.setattr(gram_inverse, "N_CORES", 1)
    monkeypatch.setattr(gram_inverse, "_COLUMNS_PER_PIECE", 37)
    for one, other in zip(on_all, invert_gram(clicks, (30.0, 300.0)), strict=True):
        np.testing.assert_array_equal(one, other)
