"""Metrics against ranx (the standard family) and against plain loops over the definitions (both families)."""

from __future__ import annotations

import math
import warnings
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import bsr_array, coo_array, csc_array, csr_array

from prorec import InputError, ranking_metrics
from prorec.evaluation.metrics import coverage

KS = (1, 3, 5, 10)


def by_loops(ranked: list[int], relevant: set[int], k: int, family: str) -> dict[str, float]:
    """One user's metrics, by the definitions, one rank at a time."""
    hits = [item in relevant for item in ranked[:k]]
    precision_at = [sum(hits[: rank + 1]) / (rank + 1) for rank in range(len(hits))]
    dcg = sum(1 / math.log2(rank + 2) for rank, hit in enumerate(hits) if hit)
    n_ideal = len(relevant) if family == "paper" else min(len(relevant), k)
    ideal = sum(1 / math.log2(rank + 2) for rank in range(n_ideal))
    first = next((rank for rank, hit in enumerate(hits) if hit), None)
    if family == "paper":
        mean_precision = sum(precision_at) / k
    else:
        mean_precision = sum(p for p, hit in zip(precision_at, hits, strict=True) if hit) / len(relevant)
    return {
        "recall": sum(hits) / len(relevant),
        "precision": sum(hits) / k,
        "mrr": 0.0 if first is None else 1 / (first + 1),
        "hit_rate": float(any(hits)),
        "ndcg": dcg / ideal,
        "map": mean_precision,
    }


def random_problem(seed: int, n_users: int = 60, n_items: int = 40) -> tuple[np.ndarray, csr_array]:
    rng = np.random.default_rng(seed)
    ranked = rng.permuted(np.tile(np.arange(n_items), (n_users, 1)), axis=1)[:, : max(KS)]
    relevant = rng.random((n_users, n_items)) < rng.random((n_users, 1)) * 0.6
    relevant[:, 0] |= ~relevant.any(axis=1)
    return ranked, csr_array(relevant)


@pytest.mark.parametrize("family", ["standard", "paper"])
@pytest.mark.parametrize("seed", range(5))
def test_equals_plain_loops(family: str, seed: int) -> None:
    ranked, relevant = random_problem(seed)
    got = ranking_metrics(ranked, relevant, KS, family)  # type: ignore[arg-type]
    assert len(got) == 6 * len(KS)
    for user in range(len(ranked)):
        items = set(relevant[[user]].indices.tolist())
        for k in KS:
            for name, value in by_loops(ranked[user].tolist(), items, k, family).items():
                assert got[f"{name}@{k}"][user] == pytest.approx(value, abs=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_equals_ranx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)  # ranx compiles for half a minute what runs in a second
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ranx import Qrels, Run, evaluate  # type: ignore[import-untyped]
    for seed in range(3):
        ranked, relevant = random_problem(seed, n_users=200, n_items=120)
        names = [f"{user:04}" for user in range(len(ranked))]
        qrels = {name: {str(item): 1 for item in relevant[[user]].indices} for user, name in enumerate(names)}
        run = {
            name: {str(item): 99.0 - rank for rank, item in enumerate(row)}
            for name, row in zip(names, ranked, strict=True)
        }
        metrics = [f"{name}@{k}" for name in ("recall", "precision", "ndcg", "map", "mrr", "hit_rate") for k in KS]
        theirs = evaluate(Qrels(qrels), Run(run), metrics, return_mean=False)
        ours = ranking_metrics(ranked, relevant, KS)
        assert theirs.keys() == ours.keys()
        for metric in metrics:
            np.testing.assert_allclose(ours[metric], theirs[metric], rtol=0, atol=1e-9)


@given(st.integers(0, 1000))
def test_bounds_and_monotony(seed: int) -> None:
    ranked, relevant = random_problem(seed, n_users=10, n_items=15)
    for family in ("standard", "paper"):
        got = ranking_metrics(ranked, relevant, KS, family)
        for name, values in got.items():
            assert ((values >= 0) & (values <= 1 + 1e-12)).all(), name
        for name in ("recall", "mrr", "hit_rate"):
            for shorter, longer in pairwise(KS):
                assert (got[f"{name}@{shorter}"] <= got[f"{name}@{longer}"] + 1e-12).all()


