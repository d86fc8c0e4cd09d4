"""Scores on Spark, of a table and of a stream, are those of `prorec score` for a stream."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import prorec
from prorec.models import SVD
from prorec.noise.later_interactions import score_rows
from prorec.noise.posterior import basis_names

# PySpark leaves sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
EXAMPLE = Path(__file__).parents[2] / "examples/spark_streaming.py"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spark score") / "model"
    prorec.ProRec(SVD(rank=4)).fit(prorec.make_cinema(120, 90, seed=2).interactions).save(folder)
    return folder


def make_rows(model: Path) -> pa.Table:
    log = prorec.load(model).interactions_
    rng = np.random.default_rng(0)
    users, items = rng.choice(log.users, 40), rng.choice(log.items, 40)
    users[:3], items[3:5] = 99_999, 88_888  # new users, unknown items
    return pa.table({"user": users, "item": items, "note": [f"row {at}" for at in range(40)]})


def check(model: Path, rows: pa.Table, scored: pa.Table) -> None:
    finder = prorec.load(model).finder_  # type: ignore[attr-defined]
    probability, basis = score_rows(finder, rows["user"], rows["item"])
    order = np.argsort([int(each.split()[1]) for each in scored["note"].to_pylist()])
    scored = scored.take(order)
    assert scored.column_names == ["user", "item", "note", "noise_probability", "basis"]
    assert scored["basis"].to_pylist() == basis_names(basis).to_pylist()
    assert {"popularity", "unknown item"} <= set(scored["basis"].to_pylist())
    got = scored["noise_probability"].to_numpy(zero_copy_only=False)
    np.testing.assert_allclose(got, probability, rtol=1e-6)


def test_a_table(spark: Any, model: Path) -> None:
    from prorec.engines.spark import score

    rows = make_rows(model)
    frame = spark.createDataFrame(rows.to_pandas()).repartition(3)
    check(model, rows, score(frame, model).toArrow())
    texts = score(frame.selectExpr("cast(user as string) user", "cast(item as string) item", "note"), model).toArrow()
    check(model, rows, texts.set_column(0, "user", texts["user"]))
    missing = score(spark.sql("select cast(null as bigint) as user, 1L as item"), model).toArrow()
    assert missing.to_pylist() == [{"user": None, "item": 1, "noise_probability": None, "basis": None}]
    with pytest.raises(prorec.InputError, match="must be integers or text to be the user; it has type double"):
        score(spark.sql("select 1.5D as user, 1L as item"), model)
    with pytest.raises(prorec.InputError, match=r"model\.json is missing"):
        score(frame, model.parent)


def test_the_streaming_example(spark: Any, model: Path, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("spark_streaming", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    rows = make_rows(model)
    folders = [str(tmp_path / name) for name in ("clicks", "scored", "checkpoint")]
    clicks, scored, checkpoint = folders
    Path(clicks).mkdir()
    schema = "user BIGINT, item BIGINT, note STRING"
    for part, piece in enumerate((rows.slice(0, 25), rows.slice(25))):  # the job runs twice, and scores each file once
        piece.to_pandas().to_csv(Path(clicks) / f"{part}.csv", index=False)
        query = example.start_scoring(spark, clicks, str(model), scored, checkpoint, schema=schema, availableNow=True)
        assert query.awaitTermination(120)
    check(model, rows, spark.read.parquet(scored).toArrow())
