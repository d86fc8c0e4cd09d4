"""Threads of BLAS: one where prorec works on small matrices, and all of them again afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

import prorec
from prorec._core.parallel import single_blas_thread
from prorec.models import EASE, NCE
from prorec.noise import find_issues
from prorec.noise.density_ratio import fit_density_ratio


def count_blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Two threads, whatever the machine and its environment have."""
    with threadpool_limits(2, "blas"):
        yield


def test_one_thread_inside_and_all_again_outside() -> None:
    assert set(count_blas_threads()) == {2}, "numpy and scipy have a BLAS each"
    with single_blas_thread(), single_blas_thread(100):
        assert set(count_blas_threads()) == {1}
    assert set(count_blas_threads()) == {2}


def test_large_matrices_keep_all_threads() -> None:
    with single_blas_thread(10_000):
        assert set(count_blas_threads()) == {2}


@pytest.mark.parametrize(
    ("module", "function", "work"),
    [
        (np.linalg, "solve", lambda clicks: fit_density_ratio(np.arange(40.0)[:, None], np.arange(40) % 3 == 0)),
        (np.linalg, "solve", find_issues),
        (scipy.linalg.lapack, "dpotrf", lambda clicks: EASE().fit(clicks)),
        (prorec.models.nce, "cho_factor", lambda clicks: NCE(rank=5).fit(clicks)),
        (prorec.models.svd, "eigh", lambda clicks: NCE(rank=5).fit(clicks)),
    ],
)
def test_small_matrices_have_one_thread(
    module: Any, function: str, work: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, original = [], getattr(module, function)

    def count_and_call(*arguments: Any, **keywords: Any) -> Any:
        counts.extend(count_blas_threads())
        return original(*arguments, **keywords)

    monkeypatch.setattr(module, function, count_and_call)
    work(prorec.make_cinema(120, 60, seed=0).interactions)
    assert set(counts) == {1}
    assert set(count_blas_threads()) == {2}


def test_the_density_ratio_does_not_depend_on_the_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    features, is_click = rng.normal(size=(30_000, 5)), np.arange(30_000) % 2 == 0
    with threadpool_limits(1, "blas"):
        by_one = fit_density_ratio(features, is_click)
    np.testing.assert_array_equal(fit_density_ratio(features, is_click).coefficients, by_one.coefficients)
