"""SparkProRec on a cluster gives the result of ProRec on one machine, even if executors are killed."""

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
from tests.engines.executor_kills import killing_executors
from tests.report.conftest import read_data

# PySpark leaves it to the garbage collector to close its sockets.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def make_table(spark: Any, interactions: Interactions) -> Any:
    weights = {} if (interactions.matrix.data == 1).all() else {"weight": interactions.matrix.data}
    ids = {
        "user": interactions.users[interactions.user_codes],
        "item": interactions.items[interactions.item_codes],
    }
    return spark.createDataFrame(pa.table({**ids, **weights}))


def make_factor_tables(spark: Any, model: Model) -> tuple[Any, Any]:
    scores, interactions = model.scores_, model.interactions_
    assert isinstance(scores, Factors)

    def make(role: str, ids: Any, factors: Any) -> Any:
        return spark.createDataFrame(pa.table({role: ids, "features": pa.array(list(factors.astype(np.float32)))}))

    return make("user", interactions.users, scores.users), make("item", interactions.items, scores.items)


def find_positions(interactions: Interactions, rows: pa.Table) -> Any:
    return interactions.pair_positions(
        interactions.user_positions(rows["user"].to_pylist()), interactions.item_positions(rows["item"].to_pylist())
    )


def assert_same(interactions: Interactions, local: ProRec, rows: pa.Table) -> None:
    at = find_positions(interactions, rows)
    assert sorted(at) == list(range(len(interactions)))
    np.testing.assert_allclose(rows["weight"].to_numpy(), local.weights_.data[at], atol=1e-5)
    np.testing.assert_allclose(rows["noise_probability"].to_numpy(), local.noise_probability_[at], atol=1e-5)
    differ = rows["flagged"].to_numpy() != local.flagged_[at]
    assert differ.mean() < 1e-4, "flags may differ only where rounding decides"


@pytest.fixture(scope="module")
def club() -> Interactions:
    return prorec.make_cinema(300, 200, seed=4).interactions


@pytest.fixture(scope="module")
def model(club: Interactions) -> WRMF:
    return WRMF(rank=8).fit(club)


@pytest.mark.real_data("ml-100k")
def test_same_result_as_on_one_machine_on_movielens(spark: Any, tmp_path: Path) -> None:
    clicks = prorec.load_dataset("ml-100k")
    ids = {"user": clicks.users[clicks.user_codes], "item": clicks.items[clicks.item_codes]}
    pq.write_table(pa.table(ids), tmp_path / "clicks.parquet")
    fitted = SVD(rank=16).fit(clicks)
    local = ProRec(fitted, noise_method="plan").fit(
        clicks, refit=False
    )  # which fits it again, and comes to the same factors
    table = spark.read.parquet(str(tmp_path / "clicks.parquet"))
    result = SparkProRec(gamma=local.gamma_, noise_method="plan").fit(table, factors=make_factor_tables(spark, fitted))
    assert_same(clicks, local, result.noise_table().toArrow())
    assert result.history[0].mass_kept == pytest.approx(local.history_[-1].mass_kept, abs=1e-5)
    assert result.history[0].below_threshold == pytest.approx(local.history_[-1].below_threshold, abs=1e-4)


@pytest.mark.parametrize("in_blocks", [False, True], ids=["at once", "items in blocks"])
def test_same_result_as_on_one_machine_with_other_settings(
    spark: Any, club: Interactions, model: WRMF, in_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"threshold": "none", "marginals": "uniform", "flag_fraction": 0.2}
    if in_blocks:
        settings = {"threshold": 5, "gamma": 0.3, "beta": 50.0, "lam": 0.25}
        monkeypatch.setattr("prorec.engines.spark.task_arrays._BLOCK_BYTES", 4 * 8 * 30)  # thirty items in a file
        monkeypatch.setattr("prorec.engines.spark.task_arrays._WHOLE_BYTES", 4 * 8 * 50)
    local = ProRec(model, **settings, noise_method="plan").fit(club, refit=False)
    result = SparkProRec(**settings, noise_method="plan").fit(
        make_table(spark, club), factors=make_factor_tables(spark, model)
    )
    assert_same(club, local, result.noise_table().toArrow())
    assert result.history[0].gamma == pytest.approx(local.gamma_)
    users = result.users.toArrow()
    rows = club.user_positions(users["user_id"].to_pylist())
    assert (users["kappa"].to_numpy() == local.thresholds_.kappa[rows]).mean() > 0.99


def test_weights_repeated_pairs_and_ids_of_any_type(spark: Any, club: Interactions) -> None:
    rng = np.random.default_rng(0)
    weighted = Interactions.from_matrix(
        club.with_weights(rng.uniform(0.2, 1, len(club))).matrix,
        users=[f"ü{user:04}" for user in range(club.n_users)],
        items=np.arange(club.n_items) - 2**60,
    ).drop_empty()
    fitted = WRMF(rank=4).fit(weighted)
    local = ProRec(fitted, noise_method="plan").fit(weighted, refit=False)
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
    frame = denoise(spark.createDataFrame(table), factors=make_factor_tables(spark, fitted), noise_method="plan")
    assert frame.columns == [*table.column_names, "prorec_weight", "noise_probability", "prorec_flagged"]
    rows = frame.toArrow()
    assert rows.select(table.column_names).sort_by("session").equals(table.sort_by("session"))
    at = find_positions(weighted, rows)
    np.testing.assert_allclose(rows["prorec_weight"].to_numpy(), local.weights_.data[at], atol=1e-5)


