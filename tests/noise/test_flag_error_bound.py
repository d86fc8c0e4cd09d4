"""The bound of the share of wrong flags, against scipy, enumeration and its promise."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from prorec import InputError
from prorec.noise import bound_wrong_share


def brute_force(n_checked: int, n_wrong: int, n_flagged: int, alpha: float) -> float:
    """Return the largest share that is not ruled out, by counting samples."""
    samples = comb(n_flagged, n_checked)
    for wrong in range(n_flagged, -1, -1):
        ways = sum(comb(wrong, x) * comb(n_flagged - wrong, n_checked - x) for x in range(n_wrong + 1))
        if ways > alpha * samples:
            return wrong / n_flagged
    raise AssertionError


def test_none_of_29() -> None:
    assert bound_wrong_share(29, 0) == pytest.approx(1 - 0.05 ** (1 / 29))
    assert bound_wrong_share(29, 0) < 0.1 < bound_wrong_share(28, 0)


@pytest.mark.parametrize(("n", "x"), [(1, 0), (10, 3), (29, 28), (29, 29), (500, 17)])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_agrees_with_scipy(n: int, x: int, confidence: float) -> None:
    expected = binomtest(x, n, alternative="less").proportion_ci(confidence, method="exact").high
    assert bound_wrong_share(n, x, confidence=confidence) == pytest.approx(expected)


@pytest.mark.parametrize("n_flagged", [1, 2, 7, 30, 60])
def test_finite_bound_agrees_with_enumeration(n_flagged: int) -> None:
    for n in range(n_flagged + 1):
        for x in range(n + 1):
            assert bound_wrong_share(n, x, n_flagged) == pytest.approx(brute_force(n, x, n_flagged, 0.05))
            assert bound_wrong_share(n, x, n_flagged) <= bound_wrong_share(n, x) + 1e-12


@pytest.mark.parametrize(("n_flagged", "n"), [(12, 5), (40, 29), (50, 10)])
def test_finite_bound_covers_every_number_of_wrong_flags(n_flagged: int, n: int) -> None:
    bounds = [bound_wrong_share(n, x, n_flagged) for x in range(n + 1)]
    for wrong in range(n_flagged + 1):
        missed = sum(
            comb(wrong, x) * comb(n_flagged - wrong, n - x)
            for x in range(n + 1)
            if bounds[x] < wrong / n_flagged - 1e-12
        )
        assert missed <= 0.05 * comb(n_flagged, n)


@pytest.mark.parametrize("n", [3, 29, 100])
def test_bound_covers_every_share(n: int) -> None:
    bounds = np.array([bound_wrong_share(n, x) for x in range(n + 1)])
    shares = np.linspace(0, 1, 501)
    coverage = np.array([binom.pmf(np.arange(n + 1), n, p)[bounds >= p].sum() for p in shares])
    assert coverage.min() >= 0.95 - 1e-9
    assert coverage[1:-1].min() < 0.97  # it is not a bound that always holds


def test_all_flags_checked_leaves_no_doubt() -> None:
    assert bound_wrong_share(20, 3, 20) == 3 / 20


def test_large_population_is_clopper_pearson() -> None:
    assert bound_wrong_share(29, 2, 10**7) == pytest.approx(bound_wrong_share(29, 2), abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((5, 6), "n_wrong"), ((-1, 0), "n_checked"), ((5, 1, 4), "n_flagged"), ((5.5, 1), "n_checked")],
)
def test_bad_counts(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bound_wrong_share(*arguments)


def test_bad_confidence() -> None:
    with pytest.raises(InputError, match="confidence must be above 0"):
        bound_wrong_share(5, 1, confidence=1)
