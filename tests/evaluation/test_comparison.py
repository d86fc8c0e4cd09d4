"""Comparison of several recommenders on several splits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import prorec
from prorec import InputError
from prorec.evaluation.comparison import compare_on_splits
from prorec.models import NCE, Popularity
from tests.models.helpers import clicks


def test_users_are_averaged_over_splits_before_anything_is_tested() -> None:
    data = clicks()
    result = compare_on_splits({"popularity": Popularity(), "nce": NCE(rank=3)}, data, n_seeds=3, k=5)
    by_seed = []
    for seed in range(3):
        parts = prorec.split_by_user(data, (0.7, 0.3), seed=seed)
        by_seed.append(prorec.evaluate(NCE(rank=3).fit(parts.train), parts.test, k=5))
    expected = np.mean([each.per_user["ndcg@5"] for each in by_seed], axis=0)
    np.testing.assert_allclose(result.results["nce"].per_user["ndcg@5"], expected)
    np.testing.assert_array_equal(result.results["nce"].users, by_seed[0].users)
    (row,) = [each for each in result.comparisons if each.metric == "ndcg@5"]
    gain = expected - result.results["popularity"].per_user["ndcg@5"]
    assert row.difference == pytest.approx(gain.mean())
    assert result.n_users == len(by_seed[0].users)
    assert "3 splits" in repr(result)


@pytest.mark.parametrize("models", [{}, [NCE()], {"a": 3}, {3: NCE()}])
def test_bad_models_are_refused(models: Any) -> None:
    with pytest.raises(InputError):
        compare_on_splits(models, clicks())


def test_data_and_progress_are_checked() -> None:
    for wrong in ({"interactions": None}, {"interactions": clicks(), "progress": 3}):
        with pytest.raises(InputError):
            compare_on_splits({"a": NCE(rank=3)}, **wrong)
