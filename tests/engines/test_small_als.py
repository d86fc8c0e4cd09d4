"""ALS on the driver, for small logs: MLlib's objective, and as low."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed")

from numpy.typing import NDArray

import prorec
from prorec.engines.spark import ALS
from prorec.engines.spark.small_als import fit_small

# PySpark leaves it to the garbage collector to close its sockets.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def loss(
    matrix: NDArray[Any], users: NDArray[Any], items: NDArray[Any], alpha: float, regularization: float
) -> NDArray[np.float64]:
    """Return the objective, pair by pair."""
    total = np.zeros(())
    for i, j in np.ndindex(matrix.shape):
        total += (1 + alpha * matrix[i, j]) * ((matrix[i, j] > 0) - users[i] @ items[j]) ** 2
    for factors, counts in ((users, (matrix > 0).sum(axis=1)), (items, (matrix > 0).sum(axis=0))):
        total += regularization * (counts * (factors**2).sum(axis=1)).sum()
    return total


def test_no_step_away_from_the_solution_is_lower() -> None:
    club = prorec.make_cinema(60, 50, seed=0).interactions
    rng = np.random.default_rng(0)
    club = club.with_weights(rng.choice([0.2, 1.0], len(club))).drop_empty()
    users, items = fit_small(club.matrix, rank=3, alpha=5.0, regularization=0.1, sweeps=3, seed=1)
    matrix = club.matrix.toarray()
    lowest = loss(matrix, users, items, 5.0, 0.1)
    for scale in (1e-3, 1e-2):
        for _ in range(3):  # users are solved for last, so only they are at their best
            step = scale * rng.standard_normal(users.shape)
            assert loss(matrix, users + step, items, 5.0, 0.1) > lowest
    again = fit_small(club.matrix, rank=3, alpha=5.0, regularization=0.1, sweeps=3, seed=1)
    np.testing.assert_array_equal(again[0], users)


def test_it_learns_what_mllib_learns(spark: Any, tmp_path: Path) -> None:
    spark.sparkContext.setCheckpointDir(str(tmp_path))
    club = prorec.make_cinema(80, 60, seed=2).interactions.drop_empty()
    columns = {"user": club.user_codes.astype(np.int32), "item": club.item_codes.astype(np.int32)}
    frame = spark.createDataFrame(pa.table(columns | {"weight": club.matrix.data}))
    matrix, losses = club.matrix.toarray(), []
    for n_blocks in (1, 2):
        found = []
        for role, table in zip(("user", "item"), ALS(rank=5, sweeps=6).fit(frame, n_blocks), strict=True):
            assert dict(table.dtypes) == {role: "int", "features": "array<float>"}
            rows = table.toArrow()
            factors = np.zeros((club.matrix.shape[role == "item"], 5))
            factors[rows.column(role).to_numpy()] = rows.column("features").to_pylist()
            found.append(factors)
        losses.append(float(loss(matrix, *found, alpha=10.0, regularization=0.1)))
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
