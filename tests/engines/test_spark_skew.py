"""A skewed log: the result of one machine, and work for every partition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from prorec import Interactions, ProRec
from prorec.engines.spark import SparkProRec
from prorec.models import WRMF
from tests.engines.test_spark import assert_same, make_factor_tables, make_table

# PySpark leaves it to the garbage collector to close its sockets.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def test_one_user_with_half_one_item_of_everyone_and_users_with_one_click(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lists of two users are too long for one task; one of them is a whole number of parts long."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr("prorec.engines.spark.interaction_table._LONG", 50)
    rows = [(0, item) for item in range(700)]
    rows += [(1, item) for item in range(100)]
    rows += [(user, 0) for user in range(2, 500)]
    rows += [(user, item) for user in range(2, 30) for item in rng.choice(np.arange(1, 700), 8, replace=False)]
    users, items = np.array(rows).T
    clicks = Interactions.from_table(pa.table({"user": users, "item": items}))
    assert 2 * np.count_nonzero(users == 0) >= len(clicks) - 200
    model = WRMF(rank=4).fit(clicks)
    local = ProRec(model, noise_method="plan").fit(clicks, refit=False)

    work = tmp_path / "work"
    denoiser = SparkProRec(partitions=6, noise_method="plan")
    result = denoiser.fit(make_table(spark, clicks), factors=make_factor_tables(spark, model), work_dir=str(work))
    assert_same(clicks, local, result.noise_table().toArrow())
    assert result.history[0].mass_kept == pytest.approx(local.history_[-1].mass_kept, abs=1e-5)
    assert result.history[0].below_threshold == pytest.approx(local.history_[-1].below_threshold, abs=1e-3)
    for step in ("sums-over-all-pairs", "thresholds-and-new-weights"):
        assert len(list((work / "round-1" / step).glob("*.parquet"))) == 6, "no partitions were merged"
    assert len(list((work / "results-by-id").glob("*.parquet"))) > 1, "one user's rows are in several partitions"
