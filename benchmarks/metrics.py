"""Ranking metrics of 100,000 users, top 50, against ranx."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array

import prorec
from benchmarks.ratio import Ratio, time_ratio

N_USERS, N_ITEMS, K = 100_000, 5_000, 50
CUTOFFS = 5, 10, 50
METRICS = [f"{name}@{k}" for name in ("recall", "precision", "ndcg", "map", "mrr", "hit_rate") for k in CUTOFFS]


def measure() -> Iterator[Ratio]:
    """Measure six metrics at three cut-offs, with a value for each user; ranx gets its data structures prepared."""
    warnings.simplefilter("ignore")  # ranx's numba code warns when it is compiled
    from ranx import Qrels, Run, evaluate  # type: ignore[import-untyped]

    rng = np.random.default_rng(0)
    step = N_ITEMS // 200  # one item of each of K distinct groups, so that no user gets an item twice
    ranked = step * np.argsort(rng.random((N_USERS, 200)), axis=1)[:, :K] + rng.integers(step, size=(N_USERS, K))
    n_relevant = rng.integers(1, 40, N_USERS)
    rows = np.repeat(np.arange(N_USERS), n_relevant)
    relevant = csr_array((np.ones(len(rows)), (rows, rng.integers(N_ITEMS, size=len(rows)))), shape=(N_USERS, N_ITEMS))
    relevant.sum_duplicates()

    users = [f"{user:06}" for user in range(N_USERS)]
    items_by_user = np.split(relevant.indices, relevant.indptr[1:-1])
    qrels = Qrels({user: {str(item): 1 for item in items} for user, items in zip(users, items_by_user, strict=True)})
    scores = [float(K - rank) for rank in range(K)]
    run = Run({user: dict(zip(map(str, row), scores, strict=True)) for user, row in zip(users, ranked, strict=True)})
    ours = prorec.ranking_metrics(ranked, relevant, CUTOFFS)
    theirs = evaluate(qrels, run, METRICS, return_mean=False, make_comparable=False)
    for metric in METRICS:
        np.testing.assert_allclose(ours[metric], theirs[metric], atol=1e-9)
    value = time_ratio(
        lambda: prorec.ranking_metrics(ranked, relevant, CUTOFFS),
        lambda: evaluate(qrels, run, METRICS, return_mean=False, make_comparable=False),
        rounds=3,
    )
    yield Ratio("18 ranking metrics, 100,000 users × top 50 / ranx.evaluate", value, 0.1)
