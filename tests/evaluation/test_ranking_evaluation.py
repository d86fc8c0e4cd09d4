from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from prorec import InputError, Interactions, evaluate, make_cinema, split_by_user
from prorec.models import Popularity, Recommendations


@dataclass
class Fixed:
    """Recommends the same positions to everybody."""

    data: Interactions
    ranked: list[int]

    def fit(self, interactions: Interactions) -> Fixed:
        return self

    def recommend(self, users: Any, k: int = 10, *, exclude_seen: bool = True) -> Recommendations:
        ranked = np.tile(np.array(self.ranked[:k], dtype=np.int32), (len(users), 1))
        return Recommendations(np.asarray(users), ranked, np.zeros(ranked.shape, np.float32), self.data.items)


TEST = Interactions.from_matrix(csr_array([[1, 0, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]]), users=["a", "b", "c"])


def test_users_without_test_interactions_are_left_out() -> None:
    result = evaluate(Fixed(TEST, [0, 2]), TEST, k=(1, 2))
    assert result.users.tolist() == ["a", "c"]
    assert result.per_user["recall@1"].tolist() == [0.5, 0]
    assert result.mean["recall@1"] == 0.25
    assert result.mean["coverage@2"] == 0.5
    assert "coverage@2" not in result.per_user


def test_the_paper_family() -> None:
    standard = evaluate(Fixed(TEST, [0]), TEST, k=1, metrics="standard")
    paper = evaluate(Fixed(TEST, [0]), TEST, k=1, metrics="paper")
    assert standard.per_user["ndcg@1"].tolist() == [1, 0]
    assert paper.per_user["ndcg@1"][0] == pytest.approx(1 / (1 + 1 / np.log2(3)))


def test_strata_by_activity_are_means_over_their_users() -> None:
    parts = split_by_user(make_cinema(300, 200).interactions, (0.7, 0.3))
    result = evaluate(Popularity().fit(parts.train), parts.test, k=10)
    strata = result.by_activity(parts.train, n_strata=3)
    assert len(strata) == 3
    assert sum(stratum.n_users for stratum in strata) == len(result.users)
    weighted = sum(stratum.n_users * stratum.mean["ndcg@10"] for stratum in strata)
    assert weighted / len(result.users) == pytest.approx(result.mean["ndcg@10"])
    activity = parts.train.activity[parts.train.user_positions(result.users)]
    for stratum in strata:
        inside = (activity >= stratum.min_activity) & (activity <= stratum.max_activity)
        assert inside.sum() == stratum.n_users
        assert result.per_user["recall@10"][inside].mean() == pytest.approx(stratum.mean["recall@10"])


def test_the_interval_holds_the_mean() -> None:
    parts = split_by_user(make_cinema(300, 200).interactions, (0.7, 0.3))
    result = evaluate(Popularity().fit(parts.train), parts.test, k=10)
    low, high = result.interval("ndcg@10")
    assert low < result.mean["ndcg@10"] < high
    table = result.to_table("pandas").set_index("metric")
    assert table.loc["ndcg@10"].tolist() == [result.mean["ndcg@10"], low, high]
    assert table.loc["coverage@10", ["low", "high"]].isna().all()


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="k must be a whole number from 1 to the number of items, 4; got 5"):
        evaluate(Fixed(TEST, [0]), TEST, k=5)
    with pytest.raises(InputError, match="test must have interactions"):
        evaluate(Fixed(TEST, [0]), TEST.select(np.zeros(len(TEST), dtype=bool)), k=1)
    other = Interactions.from_table(pa.table({"user": ["a"], "item": [77]}))
    with pytest.raises(InputError, match=r"items that the model was fitted on.*test\.align\(train\)"):
        evaluate(Fixed(other, [0]), TEST, k=1)
    result = evaluate(Fixed(TEST, [0]), TEST, k=1)
    with pytest.raises(InputError, match=r"metric must be one of .*; got 'coverage@1'"):
        result.interval("coverage@1")
    with pytest.raises(InputError, match="n_strata must be a whole number of at least 1; got 0"):
        result.by_activity(TEST, 0)
    with pytest.raises(InputError, match="train must have all users of the evaluation; 'c' is missing"):
        result.by_activity(other)
