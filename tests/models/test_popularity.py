"""Popularity against a sort, and recommendations as a table."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from scipy.sparse import csr_array

from prorec import Interactions
from prorec.models import Popularity
from tests.strategies import interactions, pairs_of


@given(interactions(min_size=1))
def test_ranking_equals_a_sort_of_unseen_items(data: Interactions) -> None:
    data = data.with_weights(np.minimum(data.matrix.data, 1))
    model = Popularity().fit(data)
    weight = data.matrix.toarray().sum(axis=0)
    seen = pairs_of(data)
    for exclude_seen in (True, False):
        got = model.recommend(data.users, k=data.n_items, exclude_seen=exclude_seen)
        for user, row in enumerate(got.item_positions.tolist()):
            candidates = [item for item in range(data.n_items) if not exclude_seen or (user, item) not in seen]
            best = sorted(candidates, key=lambda item: (-weight[item], item))
            assert row == best + [-1] * (data.n_items - len(best))
            np.testing.assert_allclose(got.scores[user, : len(best)], weight[best])
    assert np.isfinite(got.scores).all()


def test_recommendations_are_a_table_of_ids() -> None:
    clicks = Interactions.from_matrix(csr_array([[1, 1, 0], [0, 1, 0]]), users=["a", "b"], items=["x", "y", "z"])
    table = Popularity().fit(clicks).recommend(["b", "a"], k=2).to_table("pandas")
    assert table.to_dict("list") == {
        "user": ["b", "b", "a"],
        "rank": [1, 2, 1],
        "item": ["x", "z", "z"],
        "score": [1, 0, 0],
    }


def test_similar_items_are_a_table_of_ids() -> None:
    clicks = Interactions.from_matrix(csr_array([[1, 1, 0], [0, 1, 1]]), users=["a", "b"], items=["x", "y", "z"])
    similar = Popularity().fit(clicks).similar_items(["x"], k=3)
    assert repr(similar) == "SimilarItems(1 query items × top 3 of 3 items)"
    table = similar.to_table("pandas")
    assert table.drop(columns="score").to_dict("list") == {
        "item": ["x", "x"],
        "rank": [1, 2],
        "similar_item": ["y", "z"],
    }
    np.testing.assert_allclose(table["score"], [0.5**0.5, 0])
