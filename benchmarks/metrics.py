"""Ranking metrics of 100,000 users, top 50, against ranx."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

import prorec
from benchmarks.ratio import Ratio, side_by_side

USERS, ITEMS, K = 100_000, 5_000, 50


def measure() -> Iterator[Ratio]:
    """Six metrics at three lengths, the value for each user; ranx gets its own structures ready-made."""
    warnings.simplefilter("ignore")  # ranx's, about its own compiled code
    from ranx import Qrels, Run, evaluate  # type: ignore[import-untyped]

    rng = np.random.default_rng(0)
    step = ITEMS // 200
    ranked = step * np.argsort(rng.random((USERS, 200)), axis=1)[:, :K] + rng.integers(step, size=(USERS, K))
    n_relevant = rng.integers(1, 40, USERS)
    rows = np.repeat(np.arange(USERS), n_relevant)
    relevant = csr_array((np.ones(len(rows)), (rows, rng.integers(ITEMS, size=len(rows)))), shape=(USERS, ITEMS))
    relevant.sum_duplicates()

    names = [f"{user:06}" for user in range(USERS)]
    of_user = np.split(relevant.indices, relevant.indptr[1:-1])
    qrels = Qrels({name: {str(item): 1 for item in items} for name, items in zip(names, of_user, strict=True)})
    scores = [float(K - rank) for rank in range(K)]
    run = Run({name: dict(zip(map(str, row), scores, strict=True)) for name, row in zip(names, ranked, strict=True)})
    lengths = (5, 10, 50)
    metrics = [f"{m}@{k}" for m in ("recall", "precision", "ndcg", "map", "mrr", "hit_rate") for k in lengths]
    ours = prorec.ranking_metrics(ranked, relevant, lengths)
    theirs = evaluate(qrels, run, metrics, return_mean=False, make_comparable=False)
    for metric in metrics:
        np.testing.assert_allclose(ours[metric], theirs[metric], atol=1e-9)
    ratio = side_by_side(
        lambda: prorec.ranking_metrics(ranked, relevant, lengths),
        lambda: evaluate(qrels, run, metrics, return_mean=False, make_comparable=False),
        rounds=3,
    )
    yield Ratio("18 ranking metrics, 100,000 users × top 50 / ranx.evaluate", ratio, 0.1)
