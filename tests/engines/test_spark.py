"""The same denoiser on a cluster: the same answer as on one machine, whatever happens to the workers."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import prorec
from prorec import InputError, Interactions, ProRec
from prorec.engines.spark import ALS, SparkProRec, denoise
from prorec.engines.spark.work_directory import WorkDirectory
from prorec.models import SVD, WRMF, Model
from prorec.transport.factors import Factors
from tests.engines.kills import killing
from tests.report.conftest import read_data

# PySpark leaves it to the garbage collector to close its sockets.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def table_of(spark: Any, clicks: Interactions, **more: Any) -> Any:
    weights = {} if (clicks.matrix.data == 1).all() else {"weight": clicks.matrix.data}
    ids = {"user": clicks.users[clicks.user_codes], "item": clicks.items[clicks.item_codes]}
    return spark.createDataFrame(pa.table({**ids, **weights, **more}))


def factors_of(spark: Any, model: Model) -> tuple[Any, Any]:
    scores, known = model.scores_, model.interactions_
    assert isinstance(scores, Factors)
    return tuple(  # type: ignore[return-value]
        spark.createDataFrame(pa.table({name: ids, "features": pa.array(list(array.astype(np.float32)))}))
        for name, ids, array in (("user", known.users, scores.users), ("item", known.items, scores.items))
    )


def places_in(clicks: Interactions, rows: pa.Table) -> Any:
    return clicks.pair_positions(
        clicks.user_positions(rows["user"].to_pylist()), clicks.item_positions(rows["item"].to_pylist())
    )


def assert_same(clicks: Interactions, local: ProRec, rows: pa.Table) -> None:
    at = places_in(clicks, rows)
    assert sorted(at) == list(range(len(clicks)))
    np.testing.assert_allclose(rows["weight"].to_numpy(), local.weights_.data[at], atol=1e-5)
    np.testing.assert_allclose(rows["noise_probability"].to_numpy(), local.noise_probability_[at], atol=1e-5)
    differ = rows["flagged"].to_numpy() != local.flagged_[at]
    assert differ.mean() < 1e-4, "only where the line goes between values that rounding tells apart"


@pytest.fixture(scope="module")
def club() -> Interactions:
    return prorec.make_cinema(300, 200, seed=4).interactions


@pytest.fixture(scope="module")
def model(club: Interactions) -> WRMF:
    return WRMF(rank=8).fit(club)


@pytest.mark.real_data("ml-1m")
def test_the_same_answer_on_movielens(spark: Any, tmp_path: Path) -> None:
    clicks = prorec.load_dataset("ml-1m")
    ids = {"user": clicks.users[clicks.user_codes], "item": clicks.items[clicks.item_codes]}
    pq.write_table(pa.table(ids), tmp_path / "clicks.parquet")
    fitted = SVD(rank=16).fit(clicks)
    local = ProRec(fitted).fit(clicks, refit=False)  # which fits it again, and comes to the same factors
    table = spark.read.parquet(str(tmp_path / "clicks.parquet"))
    found = SparkProRec(gamma=local.gamma_).fit(table, factors=factors_of(spark, fitted))
    assert_same(clicks, local, found.noise_table().toArrow())
    assert found.history[0].mass_kept == pytest.approx(local.history_[-1].mass_kept, abs=1e-5)
    assert found.history[0].below_threshold == pytest.approx(local.history_[-1].below_threshold, abs=1e-4)


@pytest.mark.parametrize("in_blocks", [False, True], ids=["at once", "items in blocks"])
def test_the_same_answer_whatever_is_asked_for(
    spark: Any, club: Interactions, model: WRMF, in_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    how: dict[str, Any] = {"threshold": "none", "marginals": "uniform", "flag_fraction": 0.2}
    if in_blocks:
        how = {"threshold": 5, "gamma": 0.3, "beta": 50.0, "lam": 0.25}
        monkeypatch.setattr("prorec.engines.spark.broadcast_files._BLOCK", 4 * 8 * 30)  # thirty items at a time
        monkeypatch.setattr("prorec.engines.spark.denoising_run._FACTORS", 4 * 8 * 50)
    local = ProRec(model, **how).fit(club, refit=False)
    found = SparkProRec(**how).fit(table_of(spark, club), factors=factors_of(spark, model))
    assert_same(club, local, found.noise_table().toArrow())
    assert found.history[0].gamma == pytest.approx(local.gamma_)
    users = found.users.toArrow()
    rows = club.user_positions(users["user_id"].to_pylist())
    assert (users["kappa"].to_numpy() == local.thresholds_.kappa[rows]).mean() > 0.99


def test_weights_repeats_and_ids_of_any_kind(spark: Any, club: Interactions) -> None:
    rng = np.random.default_rng(0)
    weighted = Interactions.from_matrix(
        club.with_weights(rng.uniform(0.2, 1, len(club))).matrix,
        users=[f"ü{user:04}" for user in range(club.n_users)],
        items=np.arange(club.n_items) - 2**60,
    ).drop_empty()
    fitted = WRMF(rank=4).fit(weighted)
    local = ProRec(fitted).fit(weighted, refit=False)
    twice = np.concatenate([np.arange(len(weighted)), rng.integers(len(weighted), size=300)])
    table = pa.table(
        {
            "session": [f"s{at}" for at in range(len(twice))],
            "user": weighted.users[weighted.user_codes[twice]],
            "item": weighted.items[weighted.item_codes[twice]],
            "weight": weighted.matrix.data[twice],
            "flagged": ["mine"] * len(twice),
        }
    )
    frame = denoise(spark.createDataFrame(table), factors=factors_of(spark, fitted))
    assert frame.columns == [*table.column_names, "prorec_weight", "noise_probability", "prorec_flagged"]
    rows = frame.toArrow()
    assert rows.select(table.column_names).sort_by("session").equals(table.sort_by("session"))
    at = places_in(weighted, rows)
    np.testing.assert_allclose(rows["prorec_weight"].to_numpy(), local.weights_.data[at], atol=1e-5)


def test_rounds_learn_again_and_a_report_of_a_sample(spark: Any, club: Interactions, tmp_path: Path) -> None:
    denoiser = SparkProRec(ALS(rank=4, sweeps=2), rounds=2, tolerance=0, partitions=2)
    found = denoiser.fit(table_of(spark, club))
    assert [each.number for each in found.history] == [1, 2]
    assert found.history[1].mass_kept < found.history[0].mass_kept < 1
    assert found.history[1].gamma == found.history[0].gamma
    rows = found.noise_table().toArrow()
    assert rows.num_rows == len(club)
    assert rows["weight"].to_numpy().min() >= 0.25 - 1e-6
    assert abs(rows["flagged"].to_numpy().sum() - 0.05 * len(club)) < 3
    probabilities = rows["noise_probability"].to_numpy()
    assert (np.diff(probabilities) <= 0).all()
    said = found.summary()
    assert (said["users"], said["items"], said["interactions"]) == (
        club.n_users,
        len(np.unique(club.item_codes)),
        len(club),
    )

    found.report(tmp_path / "least.html", most=1)
    assert f"all interactions of 1 of {club.n_users:,} users" in (tmp_path / "least.html").read_text()
    found.report(tmp_path / "report.html", most=5_000)
    page, data = (tmp_path / "report.html").read_text(), read_data(tmp_path / "report.html")
    names = [int(each) for each in data["users"]["id"]]
    assert 0 < len(names) < club.n_users
    assert f"all interactions of {len(names):,} of {club.n_users:,} users" in page
    chosen = np.isin(club.users[club.user_codes], names)
    table = {(row["user"], row["item"]): row for row in rows.to_pylist()}
    # In the page ids are text, and in its order.
    by_text = sorted(
        (
            (str(user), str(item))
            for user, item in zip(club.users[club.user_codes][chosen], club.items[club.item_codes][chosen], strict=True)
        )
    )
    expected = [table[int(user), int(item)]["weight"] for user, item in by_text]
    column = data["clicks"]["weight"]
    np.testing.assert_allclose(np.frombuffer(base64.b64decode(column["bytes"]), "<f4"), expected, rtol=1e-6)
    assert f"<strong>{chosen.sum():,}</strong>" in page


def test_who_and_what_has_no_weight_is_kept(spark: Any, club: Interactions) -> None:
    weights = np.where((club.user_codes == 7) | (club.item_codes == 11), 0.0, 1.0).astype(np.float32)
    table = table_of(spark, club.with_weights(weights))
    # So many sweeps that Java's stack overflows, unless ALS cuts off what it remembers of them.
    found = SparkProRec(ALS(rank=4, sweeps=20), partitions=2).fit(table)
    rows = found.noise_table().toArrow()
    at = places_in(club, rows)
    assert sorted(at) == list(range(len(club)))
    for name in ("weight", "noise_probability", "share", "threshold"):
        assert np.isfinite(rows[name].to_numpy()).all()
    assert (rows["weight"].to_numpy()[weights[at] == 0] == 0).all()
    assert found.frame.count() == len(club)


# ── what can go wrong ───────────────────────────────────────────────────────────────────────────────


# The steps that have more than a moment's work to lose; those between them are their like.
DEADLY = ("each pair once", "clicks by number", "factors of users by number", "sums over all pairs", "up the tree",
          "thresholds and new weights", "what was found")  # fmt: skip


def test_a_worker_is_killed_in_every_step(spark: Any, club: Interactions, model: WRMF) -> None:
    local = ProRec(model).fit(club, refit=False)
    table, factors = table_of(spark, club), factors_of(spark, model)
    with killing(DEADLY, after=0.15) as killed:
        rows = SparkProRec().fit(table, factors=factors).noise_table().toArrow()
    assert len(set(killed)) == len(DEADLY), killed
    assert_same(club, local, rows)


@pytest.mark.parametrize(
    ("columns", "how", "message"),
    [
        ({"u": [1], "item": [1]}, {}, "no column is called 'user'"),
        ({"user": [[1]], "item": [1]}, {}, "cannot be the user"),
        ({"user": [1], "item": [1], "weight": ["much"]}, {}, "must be numbers to be the weight"),
        ({"user": [1], "item": [1]}, {"user_col": "who"}, "no column is called 'who'"),
        ({"user": [1], "item": [1]}, {"gamma": 0}, "gamma must be above 0"),
        ({"user": [1], "item": [1]}, {"lam": 2}, "lam must be"),
        ({"user": [1], "item": [1]}, {"rounds": 0}, "rounds must be"),
        ({"user": [1], "item": [1]}, {"model": "als"}, "model must be prorec.engines.spark.ALS"),
        ({"user": [1], "item": [1]}, {"factors": 3}, "factors must be two Spark DataFrames"),
    ],
)
def test_what_the_schema_shows_is_refused_before_any_job(
    spark: Any, columns: dict[str, Any], how: dict[str, Any], message: str
) -> None:
    table = spark.createDataFrame(pa.table(columns))
    before = len(spark.sparkContext.statusTracker().getJobIdsForGroup("prorec"))
    with pytest.raises(InputError, match=message):
        denoise(table, **how)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup("prorec")) == before


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"user": [1, None, 1], "item": [1, 2, 3]}, "the user is missing in 1 of 3 rows"),
        ({"user": [1, 2], "item": ["a", None]}, "the item is missing in 1 of 2 rows"),
        ({"user": [1, 1], "item": [1, 2], "weight": [0.5, 3.0]}, "weights must be from 0 to 1; those of 1 of 2 rows"),
        ({"user": [1, 1], "item": [1, 2], "weight": [0.5, float("nan")]}, "weights must be from 0 to 1"),
        ({"user": [1, 1], "item": [1, 2], "weight": [0.0, 0.0]}, "there is no interaction to learn from"),
        ({"user": [1, 2], "item": [1, 2]}, "every user has one interaction only"),
    ],
)
def test_rows_that_cannot_be_read(spark: Any, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        denoise(spark.createDataFrame(pa.table(columns)))


def test_factors_must_be_those_of_the_table(spark: Any, club: Interactions, model: WRMF) -> None:
    users, items = factors_of(spark, model)
    table = table_of(spark, club)
    with pytest.raises(InputError, match="there are items without factors"):
        denoise(table, factors=(users, items.where("item > 3")))
    for lost in ("double('nan')", "double('-inf')", "1e300D", "null"):
        part = items.selectExpr("item", f"transform(features, x -> if(item = 3, {lost}, double(x))) as features")
        with pytest.raises(InputError, match="factors must be finite numbers; those of 1 of 200 items are not"):
            denoise(table, factors=(users, part))
    with pytest.raises(InputError, match="each must have one"):
        denoise(table, factors=(users.union(users), items))
    with pytest.raises(InputError, match="must have a column 'item'"):
        denoise(table, factors=(users, users))
    with pytest.raises(InputError, match="one round only"):
        denoise(table, factors=(users, items), rounds=2)


def test_a_work_folder_of_another_run_is_refused(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "work")
    WorkDirectory(spark, path, ["one run"], resume=False)
    WorkDirectory(spark, path, ["one run"], resume=True)
    with pytest.raises(InputError, match="begun with other options"):
        WorkDirectory(spark, path, ["another run"], resume=True)


def test_a_work_folder_of_another_table_is_refused(spark: Any, tmp_path: Path) -> None:
    for name in ("one", "other"):
        pq.write_table(pa.table({"user": [1, 2], "item": [1, 2]}), tmp_path / f"{name}.parquet")
    one, other = (spark.read.parquet(str(tmp_path / f"{name}.parquet")) for name in ("one", "other"))
    work = str(tmp_path / "work")
    with pytest.raises(InputError, match="every user has one interaction only"):
        SparkProRec().fit(one, work_dir=work)
    with pytest.raises(InputError, match="every user has one interaction only"):
        SparkProRec().fit(one, work_dir=work, resume=True)
    with pytest.raises(InputError, match="begun with other options or other data"):
        SparkProRec().fit(other, work_dir=work, resume=True)