def test_a_perfect_list_scores_one() -> None:
    relevant = csr_array(np.array([[1, 1, 1, 0, 0]]))
    got = ranking_metrics(np.array([[2, 0, 1]]), relevant, 3)
    assert all(values[0] == pytest.approx(1) for values in got.values())


def test_short_lists_and_repeats() -> None:
    relevant = csr_array(np.array([[1, 1, 0], [0, 0, 1]]))
    got = ranking_metrics(np.array([[0, 0, -1], [-1, -1, -1]]), relevant, 3)
    assert got["recall@3"].tolist() == [0.5, 0], "an item counts once, and −1 is no item"
    assert got["precision@3"].tolist() == [1 / 3, 0]


def test_any_sparse_layout_gives_the_same() -> None:
    ranked, relevant = random_problem(0, n_users=40, n_items=40)
    expected = ranking_metrics(ranked, relevant, 5)
    twice = csr_array((np.ones(4), np.array([2, 0, 2, 1]), np.array([0, 3, 4])), shape=(2, 5))
    once = csr_array((np.ones(3), np.array([0, 2, 1]), np.array([0, 2, 3])), shape=(2, 5))
    for layout in (csc_array, coo_array):
        for name, values in ranking_metrics(ranked, layout(relevant), 5).items():
            np.testing.assert_array_equal(values, expected[name])
    blocks = bsr_array(np.array([[1.0, 0], [0, 1]]), blocksize=(2, 2))
    assert ranking_metrics(np.array([[1], [1]]), blocks, 1)["recall@1"].tolist() == [0, 1], "zeros fill its blocks"
    two = np.array([[2, 0], [1, 4]])
    before = twice.indices.tolist()
    ranking_metrics(two, twice, np.array([2]))
    assert twice.indices.tolist() == before, "the caller's matrix stays as it was"
    assert ranking_metrics(two, twice, 2)["recall@2"].tolist() == ranking_metrics(two, once, 2)["recall@2"].tolist()


def test_coverage_counts_distinct_items() -> None:
    assert coverage(np.array([[0, 1, -1], [1, 3, -1]]), n_items=6) == 0.5


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (0, "from 1 to the number of items, 40; got 0"),
        (np.array(5), "got array"),
        (41, "got 41"),
        ((), "at least one"),
        ((5, 2.5), "got 2.5"),
    ],
)
def test_bad_list_lengths_are_refused(k: object, message: str) -> None:
    ranked, relevant = random_problem(0)
    with pytest.raises(InputError, match=message):
        ranking_metrics(ranked, relevant, k)  # type: ignore[arg-type]


def test_other_bad_input_is_refused() -> None:
    ranked, relevant = random_problem(0)
    with pytest.raises(InputError, match=r"ranked must be 60 users × at least 11 items, got \(60, 10\)"):
        ranking_metrics(ranked, relevant, 11)
    with pytest.raises(InputError, match="ranked must be 60 users"):
        ranking_metrics(ranked[:5], relevant, 3)
    with pytest.raises(InputError, match="positions from 0 to 39"):
        ranking_metrics(ranked + 1000, relevant, 3)
    with pytest.raises(InputError, match=r"user 0 \(by position\) has no relevant item"):
        ranking_metrics(ranked, csr_array(relevant.shape), 3)
    for bad in (ranked + 2.0**32, ranked + 2**32, ranked * 1.0):
        with pytest.raises(InputError, match="positions from 0 to 39"):
            ranking_metrics(bad, relevant, 3)
    with pytest.raises(InputError, match="relevant must be a sparse users × items matrix, got ndarray"):
        ranking_metrics(ranked, relevant.toarray(), 3)
    with pytest.raises(InputError, match="fill up with −1"):
        ranking_metrics([[1, 2, 3], [1]], relevant, 1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="metrics must be one of 'standard', 'paper'"):
        ranking_metrics(ranked, relevant, 3, "mine")  # type: ignore[arg-type]
