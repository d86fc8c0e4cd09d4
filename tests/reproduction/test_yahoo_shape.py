from __future__ import annotations

import numpy as np
import pytest

from prorec import InputError
from prorec.data.cinema import EXPLORATION, MISTAKE
from prorec.data.registry import DATASETS
from reproduction.paper_tables import TABLE_1
from reproduction.yahoo_shape import YAHOO_COUNTS, make_yahoo_shape


def test_full_size_is_the_papers() -> None:
    assert TABLE_1["yahoo-r1"][:3] == YAHOO_COUNTS
    assert DATASETS["yahoo-r1"].counts == YAHOO_COUNTS


@pytest.mark.parametrize("scale", [0.005, 0.02])
def test_the_same_in_small(scale: float) -> None:
    clicks = make_yahoo_shape(scale).interactions
    assert (clicks.n_users, clicks.n_items, len(clicks)) == tuple(round(count * scale) for count in YAHOO_COUNTS)
    assert clicks.activity.min() >= 1
    assert clicks.popularity.min() >= 1
    origins = np.bincount(clicks.columns["origin"])
    assert abs(origins[MISTAKE] - 0.1 * len(clicks)) <= 1
    assert abs(origins[EXPLORATION] - 0.15 * len(clicks)) <= 1


def test_seeds() -> None:
    one, same, other = (make_yahoo_shape(0.005, seed=seed).interactions for seed in (1, 1, 2))
    assert one.equals(same)
    assert not one.equals(other)


@pytest.mark.parametrize("scale", [0, 0.004, 11, "1", float("nan")])
def test_what_cannot_be_made(scale: float) -> None:
    with pytest.raises(InputError, match=r"scale .* 0\.005 to 10; got"):
        make_yahoo_shape(scale)
