from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from prorec import Factors, InputError

WHOLE_NUMBERS: Any = ([[1, 2]], [[3, 4]])


def test_precision_is_kept() -> None:
    assert Factors(np.ones((2, 3)), np.ones((4, 3), dtype=np.float32)).users.dtype == np.float64
    assert Factors(*WHOLE_NUMBERS).users.dtype == np.float32
    assert Factors(np.ones((2, 3)), np.ones((4, 3))).shape == (2, 4)


def test_repr() -> None:
    assert repr(Factors(np.ones((1, 1)), np.ones((2, 1)), np.ones(2), "sigmoid")) == (
        "Factors(1 users × 2 items, width 1, with item bias, sigmoid link)"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"users": [[1.0, np.nan]]}, r"users must be finite; users\[0, 1\] is nan"),
        ({"items": [[1.0, np.inf]]}, r"items must be finite; items\[0, 1\] is inf"),
        ({"users": [[1.0]]}, "one width; users is 1 × 1, items 2 × 2"),
        ({"users": [1.0, 2.0]}, "users must have 2 dimensions; got 1"),
        ({"items": [["a", "b"]]}, "items must be an array of numbers; got <U1"),
        ({"item_bias": [1.0]}, "item_bias must have one number for each of 2 items; got 1"),
        ({"item_bias": [1.0, np.nan]}, "item_bias must be finite"),
        ({"link": "tanh"}, "link must be one of 'identity', 'sigmoid', got 'tanh'"),
        ({"users": np.empty((0, 2))}, "users must have at least one row"),
    ],
)
def test_bad_factors(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"users": [[1.0, 2.0]], "items": [[1.0, 2.0], [3.0, 4.0]], **changes}
    with pytest.raises(InputError, match=message):
        Factors(**arguments)