def test_rounds_fit_again_and_report_on_a_sample(spark: Any, club: Interactions, tmp_path: Path) -> None:
    denoiser = SparkProRec(ALS(rank=4, sweeps=2), rounds=2, tolerance=0, partitions=2, noise_method="plan")
    result = denoiser.fit(make_table(spark, club))
    assert [each.number for each in result.history] == [1, 2]
    assert result.history[1].mass_kept < result.history[0].mass_kept < 1
    assert result.history[1].gamma == result.history[0].gamma
    rows = result.noise_table().toArrow()
    assert rows.num_rows == len(club)
    assert rows["weight"].to_numpy().min() >= 0.25 - 1e-6
    assert abs(rows["flagged"].to_numpy().sum() - 0.05 * len(club)) < 3
    probabilities = rows["noise_probability"].to_numpy()
    assert (np.diff(probabilities) <= 0).all()
    summary = result.summary()
    assert (summary["users"], summary["items"], summary["interactions"]) == (
        club.n_users,
        len(np.unique(club.item_codes)),
        len(club),
    )

    result.report(tmp_path / "least.html", max_rows=1)
    assert f"all interactions of 1 of {club.n_users:,} users" in (tmp_path / "least.html").read_text()
    result.report(tmp_path / "report.html", max_rows=5_000)
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
    assert f"clicks</th><td>{chosen.sum():,}, " in page


def test_users_and_items_without_weight_keep_their_rows(spark: Any, club: Interactions) -> None:
    weights = np.where((club.user_codes == 7) | (club.item_codes == 11), 0.0, 1.0).astype(np.float32)
    table = make_table(spark, club.with_weights(weights))
    # With so many sweeps Java's stack overflows, unless ALS writes checkpoints.
    result = SparkProRec(ALS(rank=4, sweeps=20), partitions=2, noise_method="plan").fit(table)
    rows = result.noise_table().toArrow()
    at = find_positions(club, rows)
    assert sorted(at) == list(range(len(club)))
    for name in ("weight", "noise_probability", "share", "threshold"):
        assert np.isfinite(rows[name].to_numpy()).all()
    assert (rows["weight"].to_numpy()[weights[at] == 0] == 0).all()
    assert result.frame.count() == len(club)


# ── faults and bad input ───────────────────────────────────────────────────────────────────────────────


# Steps that take more than a moment; the steps between them are of the same kinds.
STEPS_TO_KILL = ("distinct pairs", "interactions by position", "factors of users by position", "sums over all pairs",
                 "sums by item", "thresholds and new weights", "results by id")  # fmt: skip


def test_same_result_if_an_executor_is_killed_in_every_step(spark: Any, club: Interactions, model: WRMF) -> None:
    local = ProRec(model, noise_method="plan").fit(club, refit=False)
    table, factors = make_table(spark, club), make_factor_tables(spark, model)
    with killing_executors(STEPS_TO_KILL, delay=0.15) as killed:
        rows = SparkProRec(noise_method="plan").fit(table, factors=factors).noise_table().toArrow()
    assert len(set(killed)) == len(STEPS_TO_KILL), killed
    assert_same(club, local, rows)


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
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
def test_faults_in_the_schema_are_refused_before_any_job(
    spark: Any, columns: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    table = spark.createDataFrame(pa.table(columns))
    before = len(spark.sparkContext.statusTracker().getJobIdsForGroup("prorec"))
    with pytest.raises(InputError, match=message):
        denoise(table, **settings)
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
def test_unusable_rows_are_refused(spark: Any, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        denoise(spark.createDataFrame(pa.table(columns)))


def test_factors_must_fit_the_table(spark: Any, club: Interactions, model: WRMF) -> None:
    users, items = make_factor_tables(spark, model)
    table = make_table(spark, club)
    with pytest.raises(InputError, match="factors must cover all items"):
        denoise(table, factors=(users, items.where("item > 3")))
    # One fault in each of four items, because every run of Spark takes seconds.
    fault = "case item when 3 then double('nan') when 4 then double('-inf') when 5 then 1e300D end"
    part = items.selectExpr("item", f"transform(features, x -> if(item between 3 and 6, {fault}, double(x))) features")
    with pytest.raises(InputError, match="factors must be finite numbers; those of 4 of 200 items are not"):
        denoise(table, factors=(users, part))
    with pytest.raises(InputError, match="must have one row per user"):
        denoise(table, factors=(users.union(users), items))
    with pytest.raises(InputError, match="must have a column 'item'"):
        denoise(table, factors=(users, users))
    with pytest.raises(InputError, match="one round only"):
        denoise(table, factors=(users, items), rounds=2, noise_method="plan")


def test_a_work_folder_of_another_run_is_refused(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "work")
    WorkDirectory(spark, path, ["one run"], resume=False)
    WorkDirectory(spark, path, ["one run"], resume=True)
    with pytest.raises(InputError, match="other options"):
        WorkDirectory(spark, path, ["another run"], resume=True)


def test_a_work_folder_of_another_table_is_refused(spark: Any, tmp_path: Path) -> None:
    for name in ("one", "other"):
        pq.write_table(pa.table({"user": [1, 2], "item": [1, 2]}), tmp_path / f"{name}.parquet")
    one, other = (spark.read.parquet(str(tmp_path / f"{name}.parquet")) for name in ("one", "other"))
    work = str(tmp_path / "work")
    with pytest.raises(InputError, match="every user has one interaction only"):
        SparkProRec(noise_method="plan").fit(one, work_dir=work)
    with pytest.raises(InputError, match="every user has one interaction only"):
        SparkProRec(noise_method="plan").fit(one, work_dir=work, resume=True)
    with pytest.raises(InputError, match="other options or other data"):
        SparkProRec(noise_method="plan").fit(other, work_dir=work, resume=True)
