"""Relabelling against Eq. 22 and 23 worked by hand, and its limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from prorec import InputError
from prorec.transport import Marginals, Matching, compute_label_probabilities, relabel, relaxed
from tests.transport.problems import make_problem


def worked_example() -> tuple[csr_array, Matching]:
    weights = csr_array(np.array([[1, 0, 0.5], [0, 1, 0]], dtype=np.float32))
    threshold, shares = np.array([0.6, 0.2], dtype=np.float32), np.array([0.6, 0.1, 0.7], dtype=np.float32)
    return weights, Matching.from_arrays(weights, np.array([1, 2]), threshold, shares)


def test_by_hand() -> None:
    weights, matching = worked_example()
    # Margins 0, −.5, .5; times β = 2: 0, −1, 1.
    r = [0.5, 1 / (1 + np.e), np.e / (1 + np.e)]
    np.testing.assert_allclose(compute_label_probabilities(matching, 2), r, rtol=1e-6)
    new = relabel(weights, matching, 2, 0.25)
    np.testing.assert_allclose(new.toarray(), [[0.625, 0, 0.125 + 0.375 * r[1]], [0, 0.25 + 0.75 * r[2], 0]], rtol=1e-6)
    assert new.dtype == np.float32
    new.data[:] = 0
    new.eliminate_zeros()
    assert weights.toarray().tolist() == [[1, 0, 0.5], [0, 1, 0]]


def test_anchored_ends_where_the_labels_are() -> None:
    weights, matching = worked_example()
    compounding = anchored = weights
    for _ in range(200):
        compounding = relabel(compounding, matching, 2, 0.5)
        anchored = relabel(anchored, matching, 2, 0.5, original=weights)
    assert compounding.data.max() < 1e-6
    np.testing.assert_allclose(anchored.data, compute_label_probabilities(matching, 2) * weights.data, rtol=1e-6)


def test_all_or_nothing() -> None:
    weights, matching = worked_example()
    np.testing.assert_array_equal(relabel(weights, matching, 20, 1).data, weights.data)
    np.testing.assert_allclose(relabel(weights, matching, 0, 0).data, 0.5 * weights.data)
    np.testing.assert_allclose(compute_label_probabilities(matching, 1e308), [0.5, 0, 1])


def test_of_a_plan() -> None:
    problem = make_problem(40, 30)
    matching = relaxed(problem.factors, problem.marginals, 0.1).match(problem.observed)
    new = relabel(problem.observed, matching, 20, 0.5)
    assert new.shape == problem.observed.shape
    assert ((new.data >= 0.5) & (new.data <= 1)).all()
    is_below = matching.margins < 0
    assert new.data[is_below].max() < 0.75 <= new.data[~is_below].min()
    assert "40 users" in repr(matching)


def test_entries_that_were_sorted_since() -> None:
    unsorted = csr_array((np.ones(3, dtype=np.float32), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    matching = relaxed(make_problem(2, 3).factors, Marginals.uniform(2, 3), 1.0).match(unsorted)
    unsorted.sort_indices()
    with pytest.raises(InputError, match="weights must have the 3 entries that were matched, in their order"):
        relabel(unsorted, matching, 1, 0.5)


def test_bad_arguments() -> None:
    weights, matching = worked_example()
    with pytest.raises(InputError, match="beta must be"):
        relabel(weights, matching, np.nan, 0.5)
    with pytest.raises(InputError, match="beta must be"):
        relabel(weights, matching, -1, 0.5)
    with pytest.raises(InputError, match="lam must be a finite number from 0 to 1"):
        relabel(weights, matching, 1, 1.5)
    other = csr_array(np.array([[1, 1, 0], [0, 1, 0]], dtype=np.float32))
    with pytest.raises(InputError, match="weights must have the 3 entries that were matched"):
        relabel(other, matching, 1, 0.5)
    with pytest.raises(InputError, match="weights must be a csr matrix of numbers; got ndarray"):
        relabel(weights.toarray(), matching, 1, 0.5)
    with pytest.raises(InputError, match=r"matching must be a result of plan\.match; got NoneType"):
        relabel(weights, None, 1, 0.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"matching must be a result of plan\.match; got NoneType"):
        compute_label_probabilities(None, 1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="weights must be finite"):
        relabel(weights * np.float32(np.nan), matching, 1, 0.5)
    with pytest.raises(InputError, match="original must have the 3 entries that were matched"):
        relabel(weights, matching, 1, 0.5, original=other)
