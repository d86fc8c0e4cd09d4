"""Recommendations from a device of PyTorch against the CPU's kernels and a sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec import InputError
from prorec.models import CDAE, SVD, VAE, WRMF, Model, Recommendations, _gpu_top_k
from prorec.models._gpu_top_k import GpuRanker
from tests.models.helpers import clicks, fit_on_cpu
from tests.models.test_gpu_models import MODELS


@pytest.mark.parametrize("model", [*MODELS, CDAE(4, epochs=2), VAE(4, epochs=2)], ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("k", [1, 3, 30])
def test_recommends_as_on_the_cpu(device: torch.device, model: Model, k: int) -> None:
    data = clicks()
    fitted = fit_on_cpu(model, data)
    baskets = [data.items[data.matrix[[user]].indices].tolist() for user in range(5)]

    def recommend() -> list[Recommendations]:
        return [
            fitted.recommend(data.users[::-1], k),
            fitted.recommend(data.users, k, exclude_seen=False),
            fitted.recommend_new([*baskets, []], k),
        ]

    expected = recommend()
    fitted.set_params(device="auto")
    for result, reference in zip(recommend(), expected, strict=True):
        np.testing.assert_allclose(result.scores, reference.scores, rtol=1e-4, atol=1e-4)
        assert np.mean(result.item_positions == reference.item_positions) > 0.99
        assert result.item_positions.dtype == reference.item_positions.dtype
        assert result.users.tolist() == reference.users.tolist()
    assert fitted.recommend([], k=3).item_positions.shape == (0, 3)


def _sort(scores: NDArray[Any], k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return columns and scores of the k largest of each row by a stable sort."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(scores, order, axis=1)
    return np.where(best == -np.inf, -1, order), np.where(best == -np.inf, 0, best)


@pytest.mark.parametrize("n_items", [1, 7, 64, 65, 200, 1000])
def test_the_first_of_equal_items_comes_first(device: torch.device, n_items: int) -> None:
    """Scores have few values, negative ones, −0 and ties across groups; rows are out of order, one has seen all."""
    rng = np.random.default_rng(n_items)
    users = rng.integers(-2, 3, (30, 3)).astype(np.float32)
    items = rng.integers(-1, 2, (n_items, 3)).astype(np.float32)
    bias = rng.integers(-1, 2, n_items).astype(np.float32) * np.float32(-0.0 if n_items == 7 else 1)
    is_seen = rng.random((30, n_items)) < 0.3
    is_seen[3], is_seen[4] = True, False
    rows = np.array([5, 6, 7, 3, 4, 29, 0, 0])
    is_empty = np.array([False, True, False, True, False, False, False, True])
    popularity = rng.integers(0, 4, n_items).astype(np.float32)
    seen = csr_array(is_seen.astype(np.float32))
    arrays = {"items": items, "item_bias": bias}
    for k in sorted({1, min(10, n_items), n_items}):
        for is_masked in (True, False):
            excluded = (seen.indptr, seen.indices) if is_masked else None
            ranked, best = GpuRanker(arrays, k, excluded, popularity, device).rank(users, rows, is_empty)
            scores = users[rows] @ items.T + bias
            scores[is_empty] = popularity
            scores[is_seen[rows] & is_masked] = -np.inf
            columns, values = _sort(scores, k)
            np.testing.assert_array_equal(ranked, columns)
            np.testing.assert_array_equal(best, values)


def test_results_are_fetched_before_too_many_wait(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_gpu_top_k, "_MAX_WAITING", 100)
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(100, 4)).astype(np.float32), rng.normal(size=(90, 4)).astype(np.float32)
    ranker = GpuRanker({"items": items}, 4, None, None, device)
    ranked, _ = ranker.rank(users, np.arange(100), np.zeros(100, dtype=bool))
    assert np.mean(ranked == _sort(users @ items.T, 4)[0]) > 0.99


def test_recommends_with_little_memory(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of more than three users fails, and the result stays the same."""
    model = WRMF(rank=3, sweeps=2).fit(clicks())
    expected = model.recommend(clicks().users, k=4).item_positions
    rank_block = GpuRanker._rank_block

    def fail_for_large_blocks(self: GpuRanker, users: Any, rows: Any, is_empty: Any) -> Any:
        if len(rows) > 3:
            raise torch.OutOfMemoryError("short")
        return rank_block(self, users, rows, is_empty)

    monkeypatch.setattr(GpuRanker, "_rank_block", fail_for_large_blocks)
    np.testing.assert_array_equal(model.recommend(clicks().users, k=4).item_positions, expected)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("device_name", ["auto", "cpu"])
def test_scores_that_are_too_large_are_refused(device: torch.device, device_name: str) -> None:
    model = SVD(rank=2, device=device_name).fit(clicks())
    model.arrays_ = {name: np.full_like(array, 1e30) for name, array in model.arrays_.items()}
    with pytest.raises(InputError, match="finite in single precision"):
        model.recommend(["user 1"])
