"""The split without sorting agrees with brute force in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from prorec import InputError
from prorec.transport import find_row_thresholds
from prorec.transport.kernels.row_split import BUCKETS, find_kth_largest

POSITIVE = st.floats(0, 2.0**127, width=32)
SMALL_WHOLE = st.integers(0, 4).map(float)


def brute_force(row: NDArray[Any]) -> tuple[int, float, list[Fraction]]:
    """Find κ by trying every split in exact fractions, so that ties are ties."""
    values = sorted((Fraction(float(value)) for value in row), reverse=True)
    n, total, upper = len(values), sum(values), Fraction(0)
    gains = []
    for kappa in range(1, n):
        upper += values[kappa - 1]
        mean, rest = upper / kappa, (total - upper) / (n - kappa)
        gains.append(upper * mean + (total - upper) * rest)  # Σv² less the squared errors
    kappa = 1 + gains.index(max(gains)) if gains else 1
    return kappa, float(values[kappa - 1]), gains


def split_by_sorting(row: NDArray[Any]) -> tuple[int, float]:
    """Find κ by a full sort and cumulated sums, in double precision."""
    values = np.sort(row)[::-1]
    n = len(values)
    kappa = np.arange(1, n)
    centred = np.cumsum(values.astype(float) - values.mean(dtype=float))[:-1]
    best = int(np.argmax(centred**2 / (kappa * (n - kappa))))
    return best + 1, float(values[best])


def check(row: NDArray[Any]) -> None:
    kappa, threshold = (answer[0] for answer in find_row_thresholds(row[None]))
    wanted, value, gains = brute_force(row)
    if kappa != wanted:  # only where rounding in double precision cannot tell the two apart
        base = sum(Fraction(float(v)) for v in row) ** 2 / len(row)
        assert abs(gains[kappa - 1] - gains[wanted - 1]) <= Fraction(1, 10**13) * (gains[wanted - 1] - base)
        assert threshold == np.sort(row)[len(row) - kappa]
    else:
        assert threshold == np.float32(value)


@settings(max_examples=1000)
@given(hnp.arrays(np.float32, st.integers(1, 40), elements=POSITIVE))
def test_equals_brute_force(row: NDArray[Any]) -> None:
    check(row)


@settings(max_examples=1000)
@given(hnp.arrays(np.float32, st.integers(1, 30), elements=SMALL_WHOLE))
def test_equals_brute_force_on_ties(row: NDArray[Any]) -> None:
    kappa, threshold = find_row_thresholds(row[None])
    wanted, value, _ = brute_force(row)
    assert (kappa[0], threshold[0]) == (wanted, value)


@settings(max_examples=300)
@given(st.integers(1, 12), st.integers(0, 10**6), st.sampled_from(["flat", "heavy", "one-hot", "bimodal", "equal"]))
def test_equals_brute_force_on_shapes(size: int, seed: int, shape: str) -> None:
    rng = np.random.default_rng(seed)
    n = size * size
    row = {
        "flat": 1 + 1e-6 * rng.standard_normal(n),
        "heavy": np.exp(5 * rng.standard_normal(n)),
        "one-hot": np.eye(1, n, int(rng.integers(n)))[0],
        "bimodal": rng.choice([1.0, 100.0], n) + rng.random(n),
        "equal": np.full(n, rng.random()),
    }[shape]
    check(row.astype(np.float32))


@pytest.mark.parametrize("n", [1025, 5000, 40_981])
@pytest.mark.parametrize("spread", [0, 1e-6, 1e-3, 0.1, 0.5, 1, 2, 5, 15])
def test_equals_a_full_sort_on_long_rows(n: int, spread: float) -> None:
    rng = np.random.default_rng(n)
    rows = np.exp(spread * rng.standard_normal((20, n))).astype(np.float32)
    rows[10:] = np.maximum(rows[10:], np.float32(1))  # half of each row is one tie
    rows[15:, : n // 3] *= np.float32(50)
    kappa, threshold = find_row_thresholds(rows)
    wanted = [split_by_sorting(row) for row in rows] if spread else [(1, 1.0)] * 15 + [(n // 3, 50.0)] * 5
    assert list(zip(kappa.tolist(), threshold.tolist(), strict=True)) == wanted


def test_two_equally_good_splits_far_apart() -> None:
    # Mirrored around its middle, a row has two best splits; the smaller κ is taken, whatever lies between.
    half = np.linspace(0, 1, 2000) ** 8
    row = np.concatenate([half, 2 - half[::-1]]).astype(np.float32) + np.float32(5)
    wanted, value, _ = brute_force(row)
    kappa, threshold = find_row_thresholds(row[None])
    assert (kappa[0], threshold[0]) == (wanted, value)


def test_far_apart_and_few_values_between() -> None:
    """Every power of two once, and many zeros: each bucket holds one value."""
    row = np.concatenate([np.float32(2.0) ** np.arange(-100, 100), np.zeros(8 * BUCKETS)]).astype(np.float32)
    kappa, threshold = find_row_thresholds(row[None])
    assert (kappa[0], threshold[0]) == brute_force(row)[:2]


def test_survivors_at_both_ends_of_the_span() -> None:
    """Three clusters on a ground, mirrored in the middle one: two equally good splits, many values between them."""
    rng = np.random.default_rng(0)
    low = np.concatenate([5 + 0.12 * rng.standard_normal(1000), rng.uniform(4.6, 6, 2000)]).clip(4.1, 5.9)
    middle = (6 + 0.12 * np.abs(rng.standard_normal(2000))).clip(6, 7.9)
    half = np.concatenate([low, middle]).astype(np.float32)
    row = np.concatenate([half, np.float32(12) - half])
    kappa, threshold = find_row_thresholds(row[None])
    assert (kappa[0], threshold[0]) == brute_force(row)[:2]


def test_a_mean_that_single_precision_rounds() -> None:
    """Four million values a few steps apart: the distance between mean and rounded mean, times so many, decides."""
    step = np.spacing(np.float32(1.0))
    row = np.full(4_000_000, 1.0, dtype=np.float32)
    row[:80_000] -= 3 * step / 2
    row[80_000:160_000] -= 10 * step
    row[-1] += 2 * step
    kappa, threshold = find_row_thresholds(row[None])
    assert (int(kappa[0]), float(threshold[0])) == split_by_sorting(row)


@settings(max_examples=300)
@given(hnp.arrays(np.float32, st.integers(1, 300), elements=POSITIVE | SMALL_WHOLE), st.data())
def test_kth_largest(row: NDArray[Any], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(row)))
    row = row + np.float32(0)
    assert find_kth_largest(row, k, np.empty(len(row), dtype=np.int32)) == np.sort(row)[len(row) - k]


@settings(max_examples=200)
@given(hnp.arrays(np.float32, st.integers(2, 50), elements=st.floats(0, 2.0**20, width=32)), st.integers(-20, 20))
def test_scaling_a_row_changes_nothing(row: NDArray[Any], power: int) -> None:
    row[row < 1e-3] = 0  # so that nothing is lost to underflow
    kappa, threshold = find_row_thresholds(row[None])
    scaled, scaled_threshold = find_row_thresholds((row * np.float32(2.0**power))[None])
    assert (scaled[0], scaled_threshold[0]) == (kappa[0], threshold[0] * np.float32(2.0**power))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([1.0, 2.0], "two dimensions"),
        ([[], []], "at least one column"),
        ([[1.0, -1.0]], "not negative"),
        ([[1.0, np.nan]], "finite"),
        ([[1.0, np.inf]], "finite"),
        ([["a"]], "array of numbers"),
    ],
)
def test_bad_rows(rows: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_row_thresholds(rows)


def test_no_rows() -> None:
    kappa, threshold = find_row_thresholds(np.empty((0, 3)))
    assert len(kappa) == len(threshold) == 0
