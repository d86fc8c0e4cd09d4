from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, hstack

from prorec import InputError
from prorec.transport import Marginals


def test_popularity_by_hand() -> None:
    marginals = Marginals.popularity(csr_array(np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]])))
    assert marginals.items.tolist() == [0.5, 0.25, 0.25, 0]
    assert marginals.users.tolist() == [0.5, 0.5, 0]
    assert marginals.shape == (3, 4)
    assert marginals.log_users.tolist() == [np.log(0.5), np.log(0.5), -np.inf]


def test_uniform() -> None:
    marginals = Marginals.uniform(4, 5)
    assert marginals.users.tolist() == [0.25] * 4
    assert marginals.items.sum() == pytest.approx(1)


def test_nearly_one_is_made_one() -> None:
    marginals = Marginals(items=np.array([0.5, 0.5 + 5e-7]), users=np.ones(1))
    assert marginals.items.sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0.5, 0.4], "items must sum to 1; the sum is 0.9"),
        ([0.5, 0.5 + 2e-6], "items must sum to 1"),
        ([1.5, -0.5], r"items must not be negative; items\[1\] is -0.5"),
        ([0.5, np.nan], r"items must be finite; items\[1\] is nan"),
        ([[0.5, 0.5]], "items must be a vector"),
        ([], "items must be a vector"),
        (["a"], "items must be an array of numbers"),
    ],
)
def test_bad_marginals(values: Any, message: str) -> None:
    one = np.ones(1)
    with pytest.raises(InputError, match=message):
        Marginals(items=values, users=one)
    with pytest.raises(InputError, match=message.replace("items", "users")):
        Marginals(items=one, users=values)


def test_long_columns_of_single_precision() -> None:
    """Three million times .7 is 2.1 million, which single precision does not add up to."""
    column = csr_array(np.full((3_000_000, 1), 0.7, dtype=np.float32))
    other = csr_array(([1.0], ([0], [0])), shape=(3_000_000, 1), dtype=np.float32)
    marginals = Marginals.popularity(hstack([column, other], format="csr"))
    assert marginals.items[1] == pytest.approx(1 / (3_000_000 * np.float64(np.float32(0.7)) + 1), rel=1e-9)


def test_no_interactions() -> None:
    with pytest.raises(InputError, match="matrix must have interactions to take popularity from; its weights sum to 0"):
        Marginals.popularity(csr_array((2, 3)))
    with pytest.raises(InputError, match="matrix must have finite weights of at least 0"):
        Marginals.popularity(csr_array(np.array([[1.0, -1.0], [3.0, 1.0]])))
    broken = csr_array(np.eye(3))
    broken.indices[0] = 99
    with pytest.raises(InputError, match="matrix: indices must be from 0 to 2; one is 99"):
        Marginals.popularity(broken)
    assert Marginals.popularity(csr_array(np.eye(2, dtype=np.longdouble))).items.tolist() == [0.5, 0.5]
    for nonsense in (None, "abc", [["a"]], np.array([[1j]])):
        with pytest.raises(InputError, match="matrix must be"):
            Marginals.popularity(nonsense)
    with pytest.raises(InputError, match="n_users must be"):
        Marginals.uniform(0, 3)
