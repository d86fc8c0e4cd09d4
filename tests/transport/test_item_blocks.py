"""Item factors in blocks give the scores of item factors in one array."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec.transport.backend import CpuBackend
from prorec.transport.blocks import Blocks
from prorec.transport.factors import Factors
from prorec.transport.item_blocks import BlockedFactors
from prorec.transport.scores import ScaledFactors


def test_a_factor_that_is_zero_for_all_items_does_not_matter() -> None:
    users, blocks = np.array([[3e38, 1]], dtype=np.float32), [np.array([[0, value]], np.float32) for value in (1, 0.5)]
    scores = BlockedFactors(users, blocks, 0.1)
    block = scores.compute_single(np.arange(1), np.empty((1, 2), dtype=np.float32))
    assert block is not None
    np.testing.assert_allclose(block, [[10, 5]], rtol=1e-6)


@pytest.mark.parametrize("max_exponent", [40, 0], ids=["items as they are", "items scaled"])
@pytest.mark.parametrize("size", [1.0, 30.0], ids=["single precision", "some in double"])
def test_equals_one_block_of_items(size: float, max_exponent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prorec.transport.item_blocks._MAX_EXPONENT", max_exponent)
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(50, 6)).astype(np.float32) * size, rng.normal(size=(40, 6)).astype(np.float32)
    items[:15] *= 1e-3  # blocks of very different sizes
    at_once = CpuBackend(Blocks(ScaledFactors(Factors(users, items), 0.5)))
    scores = BlockedFactors(users, [items[:15], items[15:16], items[16:]], 0.5)
    in_blocks = CpuBackend(Blocks(scores, workers=1))
    assert (scores.n_double > 0) == (size > 1)
    for ours, theirs in zip(in_blocks.log_sums(), at_once.log_sums(), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)
    observed = csr_array((rng.random((50, 40)) < 0.2).astype(np.float32))
    potentials = rng.normal(size=50), rng.normal(size=40)
    kappa, threshold, shares = in_blocks.match(*potentials, 0, observed)
    others = at_once.match(*potentials, 0, observed)
    assert (kappa == others[0]).mean() > 0.95
    np.testing.assert_allclose(shares, others[2], atol=1e-5)
    np.testing.assert_allclose(threshold[kappa == others[0]], others[1][kappa == others[0]], atol=1e-5)
    rows, columns = rng.integers(50, size=30), rng.integers(40, size=30)
    np.testing.assert_allclose(
        scores.compute_pairs(rows, columns), at_once.blocks.scores.compute_pairs(rows, columns), rtol=1e-6, atol=1e-9
    )
