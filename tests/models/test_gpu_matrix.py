"""Sparse matrices on the CPU and on a device against dense arithmetic, and blocks that shrink when memory runs out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from prorec import InputError
from prorec.models._cpu_matrix import CpuMatrix, normalize_rows, row_sums
from prorec.models._gpu_matrix import GpuMatrix, run_in_blocks
from tests.models.helpers import UNUSUAL, make_unusual_matrix


@pytest.mark.parametrize("name", UNUSUAL)
def test_products(device: torch.device, name: str) -> None:
    matrix = make_unusual_matrix(name)
    exact = matrix.toarray().astype(np.float64)
    on_device = GpuMatrix.from_scipy(matrix, device)
    rng = np.random.default_rng(0)
    right, left = (rng.normal(size=(n, 3)).astype(np.float32) for n in matrix.shape[::-1])
    assert_close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)
    assert_equal_double = partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-12)
    for each in (on_device, CpuMatrix(matrix)):
        product = each.times(right)
        assert_close(each.to_host(product), exact @ right)
        assert_close(each.to_host(each.transposed.times(left)), exact.T @ left)
        twice = each.transposed.times(product)
        np.testing.assert_allclose(each.to_host(twice), exact.T @ (exact @ right), rtol=1e-4, atol=1e-4)
        assert_close(each.column_norms_double(product), np.linalg.norm(exact @ right, axis=0))
        assert_close(each.to_host(each.column_norms(product)), np.linalg.norm(exact @ right, axis=0))
        assert_equal_double(each.gram(), exact.T @ exact)
        assert_equal_double(each.transposed.gram(), exact @ exact.T)
        assert_equal_double(each.transposed.times_double(left.astype(np.float64)), exact.T @ left.astype(np.float64))
        assert_equal_double(each.column_sums(), exact.sum(axis=0))
        assert each.count_nonzero() == np.count_nonzero(exact)
        assert each.max_value() == exact.max()
        factors = rng.random(matrix.shape[1])
        scaled = each.scale_columns(factors).divide(0.5)
        assert_close(scaled.to_host(scaled.times(right)), 2 * (exact * factors) @ right)
        by_row = rng.random(matrix.shape[0])
        scaled = each.scale_rows(by_row)
        assert_close(scaled.to_host(scaled.times(right)), (by_row[:, None] * exact) @ right)
        assert_close(each.dense_gram(product), (exact @ right).T @ (exact @ right))
        assert each.sum_of_squares(product) == pytest.approx(((exact @ right) ** 2).sum(), rel=1e-5)
    np.testing.assert_allclose(row_sums(matrix), exact.sum(axis=1), rtol=1e-6)
    assert on_device.digest() == GpuMatrix.from_scipy(matrix, device).digest()
    assert (on_device.digest() != on_device.divide(2).digest()) == exact.any()


@pytest.mark.parametrize("name", UNUSUAL)
def test_normalized_rows_have_unit_norm(device: torch.device, name: str) -> None:
    matrix = make_unusual_matrix(name)
    norms = np.linalg.norm(matrix.toarray().astype(np.float64), axis=1, keepdims=True)
    expected = matrix.toarray() / np.where(norms > 0, norms, 1)
    np.testing.assert_allclose(normalize_rows(matrix).toarray(), expected, rtol=1e-6)
    values = GpuMatrix.from_scipy(matrix, device).normalize_rows().values.cpu().numpy()
    np.testing.assert_allclose(values, normalize_rows(matrix).data, rtol=1e-6)


def test_segments_of_segments(device: torch.device) -> None:
    """A row of 3,000 entries is cut five times over, at 5 a segment."""
    rng = np.random.default_rng(0)
    dense = rng.random((4, 3000)).astype(np.float32)
    dense[2] = 0
    matrix = GpuMatrix.from_scipy(csr_array(dense), device)
    assert len(matrix.pattern.segment_starts) == 5
    sums = matrix.to_host(matrix.times(np.ones((3000, 1), np.float32))).ravel()
    np.testing.assert_allclose(sums, dense.sum(axis=1), rtol=1e-5)


def _work_within(limit: int, done: list[int]) -> Callable[[int, int], None]:
    """Return work that runs out of memory for more than `limit` rows at a time."""

    def work(begin: int, end: int) -> None:
        if end - begin > limit:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        done.extend(range(begin, end))

    return work


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_blocks_are_halved_until_they_fit(limit: int) -> None:
    done: list[int] = []
    run_in_blocks(_work_within(limit, done), [0, 40, 41, 100])
    assert done == list(range(100))
    run_in_blocks(_work_within(limit, done), [0])


def test_a_row_that_does_not_fit_is_refused() -> None:
    done: list[int] = []
    with pytest.raises(InputError, match=r"one row does not fit into the device's memory; .*device='cpu'"):
        run_in_blocks(_work_within(0, done), [0, 9])
    assert done == []
